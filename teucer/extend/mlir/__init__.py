"""jaxlib's bindings of MLIR.

`ir`, `passmanager` and `dialects`, and functions on modules of StableHLO as bytes.

>>> from teucer.extend.mlir import ir
>>> with ir.Context():
...     print(ir.Module.parse("module @empty {}"))
module @empty {
}
<BLANKLINE>
"""

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from teucer._base.lazy import refusing as _refusing
from teucer._xla.platforms import mlir_bindings as _bindings
from teucer._xla.platforms.mlir_bindings import (
    deserialize_portable_artifact,
    hlo_to_stablehlo,
    ir,
    passmanager,
    refine_polymorphic_shapes,
    serialize_portable_artifact,
)
from teucer.extend.mlir import dialects

__all__ = [
    "deserialize_portable_artifact", "dialects", "hlo_to_stablehlo", "ir", "passmanager",
    "refine_polymorphic_shapes", "serialize_portable_artifact",
]  # fmt: skip
if not _TYPE_CHECKING:
    __getattr__ = _refusing(__name__)

# So that `import jax.extend.mlir.ir` finds them.
_sys.modules |= {f"{__name__}.{name}": getattr(_bindings, name) for name in ("ir", "passmanager")}
