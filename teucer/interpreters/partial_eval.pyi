# Made by tools/stubs.py from the tables of this module.
from teucer._core.stage import StageTracer as _DynamicJaxprTracer
from teucer._core.stage import StageTracer as _JaxprTracer
from teucer._jax.jaxprs import close_jaxpr as close_jaxpr
from teucer._jax.jaxprs import convert_constvars_jaxpr as convert_constvars_jaxpr
from teucer._jax.jaxprs import move_binders_to_back as move_binders_to_back
from teucer._jax.jaxprs import partial_eval_jaxpr_nounits as partial_eval_jaxpr_nounits
from teucer._jax.jaxprs import prune_closed_jaxpr_outputs as prune_closed_jaxpr_outputs
from teucer._jax.partial_eval import PartialVal as PartialVal
from teucer._jax.partial_eval import abstract_eval_fun as abstract_eval_fun
from teucer._jax.partial_eval import dce_jaxpr as dce_jaxpr
from teucer._jax.partial_eval import dce_jaxpr_consts as dce_jaxpr_consts
from teucer._jax.partial_eval import dce_rules as dce_rules
from teucer._jax.partial_eval import trace_to_jaxpr_dynamic as trace_to_jaxpr_dynamic
from teucer._jax.partial_eval import trace_to_jaxpr_nounits as trace_to_jaxpr_nounits

DynamicJaxprTracer = _DynamicJaxprTracer
JaxprTracer = _JaxprTracer
