"""Types of libraries.

Values that are made of arrays, primitives on them, and values that change (docs/high_types.md).

>>> from dataclasses import dataclass
>>> import teucer as jax, teucer.numpy as jnp
>>> @dataclass(frozen=True)
... class Interval:
...     low: jax.Array
...     high: jax.Array
>>> @dataclass(frozen=True)
... class IntervalType(HiType):
...     end: jax.core.AbstractValue
...     def lo_ty(self): return [self.end, self.end]
...     def lower_val(self, x): return [x.low, x.high]
...     def raise_val(self, low, high): return Interval(low, high)
>>> register_hitype(Interval, lambda x: IntervalType(jax.typeof(x.low)))
>>> class Width(HiPrimitive):
...     def abstract_eval(self, x): return x.end, set()
...     def to_lojax(self, x): return x.high - x.low
>>> width = Width("width")
>>> float(jax.jit(width.bind)(Interval(jnp.array(1.), jnp.array(3.))))
2.0
"""

from teucer._base.lazy import listing
from teucer._core.high import AvalQDD, MappingSpec, cur_qdd
from teucer._core.reference_types import RefType as AbstractRef
from teucer._core.types import Aval as AbstractValue
from teucer._core.types import ShapedArray, Zero
from teucer._derived.accumulators import GradAccum, NullAccum, RefAccum, ValAccum
from teucer._derived.custom_vjp import custom_vjp
from teucer._dialects.high.types import AvalMutableQDD, aval_method, aval_property, register_hitype
from teucer._dialects.high.types import HighSpec as HiPspec
from teucer._dialects.high.types import HighType as HiType
from teucer._dialects.high.types import MutableHighType as MutableHiType
from teucer._hijax.box import Box, box_effect, box_get, box_set, new_box
from teucer._hijax.control import control_flow_allowed_effects
from teucer._hijax.operation import HiPrimitive
from teucer._hijax.prim import HiPrim
from teucer._hijax.rules import (
    bdims_at_front,
    jvp_from_lin,
    linearize_from_jvp,
    unmap_avals,
    vjp_from_jvp,
    vjp_from_lin,
    vmap_rule,
)
from teucer._jax.ad import instantiate_zeros, is_undefined_primal
from teucer.numpy._references import View as TransformedRef

__all__ = [
    "AbstractRef", "AbstractValue", "AvalMutableQDD", "AvalQDD", "Box", "GradAccum", "HiPrim",
    "HiPrimitive", "HiPspec", "HiType", "MappingSpec", "MutableHiType", "NullAccum", "RefAccum",
    "ShapedArray", "TransformedRef", "VJPHiPrimitive", "ValAccum", "Zero", "aval_method",
    "aval_property", "bdims_at_front", "box_effect", "box_get", "box_set",
    "control_flow_allowed_effects", "cur_qdd", "instantiate_zeros", "is_undefined_primal",
    "jvp_from_lin", "linearize_from_jvp", "new_box", "register_hitype", "unmap_avals",
    "vjp_from_jvp", "vjp_from_lin", "vmap_rule",
]  # fmt: skip
__dir__ = listing(__name__, __all__)

VJPHiPrimitive = HiPrim
Ty = AbstractValue
# Functions with rules of their own take high values as others.
custom_vjp3 = custom_vjp
