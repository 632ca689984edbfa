"""Primitives and jaxprs, for libraries that define primitives or interpret programs."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._base.errors": "JaxprTypeError",
        "teucer._core.jaxpr": "DropVar Literal Var jaxprs_in_params subjaxprs",
        "teucer._core.types": "valid_jaxtype=is_valid_type",
        "teucer._dialects.high.tokens": "AbstractToken=TokenType Token",
        "teucer._jax.calls": (
            "CallPrimitive call_impl create_call_primitive eval_jaxpr_transpose "
            "register_call_primitive_rules"
        ),
        "teucer._jax.debug_info": "DebugInfo",
        "teucer._jax.forms": "ClosedJaxpr Jaxpr JaxprEqn new_jaxpr_eqn",
        "teucer._jax.primitive": "Primitive=LibraryPrimitive",
        "teucer._jax.programs": (
            "Effects array_types jaxpr_as_fun mapped_aval no_effects "
            "primal_dtype_to_tangent_dtype unmapped_aval"
        ),
        "teucer._jax.traces": (
            "TraceTag concrete_or_error find_top_trace gensym get_opaque_trace_state "
            "nonempty_axis_env_DO_NOT_USE set_current_trace take_current_trace "
            "unsafe_am_i_under_a_jit_DO_NOT_USE unsafe_am_i_under_a_vmap_DO_NOT_USE "
            "unsafe_get_axis_names_DO_NOT_USE"
        ),
        "teucer._optimize.checker": "check_jaxpr",
        "teucer._optimize.effects": "Effect",
        "teucer.errors": "InconclusiveDimensionOperation",
        "teucer.extend.core.primitives": "primitives=.",
    },
)
