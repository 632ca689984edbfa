"""Convolutions of BCOO arrays: every pair of stored elements gives one term of the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._arrays.structs import ShapeDtypeStruct
from teucer._base import tracebacks
from teucer._derived.staging import eval_shape
from teucer._sparse import places as _places
from teucer._sparse.bcoo_array import BCOO
from teucer._sparse.bcoo_dense import bcoo_fromdense
from teucer._sparse.bcoo_layout import bcoo_update_layout
from teucer._sparse.bcoo_order import bcoo_sum_duplicates
from teucer._sparse.contraction import product_dtype
from teucer.lax._convolution.shapes import canonical_padding, conv_dimension_numbers

if TYPE_CHECKING:
    from teucer._core.typing import Array, DTypeLike
    from teucer._devices.specs import OutSharding
    from teucer.lax._precision import PrecisionLike


@tracebacks.api_boundary
def bcoo_conv_general_dilated(
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Sequence[int],
    padding: object,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: object = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> BCOO:
    """The convolution of two arrays, one at least BCOO: as `lax.conv_general_dilated`.

    The result has no batch dimensions, and stores an element for each pair of stored elements or
    place. Raises NotImplementedError for groups and an out_sharding.

    >>> from teucer import numpy as jnp
    >>> from teucer.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([[[0., 1., 0., 0.]]]))
    >>> sparse.bcoo_conv_general_dilated(x, jnp.array([[[1., 2.]]]), window_strides=(1,),
    ...     padding="VALID").todense()
    Array([[[2., 1., 0.]]], dtype=float32)
    """
    if feature_group_count != 1 or batch_group_count != 1 or out_sharding is not None:
        raise NotImplementedError(
            "bcoo_conv_general_dilated: groups and out_sharding are not supported.\n"
            "  Convolve each group by itself, and concatenate; lay the result out by jax.reshard."
        )
    numbers = conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    out_shape = _out_shape(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers
    )
    spatial = len(window_strides)
    lhs_dilation, rhs_dilation = (
        tuple(d) if d is not None else (1,) * spatial for d in (lhs_dilation, rhs_dilation)
    )
    sizes = [
        (lhs.shape[a] - 1) * s + 1 for a, s in zip(numbers.lhs_spec[2:], lhs_dilation, strict=True)
    ]
    windows = [
        (rhs.shape[a] - 1) * s + 1 for a, s in zip(numbers.rhs_spec[2:], rhs_dilation, strict=True)
    ]
    pads = canonical_padding("bcoo_conv_general_dilated", sizes, windows, window_strides, padding)
    dtype = product_dtype(_data(lhs), _data(rhs), preferred_element_type)
    left, right = _flat(lhs), _flat(rhs)
    window = _Window(tuple(window_strides), pads, lhs_dilation, rhs_dilation)
    indices, meets = _meeting_places(left, right, numbers, window, out_shape)
    data = jnp.where(
        meets,
        left.data.astype(dtype)[:, None] * right.data.astype(dtype)[None],
        jnp.zeros((), dtype),
    )
    out = BCOO((data.reshape(-1), indices), shape=out_shape)
    most = math.prod(out_shape)
    return bcoo_sum_duplicates(out, nse=most) if out.nse > most else out


class _Window(NamedTuple):
    """How a window moves along the spatial axes."""

    strides: Sequence[int]
    pads: Sequence[tuple[int, int]]
    lhs_dilation: Sequence[int]
    rhs_dilation: Sequence[int]


def _meeting_places(
    lhs: BCOO, rhs: BCOO, numbers: Any, window: _Window, out_shape: Sequence[int]
) -> tuple[Any, Any]:
    """For each pair of elements, the place of their product, and whether there is one."""
    li, ri = lhs.indices[:, None], rhs.indices[None]
    meets = (
        _places.inside(lhs.indices, lhs.shape)[:, None]
        & _places.inside(rhs.indices, rhs.shape)[None]
        & (li[..., numbers.lhs_spec[1]] == ri[..., numbers.rhs_spec[1]])
    )
    places: list[Any] = [None] * len(out_shape)
    places[numbers.out_spec[0]] = li[..., numbers.lhs_spec[0]]
    places[numbers.out_spec[1]] = ri[..., numbers.rhs_spec[0]]
    for k, (stride, (low, _), of_lhs, of_rhs) in enumerate(zip(*window, strict=True), 2):
        at = li[..., numbers.lhs_spec[k]] * of_lhs + low - ri[..., numbers.rhs_spec[k]] * of_rhs
        meets = meets & (at >= 0) & (at % stride == 0)
        places[numbers.out_spec[k]] = at // stride
    indices = jnp.stack([jnp.broadcast_to(p, meets.shape) for p in places], -1)
    meets = meets & _places.inside(indices, out_shape)
    return _places.kept(meets, indices, out_shape).reshape(-1, len(out_shape)), meets


def _out_shape(
    lhs: Array,
    rhs: Array,
    strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    numbers: Any,
) -> Any:
    operands = [ShapeDtypeStruct(np.shape(x), np.float32) for x in (lhs, rhs)]
    out: tuple[int, ...] = eval_shape(
        lambda x, y: lax.conv_general_dilated(
            x, y, strides, padding, lhs_dilation, rhs_dilation, numbers
        ),
        *operands,
    ).shape
    return out


def _data(x: Array) -> Any:
    return x.data if isinstance(x, BCOO) else jnp.asarray(x)


def _flat(x: Array) -> BCOO:
    """An array as a BCOO array of sparse dimensions alone."""
    if isinstance(x, BCOO):
        return bcoo_update_layout(x, n_batch=0, n_dense=0)
    return bcoo_fromdense(x, nse=math.prod(x.shape))
