"""Functions with differentiation rules of their own."""

from teucer._transform.custom_jvp import SymbolicZero, custom_jvp, custom_jvp_call_p
from teucer._transform.custom_vjp import CustomVJPPrimal, custom_gradient, custom_vjp, custom_vjp_call_p
from teucer._transform.linear import closure_convert
from teucer._transform.remat import remat

__all__ = ["CustomVJPPrimal", "SymbolicZero", "closure_convert", "custom_gradient", "custom_jvp", "custom_jvp_call_p",
           "custom_vjp", "custom_vjp_call_p", "remat"]
