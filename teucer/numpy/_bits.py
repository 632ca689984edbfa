"""Bits as elements: packbits and unpackbits."""

from __future__ import annotations

from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer._core.typing import Array, ArrayLike
from teucer._dimensions.dimensions import ceil_div
from teucer.lax import _elementwise, _slicing, _structure
from teucer.numpy._library import fast
from teucer.numpy._manipulation import ravel
from teucer.numpy._operands import axis_of, operand
from teucer.numpy._promotion import convert

__all__ = ["packbits", "unpackbits"]


def _order(bitorder: str) -> bool:
    if bitorder not in ("little", "big"):
        raise ValueError(f"'order' must be either 'little' or 'big', got {bitorder!r}")
    return bitorder == "big"


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Bytes whose bits are eight elements of a each, along an axis, flattened for None; 0 fills up
    the last one.

    bitorder: "big": the first element is the highest bit; "little": the lowest.
    Raises TypeError for an array that is not of integers or booleans.

    >>> packbits(np.array([1, 0, 1])).tolist()
    [160]
    """
    x = operand("packbits", a)
    if x.dtype != np.bool_ and not dtypes.issubdtype(x.dtype, np.integer):
        raise TypeError(f"Expected an input array of integer or boolean data type, got {x.dtype}")
    big = _order(bitorder)
    x, at = (ravel(x), 0) if axis is None else (x, axis_of(x, axis))
    return _pack(x, at, big)


def _places(big: bool) -> np.ndarray[Any, Any]:
    places = np.arange(8, dtype=np.uint8)
    return places[::-1].copy() if big else places


@fast(static=("axis", "big"))
def _pack(x: Array, axis: int, big: bool) -> Any:
    bits = _structure.moveaxis(convert(x != 0, np.dtype(np.uint8)), axis, x.ndim - 1)
    n = bits.shape[-1]
    bytes_ = ceil_div(n, 8)
    bits = _slicing.pad(bits, np.uint8(0), [(0, 0, 0)] * (x.ndim - 1) + [(0, 8 * bytes_ - n, 0)])
    bits = _structure.reshape(bits, (*bits.shape[:-1], bytes_, 8))
    shifts = _structure.broadcast_to(_places(big), bits.shape, (x.ndim,))
    packed = _structure.reduce_sum(_elementwise.shift_left(bits, shifts), [x.ndim])
    return _structure.moveaxis(packed, x.ndim - 1, axis)


def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """The bits of bytes along an axis, flattened for None.

    count: the number of bits in the result, which is filled up with zeros. If negative: how many
    bits are left out at the end.

    >>> unpackbits(np.array([160], np.uint8)).tolist()
    [1, 0, 1, 0, 0, 0, 0, 0]
    """
    x = operand("unpackbits", a)
    if x.dtype != np.uint8:
        raise TypeError(f"Expected an input array of unsigned byte data type, got {x.dtype}")
    big = _order(bitorder)
    x, at = (ravel(x), 0) if axis is None else (x, axis_of(x, axis))
    return _unpack(x, at, count, big)


@fast(static=("axis", "count", "big"))
def _unpack(x: Array, axis: int, count: int | None, big: bool) -> Any:
    shape = (*x.shape[: axis + 1], 8, *x.shape[axis + 1 :])
    spread = _structure.broadcast_to(x, shape, [i + (i > axis) for i in range(x.ndim)])
    bits = _elementwise.shift_right_logical(
        spread, _structure.broadcast_to(_places(big), shape, (axis + 1,))
    )
    bits = _elementwise.bitwise_and(bits, _structure.full(shape, 1, np.dtype(np.uint8)))
    n = x.shape[axis] * 8
    bits = _structure.reshape(bits, (*x.shape[:axis], n, *x.shape[axis + 1 :]))
    if count is None:
        return bits
    size = count if count >= 0 else n + count
    padding = [(0, 0, 0)] * x.ndim
    padding[axis] = (0, size - n, 0)
    return _slicing.pad(bits, np.uint8(0), padding)
