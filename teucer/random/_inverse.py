"""Samples by inversion: a distribution's quantile function of a uniform sample.

Devroye, Non-Uniform Random Variate Generation, Springer 1986, chapter II.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import config, dtypes
from teucer._core.typing import Array, ArrayLike, DTypeLike, Shape
from teucer._transform.library import library
from teucer.lax._arithmetic import abs, add, div, eq, floor, ge, lt, mul, neg, sign, sub
from teucer.lax._elementwise import exp, log, log1p, pow, sqrt, tan
from teucer.lax._selection import where_else
from teucer.lax._slicing import index_in_dim
from teucer.random._arguments import (
    agreed_shape,
    as_shape,
    broadcast_shape,
    cast,
    float_dtype,
    int_dtype,
    place,
    scalar,
    spread,
)
from teucer.random._keys import one_key
from teucer.random._uniform import between

if TYPE_CHECKING:
    from teucer._devices.specs import OutSharding


def _minus_log(u: Array) -> Any:
    """-log(1 - u)."""
    return neg(log1p(neg(u)))


@library(static=("shape", "dtype"))
def standard_exponential(key: Array, *, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    return _minus_log(between(key, 0.0, 1.0, shape=shape, dtype=dtype))


def exponential(
    key: Array,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Samples of the exponential distribution of mean 1.

    >>> from teucer import random
    >>> random.exponential(random.key(0))
    Array(2.9..., dtype=float32)
    """
    typed, _ = one_key("exponential", key)
    wanted = float_dtype("exponential", dtype)
    return place(
        standard_exponential(typed, shape=as_shape("exponential", shape), dtype=wanted),
        out_sharding,
    )


@library(static=("shape", "dtype"))
def _cauchy(key: Array, *, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    u = between(key, scalar(dtypes.finfo(dtype).eps, dtype), 1.0, shape=shape, dtype=dtype)
    return tan(mul(scalar(np.pi, dtype), sub(u, scalar(0.5, dtype))))


def cauchy(
    key: Array,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Samples of the Cauchy distribution.

    >>> from teucer import random
    >>> random.cauchy(random.key(0), (2,)).shape
    (2,)
    """
    typed, _ = one_key("cauchy", key)
    wanted = float_dtype("cauchy", dtype)
    return place(_cauchy(typed, shape=as_shape("cauchy", shape), dtype=wanted), out_sharding)


@library(static=("shape", "dtype"))
def _laplace(key: Array, *, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    u = between(key, scalar(-1 + dtypes.finfo(dtype).epsneg, dtype), 1.0, shape=shape, dtype=dtype)
    return mul(sign(u), log1p(neg(abs(u))))


def laplace(
    key: Array,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Samples of the Laplace distribution: exponential ones with a random sign.

    >>> from teucer import random
    >>> random.laplace(random.key(0), (2,)).shape
    (2,)
    """
    typed, _ = one_key("laplace", key)
    wanted = float_dtype("laplace", dtype)
    return place(_laplace(typed, shape=as_shape("laplace", shape), dtype=wanted), out_sharding)


@library(static=("shape", "dtype"))
def _logistic(key: Array, *, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    u = between(key, scalar(dtypes.finfo(dtype).tiny, dtype), 1.0, shape=shape, dtype=dtype)
    return sub(log(u), log1p(neg(u)))


def logistic(
    key: Array,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Samples of the logistic distribution.

    >>> from teucer import random
    >>> random.logistic(random.key(0), (2,)).shape
    (2,)
    """
    typed, _ = one_key("logistic", key)
    wanted = float_dtype("logistic", dtype)
    return place(_logistic(typed, shape=as_shape("logistic", shape), dtype=wanted), out_sharding)


@library(static=("shape", "dtype", "precise"))
def standard_gumbel(
    key: Array, *, shape: tuple[int, ...], dtype: DTypeLike, precise: bool = False
) -> Any:
    limits = dtypes.finfo(dtype)
    tiny = scalar(limits.tiny, dtype)
    if not precise:
        return neg(log(neg(log(between(key, tiny, 1.0, shape=shape, dtype=dtype)))))
    # Small samples are refined by the bits of a second one, so that the tail of large results is
    # right.
    both = between(key, 0.0, 1.0, shape=(2, *shape), dtype=dtype)
    coarse, fine = index_in_dim(both, 0, 0, False), index_in_dim(both, 1, 0, False)
    refined = add(add(coarse, mul(scalar(limits.eps, dtype), fine)), tiny)
    return neg(log(_minus_log(where_else(ge(coarse, scalar(0.5, dtype)), coarse, refined))))


def gumbel(
    key: Array,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    mode: str | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Samples of the Gumbel distribution.

    mode: "low", or "high" for a tail of large values as precise as floats allow; None means "low"
    unless the option jax_high_dynamic_range_gumbel says otherwise.
    Raises ValueError for another mode, or a dtype that is no float.

    >>> from teucer import random
    >>> random.gumbel(random.key(0), (2,)).shape
    (2,)
    """
    typed, _ = one_key("gumbel", key)
    wanted = float_dtype("gumbel", dtype)
    return place(
        standard_gumbel(
            typed, shape=as_shape("gumbel", shape), dtype=wanted, precise=is_precise(mode)
        ),
        out_sharding,
    )


def is_precise(mode: object) -> bool:
    """Whether a `mode` is the precise one."""
    if mode is None:
        return bool(config.high_dynamic_range_gumbel.value)
    if mode not in ("low", "high"):
        raise ValueError(f"Must provide valid mode for gumbel got: {mode}")
    return bool(mode == "high")


@library(static=("shape", "dtype"))
def _pareto(key: Array, b: ArrayLike, *, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    return exp(
        div(standard_exponential(key, shape=shape, dtype=dtype), spread(cast(b, dtype), shape))
    )


def pareto(
    key: Array,
    b: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Samples of the Pareto distribution of shape b on [1, inf): density b / x**(b + 1).

    >>> from teucer import random
    >>> random.pareto(random.key(0), 2., (2,)).shape
    (2,)
    """
    typed, _ = one_key("pareto", key)
    wanted = float_dtype("pareto", dtype)
    return place(
        _pareto(typed, b, shape=broadcast_shape("pareto", shape, b), dtype=wanted), out_sharding
    )


@library(static=("shape", "dtype"))
def _rayleigh(key: Array, scale: ArrayLike, *, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    u = between(key, 0.0, 1.0, shape=shape, dtype=dtype)
    return mul(spread(cast(scale, dtype), shape), sqrt(mul(log(u), scalar(-2, dtype))))


def rayleigh(
    key: Array,
    scale: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Samples of the Rayleigh distribution: the length of a vector of two normal components of
    deviation scale.

    >>> from teucer import random
    >>> random.rayleigh(random.key(0), 2., (2,)).shape
    (2,)
    """
    typed, _ = one_key("rayleigh", key)
    wanted = float_dtype("rayleigh", dtype)
    return place(
        _rayleigh(typed, scale, shape=broadcast_shape("rayleigh", shape, scale), dtype=wanted),
        out_sharding,
    )


@library(static=("shape", "dtype"))
def _weibull(
    key: Array,
    scale: ArrayLike,
    concentration: ArrayLike,
    *,
    shape: tuple[int, ...],
    dtype: DTypeLike,
) -> Any:
    scale, concentration = (spread(cast(x, dtype), shape) for x in (scale, concentration))
    return mul(
        pow(
            standard_exponential(key, shape=shape, dtype=dtype),
            div(scalar(1, dtype), concentration),
        ),
        scale,
    )


def weibull_min(
    key: Array,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """Samples of the Weibull distribution: scale * exponential**(1 / concentration).

    >>> from teucer import random
    >>> random.weibull_min(random.key(0), 1., 2., (2,)).shape
    (2,)
    """
    typed, _ = one_key("weibull_min", key)
    wanted = float_dtype("weibull_min", dtype)
    size = as_shape("weibull_min", shape)
    # One sample serves all elements of parameters that have more axes than the shape.
    full = agreed_shape(
        "weibull_min", None, [size, broadcast_shape("weibull_min", None, scale, concentration)]
    )
    if full != size:
        return _weibull_shared(typed, scale, concentration, size=size, shape=full, dtype=wanted)
    return _weibull(typed, scale, concentration, shape=size, dtype=wanted)


@library(static=("size", "shape", "dtype"))
def _weibull_shared(
    key: Array,
    scale: ArrayLike,
    concentration: ArrayLike,
    *,
    size: tuple[int, ...],
    shape: tuple[int, ...],
    dtype: DTypeLike,
) -> Any:
    scale, concentration = (spread(cast(x, dtype), shape) for x in (scale, concentration))
    sample = spread(standard_exponential(key, shape=size, dtype=dtype), shape)
    return mul(pow(sample, div(scalar(1, dtype), concentration)), scale)


@library(static=("shape", "dtype"))
def _triangular(
    key: Any, left: Any, mode: Any, right: Any, *, shape: tuple[int, ...], dtype: Any
) -> Any:
    left, mode, right = (spread(cast(x, dtype), shape) for x in (left, mode, right))
    u = between(key, 0.0, 1.0, shape=shape, dtype=dtype)
    width, rise, fall = sub(right, left), sub(mode, left), sub(right, mode)
    rising = add(left, sqrt(mul(mul(u, width), rise)))
    falling = sub(right, sqrt(mul(mul(sub(scalar(1, dtype), u), width), fall)))
    return where_else(lt(u, div(rise, width)), rising, falling)


def triangular(
    key: Any,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Samples of the triangular distribution on [left, right], with its peak at mode.

    >>> from teucer import random
    >>> random.triangular(random.key(0), 0., 0.2, 1., (2,)).shape
    (2,)
    """
    typed, _ = one_key("triangular", key)
    wanted = float_dtype("triangular", dtype)
    size = broadcast_shape("triangular", shape, left, mode, right)
    return place(_triangular(typed, left, mode, right, shape=size, dtype=wanted), out_sharding)


@library(static=("shape", "dtype"))
def _geometric(key: Array, p: ArrayLike, *, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    real = dtypes.canonicalize_dtype(float)
    p = spread(cast(p, real), shape)
    u = between(key, 0.0, 1.0, shape=shape, dtype=real)
    one = scalar(1, real)
    # log(1) = 0 stands for the log of 0, which no sample should be.
    u = where_else(eq(u, scalar(0, real)), one, u)
    return cast(add(floor(div(log(u), log1p(neg(p)))), one), dtype)


def geometric(
    key: Array,
    p: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Numbers of trials up to the first success, each of probability p: 1, 2, ...

    dtype: an integer. Raises ValueError for another dtype, or if p does not broadcast to the shape.

    >>> from teucer import random
    >>> random.geometric(random.key(0), 0.5, (2,)).shape
    (2,)
    """
    typed, _ = one_key("geometric", key)
    wanted = int_dtype("geometric", dtype)
    return place(
        _geometric(typed, p, shape=broadcast_shape("geometric", shape, p), dtype=wanted),
        out_sharding,
    )
