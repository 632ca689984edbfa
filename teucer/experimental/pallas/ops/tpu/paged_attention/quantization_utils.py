"""Arrays in 8 bits, each row with a scale of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from teucer import numpy as jnp
from teucer._base.lazy import listing, refusing

if TYPE_CHECKING:
    from teucer._core.typing import Array, DTypeLike

__all__ = [
    "MAX_INT8", "QuantizedTensor", "from_int8", "get_quantization_scales", "quantize_to_int8",
    "to_int8", "unquantize_from_int8",
]  # fmt: skip
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)

MAX_INT8 = 127.5
"""What the greatest element of a row becomes, before it is rounded."""


class QuantizedTensor(NamedTuple):
    """weight: int8[..., n]; scales: T[..., 1], the greatest absolute value of each row."""

    weight: Array
    scales: Array


def get_quantization_scales(x: Array) -> Array:
    """The greatest absolute value of each row, [..., 1]."""
    return jnp.max(jnp.abs(x), axis=-1, keepdims=True)


def to_int8(x: Array, h: Array) -> Array:
    """x in 8 bits, by the scales h."""
    return jnp.clip(jnp.rint(x * (MAX_INT8 / h)), -128, 127).astype(jnp.int8)


def from_int8(x: Array, h: Array, dtype: DTypeLike = jnp.bfloat16) -> Array:
    """The elements that `to_int8` has rounded, in the wider of dtype and the scales' type."""
    return x.astype(dtype) * h / MAX_INT8


def quantize_to_int8(x: Array) -> QuantizedTensor:
    """x in 8 bits, with its scales. A row of zeros stays so.

    >>> quantize_to_int8(jnp.array([[1.0, -2.0]])).weight
    Array([[  64, -128]], dtype=int8)
    """
    scales = get_quantization_scales(x)
    return QuantizedTensor(to_int8(x, jnp.where(scales == 0, 1, scales)), scales)


def unquantize_from_int8(x: QuantizedTensor, dtype: DTypeLike = jnp.bfloat16) -> Array:
    """The array that was quantised, up to rounding."""
    return from_int8(x.weight, x.scales, dtype)
