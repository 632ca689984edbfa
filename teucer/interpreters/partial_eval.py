"""Partial evaluation for libraries.

Functions of flat values as jaxprs, and jaxprs without dead code.
"""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._core.stage": "DynamicJaxprTracer=StageTracer JaxprTracer=StageTracer",
        "teucer._jax.jaxprs": (
            "close_jaxpr convert_constvars_jaxpr move_binders_to_back partial_eval_jaxpr_nounits "
            "prune_closed_jaxpr_outputs"
        ),
        "teucer._jax.partial_eval": (
            "PartialVal abstract_eval_fun dce_jaxpr dce_jaxpr_consts dce_rules "
            "trace_to_jaxpr_dynamic trace_to_jaxpr_nounits"
        ),
    },
)
