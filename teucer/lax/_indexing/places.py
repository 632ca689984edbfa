"""The places that indices name: in a dtype that is wide enough, and whether they lie within an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._dimensions.dimensions import is_constant, is_symbolic
from teucer._lower import hlo
from teucer.lax import _elementwise, _structure
from teucer.lax._joining import concatenate
from teucer.lax._reductions import reduce_and

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike
    from teucer._lower.context import Context, Value

__all__ = ["bounds", "inside", "wide"]


def wide(ctx: Context, indices: Value) -> Any:
    """Indices in a dtype of 32 bits or more, in which the sizes of axes can be written.

    Their components are on one device: XLA's partitioner finds wrong places where they are divided (seen with jaxlib 0.10.2).
    """
    if indices.shape[-1] > 1:
        indices = ctx.whole(indices, (len(indices.shape) - 1,))
    if dtypes.bit_width(indices.dtype) >= 32:
        return indices
    return hlo.convert(ctx, indices, np.dtype(np.int32))


def bounds(indices: ArrayLike, limits: Sequence[Any]) -> Any:
    kind = typeof(indices).dtype
    shape = np.shape(indices)
    most: Any = dtypes.iinfo(kind).max
    if is_constant(limits):
        limit: Any = np.asarray([min(n, most) for n in limits], kind)
    else:
        limit = concatenate([_structure.full((1,), n if is_symbolic(n) else min(n, most), kind) for n in limits], 0)
    return _structure.full(shape, 0, kind), _structure.broadcast_to(limit, shape, (len(shape) - 1,))


def inside(indices: ArrayLike, limits: Sequence[object]) -> Any:
    """Whether each index vector lies between 0 and the limits."""
    low, high = bounds(indices, limits)
    fits = _elementwise.bitwise_and(_elementwise.ge(indices, low), _elementwise.le(indices, high))
    return reduce_and(fits, (np.ndim(indices) - 1,))
