"""Convolutions and correlations of arrays of any number of axes."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from scipy import fft as host

from teucer import lax
from teucer import numpy as jnp
from teucer._core.typing import Array, ArrayLike
from teucer.numpy._library import fast
from teucer.numpy._promotion import check_arraylike
from teucer.scipy._operands import matrices

if TYPE_CHECKING:
    from teucer.lax._precision import PrecisionLike


_MODES = ("full", "same", "valid")
_BOUNDARIES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}


def convolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: PrecisionLike = None,
) -> Array:
    """The convolution of arrays of the same number of axes; elements beyond their ends are 0.

    mode: "full": wherever they overlap; "same": the middle of it, of the shape of in1; "valid":
    where they overlap wholly.
    method: "direct", as "auto", or "fft". precision: of the products, as of `jax.lax.conv`.
    Integers are converted to floats.
    Raises ValueError for other modes and methods, empty arrays, and if numbers of axes differ; for
    "valid" also if neither array is at least as large as the other along each axis.

    >>> convolve(jnp.array([1., 2., 3.]), jnp.array([1., 1.])).tolist()
    [1.0, 3.0, 5.0, 3.0]
    """
    _check("convolve", in1, in2, mode)
    if method not in ("auto", "direct", "fft"):
        raise ValueError(f"convolve: Got method={method!r}; expected 'auto', 'fft', or 'direct'.")
    return fftconvolve(in1, in2, mode) if method == "fft" else _convolve(in1, in2, mode, precision)


def correlate(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: PrecisionLike = None,
) -> Array:
    """The correlation: the convolution with the conjugate of in2 in reverse. Arguments and errors
    are as for `convolve`.

    >>> correlate(jnp.array([1., 2., 3.]), jnp.array([1., 0.])).tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    check_arraylike("correlate", in1, in2)
    return convolve(in1, jnp.flip(jnp.conj(in2)), mode, method, precision)


def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: PrecisionLike = None,
) -> Array:
    """As `convolve`, of two axes.

    boundary: the elements beyond the ends of in1: "fill" (fillvalue), "wrap", or "symm", about its
    edges. Raises ValueError also for another boundary, and arrays of other numbers of axes.

    >>> convolve2d(jnp.ones((2, 2)), jnp.ones((1, 2)), boundary="wrap").tolist()
    [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]
    """
    if jnp.ndim(in1) != 2 or jnp.ndim(in2) != 2:
        raise ValueError(
            "convolve2d() only supports 2-dimensional inputs, got shapes "
            f"{jnp.shape(in1)} and {jnp.shape(in2)}."
        )
    if boundary not in _BOUNDARIES:
        raise ValueError(
            f"convolve2d: boundary must be one of {', '.join(_BOUNDARIES)}, got {boundary!r}."
        )
    _check("convolve2d", in1, in2, mode)
    if mode == "valid" or (
        boundary == "fill" and isinstance(fillvalue, int | float) and fillvalue == 0
    ):
        return _convolve(in1, in2, mode, precision)
    return _convolve2d(in1, in2, fillvalue, mode, boundary, precision)


def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: PrecisionLike = None,
) -> Array:
    """As `correlate`, over two axes. Arguments and errors are as for `convolve2d`.

    >>> correlate2d(jnp.eye(2), jnp.eye(2), mode="same").tolist()
    [[2.0, 0.0], [0.0, 1.0]]
    """
    if jnp.ndim(in1) != 2 or jnp.ndim(in2) != 2:
        raise ValueError(
            "correlate2d() only supports 2-dimensional inputs, got shapes "
            f"{jnp.shape(in1)} and {jnp.shape(in2)}."
        )
    check_arraylike("correlate2d", in1, in2)
    if mode == "same":
        # SciPy has the centre of this one before the middle.
        full = correlate2d(in1, in2, "full", boundary, fillvalue, precision)
        return _middle(full, jnp.shape(in1), before=[n // 2 for n in jnp.shape(in2)])
    return convolve2d(in1, jnp.flip(jnp.conj(in2)), mode, boundary, fillvalue, precision)


def fftconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: int | Sequence[int] | None = None
) -> Array:
    """As `convolve`, by the Fourier transform.

    axes: those along which arrays are convolved, by default all; along others their sizes must be
    equal, or one of them 1. Empty arrays give an empty one.
    Raises ValueError for other modes, and if shapes do not fit.

    >>> fftconvolve(jnp.array([1., 2., 3.]), jnp.array([1., 1.])).round().tolist()
    [1.0, 3.0, 5.0, 3.0]
    """
    check_arraylike("fftconvolve", in1, in2)
    ndim = jnp.ndim(in1)
    if jnp.ndim(in2) != ndim:
        raise ValueError(
            f"fftconvolve: in1 and in2 should have the same dimensionality, got {ndim} and "
            f"{jnp.ndim(in2)}."
        )
    given = range(ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    places = tuple(sorted({_axis(axis, ndim) for axis in given}))
    if ndim and not places:
        raise ValueError("fftconvolve: axes cannot be empty.")
    if mode not in _MODES:
        raise ValueError(f"fftconvolve: mode must be one of {list(_MODES)}, got {mode!r}.")
    return _fftconvolve(in1, in2, mode, places)


def _axis(axis: int, ndim: int) -> int:
    axis = operator.index(axis)
    if not -ndim <= axis < ndim:
        raise ValueError(
            f"fftconvolve: axis {axis} is out of bounds for arrays of dimension {ndim}"
        )
    return axis % ndim


def _check(op: str, in1: Any, in2: ArrayLike, mode: str) -> None:
    check_arraylike(op, in1, in2)
    if mode not in _MODES:
        raise ValueError(f"{op}: mode must be one of {list(_MODES)}, got {mode!r}.")
    if jnp.ndim(in1) != jnp.ndim(in2):
        raise ValueError(
            f"{op}: in1 and in2 must have the same number of dimensions, got {jnp.ndim(in1)} and "
            f"{jnp.ndim(in2)}."
        )
    shapes = jnp.shape(in1), jnp.shape(in2)
    if 0 in shapes[0] + shapes[1]:
        raise ValueError(
            f"{op}: zero-size arrays not supported in convolutions, got shapes {shapes[0]} and "
            f"{shapes[1]}."
        )


def _ordered(op: str, x: Array, y: Array, axes: Sequence[int]) -> tuple[Any, Any]:
    """The arrays with the larger one first, which is larger along all axes."""
    if all(x.shape[i] >= y.shape[i] for i in axes):
        return x, y
    if all(x.shape[i] <= y.shape[i] for i in axes):
        return y, x
    raise ValueError(
        f"{op}: for 'valid' mode, one input must be at least as large as the other in every "
        f"dimension\n    in1: {x.shape}\n    in2: {y.shape}"
    )


@fast(static=("mode", "precision"))
def _convolve(in1: ArrayLike, in2: ArrayLike, mode: str, precision: PrecisionLike) -> Any:
    x, y = matrices("convolve", in1, in2)
    if x.ndim == 0:
        return x * y
    if mode == "valid":
        x, y = _ordered("convolve", x, y, range(x.ndim))
    elif mode == "full" and math.prod(x.shape) < math.prod(y.shape):
        x, y = y, x
    padding = {
        "full": [(n - 1, n - 1) for n in y.shape],
        "same": [(n // 2, (n - 1) // 2) for n in y.shape],
        "valid": [(0, 0)] * y.ndim,
    }[mode]
    ones = (1,) * x.ndim
    return lax.conv_general_dilated(
        x[None, None], jnp.flip(y)[None, None], ones, padding, precision=precision
    )[0, 0]


@fast(static=("mode", "boundary", "precision"))
def _convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    fillvalue: ArrayLike,
    mode: str,
    boundary: str,
    precision: PrecisionLike,
) -> Any:
    x, y = matrices("convolve2d", in1, in2)
    around = [(n - 1, n - 1) for n in y.shape]
    filled = (
        {"constant_values": jnp.asarray(fillvalue).astype(x.dtype)} if boundary == "fill" else {}
    )
    padded = jnp.pad(x, around, mode=_BOUNDARIES[boundary], **filled)
    full = lax.conv_general_dilated(
        padded[None, None], jnp.flip(y)[None, None], (1, 1), "VALID", precision=precision
    )[0, 0]
    return full if mode == "full" else _middle(full, x.shape)


def _middle(full: Any, shape: Sequence[int], before: Sequence[int] | None = None) -> Any:
    """The part of a shape in the middle, or after as many elements along each axis."""
    starts = (
        [(n - size) // 2 for n, size in zip(full.shape, shape, strict=True)]
        if before is None
        else before
    )
    return full[
        tuple(slice(start, start + size) for start, size in zip(starts, shape, strict=True))
    ]


@fast(static=("mode", "axes"))
def _fftconvolve(in1: ArrayLike, in2: ArrayLike, mode: str, axes: tuple[int, ...]) -> Any:
    x, y = matrices("fftconvolve", in1, in2)
    for i in range(x.ndim):
        if i not in axes and x.shape[i] != y.shape[i] and 1 not in (x.shape[i], y.shape[i]):
            raise ValueError(
                "fftconvolve: mapped axes must have same shape; "
                f"got in1.shape={x.shape} in2.shape={y.shape} axes={axes}"
            )
    if not x.size or not y.size:
        return jnp.zeros(0, x.dtype)
    if mode == "valid":
        x, y = _ordered("fftconvolve", x, y, axes)
    if not axes:
        return x * y
    sizes = [x.shape[i] + y.shape[i] - 1 for i in axes]
    is_real = not jnp.iscomplexobj(x)
    lengths = [host.next_fast_len(n, is_real) for n in sizes]
    forward, back = (jnp.fft.rfftn, jnp.fft.irfftn) if is_real else (jnp.fft.fftn, jnp.fft.ifftn)
    full = back(forward(x, lengths, axes) * forward(y, lengths, axes), lengths, axes)
    full = full[
        tuple(slice(0, sizes[axes.index(i)]) if i in axes else slice(None) for i in range(x.ndim))
    ].astype(x.dtype)
    if mode == "full":
        return full
    shape = list(full.shape)
    for i in axes:
        shape[i] = x.shape[i] if mode == "same" else x.shape[i] - y.shape[i] + 1
    return _middle(full, shape)
