"""Types of values, and parts of running interpreters; jaxprs and primitives are in
`jax.extend.core`."""

from __future__ import annotations

from typing import Any

from teucer._base.lazy import listing
from teucer._core.jaxpr import Atom, eval_jaxpr
from teucer._core.trace import Tracer
from teucer._core.types import Aval as AbstractValue
from teucer._core.types import ShapedArray
from teucer._derived.staging import ensure_compile_time_eval
from teucer._dimensions.dimensions import max_dim, min_dim
from teucer._jax.old_names import DEPRECATED, REMOVED, old_names
from teucer._jax.traces import LibraryTrace as Trace

__all__ = [
    "AbstractValue", "Atom", "ParamDict", "ShapedArray", "Trace", "Tracer", "Value",
    "ensure_compile_time_eval", "eval_context", "eval_jaxpr", "max_dim", "min_dim",
]  # fmt: skip
__dir__ = listing(__name__, __all__)
__getattr__ = old_names(__name__, DEPRECATED, REMOVED)

ParamDict = dict[str, Any]
Value = Any
eval_context = ensure_compile_time_eval
