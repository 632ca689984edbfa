"""Discrete cosine transforms, of type 2 and its inverse."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import tracebacks
from teucer._base.lazy import listing
from teucer._core.typing import Array
from teucer.numpy import fft
from teucer.scipy._operands import along_last

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, DTypeLike

__all__ = ["dct", "dctn", "idct", "idctn"]
__dir__ = listing(__name__, __all__)


@tracebacks.api_boundary
def dct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The cosine transform along an axis: y[k] = 2 sum_i x[i] cos(pi k (2 i + 1) / (2 n)).

    n: the length to which x is cut or padded with zeros. norm: 'ortho' makes it orthogonal.
    Raises NotImplementedError for another type; ValueError for an axis out of bounds, n < 1 or
    another norm.

    >>> dct(np.array([1., 2.], "float32"))
    Array([ 6.       , -1.4142135], dtype=float32)

    Method: one FFT of length n. Makhoul, IEEE Trans. ASSP 28 (1980) 27.
    """
    return _along(_forward, x, type, n, axis, norm)


@tracebacks.api_boundary
def idct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The inverse of `dct` along an axis. Arguments as for that.

    >>> idct(dct(np.array([1., 2.], "float32"))).round(5)
    Array([1., 2.], dtype=float32)
    """
    return _along(_inverse, x, type, n, axis, norm)


@tracebacks.api_boundary
def dctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """`dct` along several axes, by default all. s: the length along each; of the last axes if axes
    are not given.

    Raises ValueError if an axis comes twice, or s has another length than axes.
    """
    return _along_all(dct, x, type, s, axes, norm)


@tracebacks.api_boundary
def idctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `dctn`. Arguments as for that."""
    return _along_all(idct, x, type, s, axes, norm)


def _along_all(
    transform: Callable[..., Any], x: ArrayLike, type: int, s: Any, axes: Any, norm: str | None
) -> Any:
    rank = np.ndim(x)
    if axes is None:
        axes = range(rank) if s is None else range(rank - len(s), rank)
    axes = [a + rank if a < 0 else a for a in axes]
    lengths = [None] * len(axes) if s is None else list(s)
    if len(set(axes)) < len(axes):
        raise ValueError(f"repeated axis: {tuple(axes)}")
    if len(lengths) != len(axes):
        raise ValueError(
            f"s and axes must have the same length, got {tuple(lengths)} and {tuple(axes)}."
        )
    for a, n in zip(axes, lengths, strict=True):
        x = transform(x, type, n, a, norm)
    return x


def _along(
    transform: Callable[..., Any],
    x: ArrayLike,
    type: int,
    n: int | None,
    axis: int,
    norm: str | None,
) -> Any:
    if type != 2:
        raise NotImplementedError(
            "Only DCT type 2 is implemented.\n  Use scipy.fft outside of jit for others."
        )
    if norm not in (None, "backward", "ortho"):
        raise ValueError(f"Invalid norm value {norm!r}; should be None, 'backward' or 'ortho'.")
    x = jnp.asarray(x)
    if not jnp.issubdtype(x.dtype, jnp.inexact) or x.dtype in (jnp.float16, jnp.bfloat16):
        x = x.astype(jnp.float32)
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {x.ndim}")
    x = jnp.moveaxis(x, axis, -1)
    length = x.shape[-1] if n is None else n
    if length < 1:
        raise ValueError(
            f"invalid number of data points ({length}) specified for a cosine transform."
        )
    x = jnp.pad(x[..., :length], [(0, 0)] * (x.ndim - 1) + [(0, max(0, length - x.shape[-1]))])
    parts = (x.real, x.imag) if jnp.issubdtype(x.dtype, jnp.complexfloating) else (x,)
    real, *imaginary = (transform(part, norm == "ortho") for part in parts)
    return jnp.moveaxis(lax.complex(real, imaginary[0]) if imaginary else real, -1, axis)


def _order(n: int) -> Any:
    """Even places, then the odd ones backwards: a transform of x in this order is a rotation of the
    FFT."""
    return np.concatenate([np.arange(0, n, 2), np.arange(n - 1 - n % 2, 0, -2)])


def _scale(n: int, dtype: DTypeLike) -> Any:
    """The factors that make the transform orthogonal."""
    first, others = math.sqrt(1 / (4 * n)), math.sqrt(1 / (2 * n))
    return np.where(np.arange(n) == 0, first, others).astype(dtype)


def _rotation(n: int, dtype: DTypeLike) -> Any:
    return np.exp(-0.5j * np.pi * np.arange(n) / n).astype(np.result_type(dtype, np.complex64))


def _forward(x: Array, ortho: bool) -> Any:
    n = x.shape[-1]
    y = 2 * (fft.fft(x[..., _order(n)]) * along_last(_rotation(n, x.dtype), x)).real
    return y * along_last(_scale(n, x.dtype), y) if ortho else y


def _inverse(y: Array, ortho: bool) -> Any:
    n = y.shape[-1]
    if ortho:
        y = y / along_last(_scale(n, y.dtype), y)
    backwards = jnp.concatenate([jnp.zeros_like(y[..., :1]), y[..., :0:-1]], axis=-1)
    turn = along_last(0.5 * _rotation(n, y.dtype).conj(), y)
    v = fft.ifft(turn * lax.complex(y, -backwards)).real
    return v[..., np.argsort(_order(n))]
