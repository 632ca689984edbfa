"""The language of jaxprs, for those who inspect programs or write interpreters of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from teucer._core.axes import axis_size as axis_frame
from teucer._core.checker import check_jaxpr
from teucer._core.jaxpr import Atom, ClosedJaxpr, DropVar, Jaxpr, Literal, Var, eval_jaxpr, jaxprs_in_params, subjaxprs
from teucer._core.jaxpr import Eqn as JaxprEqn
from teucer._core.jaxpr import new_eqn as new_jaxpr_eqn
from teucer._core.primitive import Primitive
from teucer._core.trace import Trace, Tracer
from teucer._core.types import TOKEN as abstract_token
from teucer._core.types import Aval as AbstractValue
from teucer._core.types import ShapedArray, Token
from teucer._core.types import aval_of as get_aval
from teucer._core.types import aval_rules as pytype_aval_mappings
from teucer._core.types import is_valid_type as valid_jaxtype
from teucer._dimensions.dimensions import is_constant as is_constant_shape
from teucer._dimensions.dimensions import is_symbolic, max_dim, min_dim
from teucer.errors import InconclusiveDimensionOperation

__all__ = ["AbstractValue", "Atom", "ClosedJaxpr", "DropVar", "InconclusiveDimensionOperation", "Jaxpr", "JaxprEqn", "Literal",
           "Primitive", "ShapedArray", "Token", "Trace", "Tracer", "Var", "abstract_token", "axis_frame", "check_jaxpr",
           "eval_jaxpr", "get_aval", "is_constant_dim", "is_constant_shape", "jaxpr_as_fun", "jaxprs_in_params", "max_dim",
           "min_dim", "new_jaxpr_eqn", "pytype_aval_mappings", "subjaxprs", "valid_jaxtype"]


def is_constant_dim(d: Any) -> bool:
    """Whether a size is known, not symbolic.

    >>> is_constant_dim(3)
    True
    """
    return not is_symbolic(d)


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr) -> Callable[..., list[Any]]:
    """A function of flat arguments that evaluates a jaxpr.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.core.jaxpr_as_fun(jax.make_jaxpr(jnp.sin)(0.))(0.)
    [Array(0., dtype=float32, weak_type=True)]
    """
    return closed_jaxpr.__call__
