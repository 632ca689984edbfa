# Made by tools/stubs.py from the tables of this module.
from teucer._core.stage import StageTracer as _DynamicJaxprTracer
from teucer._core.stage import StageTracer as _JaxprTracer
from teucer._jax.partial_eval import PartialVal as PartialVal
from teucer._jax.partial_eval import dce_jaxpr as dce_jaxpr
from teucer._jax.partial_eval import dce_jaxpr_consts as dce_jaxpr_consts
from teucer._jax.partial_eval import trace_to_jaxpr_dynamic as trace_to_jaxpr_dynamic
from teucer._jax.partial_eval import trace_to_jaxpr_nounits as trace_to_jaxpr_nounits

DynamicJaxprTracer = _DynamicJaxprTracer
JaxprTracer = _JaxprTracer
