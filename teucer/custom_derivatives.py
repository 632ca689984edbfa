"""Functions with differentiation rules of their own."""

from teucer._derived.custom_calls import SymbolicZero, zero_from_primal
from teucer._derived.custom_jvp import custom_jvp, custom_jvp_call_p
from teucer._derived.custom_vjp import (
    CustomVJPPrimal,
    custom_gradient,
    custom_vjp,
    custom_vjp_call_p,
    custom_vjp_primal_tree_values,
)
from teucer._derived.linear import closure_convert
from teucer._derived.linear_call import linear_call
from teucer._derived.remat import remat

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_jvp_call_p",
    "custom_vjp",
    "custom_vjp_call_p",
    "custom_vjp_primal_tree_values",
    "linear_call",
    "remat",
    "zero_from_primal",
]
