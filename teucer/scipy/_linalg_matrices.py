"""Special matrices."""

from __future__ import annotations

import math
import operator

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._core.typing import Array, ArrayLike, DTypeLike
from teucer._dimensions.dimensions import as_size, is_symbolic, max_dim
from teucer.numpy._library import fast
from teucer.numpy._operands import positions
from teucer.numpy._promotion import check_arraylike
from teucer.scipy._operands import matrices


@fast
def block_diag(*arrs: ArrayLike) -> Array:
    """A matrix with the given matrices on its diagonal and zeros elsewhere; vectors are rows.

    Raises ValueError for an array of more than two axes.

    >>> block_diag(1, jnp.array([[2, 3]]))
    Array([[1, 0, 0],
           [0, 2, 3]], dtype=int32)
    """
    blocks = [jnp.atleast_2d(x) for x in (arrs or (jnp.zeros((1, 0)),))]
    for i, x in enumerate(blocks):
        if x.ndim > 2:
            raise ValueError(
                f"Arguments to jax.scipy.linalg.block_diag must have at most 2 dimensions, got "
                f"{x.aval.str_short(True)} at argument {i}."
            )
    dtype = jnp.result_type(*blocks)
    width, at, rows = sum(x.shape[1] for x in blocks), 0, []
    for x in blocks:
        rows.append(
            lax.pad(
                x.astype(dtype), jnp.zeros((), dtype), ((0, 0, 0), (at, width - at - x.shape[1], 0))
            )
        )
        at += x.shape[1]
    return jnp.concatenate(rows, axis=0)


def _strong(x: ArrayLike) -> Array:
    """x, not weakly typed."""
    return jnp.asarray(x, jnp.asarray(x).dtype)


@fast
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix with constant diagonals whose first column is c and first row r, by default c's
    conjugate; r[0] is not used.

    >>> toeplitz(jnp.array([1, 2]), jnp.array([0, 3, 4]))
    Array([[1, 3, 4],
           [2, 1, 3]], dtype=int32)
    """
    check_arraylike("toeplitz", c, *(() if r is None else (r,)))
    c = _strong(jnp.atleast_1d(c))
    r = jnp.conj(c) if r is None else _strong(jnp.atleast_1d(r))
    m, n = c.shape[-1], r.shape[-1]
    batch = jnp.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    c, r = (jnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (c, r))
    # Diagonals from the lower left corner to the upper right one.
    diagonals = jnp.concatenate([jnp.flip(c, -1), r[..., 1:]], axis=-1)
    return jnp.take(diagonals, m - 1 - jnp.arange(m)[:, None] + jnp.arange(n)[None, :], axis=-1)


@fast
def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix with constant antidiagonals whose first column is c and last row r, by default
    zeros; r[0] is not used.

    >>> hankel(jnp.array([1, 2]), jnp.array([0, 3]))
    Array([[1, 2],
           [2, 3]], dtype=int32)
    """
    c = jnp.atleast_1d(c)
    r = jnp.zeros_like(c) if r is None else jnp.atleast_1d(r)
    m, n = c.shape[-1], r.shape[-1]
    batch = jnp.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    c, r = (jnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (c, r))
    return jnp.take(
        jnp.concatenate([c, r[..., 1:]], axis=-1),
        jnp.arange(m)[:, None] + jnp.arange(n)[None, :],
        axis=-1,
    )


@fast
def circulant(c: ArrayLike) -> Array:
    """The matrix whose columns are c, each shifted down by one against the one before.

    >>> circulant(jnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    c = jnp.atleast_1d(c)
    places = positions(c.shape[-1])
    return jnp.take(c, (places[:, None] - places[None, :]) % max_dim(c.shape[-1], 1), axis=-1)


@fast
def companion(a: ArrayLike) -> Array:
    """The matrix whose eigenvalues are the roots of the polynomial with coefficients a, the highest
    first.

    Raises ValueError for fewer than two coefficients.

    >>> companion(jnp.array([1., -3., 2.]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    (a,) = matrices("companion", jnp.asarray(a))
    if a.ndim < 1 or a.shape[-1] < 2:
        raise ValueError(
            "companion: the length of `a` along the last axis must be at least 2.\n"
            f"    a: {a.aval.str_short(True)}"
        )
    first = -a[..., 1:] / a[..., :1]
    n = first.shape[-1]
    rest = jnp.broadcast_to(jnp.eye(n - 1, n, dtype=first.dtype), (*first.shape[:-1], n - 1, n))
    return jnp.concatenate([first[..., None, :], rest], axis=-2)


def hilbert(n: int) -> Array:
    """The matrix of 1 / (i + j + 1).

    >>> hilbert(2)
    Array([[1.        , 0.5       ],
           [0.5       , 0.33333334]], dtype=float32)
    """
    places = positions(as_size(n))
    return jnp.asarray(1 / (places[:, None] + places[None, :] + 1.0))


def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """Sylvester's matrix of 1 and -1 with orthogonal rows, of size n, a power of 2.

    Raises ValueError for another n.

    >>> hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    n = operator.index(n)
    if n < 1 or n & (n - 1):
        raise ValueError(f"hadamard: n must be a positive power of 2, got {n}.")
    matrix = np.ones((1, 1))
    for _ in range(n.bit_length() - 1):
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return jnp.asarray(matrix, dtype)


def dft(n: int, scale: str | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """The matrix of the discrete Fourier transform; scale: None, 'sqrtn' (unitary) or 'n'.

    Raises ValueError for another scale, and for a dtype that is not complex.

    >>> dft(1)
    Array([[1.+0.j]], dtype=complex64)
    """
    n = as_size(n)
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"dft: scale must be None, 'sqrtn', or 'n'; got {scale!r}.")
    if dtype is not None and not jnp.issubdtype(dtype, np.complexfloating):
        raise ValueError(f"dft: dtype must be complex, got {dtype!r}.")
    if is_symbolic(n):
        places = positions(n)
        matrix = jnp.exp(-2j * np.pi * (places[:, None] * places % n / n))
        return jnp.asarray(
            matrix if scale is None else matrix / (jnp.sqrt(n * 1.0) if scale == "sqrtn" else n),
            dtype,
        )
    turns = np.outer(np.arange(n), np.arange(n)) % max(n, 1) / max(n, 1)
    divisor = {None: 1.0, "sqrtn": math.sqrt(n), "n": float(n)}[scale]
    return jnp.asarray(np.exp(-2j * np.pi * turns) / divisor, dtype)
