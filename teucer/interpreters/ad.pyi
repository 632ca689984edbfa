# Made by tools/stubs.py from the tables of this module.
from teucer._core.array_ops import add_cotangents as _add_tangents
from teucer._core.array_ops import zeros as _zeros_like_aval
from teucer._core.primitive import Undefined as _UndefinedPrimal
from teucer._core.types import Zero as Zero
from teucer._derived.accumulators import GradAccum as GradAccum
from teucer._derived.accumulators import NullAccum as NullAccum
from teucer._derived.accumulators import RefAccum as RefAccum
from teucer._derived.accumulators import ValAccum as ValAccum
from teucer._jax.ad import add_jaxvals as add_jaxvals
from teucer._jax.ad import defbilinear as defbilinear
from teucer._jax.ad import defjvp as defjvp
from teucer._jax.ad import defjvp2 as defjvp2
from teucer._jax.ad import deflinear as deflinear
from teucer._jax.ad import deflinear2 as deflinear2
from teucer._jax.ad import get_primitive_transpose as get_primitive_transpose
from teucer._jax.ad import instantiate_zeros as instantiate_zeros
from teucer._jax.ad import is_undefined_primal as is_undefined_primal
from teucer._jax.ad import primitive_jvps as primitive_jvps
from teucer._jax.ad import primitive_transposes as primitive_transposes
from teucer._jax.jaxprs import backward_pass as backward_pass
from teucer._jax.jaxprs import jvp_jaxpr as jvp_jaxpr
from teucer._transform.jvp import JVPTrace as JVPTrace
from teucer._transform.jvp import JVPTracer as JVPTracer
from teucer.lax._structure import add_any_p as _add_jaxvals_p

UndefinedPrimal = _UndefinedPrimal
add_jaxvals_p = _add_jaxvals_p
add_tangents = _add_tangents
zeros_like_aval = _zeros_like_aval
