"""Normal samples, by the inverse of the error function, and samples made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike, DTypeLike, Shape
from teucer._transform.library import library
from teucer.lax import _arithmetic as ops
from teucer.lax._conversion import stop_gradient
from teucer.lax._dot import dot_general
from teucer.lax._elementwise import exp, sqrt
from teucer.lax._functions.special import erf, erf_inv
from teucer.lax._selection import where_else
from teucer.lax._shapes import broadcast_shapes
from teucer.lax._structure import expand, reduce_sum
from teucer.lax.linalg._eigen import eigh
from teucer.lax.linalg._factor import cholesky
from teucer.lax.linalg._matrices import diagonal, matrix_transpose
from teucer.lax.linalg._qr import qr
from teucer.lax.linalg._svd import svd
from teucer.random._arguments import (
    agreed_shape,
    as_shape,
    broadcast_shape,
    cast,
    float_dtype,
    parameter,
    place,
    scalar,
    spread,
)
from teucer.random._keys import one_key
from teucer.random._uniform import between, signs, split_key

if TYPE_CHECKING:
    from teucer._core.typing import Value
    from teucer._devices.specs import OutSharding


@library(static=("shape", "dtype"))
def standard_normal(key: Array, *, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    """Normal reals, or complex numbers of variance 1, by inversion of the distribution function."""
    if dtypes.issubdtype(dtype, np.complexfloating):
        part = dtypes.to_floating_dtype(dtype)
        real, imaginary = (standard_normal(k, shape=shape, dtype=part) for k in split_key(key))
        return ops.div(ops.complex(real, imaginary), scalar(np.sqrt(2), dtype))
    low = scalar(np.nextafter(np.asarray(-1, dtype), np.asarray(0, dtype), dtype=dtype), dtype)
    u = between(key, low, scalar(1, dtype), shape=shape, dtype=dtype)
    return ops.mul(scalar(np.sqrt(2), dtype), erf_inv(u))


def normal(
    key: Value,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Normal samples of mean 0 and variance 1; complex ones have variance 1/2 in each part.

    dtype: a float or complex dtype.
    Raises ValueError for another dtype.

    >>> from teucer import random
    >>> random.normal(random.key(0), (2,))
    Array([1.6226422, 2.0252647], dtype=float32)
    """
    typed, _ = one_key("normal", key)
    wanted = float_dtype("normal", dtype, allow_complex=True)
    return place(
        standard_normal(typed, shape=as_shape("normal", shape), dtype=wanted), out_sharding
    )


@library(static=("shape", "dtype"))
def _truncated(
    key: Array, low: ArrayLike, high: ArrayLike, *, shape: tuple[int, ...], dtype: DTypeLike
) -> Any:
    low, high = spread(cast(low, dtype), shape), spread(cast(high, dtype), shape)
    root = scalar(np.sqrt(2), dtype)
    u = between(key, erf(ops.div(low, root)), erf(ops.div(high, root)), shape=shape, dtype=dtype)
    x = ops.mul(root, erf_inv(u))
    infinity = scalar(np.inf, dtype)
    # Rounding may put a sample on the bounds or outside.
    above, below = (
        ops.nextafter(stop_gradient(low), spread(infinity, shape)),
        ops.nextafter(stop_gradient(high), spread(-infinity, shape)),
    )
    return ops.min(ops.max(x, above), below)


def truncated_normal(
    key: Array,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Normal samples between lower and upper: a normal distribution cut off at both ends.

    lower, upper: floats that broadcast to the shape, which by default is theirs. Raises ValueError
    for a dtype that is no float, or shapes that do not broadcast.

    >>> from teucer import random
    >>> random.truncated_normal(random.key(0), -1, 1)
    Array(0.8..., dtype=float32)
    """
    typed, _ = one_key("truncated_normal", key)
    wanted = float_dtype("truncated_normal", dtype)
    size = broadcast_shape("truncated_normal", shape, lower, upper)
    return place(_truncated(typed, lower, upper, shape=size, dtype=wanted), out_sharding)


@library(static=("shape", "dtype"))
def _lognormal(key: Array, sigma: ArrayLike, *, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    return exp(
        ops.mul(standard_normal(key, shape=shape, dtype=dtype), spread(cast(sigma, dtype), shape))
    )


def lognormal(
    key: Array,
    sigma: ArrayLike = np.float32(1.0),
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Samples whose logarithm is normal, of mean 0 and standard deviation sigma.

    Raises ValueError for a dtype that is no float, or if sigma does not broadcast to the shape.

    >>> from teucer import random
    >>> random.lognormal(random.key(0))
    Array(5.0..., dtype=float32)
    """
    typed, _ = one_key("lognormal", key)
    wanted = float_dtype("lognormal", dtype)
    return place(
        _lognormal(typed, sigma, shape=broadcast_shape("lognormal", shape, sigma), dtype=wanted),
        out_sharding,
    )


@library(static=("shape", "dtype"))
def speeds(key: Array, *, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    """Lengths of normal vectors in three dimensions."""
    x = standard_normal(key, shape=(*shape, 3), dtype=dtype)
    return sqrt(reduce_sum(ops.mul(x, x), (len(shape),)))


def maxwell(
    key: Array,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Samples of the Maxwell distribution: the length of a vector of three normal components.

    >>> from teucer import random
    >>> random.maxwell(random.key(0)).shape
    ()
    """
    typed, _ = one_key("maxwell", key)
    wanted = float_dtype("maxwell", dtype)
    return place(speeds(typed, shape=as_shape("maxwell", shape), dtype=wanted), out_sharding)


@library(static=("shape", "dtype"))
def _double_sided_maxwell(
    key: Array, loc: ArrayLike, scale: ArrayLike, *, shape: tuple[int, ...], dtype: DTypeLike
) -> Any:
    first, second = split_key(key)
    speed, side = speeds(first, shape=shape, dtype=dtype), signs(second, shape=shape, dtype=dtype)
    return ops.add(
        ops.mul(ops.mul(side, speed), spread(cast(scale, dtype), shape)),
        spread(cast(loc, dtype), shape),
    )


def double_sided_maxwell(
    key: Array, loc: ArrayLike, scale: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = None
) -> Array:
    """Samples of the Maxwell distribution times scale, with a random sign, about loc.

    shape: of the sample for each element of loc and scale together, whose axes come behind it; ()
    means their shape.

    >>> from teucer import random
    >>> random.double_sided_maxwell(random.key(0), 1., 2., (2,)).shape
    (2,)
    """
    typed, _ = one_key("double_sided_maxwell", key)
    wanted = float_dtype("double_sided_maxwell", dtype)
    parameters = broadcast_shape("double_sided_maxwell", None, loc, scale)
    size = (as_shape("double_sided_maxwell", shape) or parameters) + parameters
    return _double_sided_maxwell(typed, loc, scale, shape=size, dtype=wanted)


@library(static=("shape", "dtype"))
def _wald(key: Array, mean: ArrayLike, *, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    first, second = split_key(key)
    mean = spread(cast(mean, dtype), shape)
    v = standard_normal(first, shape=shape, dtype=dtype)
    z = between(second, 0.0, 1.0, shape=shape, dtype=dtype)
    y = ops.integer_pow(v, 2)
    y2, mean2 = ops.integer_pow(y, 2), ops.integer_pow(mean, 2)
    two = scalar(2, dtype)
    root = sqrt(ops.add(ops.mul(ops.mul(scalar(4, dtype), mean), y), ops.mul(mean2, y2)))
    x = ops.sub(ops.add(mean, ops.div(ops.mul(mean2, y), two)), ops.mul(ops.div(mean, two), root))
    return where_else(ops.le(z, ops.div(mean, ops.add(mean, x))), x, ops.div(mean2, x))


def wald(
    key: Array,
    mean: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Samples of the Wald (inverse Gaussian) distribution of the given mean and scale 1.

    >>> from teucer import random
    >>> random.wald(random.key(0), 2., (3,)).shape
    (3,)

    Method: Michael, Schucany & Haas, The American Statistician 30 (1976) 88.
    """
    typed, _ = one_key("wald", key)
    wanted = float_dtype("wald", dtype)
    return place(
        _wald(typed, mean, shape=broadcast_shape("wald", shape, mean), dtype=wanted), out_sharding
    )


@library(static=("shape", "dtype", "method"))
def _multivariate(
    key: Array, mean: ArrayLike, cov: Any, *, shape: tuple[int, ...], dtype: DTypeLike, method: str
) -> Any:
    mean, cov = cast(mean, dtype), cast(cov, dtype)
    if method == "svd":
        u, s, _ = svd(cov)
        factor = _scaled(u, sqrt(s))
    elif method == "eigh":
        v, w = eigh(cov)
        factor = _scaled(v, sqrt(w))
    else:
        factor = cholesky(cov)
    n = np.shape(mean)[-1]
    normals = standard_normal(key, shape=(*shape, n), dtype=dtype)
    return ops.add(spread(mean, (*shape, n)), _transformed(factor, normals))


def _scaled(vectors: Array, roots: Any) -> Any:
    """The columns of a matrix times numbers."""
    return ops.mul(vectors, expand(roots, np.shape(vectors)[-2], np.ndim(roots) - 1))


def _transformed(factor: Any, x: ArrayLike) -> Any:
    """factor @ x for each vector of x; the axes of factor before the last two go with the last ones
    of x before the vectors'."""
    dtype = typeof(x).dtype
    if np.ndim(factor) == 2:
        return dot_general(
            x, factor, (((np.ndim(x) - 1,), (1,)), ((), ())), preferred_element_type=dtype
        )
    batch = broadcast_shapes(np.shape(factor)[:-2], np.shape(x)[:-1])
    n = np.shape(x)[-1]
    axes = tuple(range(len(batch)))
    return dot_general(
        spread(factor, (*batch, n, n)),
        spread(x, (*batch, n)),
        (((len(axes) + 1,), (len(axes),)), (axes, axes)),
        preferred_element_type=dtype,
    )


def multivariate_normal(
    key: Array,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    method: str = "cholesky",
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Normal vectors of a given mean and covariance.

    mean: T[..., n]. cov: T[..., n, n]; `method` finds a root of it: "cholesky" for
    positive definite ones, "eigh" or "svd" for semidefinite ones too. shape: of the sample, without
    the axis of the vectors. Raises ValueError if the shapes do not agree, or for another method.

    >>> from teucer import random
    >>> random.multivariate_normal(random.key(0), np.zeros(2), np.eye(2), (3,)).shape
    (3, 2)
    """
    typed, _ = one_key("multivariate_normal", key)
    if method not in ("svd", "eigh", "cholesky"):
        raise ValueError("method must be one of {'svd', 'eigh', 'cholesky'}")
    given = [parameter("multivariate_normal", x, i) for i, x in enumerate((mean, cov))]
    wanted = float_dtype(
        "multivariate_normal",
        dtypes.to_inexact_dtype(dtypes.result_type(*given)) if dtype is None else dtype,
    )
    if np.ndim(mean) < 1:
        raise ValueError(
            f"multivariate_normal requires mean.ndim >= 1, got mean.ndim == {np.ndim(mean)}"
        )
    if np.ndim(cov) < 2:
        raise ValueError(
            f"multivariate_normal requires cov.ndim >= 2, got cov.ndim == {np.ndim(cov)}"
        )
    n = np.shape(mean)[-1]
    if np.shape(cov)[-2:] != (n, n):
        raise ValueError(
            f"multivariate_normal requires cov.shape == (..., n, n) for n={n}, but got cov.shape "
            f"== {np.shape(cov)}."
        )
    size = agreed_shape("multivariate_normal", shape, [np.shape(mean)[:-1], np.shape(cov)[:-2]])
    return place(
        _multivariate(typed, mean, cov, shape=size, dtype=wanted, method=method), out_sharding
    )


@library(static=("n", "m", "shape", "dtype"))
def _orthogonal(key: Array, *, n: int, m: int, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    z = standard_normal(key, shape=(*shape, n if n > m else m, n if n < m else m), dtype=dtype)
    q, r = qr(z, full_matrices=False)
    # The decomposition is unique, and its factor uniformly distributed, only once the phases of r's
    # diagonal are fixed.
    phases = ops.sign(diagonal(r))
    q = ops.mul(q, expand(phases, np.shape(q)[-2], len(shape)))
    return matrix_transpose(q) if n < m else q


def orthogonal(
    key: Array,
    n: int,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    m: int | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Matrices uniformly distributed among the orthogonal ones, or unitary ones for a complex
    dtype.

    n, m: rows and columns, m = n by default. Of another shape, the shorter side's rows or columns
    are orthonormal.
    Raises ValueError for a negative size or a dtype that is neither float nor complex.

    >>> from teucer import random
    >>> random.orthogonal(random.key(0), 3).shape
    (3, 3)

    Method: Mezzadri, Notices of the AMS 54 (2007) 592.
    """
    typed, _ = one_key("orthogonal", key)
    columns = n if m is None else m
    if n < 0 or columns < 0:
        raise ValueError(f"orthogonal: negative dimensions are not allowed, got {n} and {m}")
    wanted = float_dtype("normal", dtype, allow_complex=True)
    return place(
        _orthogonal(typed, n=n, m=columns, shape=as_shape("orthogonal", shape), dtype=wanted),
        out_sharding,
    )
