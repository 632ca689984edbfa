"""Batching rules of primitives: `primitive_batchers`, and ways to write them."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._jax.batching": (
            "axis_primitive_batchers bdim_at_front broadcast defbroadcasting defreducer "
            "defvectorized fancy_primitive_batchers primitive_batchers register_vmappable "
            "unregister_vmappable"
        ),
        "teucer._transform.vmap": "infer=INFERRED",
    },
)
