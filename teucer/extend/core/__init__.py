"""Primitives and jaxprs, for libraries that define primitives or interpret programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._base.errors import JaxprTypeError
from teucer._base.lazy import listing
from teucer._core.high import cur_qdd  # for the alias
from teucer._core.jaxpr import DropVar, Literal, Var, jaxprs_in_params, subjaxprs
from teucer._core.trace import Tracer
from teucer._core.types import ShapedArray
from teucer._core.types import is_valid_type as valid_jaxtype
from teucer._dialects.high.types import aval_mapping_handlers  # for the alias
from teucer._dimensions.dimensions import is_symbolic
from teucer._jax.calls import (
    CallPrimitive,
    call_impl,
    create_call_primitive,
    eval_jaxpr_transpose,
    register_call_primitive_rules,
)
from teucer._jax.debug_info import DebugInfo
from teucer._jax.forms import ClosedJaxpr, Jaxpr, JaxprEqn, new_jaxpr_eqn
from teucer._jax.primitive import LibraryPrimitive as Primitive
from teucer._jax.traces import (
    TraceTag,
    concrete_or_error,
    find_top_trace,
    gensym,
    get_opaque_trace_state,
    nonempty_axis_env_DO_NOT_USE,
    set_current_trace,
    take_current_trace,
    unsafe_am_i_under_a_jit_DO_NOT_USE,
    unsafe_am_i_under_a_vmap_DO_NOT_USE,
    unsafe_get_axis_names_DO_NOT_USE,
)
from teucer._optimize.checker import check_jaxpr
from teucer._optimize.effects import Effect
from teucer._transform import batch
from teucer.errors import InconclusiveDimensionOperation
from teucer.extend.core import primitives

if TYPE_CHECKING:
    from teucer._core.typing import Value

__all__ = [
    "AbstractToken",
    "array_types",
    "call_impl",
    "CallPrimitive",
    "check_jaxpr",
    "ClosedJaxpr",
    "concrete_or_error",
    "create_call_primitive",
    "DebugInfo",
    "DropVar",
    "Effect",
    "Effects",
    "eval_jaxpr_transpose",
    "find_top_trace",
    "gensym",
    "get_opaque_trace_state",
    "InconclusiveDimensionOperation",
    "Jaxpr",
    "jaxpr_as_fun",
    "JaxprEqn",
    "jaxprs_in_params",
    "JaxprTypeError",
    "Literal",
    "mapped_aval",
    "new_jaxpr_eqn",
    "no_effects",
    "nonempty_axis_env_DO_NOT_USE",
    "primal_dtype_to_tangent_dtype",
    "Primitive",
    "primitives",
    "register_call_primitive_rules",
    "set_current_trace",
    "subjaxprs",
    "take_current_trace",
    "Token",
    "TraceTag",
    "unmapped_aval",
    "unsafe_am_i_under_a_jit_DO_NOT_USE",
    "unsafe_am_i_under_a_vmap_DO_NOT_USE",
    "unsafe_get_axis_names_DO_NOT_USE",
    "valid_jaxtype",
    "Var",
]
__dir__ = listing(__name__, __all__)

Effects = frozenset[Effect]
# The classes of NumPy whose objects are arrays.
array_types = {np.ndarray, *(dtype.type for dtype in dtypes.ALL_SET)}
no_effects: Effects = frozenset()


def __getattr__(name: str) -> Any:
    if name in ("AbstractToken", "Token"):
        from teucer._dialects.high import (
            tokens,  # makes the language of jaxprs larger, which costs a little everywhere
        )

        return tokens.TokenType if name == "AbstractToken" else tokens.Token
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_constant_dim(d: Value) -> bool:
    """Whether a size is known, not symbolic."""
    return not is_symbolic(d)


def is_concrete(x: Any) -> bool:
    """Whether the number of a value is known."""
    return not isinstance(x, Tracer) or x.concrete() is not None


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr) -> Callable[..., list[Any]]:
    """A function of flat arguments that evaluates a jaxpr.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.extend.core.jaxpr_as_fun(jax.make_jaxpr(jnp.sin)(0.))(0.)
    [Array(0., dtype=float32, weak_type=True)]
    """
    return closed_jaxpr.__call__


def mapped_aval(size: int, axis: int | None, aval: ShapedArray) -> Any:
    """The type of one element of a batch along an axis.

    >>> mapped_aval(3, 0, ShapedArray((3, 2), "float32"))
    ShapedArray(float32[2])
    """
    return batch.mapped_aval(aval, axis)


def unmapped_aval(
    size: int, axis: int | None, aval: ShapedArray, explicit_mesh_axis: Any = None
) -> Any:
    """The type of a batch of `size` values along a new axis.

    >>> unmapped_aval(3, 0, ShapedArray((2,), "float32"))
    ShapedArray(float32[3,2])
    """
    return batch.unmapped_aval(aval, axis, size, explicit_mesh_axis)


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> Any:
    """The dtype of tangents of values of a dtype: float0 for integers and booleans.

    >>> primal_dtype_to_tangent_dtype("float32")
    dtype('float32')
    """
    return ShapedArray((), primal_dtype).tangent_aval().dtype
