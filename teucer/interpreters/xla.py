"""Values of Python classes that libraries bring, and primitives run one by one.

`canonicalize_dtype_handlers[cls] = lambda value: ...` says how values of a class become NumPy
arrays of a dtype that programs take; `jax.core.pytype_aval_mappings[cls]` says their type.
"""

from __future__ import annotations

from typing import Any

from teucer._arrays.transfer import host_rules as canonicalize_dtype_handlers
from teucer._base.lazy import listing
from teucer._core.primitive import Primitive
from teucer._core.trace import EVAL
from teucer._xla.client import Client as Backend

__all__ = ["Backend", "apply_primitive", "canonicalize_dtype_handlers"]
__dir__ = listing(__name__, __all__)


def apply_primitive(prim: Primitive, *args: object, **params: object) -> Any:
    """The result of a primitive on concrete values, or the list of them, computed at once.

    >>> from teucer.lax import neg_p
    >>> apply_primitive(neg_p, 3.)
    Array(-3., dtype=float32, weak_type=True)
    """
    outs = EVAL.process(prim, args, params)
    return list(outs) if prim.multiple_results else outs[0]
