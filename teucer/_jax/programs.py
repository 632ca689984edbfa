"""Jaxprs and types, as libraries ask about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import Tracer
from teucer._core.types import ShapedArray
from teucer._dimensions.dimensions import is_symbolic
from teucer._jax.forms import ClosedJaxpr
from teucer._optimize.effects import Effect
from teucer._transform import batch

if TYPE_CHECKING:
    from teucer._core.typing import Value


Effects = frozenset[Effect]
# The classes of NumPy whose objects are arrays.
array_types = {np.ndarray, *(dtype.type for dtype in dtypes.ALL_SET)}
no_effects: Effects = frozenset()


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
    program: Any = closed_jaxpr  # its class has other members under the alias
    evaluate: Callable[..., list[Any]] = program.__call__
    return evaluate


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
