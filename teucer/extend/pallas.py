"""Lowering of kernels by rules of other compilers. It is not built."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._jax.unbuilt": "GridMapping register_lowering_rule",
    },
)
