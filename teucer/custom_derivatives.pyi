# Made by tools/stubs.py from the tables of this module.
from teucer._derived.checkpoint import remat as remat
from teucer._derived.custom_calls import SymbolicZero as SymbolicZero
from teucer._derived.custom_calls import zero_from_primal as zero_from_primal
from teucer._derived.custom_jvp import custom_jvp as custom_jvp
from teucer._derived.custom_jvp import custom_jvp_call_p as custom_jvp_call_p
from teucer._derived.custom_vjp import CustomVJPPrimal as CustomVJPPrimal
from teucer._derived.custom_vjp import custom_gradient as custom_gradient
from teucer._derived.custom_vjp import custom_vjp as custom_vjp
from teucer._derived.custom_vjp import custom_vjp_call_p as custom_vjp_call_p
from teucer._derived.custom_vjp import custom_vjp_primal_tree_values as custom_vjp_primal_tree_values
from teucer._derived.linear import closure_convert as closure_convert
from teucer._derived.linear_call import linear_call as linear_call
