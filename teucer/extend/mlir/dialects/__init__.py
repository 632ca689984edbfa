"""The dialects of MLIR that jaxlib has bindings of.

>>> from teucer.extend.mlir.dialects import stablehlo
>>> stablehlo.AddOp.OPERATION_NAME
'stablehlo.add'
"""

import sys as _sys

from teucer._xla.platforms.mlir_bindings import dialects as _dialects

__all__ = list(_dialects)

globals().update(_dialects)
# So that `import jax.extend.mlir.dialects.stablehlo` finds it.
_sys.modules |= {f"{__name__}.{name}": module for name, module in _dialects.items()}
