"""Polynomials as arrays of coefficients, the highest power first."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from teucer._base import dtypes
from teucer._core.typing import Array, ArrayLike
from teucer._dimensions.dimensions import is_symbolic, max_dim
from teucer.lax import _dot, _elementwise, _reductions, _slicing, _structure
from teucer.lax._control.iteration import fori_loop, scan
from teucer.lax._precision import Precision
from teucer.lax.linalg import _eigen as _linalg_eigen
from teucer.lax.linalg import _svd as _linalg_svd
from teucer.numpy import _ufuncs
from teucer.numpy._creation import asarray
from teucer.numpy._library import fast
from teucer.numpy._logic import where
from teucer.numpy._manipulation import ravel
from teucer.numpy._operands import broadcast_value, concrete, operand, operands, promoted
from teucer.numpy._promotion import ANY, INEXACT, broadcast_to, convert
from teucer.numpy._signals import convolve
from teucer.numpy._sorting import argsort
from teucer.numpy._stacking import concatenate

if TYPE_CHECKING:
    from teucer._core.typing import Value

__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval",
    "roots",
]  # fmt: skip


def _coefficients(name: str, *ps: Value) -> list[Any]:
    """Arguments as arrays of one axis."""
    out = []
    for p in operands(name, *ps):
        if p.ndim > 1:
            raise ValueError(
                f"{name}: coefficients must be an array of one axis, got shape {p.shape}."
            )
        out.append(ravel(p))
    return out


def _exact(x: Array, y: Array) -> Any:
    """The matrix product in full precision."""
    return _dot.dot(x, y, precision=Precision.HIGHEST)


def poly(seq_of_zeros: ArrayLike) -> Array:
    """The polynomial with given zeros and highest coefficient 1; for a square matrix its
    characteristic polynomial.

    >>> poly(np.array([1., 2.])).tolist()
    [1.0, -3.0, 2.0]
    """
    (zeros,) = promoted("poly", INEXACT, seq_of_zeros)
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1] and zeros.shape[0]:
        zeros = _eigenvalues(zeros)
    elif zeros.ndim > 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    return _expand(ravel(zeros))


@fast
def _eigenvalues(matrix: Array) -> Any:
    return _linalg_eigen.eig(
        matrix, compute_left_eigenvectors=False, compute_right_eigenvectors=False
    )[0]


@fast
def _expand(zeros: Any) -> Any:
    n = zeros.shape[0]
    first = _structure.full((1,), 1, zeros.dtype)
    if n == 0:
        return _structure.reshape(first, ())

    def multiply(i: ArrayLike, p: Any) -> Any:
        # p times (x - zero): p, less p one place later times the zero.
        later = concatenate([_structure.full((1,), 0, p.dtype), p[:-1]])
        return p - zeros[i] * later

    start = concatenate([first, _structure.full((n,), 0, zeros.dtype)])
    return fori_loop(0, n, multiply, start)


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """The value at x of the polynomial with coefficients p, by Horner's rule.

    unroll: how many steps are written out one after another.

    >>> polyval(np.array([1, 2, 3]), np.array([0, 2])).tolist()
    [3, 11]
    """
    coefficients, at = promoted("polyval", ANY, p, x)
    return _horner(coefficients, at, operator.index(unroll))


@fast(static=("unroll",))
def _horner(p: Array, x: Array, unroll: int) -> Any:
    shape = (*p.shape[1:], *x.shape) if p.ndim > 1 else x.shape
    if p.ndim > 1:
        shape = np.broadcast_shapes(p.shape[1:], x.shape)
    zero = _structure.full(shape, 0, p.dtype)
    if is_symbolic(p.shape[0]):
        unroll = 1
    elif p.shape[0] <= unroll:
        out = zero
        for i in range(p.shape[0]):
            out = out * x + p[i]
        return out
    return scan(lambda y, c: (y * x + c, None), zero, p, unroll=unroll)[0]


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials.

    >>> polyadd(np.array([1, 2]), np.array([3])).tolist()
    [1, 5]
    """
    return _ufuncs.add(*_of_one_length("polyadd", a1, a2))


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials.

    >>> polysub(np.array([1, 2]), np.array([3])).tolist()
    [1, -1]
    """
    return _ufuncs.subtract(*_of_one_length("polysub", a1, a2))


def _of_one_length(name: str, *ps: Value) -> list[Any]:
    """Coefficients, which may be arrays, with zeros in front of the shorter ones.

    Coefficients of shorter polynomials broadcast to the longest one's.
    """
    xs = [ravel(x) if x.ndim == 0 else x for x in promoted(name, ANY, *ps)]
    n = max_dim(*(x.shape[0] for x in xs))
    if len({x.shape[1:] for x in xs}) > 1:
        rest = next(x.shape[1:] for x in xs if x.shape[0] == n)
        try:
            xs = [broadcast_to(x, (x.shape[0], *rest)) for x in xs]
        except (TypeError, ValueError) as err:
            raise ValueError(
                f"{name}: coefficients have different shapes: "
                f"{', '.join(str(x.shape[1:]) for x in xs)}."
            ) from err
    return [_extended(x, n) for x in xs]


def _extended(p: Array, n: int) -> Any:
    """Coefficients with zeros in front."""
    missing = n - p.shape[0]
    if not is_symbolic(missing) and missing <= 0:
        return p
    return _slicing.pad(
        p, _structure.full((), 0, p.dtype), [(missing, 0, 0)] + [(0, 0, 0)] * (p.ndim - 1)
    )


def _trimmed(name: str, p: Array) -> Any:
    """Coefficients without zeros in front; the values must be known."""
    places = concrete(
        p, name, "which leading coefficients are zero must be known; leave out trim_leading_zeros"
    ).nonzero()[0]
    return p[int(places[0]) :] if places.size else p[p.shape[0] - 1 :]


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials; trim_leading_zeros: of the polynomials without zeros in
    front, which must be known.

    >>> polymul(np.array([1., 1.]), np.array([1., -1.])).tolist()
    [1.0, 0.0, -1.0]
    """
    x, y = promoted("polymul", INEXACT, *_coefficients("polymul", a1, a2))
    if trim_leading_zeros and (x.shape[0] > 1 or y.shape[0] > 1):
        x, y = _trimmed("polymul", x), _trimmed("polymul", y)
    x, y = (v if v.shape[0] else _structure.full((1,), 0, v.dtype) for v in (x, y))
    return convolve(x, y, precision=Precision.HIGHEST)


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """Quotient and remainder of two polynomials; trim_leading_zeros: the remainder without zeros in
    front.

    >>> [p.tolist() for p in polydiv(np.array([1., 2., 3.]), np.array([1., 2.]))]
    [[1.0, 0.0], [0.0, 0.0, 3.0]]
    """
    x, y = promoted("polydiv", INEXACT, *_coefficients("polydiv", u, v))
    quotient, rest = _divide(x, y)
    return quotient, _trimmed("polydiv", rest) if trim_leading_zeros else rest


@fast
def _divide(u: Array, v: Array) -> Any:
    m, n = u.shape[0] - 1, v.shape[0] - 1
    if m < n:
        return _structure.full((1,), 0, u.dtype), u
    quotient, rest = [], u
    for k in range(m - n + 1):
        d = rest[k] / v[0]
        quotient.append(_structure.reshape(d, (1,)))
        # The highest power cancels exactly.
        rest = rest.at[k : k + n + 1].add(-d * v).at[k].set(0)
    return concatenate(quotient), rest


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The m-th derivative of a polynomial.

    >>> polyder(np.array([1., 2., 3.])).tolist()
    [2.0, 2.0]
    """
    (coefficients,) = promoted("polyder", INEXACT, *_coefficients("polyder", p))
    order = operator.index(m)
    if order < 0:
        raise ValueError("Order of derivative must be positive")
    if order == 0:
        return coefficients
    n = coefficients.shape[0]
    if order >= n:
        return _structure.full((0,), 0, coefficients.dtype)
    powers = np.arange(n - 1, order - 1, -1, dtype=float)
    factors = np.prod([powers - k for k in range(order)], axis=0)
    return coefficients[: n - order] * factors.astype(coefficients.dtype)


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """The m-th antiderivative of a polynomial; k: the constants of integration (0), the first one
    first.

    >>> polyint(np.array([2., 2.]), k=5).tolist()
    [1.0, 2.0, 5.0]
    """
    order = operator.index(m)
    coefficients, constants = promoted("polyint", INEXACT, p, 0 if k is None else k)
    if order < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    constants = ravel(constants)
    if constants.shape[0] == 1:
        constants = broadcast_value(constants, (order,))
    if constants.shape[0] != order:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or m.")
    if order == 0:
        return coefficients
    full = concatenate([ravel(coefficients), constants])
    n = full.shape[0]
    powers = np.arange(n - 1, -1, -1, dtype=float)
    # The i-th constant is integrated m - 1 - i times, all else m times.
    times = np.minimum(powers, order)
    factors = np.ones(n)
    for i in range(order):
        factors *= np.where(times > i, powers - i, 1)
    return full / factors.astype(full.dtype)


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """The zeros of a polynomial, as complex numbers: the eigenvalues of its companion matrix.

    strip_zeros: coefficients that are zero in front or behind are taken off first, and must be
    known; without it the result has NaNs for leading zeros.

    >>> np.sort(np.asarray(roots(np.array([1., -3., 2.])))).real.round(3).tolist()
    [1.0, 2.0]
    """
    (coefficients,) = promoted("roots", INEXACT, *_coefficients("roots", p))
    n = coefficients.shape[0]
    dtype = dtypes.to_complex_dtype(coefficients.dtype)
    if n < 2:
        return _structure.full((0,), 0, dtype)
    if not strip_zeros:
        return _roots_with_zeros(coefficients)
    places = concrete(
        coefficients,
        "roots",
        "The error occurred in the jnp.roots() function. To use this within a JIT-compiled "
        "context, pass strip_zeros=False.",
    ).nonzero()[0]
    if not places.size:
        return _structure.full((0,), 0, dtype)
    first, last = int(places[0]), int(places[-1])
    found = _roots(coefficients[first : last + 1])
    return (
        concatenate([_structure.full((n - 1 - last,), 0, dtype), found]) if last < n - 1 else found
    )


def _companion(p: Array) -> Any:
    n = p.shape[0] - 1
    below = _structure.number(np.eye(n - 1, n) if n > 1 else np.zeros((0, n)), p.dtype)
    return concatenate([_structure.reshape(-p[1:] / p[0], (1, n)), below])


@fast
def _roots(p: Array) -> Any:
    if p.shape[0] < 2:
        return _structure.full((0,), 0, dtypes.to_complex_dtype(p.dtype))
    return _eigenvalues(_companion(p))


@fast
def _roots_with_zeros(p: Array) -> Any:
    """The zeros in front moved behind, where each gives a root 0; as many of those become NaN."""
    n = p.shape[0]
    nonzero = p != 0
    leading = _first_true(nonzero, n)
    rolled = p[(np.arange(n, dtype=np.int32) + leading) % n]
    found = _eigenvalues(_companion(rolled))
    order = _by_size(found)
    kept = np.arange(n - 1, dtype=np.int32) < n - 1 - leading
    return where(kept, found[order], _structure.number(np.nan + 1j * np.nan, found.dtype))


def _first_true(flags: object, n: int) -> Any:
    places = where(flags, np.arange(n, dtype=np.int32), n)
    return _reductions.reduce_min(places, (0,))


def _by_size(x: Array) -> Any:
    """The places that sort by descending absolute value, so that the zeros added come last."""
    return argsort(-_ufuncs.abs(x))


@overload
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = ...,
    full: Literal[False] = ...,
    w: ArrayLike | None = ...,
    cov: Literal[False] = ...,
) -> Array: ...
@overload
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = ...,
    full: bool = ...,
    w: ArrayLike | None = ...,
    cov: bool | str = ...,
) -> Any: ...
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Array | tuple[Array, ...]:
    """The polynomial of a degree that fits points best, in the sense of least squares.

    y: values, or columns of values. w: weights of the points. rcond: relative size of singular
    values that count as zero (by default number of points times the precision). full: also
    residuals, rank, singular values and rcond. cov: also the covariance matrix of the coefficients,
    scaled so that the mean weighted residual is 1, or not with "unscaled".

    >>> np.asarray(polyfit(np.array([0., 1., 2.]), np.array([1., 3., 5.]), 1)).round(3).tolist()
    [2.0, 1.0]
    """
    places, values = promoted("polyfit", INEXACT, x, y)
    degree = operator.index(concrete(deg, "polyfit", "deg must be known")[()])
    if degree < 0:
        raise ValueError("expected deg >= 0")
    if places.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if places.size == 0:
        raise TypeError("expected non-empty vector for x")
    if values.ndim not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if places.shape[0] != values.shape[0]:
        raise TypeError(
            f"expected x and y to have same length\n    x: {places.shape}\n    y: {values.shape}"
        )
    limit = (
        places.shape[0] * float(dtypes.finfo(places.dtype).eps) if rcond is None else float(rcond)
    )
    weights = None if w is None else convert(operand("polyfit", w), places.dtype)
    if weights is not None and weights.ndim != 1:
        raise TypeError("expected a 1-d array for weights")
    if weights is not None and weights.shape[0] != places.shape[0]:
        raise TypeError("expected w and y to have the same length")
    out, residuals, rank, singular, inverse = _fit(places, values, weights, degree, limit)
    if full:
        return out, residuals, rank, singular, asarray(limit)
    if cov is False or cov is None:
        return out
    if cov == "unscaled":
        scale: Any = 1
    else:
        if places.shape[0] <= degree + 1:
            raise ValueError(
                "the number of data points must exceed order to scale the covariance matrix"
            )
        scale = residuals / (places.shape[0] - (degree + 1))
    if values.ndim == 1:
        return out, inverse * (
            scale if isinstance(scale, int) else _structure.reshape(scale, (1, 1))
        )
    return out, inverse[:, :, None] * (
        scale if isinstance(scale, int) else _structure.reshape(scale, (1, 1, scale.shape[0]))
    )


@fast(static=("degree", "rcond"))
def _fit(x: Array, y: Array, w: Array | None, degree: int, rcond: float) -> Any:
    count = degree + 1
    powers = _vandermonde(x, count)
    target = y
    if w is not None:
        powers = powers * _structure.reshape(w, (w.shape[0], 1))
        target = target * (w if y.ndim == 1 else _structure.reshape(w, (w.shape[0], 1)))
    scale = _elementwise.sqrt(
        _structure.reduce_sum(_ufuncs.real(powers * _ufuncs.conj(powers)), [0])
    )
    scale = where(scale == 0, 1, scale)
    row = _structure.reshape(scale, (1, scale.shape[0]))
    scaled = powers / row
    u, s, vh = _linalg_svd.svd(scaled, full_matrices=False)
    kept = s > rcond * s[0]
    inverse = _structure.reshape(where(kept, 1 / where(kept, s, 1), 0), (1, s.shape[0]))
    back = _exact(
        _ufuncs.conj(_structure.transpose(vh, (1, 0))) * inverse,
        _ufuncs.conj(_structure.transpose(u, (1, 0))),
    )
    c = _exact(back, target)
    error = target - _exact(scaled, c)
    residuals = _structure.reduce_sum(_ufuncs.real(error * _ufuncs.conj(error)), [0])
    out = c / (scale if y.ndim == 1 else _structure.reshape(scale, (count, 1)))
    spread = (
        _exact(_structure.transpose(vh, (1, 0)) * inverse * inverse, vh)
        / row
        / _structure.reshape(scale, (count, 1))
    )
    rank = _structure.reduce_sum(convert(kept, np.dtype(np.int32)), [0])
    return (
        out,
        _structure.reshape(residuals, (1,) if y.ndim == 1 else residuals.shape),
        rank,
        s,
        spread,
    )


def _vandermonde(x: Array, count: int) -> Any:
    columns = [_structure.full(x.shape, 1, x.dtype)]
    for _ in range(count - 1):
        columns.append(columns[-1] * x)
    return concatenate([_structure.reshape(c, (*x.shape, 1)) for c in reversed(columns)], 1)
