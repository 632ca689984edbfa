# Made by tools/stubs.py from the tables of this module.
from teucer._base.errors import JaxprTypeError as JaxprTypeError
from teucer._core.jaxpr import DropVar as DropVar
from teucer._core.jaxpr import Literal as Literal
from teucer._core.jaxpr import Var as Var
from teucer._core.jaxpr import jaxprs_in_params as jaxprs_in_params
from teucer._core.jaxpr import subjaxprs as subjaxprs
from teucer._core.types import is_valid_type as _valid_jaxtype
from teucer._dialects.high.tokens import Token as Token
from teucer._dialects.high.tokens import TokenType as _AbstractToken
from teucer._jax.calls import CallPrimitive as CallPrimitive
from teucer._jax.calls import call_impl as call_impl
from teucer._jax.calls import create_call_primitive as create_call_primitive
from teucer._jax.calls import eval_jaxpr_transpose as eval_jaxpr_transpose
from teucer._jax.calls import register_call_primitive_rules as register_call_primitive_rules
from teucer._jax.debug_info import DebugInfo as DebugInfo
from teucer._jax.forms import ClosedJaxpr as ClosedJaxpr
from teucer._jax.forms import Jaxpr as Jaxpr
from teucer._jax.forms import JaxprEqn as JaxprEqn
from teucer._jax.forms import new_jaxpr_eqn as new_jaxpr_eqn
from teucer._jax.primitive import LibraryPrimitive as _Primitive
from teucer._jax.programs import Effects as Effects
from teucer._jax.programs import array_types as array_types
from teucer._jax.programs import jaxpr_as_fun as jaxpr_as_fun
from teucer._jax.programs import mapped_aval as mapped_aval
from teucer._jax.programs import no_effects as no_effects
from teucer._jax.programs import primal_dtype_to_tangent_dtype as primal_dtype_to_tangent_dtype
from teucer._jax.programs import unmapped_aval as unmapped_aval
from teucer._jax.traces import TraceTag as TraceTag
from teucer._jax.traces import concrete_or_error as concrete_or_error
from teucer._jax.traces import find_top_trace as find_top_trace
from teucer._jax.traces import gensym as gensym
from teucer._jax.traces import get_opaque_trace_state as get_opaque_trace_state
from teucer._jax.traces import nonempty_axis_env_DO_NOT_USE as nonempty_axis_env_DO_NOT_USE
from teucer._jax.traces import set_current_trace as set_current_trace
from teucer._jax.traces import take_current_trace as take_current_trace
from teucer._jax.traces import unsafe_am_i_under_a_jit_DO_NOT_USE as unsafe_am_i_under_a_jit_DO_NOT_USE
from teucer._jax.traces import unsafe_am_i_under_a_vmap_DO_NOT_USE as unsafe_am_i_under_a_vmap_DO_NOT_USE
from teucer._jax.traces import unsafe_get_axis_names_DO_NOT_USE as unsafe_get_axis_names_DO_NOT_USE
from teucer._optimize.checker import check_jaxpr as check_jaxpr
from teucer._optimize.effects import Effect as Effect
from teucer.errors import InconclusiveDimensionOperation as InconclusiveDimensionOperation
from teucer.extend.core import primitives as primitives

AbstractToken = _AbstractToken
Primitive = _Primitive
valid_jaxtype = _valid_jaxtype
