"""Names that JAX deprecates or has removed."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from teucer._base.lazy import lacking


def old_names(
    module: str,
    deprecated: Mapping[str, tuple[str, str, str]],
    removed: Mapping[str, str] | None = None,
) -> Callable[[str], Any]:
    """`__getattr__` of a public module that has names which JAX deprecates.

    deprecated: for each its module, its name there, and what the warning says. removed: for each
    what the error says.
    """

    def __getattr__(name: str) -> Any:
        if name in deprecated:
            source, own, said = deprecated[name]
            warnings.warn(said, DeprecationWarning, stacklevel=2)
            return getattr(importlib.import_module(source), own)
        if removed and name in removed:
            raise AttributeError(removed[name])
        raise lacking(module, name)

    return __getattr__


_EXTEND = "jax.extend.core"
# Names of `jax.core`: the modules that have them, and the public modules that do, if one does.
_OF_CORE = (
    ("teucer._core.jaxpr", _EXTEND, "DropVar jaxprs_in_params"),
    ("teucer._core.types", _EXTEND, "valid_jaxtype=is_valid_type"),
    ("teucer._core.types", "", "pytype_aval_mappings=aval_rules"),
    ("teucer._dialects.high.tokens", "", "abstract_token=TOKEN"),
    ("teucer._dimensions.dimensions", "", "is_constant_shape=is_constant"),
    ("teucer._jax.debug_info", _EXTEND, "DebugInfo"),
    ("teucer._jax.forms", _EXTEND, "new_jaxpr_eqn"),
    ("teucer._jax.programs", _EXTEND, "Effects no_effects primal_dtype_to_tangent_dtype"),
    ("teucer._jax.programs", "", "is_concrete is_constant_dim"),
    (
        "teucer._jax.traces",
        _EXTEND,
        "concrete_or_error find_top_trace gensym get_opaque_trace_state",
    ),
    (
        "teucer._jax.traces",
        "",
        "nonempty_axis_env_DO_NOT_USE unsafe_am_i_under_a_jit_DO_NOT_USE "
        "unsafe_am_i_under_a_vmap_DO_NOT_USE unsafe_get_axis_names_DO_NOT_USE",
    ),
    ("teucer._optimize.checker", _EXTEND, "check_jaxpr"),
    ("teucer._optimize.effects", _EXTEND, "Effect"),
    ("teucer.errors", "jax.errors", "InconclusiveDimensionOperation JaxprTypeError"),
)


def _of_core() -> dict[str, tuple[str, str, str]]:
    found = {}
    for source, public, names in _OF_CORE:
        for item in names.split():
            name, _, own = item.partition("=")
            advice = f" Use {public}.{name}." if public else ""
            found[name] = source, own or name, f"jax.core.{name} is deprecated.{advice}"
    return found


DEPRECATED = _of_core()
_MOVED = (
    "AbstractToken TraceTag call_impl mapped_aval set_current_trace subjaxprs take_current_trace "
    "unmapped_aval"
)
REMOVED = {
    name: f"jax.core.{name} was deprecated in JAX v0.8.2 and removed in JAX v0.10.0{advice}"
    for name, advice in {
        "get_aval": "; use jax.typeof instead.",
        "traverse_jaxpr_params": "",
        **{name: f"; use jax.extend.core.{name}." for name in _MOVED.split()},
    }.items()
}
