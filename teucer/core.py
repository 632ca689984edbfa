"""Types of values, and what interpreters of programs that run build on; jaxprs and primitives are
in `jax.extend.core`."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from teucer._base.lazy import listing
from teucer._core.jaxpr import Atom, eval_jaxpr
from teucer._core.trace import Tracer
from teucer._core.types import Aval as AbstractValue
from teucer._core.types import ShapedArray
from teucer._derived.staging import ensure_compile_time_eval
from teucer._dimensions.dimensions import max_dim, min_dim
from teucer._jax.traces import LibraryTrace as Trace

__all__ = [
    "AbstractValue",
    "Atom",
    "ParamDict",
    "ShapedArray",
    "Trace",
    "Tracer",
    "Value",
    "ensure_compile_time_eval",
    "eval_context",
    "eval_jaxpr",
    "max_dim",
    "min_dim",
]
__dir__ = listing(__name__, __all__)

ParamDict = dict[str, Any]
Value = Any
eval_context = ensure_compile_time_eval

_EXTEND, _TYPES, _SIZES = (
    "teucer.extend.core",
    "teucer._core.types",
    "teucer._dimensions.dimensions",
)
# Names that JAX deprecates here: where they are, under which name, and which public module has
# them, if one does.
_DEPRECATED: dict[str, tuple[str, str, str]] = {
    **{
        name: (_EXTEND, name, "jax.extend.core")
        for name in (
            "check_jaxpr",
            "concrete_or_error",
            "DebugInfo",
            "DropVar",
            "Effect",
            "Effects",
            "find_top_trace",
            "gensym",
            "get_opaque_trace_state",
            "jaxprs_in_params",
            "new_jaxpr_eqn",
            "no_effects",
            "primal_dtype_to_tangent_dtype",
            "valid_jaxtype",
        )
    },
    **{
        name: (_EXTEND, name, "")
        for name in (
            "is_concrete",
            "is_constant_dim",
            "nonempty_axis_env_DO_NOT_USE",
            "unsafe_am_i_under_a_jit_DO_NOT_USE",
            "unsafe_am_i_under_a_vmap_DO_NOT_USE",
            "unsafe_get_axis_names_DO_NOT_USE",
        )
    },
    "InconclusiveDimensionOperation": (
        "teucer.errors",
        "InconclusiveDimensionOperation",
        "jax.errors",
    ),
    "JaxprTypeError": ("teucer.errors", "JaxprTypeError", "jax.errors"),
    "abstract_token": ("teucer._dialects.high.tokens", "TOKEN", ""),
    "is_constant_shape": (_SIZES, "is_constant", ""),
    "pytype_aval_mappings": (_TYPES, "aval_rules", ""),
}
_REMOVED = {
    "get_aval": "use jax.typeof instead.",
    "traverse_jaxpr_params": "",
    **{
        name: f"use jax.extend.core.{name}."
        for name in (
            "AbstractToken",
            "TraceTag",
            "call_impl",
            "mapped_aval",
            "set_current_trace",
            "subjaxprs",
            "take_current_trace",
            "unmapped_aval",
        )
    },
}


def __getattr__(name: str) -> Any:
    if name in _DEPRECATED:
        module, own, public = _DEPRECATED[name]
        advice = f" Use {public}.{name}." if public else ""
        warnings.warn(f"jax.core.{name} is deprecated.{advice}", DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(module), own)
    if name in _REMOVED:
        message = (
            f"jax.core.{name} was deprecated in JAX v0.8.2 and removed in JAX v0.10.0; "
            f"{_REMOVED[name]}"
        )
        raise AttributeError(message.rstrip("; "))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
