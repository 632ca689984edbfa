"""Functions with differentiation rules of their own."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        "teucer._derived.custom_calls": "SymbolicZero zero_from_primal",
        "teucer._derived.custom_jvp": "custom_jvp custom_jvp_call_p",
        "teucer._derived.custom_vjp": (
            "CustomVJPPrimal custom_gradient custom_vjp custom_vjp_call_p "
            "custom_vjp_primal_tree_values"
        ),
        "teucer._derived.linear": "closure_convert",
        "teucer._derived.linear_call": "linear_call",
        "teucer._derived.checkpoint": "remat",
    },
)
