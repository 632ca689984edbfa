"""Discrete Fourier transforms.

Of one axis (fft), of two (fft2), of several (fftn); of real numbers (rfft); and inverses (ifft).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._base.lazy import listing
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike, DTypeLike
from teucer._dimensions.dimensions import as_size, ceil_div, is_symbolic, max_dim
from teucer.lax import _elementwise as lax
from teucer.lax import _fft, _structure
from teucer.lax._families import scalar_like
from teucer.lax._slicing import pad, slice_in_dim
from teucer.numpy._creation import checked_dtype, place
from teucer.numpy._library import converting, fast
from teucer.numpy._logic import where
from teucer.numpy._manipulation import roll
from teucer.numpy._operands import axes_of, positions
from teucer.numpy._promotion import as_value, check_arraylike
from teucer.numpy._ufuncs import conj, is_kind

if TYPE_CHECKING:
    from teucer._core.typing import Axes, Axis

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
__dir__ = listing(__name__, __all__)


def _scale(norm: object, lengths: Sequence[int], *, inverse: bool) -> float | None:
    """The factor of the transform of lax, which divides by the size in the inverse direction."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')
    n = math.prod(lengths)
    if norm in (None, "backward"):
        return None
    scale = math.sqrt(n) if norm == "ortho" else float(n)
    return scale if inverse else 1.0 / scale


def _resized(x: Array, axis: int, size: int) -> Any:
    """x with an axis cut off or filled up with zeros."""
    own = np.shape(x)[axis]
    longer = max_dim(own, size)
    missing, beyond = longer - own, longer - size
    if is_symbolic(missing) or missing:
        zero = _structure.number(0, typeof(x).dtype)
        x = pad(x, zero, [(0, missing if i == axis else 0, 0) for i in range(np.ndim(x))])
    return slice_in_dim(x, 0, size, axis=axis) if is_symbolic(beyond) or beyond else x


@fast(static=("name", "kind", "sizes", "axes", "norm"))
def _transform(
    name: str, kind: str, a: ArrayLike, sizes: Any, axes: tuple[int, ...], norm: object
) -> Any:
    check_arraylike(f"jnp.fft.{name}", a)
    x = as_value(a)
    x = _structure.convert_element_type(x, typeof(x).dtype)
    real_result = kind == "IRFFT"
    if kind == "RFFT" and is_kind(x, np.complexfloating):
        raise ValueError(
            "only real valued inputs supported for rfft\n"
            f"  {name}: x is {typeof(x).str_short(short_dtypes=True)}"
        )
    lengths = list(sizes) if sizes is not None else [np.shape(x)[i] for i in axes]
    if sizes is None and real_result and axes:
        lengths[-1] = max(0, 2 * (lengths[-1] - 1))
    # An array without elements has a transform without elements; but RFFT gives one frequency,
    # zero.
    empty = (
        sizes is None
        and any(type(n) is int and n == 0 for n in lengths)
        and not (kind == "RFFT" and lengths[-1] == 0)
    )
    if not empty and any(n < 1 for n in lengths):
        raise ValueError(f"Shape should be positive.\n    {name}: sizes {tuple(lengths)}")
    if typeof(x).dtype in (np.dtype(np.float16), dtypes.bfloat16):
        x = lax.convert_element_type(x, np.dtype(np.float32))
    if empty:
        shape = list(np.shape(x))
        for axis, n in zip(
            axes,
            [*lengths[:-1], lengths[-1] // 2 + 1 if kind == "RFFT" else lengths[-1]],
            strict=True,
        ):
            shape[axis] = n
        dtype = dtypes.to_complex_dtype(typeof(x).dtype)
        return _structure.full(
            shape, 0, np.dtype(dtypes.finfo(dtype).dtype) if real_result else dtype
        )
    for k, (axis, n) in enumerate(zip(axes, lengths, strict=True)):
        x = _resized(x, axis, n // 2 + 1 if real_result and k == len(axes) - 1 else n)
    if not axes:
        widened = dtypes.to_inexact_dtype if kind == "RFFT" else dtypes.to_complex_dtype
        return lax.convert_element_type(x, widened(typeof(x).dtype))
    out = _along(x, kind, axes, lengths)
    scale = _scale(norm, lengths, inverse=kind.startswith("I"))
    return out if scale is None else lax.mul(out, scalar_like(out, scale))


def _along(x: Array, kind: str, axes: tuple[int, ...], lengths: Sequence[int]) -> Any:
    """The transform of any axes, at most three at a time, as lax has it; the last one first of real
    numbers, last to real ones."""
    groups = [
        (axes[max(0, i - 3) : i], lengths[max(0, i - 3) : i]) for i in range(len(axes), 0, -3)
    ]
    complex_kind = "FFT" if kind in ("FFT", "RFFT") else "IFFT"
    steps = [(complex_kind, *group) for group in groups]
    steps[0] = (kind, *groups[0])
    if kind == "IRFFT":
        steps.reverse()
    for step, at, n in steps:
        rest = tuple(i for i in range(np.ndim(x)) if i not in at)
        order = (*rest, *at)
        back = tuple(int(i) for i in np.argsort(order))
        x = _structure.transpose(_fft.fft(_structure.transpose(x, order), step, tuple(n)), back)
    return x


def _axis(name: str, a: Any, axis: int) -> int:
    check_arraylike(f"jnp.fft.{name}", a)
    return _structure.canonical_axis(operator.index(axis), np.ndim(a))


def _one(name: str, kind: str, a: Any, n: Any, axis: Any, norm: Any) -> Any:
    at = _axis(name, a, axis)
    return _transform(name, kind, a, None if n is None else (operator.index(n),), (at,), norm)


def _several(name: str, kind: str, a: Any, s: Any, axes: Any, norm: Any) -> Any:
    check_arraylike(f"jnp.fft.{name}", a)
    ndim = np.ndim(a)
    sizes = None if s is None else tuple(map(operator.index, s))
    if axes is None:
        axes = tuple(range(ndim)) if sizes is None else tuple(range(ndim - len(sizes), ndim))
    places = tuple(_structure.canonical_axis(operator.index(i), ndim) for i in axes)
    if len(set(places)) != len(places):
        raise ValueError(
            f"jax.numpy.fft.{name} does not support repeated axes. Got axes {list(axes)}."
        )
    if sizes is not None and len(sizes) != len(places):
        raise ValueError(
            f"Shape and axes have different lengths.\n    {name}: s {sizes}, axes {tuple(axes)}"
        )
    return _transform(name, kind, a, sizes, places, norm)


@converting
def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The discrete Fourier transform of an axis.

    n: the length; the axis is cut off or filled up with zeros. norm: which direction divides by n:
    'backward' (the default) the inverse, 'forward' this one, 'ortho' both by the root. Raises
    ValueError for another norm, and n < 1.

    >>> fft(np.float32([1, 2, 3, 4]))
    Array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex64)
    """
    return _one("fft", "FFT", a, n, axis, norm)


@converting
def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `fft`, with the same arguments.

    >>> ifft(np.complex64([10, -2+2j, -2, -2-2j])).real
    Array([1., 2., 3., 4.], dtype=float32)
    """
    return _one("ifft", "IFFT", a, n, axis, norm)


@converting
def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The first n // 2 + 1 elements of the transform of real numbers; the others are their
    conjugates.

    Raises ValueError for complex numbers.

    >>> rfft(np.float32([1, 2, 3, 4]))
    Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    return _one("rfft", "RFFT", a, n, axis, norm)


@converting
def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `rfft`; n is the length of the result, by default 2 (m - 1) for m elements.

    >>> irfft(np.complex64([10, -2+2j, -2]))
    Array([1., 2., 3., 4.], dtype=float32)
    """
    return _one("irfft", "IRFFT", a, n, axis, norm)


_OPPOSITE = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _opposite(norm: Any) -> Any:
    _scale(norm, (1,), inverse=False)
    return _OPPOSITE[norm]


@converting
def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The transform, real, of numbers that continue as their own conjugates.

    >>> hfft(np.complex64([1, 2, 3]))
    Array([ 8., -2.,  0., -2.], dtype=float32)
    """
    check_arraylike("jnp.fft.hfft", a)
    return _one("hfft", "IRFFT", conj(a), n, axis, _opposite(norm))


@converting
def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `hfft`.

    >>> ihfft(np.float32([12, -4, 4, -4])).real
    Array([2., 2., 6.], dtype=float32)
    """
    return conj(_one("ihfft", "RFFT", a, n, axis, _opposite(norm)))


@converting
def fftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The discrete Fourier transform of several axes, by default of all; s are their lengths, norm
    as in `fft`.

    Raises ValueError for repeated axes, and lengths that are not as many.

    >>> fftn(np.ones((2, 2), np.float32)).real
    Array([[4., 0.],
           [0., 0.]], dtype=float32)
    """
    return _several("fftn", "FFT", a, s, axes, norm)


@converting
def ifftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `fftn`, with the same arguments."""
    return _several("ifftn", "IFFT", a, s, axes, norm)


@converting
def rfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The transform of several axes of real numbers; of the last one only the first half, as in
    `rfft`."""
    return _several("rfftn", "RFFT", a, s, axes, norm)


@converting
def irfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `rfftn`, with the same arguments; s are the lengths of the result."""
    return _several("irfftn", "IRFFT", a, s, axes, norm)


def _pair(name: str, kind: str, a: ArrayLike, s: Any, axes: Axes, norm: Any) -> Any:
    if len(axes) != 2:
        raise ValueError(f"jax.numpy.fft.{name} only supports 2 axes. Got axes = {axes}.")
    return _several(name, kind, a, s, axes, norm)


@converting
def fft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """`fftn` of two axes, by default the last two."""
    return _pair("fft2", "FFT", a, s, axes, norm)


@converting
def ifft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """`ifftn` of two axes, by default the last two."""
    return _pair("ifft2", "IFFT", a, s, axes, norm)


@converting
def rfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """`rfftn` of two axes, by default the last two."""
    return _pair("rfft2", "RFFT", a, s, axes, norm)


@converting
def irfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """`irfftn` of two axes, by default the last two."""
    return _pair("irfft2", "IRFFT", a, s, axes, norm)


# Frequencies and their order


def _frequencies(op: str, places: object, n: int, d: ArrayLike, dtype: Any, device: Any) -> Any:
    kind = checked_dtype(float if dtype is None else dtype, op)
    if is_symbolic(n):
        return place(_structure.convert_element_type(places, kind) / (n * d), device)
    wide = (
        np.asarray(places, np.float64) / (n * float(d))
        if isinstance(d, int | float | np.generic)
        else None
    )
    if wide is not None:
        return place(_structure.convert_element_type(wide.astype(kind), kind), device)
    steps = _structure.convert_element_type(np.asarray(places, kind), kind)
    return place(
        lax.div(steps, lax.convert_element_type(lax.mul(d, scalar_like(d, n)), kind)), device
    )


def fftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: object = None
) -> Array:
    """The frequencies of the elements of `fft` of n samples at distance d, in cycles a unit of d.

    >>> fftfreq(4, 0.5)
    Array([ 0. ,  0.5, -1. , -0.5], dtype=float32)
    """
    n = as_size(n)
    places = positions(n)
    # Those from the middle on count as negative ones.
    chosen = where if is_symbolic(n) else np.where
    return _frequencies(
        "fftfreq", chosen(places < ceil_div(n, 2), places, places - n), n, d, dtype, device
    )


def rfftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: object = None
) -> Array:
    """The frequencies of the elements of `rfft` of n samples at distance d, in cycles a unit of d.

    >>> rfftfreq(4)
    Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    n = as_size(n)
    return _frequencies("rfftfreq", positions(n // 2 + 1), n, d, dtype, device)


def _shifted(name: str, x: ArrayLike, axes: Axis, *, inverse: bool) -> Any:
    check_arraylike(f"jnp.fft.{name}", x)
    places = axes_of(x, axes)
    shifts = tuple(-(np.shape(x)[i] // 2) if inverse else np.shape(x)[i] // 2 for i in places)
    return roll(x, shifts, places)


def fftshift(x: ArrayLike, axes: Axis = None) -> Array:
    """x with the zero frequency moved to the middle of axes, by default of all.

    >>> fftshift(np.int32([0, 1, 2, -2, -1]))
    Array([-2, -1,  0,  1,  2], dtype=int32)
    """
    return _shifted("fftshift", x, axes, inverse=False)


def ifftshift(x: ArrayLike, axes: Axis = None) -> Array:
    """The inverse of `fftshift`.

    >>> ifftshift(np.int32([-2, -1, 0, 1, 2]))
    Array([ 0,  1,  2, -2, -1], dtype=int32)
    """
    return _shifted("ifftshift", x, axes, inverse=True)
