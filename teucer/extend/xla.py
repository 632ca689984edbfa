"""Passes over XLA's programs that users write."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._jax.passes": (
            "PipelineStage clear_hlo_module_transformation register_hlo_module_transformation"
        ),
    },
)
