"""Named matrices of integers, of polynomials, of populations and of contrasts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from teucer import numpy as jnp
from teucer._core.typing import Array, ArrayLike
from teucer.numpy._library import fast
from teucer.scipy._linalg_matrices import toeplitz
from teucer.scipy._operands import matrices


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """The matrix whose product with a vector v of n elements is convolve(a, v, mode).

    a: T[..., m]  ->  T[..., k, n]; k is n + m - 1 for 'full', max(n, m) for 'same', max(n, m) -
    min(n, m) + 1 for 'valid'
    Raises ValueError for another mode, if a is empty or a scalar, or n not positive.

    >>> convolution_matrix(jnp.array([1, 2]), 2)
    Array([[1, 0],
           [2, 1],
           [0, 2]], dtype=int32)
    """
    if n <= 0:
        raise ValueError(f"convolution_matrix: n must be a positive integer, got {n}.")
    if mode not in ("full", "same", "valid"):
        raise ValueError(
            f"convolution_matrix: mode must be one of 'full', 'same' and 'valid', got {mode!r}."
        )
    return _convolution_matrix(a, n, mode)


@fast(static=("n", "mode"))
def _convolution_matrix(a: ArrayLike, n: int, mode: str) -> Any:
    a = jnp.asarray(a)
    if not a.ndim:
        raise ValueError("convolution_matrix: a must be at least 1-dimensional, got a scalar.")
    m = a.shape[-1]
    if m == 0:
        raise ValueError("convolution_matrix: len(a) must be at least 1.")
    batch = [(0, 0)] * (a.ndim - 1)
    full = toeplitz(jnp.pad(a, [*batch, (0, n - 1)]), jnp.pad(a[..., :1], [*batch, (0, n - 1)]))
    rows = {"full": n + m - 1, "same": max(n, m), "valid": max(n, m) - min(n, m) + 1}[mode]
    first = {"full": 0, "same": (min(n, m) - 1) // 2, "valid": min(n, m) - 1}[mode]
    return full[..., first : first + rows, :]


@fast
def fiedler(a: ArrayLike) -> Array:
    """The symmetric matrix of distances |a[i] - a[j]|.

    a: T[..., n]  ->  T[..., n, n]

    >>> fiedler(jnp.array([1, 4]))
    Array([[0, 3],
           [3, 0]], dtype=int32)
    """
    a = jnp.atleast_1d(a)
    return jnp.abs(a[..., :, None] - a[..., None, :])


@fast
def fiedler_companion(a: ArrayLike) -> Array:
    """The matrix of five diagonals whose eigenvalues are the roots of the polynomial with
    coefficients a, the highest power first.

    a: T[..., n + 1]  ->  T[..., n, n]; a[..., 0] must not be 0
    Raises ValueError for no coefficients.

    >>> fiedler_companion(jnp.array([1., -16., 86.]))
    Array([[ 16., -86.],
           [  1.,   0.]], dtype=float32)

    Method: M. Fiedler, Linear Algebra Appl. 372 (2003) 325.
    """
    (a,) = matrices("fiedler_companion", a)
    a = jnp.atleast_1d(a)
    if a.shape[-1] == 0:
        raise ValueError("fiedler_companion: the last axis of a must have nonzero length.")
    n = a.shape[-1] - 1
    a = a / a[..., :1]
    result = jnp.zeros((*a.shape[:-1], n, n), a.dtype)
    if n == 0:
        return result
    result = result.at[..., 0, 0].set(-a[..., 1])
    for i in range(1, n):
        # Odd columns hold coefficients: above the diagonal the one with their own number, below it
        # the next.
        odd = i if i % 2 else i - 1
        row = odd - 1 if i % 2 else odd + 1
        result = result.at[..., row, odd].set(-a[..., i + 1])
        # Ones: two to the left in odd rows, but for the first; two to the right in even ones.
        result = result.at[..., i if i % 2 else i - 2, max(i - 2, 0) if i % 2 else i].set(1)
    return result


@fast
def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """The matrix of a population by age: fertilities f as its first row, survival rates s below its
    diagonal.

    f: T[..., n], s: T[..., n - 1], n at least 2  ->  T[..., n, n]
    Raises ValueError if lengths do not fit.

    >>> leslie(jnp.array([0.1, 2.]), jnp.array([0.2]))
    Array([[0.1, 2. ],
           [0.2, 0. ]], dtype=float32)
    """
    f, s = jnp.atleast_1d(f), jnp.atleast_1d(s)
    n = f.shape[-1]
    if s.shape[-1] == 0 or n != s.shape[-1] + 1:
        raise ValueError(
            "leslie: Incorrect lengths for f and s: the length of f along the last axis must be "
            f"one more than that of s, which is at least 1\n    f: {f.shape}\n    s: {s.shape}"
        )
    dtype, batch = jnp.result_type(f, s), jnp.broadcast_shapes(f.shape[:-1], s.shape[:-1])
    at = jnp.arange(n - 1)
    return (
        jnp.zeros((*batch, n, n), dtype)
        .at[..., 0, :]
        .set(f.astype(dtype))
        .at[..., at + 1, at]
        .set(s.astype(dtype))
    )


def helmert(n: int, full: bool = False) -> Array:
    """The matrix whose rows contrast each of n levels with the mean of those before it:
    orthonormal; `full` puts the mean first.

    ->  float[n - 1, n], or float[n, n]. Raises ValueError if n is not positive.

    >>> helmert(2).round(3)
    Array([[ 0.707, -0.707]], dtype=float32)
    """
    if n <= 0:
        raise ValueError(f"helmert: n must be a positive integer, got {n}.")
    k = np.arange(1, n)[:, None]
    rows = (np.tril(np.ones((n - 1, n))) - k * np.eye(n - 1, n, 1)) / np.sqrt(k * (k + 1))
    return jnp.asarray(
        np.vstack([np.full((1, n), 1 / math.sqrt(n)), rows]) if full else rows, float
    )


def pascal(n: int, kind: str | None = None) -> Array:
    """The matrix of binomial coefficients, as floats: "symmetric" (by default) i + j over i,
    "lower" i over j, or "upper".

    Raises ValueError for another kind.

    >>> pascal(3, "lower")
    Array([[1., 0., 0.],
           [1., 1., 0.],
           [1., 2., 1.]], dtype=float32)
    """
    return _integers(n, _pascal("pascal", kind))


def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of `pascal`.

    >>> invpascal(2)
    Array([[ 2., -1.],
           [-1.,  1.]], dtype=float32)
    """
    of = _pascal("invpascal", kind)
    if kind in (None, "symmetric"):
        return _integers(
            n,
            lambda i, j: (
                (-1) ** (i + j)
                * sum(math.comb(k, i) * math.comb(k, j) for k in range(max(i, j), n))
            ),
        )
    return _integers(n, lambda i, j: (-1) ** (i + j) * of(i, j))


def invhilbert(n: int) -> Array:
    """The inverse of `hilbert`, whose elements are integers, as floats.

    >>> invhilbert(2)
    Array([[ 4., -6.],
           [-6., 12.]], dtype=float32)
    """

    def element(i: int, j: int) -> int:
        ways = math.comb(n + i, n - j - 1) * math.comb(n + j, n - i - 1) * math.comb(i + j, i) ** 2
        return (-1) ** (i + j) * (i + j + 1) * ways

    return _integers(n, element)


def _pascal(op: str, kind: str | None) -> Callable[[int, int], int]:
    """The elements of a matrix of Pascal."""
    kinds: dict[str | None, Callable[[int, int], int]] = {
        None: lambda i, j: math.comb(i + j, i),
        "lower": math.comb,
        "upper": lambda i, j: math.comb(j, i),
    }
    kinds["symmetric"] = kinds[None]
    if kind not in kinds:
        raise ValueError(
            f"{op}: Expected kind to be one of 'symmetric', 'lower' and 'upper', got {kind!r}."
        )
    return kinds[kind]


def _integers(n: int, element: Callable[[int, int], int]) -> Any:
    """The matrix of integers, exactly rounded to floats of the default dtype; infinite where too
    large."""

    def rounded(value: int) -> float:
        return float(value) if abs(value) < 2**1023 else math.inf if value > 0 else -math.inf

    elements = np.array([[rounded(element(i, j)) for j in range(n)] for i in range(n)]).reshape(
        n, n
    )
    with np.errstate(over="ignore"):
        return jnp.asarray(elements, float)
