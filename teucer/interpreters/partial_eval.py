"""Partial evaluation for libraries.

Functions of flat values as jaxprs, and jaxprs without dead code.
"""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._core.stage": "DynamicJaxprTracer=StageTracer JaxprTracer=StageTracer",
        "teucer._jax.partial_eval": (
            "PartialVal dce_jaxpr dce_jaxpr_consts trace_to_jaxpr_dynamic trace_to_jaxpr_nounits"
        ),
    },
)
