"""Samples of the gamma distribution, and of distributions made of it.

Beta, Dirichlet, chi-square, F, Student's t, balls.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import config, dtypes
from teucer._core import array_ops, dialects
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._core.typing import Array, ArrayLike, DTypeLike, Shape
from teucer._devices import partition
from teucer._transform.library import library
from teucer._transform.vmap import vmap
from teucer.lax import _arithmetic as ops
from teucer.lax import map, while_loop
from teucer.lax._conversion import stop_gradient
from teucer.lax._elementwise import exp, log, pow, sqrt
from teucer.lax._functions.special import random_gamma_grad
from teucer.lax._random_keys import as_drawn, key_impl, random_split_p
from teucer.lax._reductions import reduce_max
from teucer.lax._selection import where_else
from teucer.lax._structure import expand, reduce_sum, reshape
from teucer.random._arguments import (
    agreed_shape,
    as_shape,
    broadcast_shape,
    cast,
    exact_only,
    float_dtype,
    parameter,
    place,
    scalar,
    spread,
)
from teucer.random._inverse import standard_exponential
from teucer.random._keys import one_key
from teucer.random._normal import standard_normal
from teucer.random._rbg import rbg, unsafe_rbg
from teucer.random._uniform import between, signs, split_key

if TYPE_CHECKING:
    from teucer._core.typing import Value
    from teucer._devices.specs import OutSharding


@final
class RandomGamma(Primitive):
    """A sample of the gamma distribution of each alpha, or with log_space its logarithm.

    (C1) alpha is a float.  (C2) the axes of the keys are the first ones of alpha; a key serves the
    rest.
    """

    __slots__ = ()
    name = "random_gamma"

    def types(
        self, keys: ShapedArray, alpha: Any, *, log_space: bool, partitionable: bool = True
    ) -> Any:
        key_impl(keys, "random_gamma")
        if not dtypes.issubdtype(alpha.dtype, np.floating):
            raise TypeError(f"random_gamma: alpha must be a float, got {alpha}.")
        if alpha.shape[: keys.ndim] != keys.shape:
            raise TypeError(
                f"random_gamma: the axes of the keys must be the first ones of alpha, got {keys}, "
                f"{alpha}."
            )
        return (ShapedArray(alpha.shape, alpha.dtype),)

    shard = partition.aligned

    @dialects.on_keys.rule
    def on_keys(
        self, ctx: Any, keys: Any, alpha: Any, *, log_space: bool, partitionable: bool = True
    ) -> Any:
        # The generators of XLA draw for a batch of keys from the first of them; on CPU each sample
        # is drawn alone.
        alone = ctx.target.draws_alone and key_impl(keys.aval, "random_gamma") in (rbg, unsafe_rbg)
        with config.threefry_partitionable(partitionable):
            return ctx.trace(lambda k, a: (_each(k, a, log_space, alone),), keys, alpha)

    def jvp(self, primals: Any, tangents: Any, *, log_space: bool, **params: bool) -> Any:
        keys, alpha = primals
        moving = tangents[1]
        outs = self.call(keys, alpha, log_space=log_space, **params)
        (y,) = outs
        if type(moving) is Zero:
            return outs, (typeof(y).zero,)
        if not log_space:
            return outs, (ops.mul(moving, random_gamma_grad(alpha, y)),)
        # A sample too small for a float has the slope of the smallest one.
        sample = ops.max(exp(y), scalar(dtypes.finfo(typeof(y).dtype).tiny, typeof(y).dtype))
        return outs, (ops.mul(moving, ops.div(random_gamma_grad(alpha, sample), sample)),)

    def batch(self, axis: Any, args: Any, dims: Any, **params: bool) -> Any:
        operands = (array_ops.to_axis(x, d, axis.size, 0) for x, d in zip(args, dims, strict=True))
        return self.call(*operands, **params), (0,)

    @dialects.padded.rule
    def padded(
        self, sizes: Any, args: Any, avals: Any, outs: Any, *, log_space: bool, **params: bool
    ) -> Any:
        (keys, alpha), (out,) = avals, outs
        if not params.get("partitionable", True) or not key_impl(keys, "random_gamma").counts():
            sizes.refuse("the generator's numbers depend on how many are drawn")
        # The padding behind the elements is drawn as well, for a = 1, which rejects few numbers.
        (own,) = random_split_p.padded(
            sizes,
            args[:1],
            (keys,),
            (keys.update(shape=out.shape),),
            shape=out.shape[keys.ndim :],
            **params,
        )
        return (_samples(own, sizes.mask(args[1], alpha, 1), log_space, alone=False),)


random_gamma_p = RandomGamma()


def _each(keys: Array, alpha: Any, log_space: bool, alone: bool) -> Any:
    """A sample for each alpha; a key is split for the alphas that it serves."""
    own = random_split_p.call(
        keys, shape=(prod(np.shape(alpha)[typeof(keys).ndim :]),), **as_drawn()
    )[0]
    return _samples(own, alpha, log_space, alone)


def _samples(own: Any, alpha: Any, log_space: bool, alone: bool) -> Any:
    """A sample of each alpha, from a key of its own, one after another if they are drawn alone."""
    size = prod(np.shape(alpha))
    if size == 0:
        return alpha
    operands = reshape(own, (size,)), reshape(alpha, (size,))
    if alone:
        samples = map(lambda pair: _one(pair[0], pair[1], log_space), operands)
    else:
        samples = vmap(lambda k, a: _one(k, a, log_space))(*operands)
    return reshape(samples, np.shape(alpha))


def _one(key: Value, alpha: ArrayLike, log_space: bool) -> Any:
    """One sample, or its logarithm: Marsaglia & Tsang, ACM Trans. Math. Softw. 26 (2000) 363.

    alpha < 1 takes a sample of alpha + 1 times u**(1/alpha): section 6 there.
    """
    dtype = typeof(alpha).dtype
    one, zero, half = scalar(1, dtype), scalar(0, dtype), scalar(0.5, dtype)
    third, squeeze = scalar(1 / 3, dtype), scalar(0.0331, dtype)
    large = ops.ge(alpha, one)
    d = ops.sub(where_else(large, alpha, ops.add(alpha, one)), third)
    c = ops.div(third, sqrt(d))
    key, boost_key = split_key(key)

    def rejected(state: Any) -> Any:
        _, x2, v, u = state
        bound = ops.add(ops.mul(x2, half), ops.mul(d, ops.add(ops.sub(one, v), log(v))))
        return ops.bitwise_and(
            ops.ge(u, ops.sub(one, ops.mul(squeeze, ops.mul(x2, x2)))), ops.ge(log(u), bound)
        )

    def draw(state: Any) -> Any:
        key, x_key, u_key = split_key(state[0], 3)
        x, v = _positive_cube_root(x_key, c)
        u = between(u_key, 0.0, 1.0, shape=(), dtype=dtype)
        return key, ops.mul(x, x), ops.mul(ops.mul(v, v), v), u

    # The initial values are such that the loop is entered.
    _, _, v, _ = while_loop(rejected, draw, (key, zero, one, scalar(2, dtype)))
    if log_space:
        log_boost = ops.neg(standard_exponential(boost_key, shape=(), dtype=dtype))
        # As the uniform sample may be 0 in the one form, so may its logarithm in the other.
        boost = where_else(
            ops.bitwise_or(large, ops.eq(log_boost, zero)),
            zero,
            ops.mul(log_boost, ops.div(one, alpha)),
        )
        return ops.add(ops.add(log(d), log(v)), boost)
    u = ops.sub(one, between(boost_key, 0.0, 1.0, shape=(), dtype=dtype))
    return ops.mul(ops.mul(d, v), where_else(large, one, pow(u, ops.div(one, alpha))))


def _positive_cube_root(key: Any, c: Any) -> Any:
    """A normal x with 1 + c x > 0, and 1 + c x."""
    dtype = typeof(c).dtype
    zero, one = scalar(0, dtype), scalar(1, dtype)

    def draw(state: Any) -> Any:
        key, sub_key = split_key(state[0])
        x = standard_normal(sub_key, shape=(), dtype=dtype)
        return key, x, ops.add(one, ops.mul(x, c))

    return while_loop(lambda state: ops.le(state[2], zero), draw, (key, zero, ops.neg(one)))[1:]


@library(static=("shape", "dtype", "log_space"))
def standard_gamma(
    key: Any, alpha: Any, *, shape: tuple[int, ...], dtype: Any, log_space: bool = False
) -> Any:
    """Samples of the gamma distribution of scale 1, or their logarithms."""
    return random_gamma_p.call(
        key, spread(cast(alpha, dtype), shape), log_space=log_space, **as_drawn()
    )[0]


def gamma(
    key: Array,
    a: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    method: str = "exact",
    out_sharding: OutSharding = None,
) -> Array:
    """Samples of the gamma distribution of shape a and scale 1, differentiable in a.

    a: positive floats; shape: by default the shape of a. method: 'exact', the only one that there
    is.
    Raises ValueError for a dtype that is no float, or if a does not broadcast to the shape.

    >>> from teucer import random
    >>> random.gamma(random.key(0), 2., (3,)).shape
    (3,)

    Method: Marsaglia & Tsang, ACM Trans. Math. Softw. 26 (2000) 363; the derivative is implicit,
    Figurnov, Mohamed & Mnih, arXiv:1805.08498.
    """
    exact_only("gamma", method)
    typed, _ = one_key("gamma", key)
    wanted = float_dtype("gamma", dtype)
    return place(
        standard_gamma(typed, a, shape=broadcast_shape("gamma", shape, a), dtype=wanted),
        out_sharding,
    )


def loggamma(
    key: Array,
    a: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    method: str = "exact",
    out_sharding: OutSharding = None,
) -> Array:
    """Logarithms of samples of the gamma distribution; precise where a is so small that the samples
    would be 0.

    >>> from teucer import random
    >>> random.loggamma(random.key(0), 1e-3).shape
    ()
    """
    exact_only("loggamma", method)
    typed, _ = one_key("loggamma", key)
    wanted = float_dtype("loggamma", dtype)
    shape = broadcast_shape("loggamma", shape, a)
    return place(standard_gamma(typed, a, shape=shape, dtype=wanted, log_space=True), out_sharding)


@library(static=("shape", "dtype"))
def _beta(
    key: Array, a: ArrayLike, b: ArrayLike, *, shape: tuple[int, ...], dtype: DTypeLike
) -> Any:
    first, second = split_key(key)
    log_a = standard_gamma(first, a, shape=shape, dtype=dtype, log_space=True)
    log_b = standard_gamma(second, b, shape=shape, dtype=dtype, log_space=True)
    largest = ops.max(log_a, log_b)
    part_a, part_b = exp(ops.sub(log_a, largest)), exp(ops.sub(log_b, largest))
    return ops.div(part_a, ops.add(part_a, part_b))


def beta(
    key: Array,
    a: ArrayLike,
    b: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    method: str = "exact",
    out_sharding: OutSharding = None,
) -> Array:
    """Samples of the beta distribution: x / (x + y) for gamma samples x and y of shapes a and b.

    >>> from teucer import random
    >>> random.beta(random.key(0), 2., 3., (2,)).shape
    (2,)
    """
    exact_only("beta", method)
    typed, _ = one_key("beta", key)
    wanted = float_dtype("beta", dtype)
    return place(
        _beta(typed, a, b, shape=broadcast_shape("beta", shape, a, b), dtype=wanted), out_sharding
    )


@library(static=("shape", "dtype"))
def _dirichlet(key: Array, alpha: ArrayLike, *, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    logs = standard_gamma(key, alpha, shape=shape, dtype=dtype, log_space=True)
    last = len(shape) - 1
    parts = exp(ops.sub(logs, expand(stop_gradient(reduce_max(logs, (last,))), shape[-1], last)))
    return ops.div(parts, expand(reduce_sum(parts, (last,)), shape[-1], last))


def dirichlet(
    key: Array,
    alpha: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Samples of the Dirichlet distribution: vectors of positive numbers with sum 1.

    alpha: floats[..., n]; shape: of the sample, without the axis of the vectors.
    Raises ValueError if alpha has no axes or does not broadcast to the shape.

    >>> from teucer import random
    >>> random.dirichlet(random.key(0), np.ones(3, "float32"), (2,)).shape
    (2, 3)
    """
    typed, _ = one_key("dirichlet", key)
    wanted = float_dtype("dirichlet", dtype)
    own = typeof(parameter("dirichlet", alpha, 1)).shape
    if not own:
        raise ValueError("dirichlet requires alpha.ndim >= 1, got alpha.ndim == 0")
    size = agreed_shape("dirichlet", shape, [own[:-1]])
    return place(_dirichlet(typed, alpha, shape=(*size, own[-1]), dtype=wanted), out_sharding)


@library(static=("shape", "dtype"))
def _chisquare(key: Array, df: Any, *, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    two = scalar(2, dtype)
    return ops.mul(
        exp(
            standard_gamma(
                key, ops.div(cast(df, dtype), two), shape=shape, dtype=dtype, log_space=True
            )
        ),
        two,
    )


def chisquare(
    key: Array,
    df: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    method: str = "exact",
    out_sharding: OutSharding = None,
) -> Array:
    """Samples of the chi-square distribution with df degrees of freedom.

    >>> from teucer import random
    >>> random.chisquare(random.key(0), 3., (2,)).shape
    (2,)
    """
    exact_only("chisquare", method)
    typed, _ = one_key("chisquare", key)
    wanted = float_dtype("chisquare", dtype)
    return place(
        _chisquare(typed, df, shape=broadcast_shape("chisquare", shape, df), dtype=wanted),
        out_sharding,
    )


@library(static=("shape", "dtype"))
def _f(key: Array, dfnum: Any, dfden: Any, *, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    below_key, above_key = split_key(key)
    dfnum, dfden = cast(dfnum, dtype), cast(dfden, dtype)
    above = _chisquare(above_key, dfnum, shape=shape, dtype=dtype)
    below = _chisquare(below_key, dfden, shape=shape, dtype=dtype)
    return ops.div(ops.div(above, spread(dfnum, shape)), ops.div(below, spread(dfden, shape)))


def f(
    key: Array,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Samples of the F distribution with dfnum and dfden degrees of freedom.

    >>> from teucer import random
    >>> random.f(random.key(0), 2., 3., (2,)).shape
    (2,)
    """
    typed, _ = one_key("f", key)
    wanted = float_dtype("f", dtype)
    return place(
        _f(typed, dfnum, dfden, shape=broadcast_shape("f", shape, dfnum, dfden), dtype=wanted),
        out_sharding,
    )


@library(static=("shape", "dtype"))
def _t(key: Array, df: ArrayLike, *, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    normal_key, gamma_key = split_key(key)
    half = ops.div(cast(df, dtype), scalar(2, dtype))
    scale = ops.div(spread(half, shape), standard_gamma(gamma_key, half, shape=shape, dtype=dtype))
    return ops.mul(standard_normal(normal_key, shape=shape, dtype=dtype), sqrt(scale))


def t(
    key: Array,
    df: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Samples of Student's t distribution with df degrees of freedom.

    >>> from teucer import random
    >>> random.t(random.key(0), 3., (2,)).shape
    (2,)
    """
    typed, _ = one_key("t", key)
    wanted = float_dtype("t", dtype)
    return place(_t(typed, df, shape=broadcast_shape("t", shape, df), dtype=wanted), out_sharding)


@library(static=("shape", "dtype"))
def _generalized_normal(
    key: Array, p: ArrayLike, *, shape: tuple[int, ...], dtype: DTypeLike
) -> Any:
    gamma_key, sign_key = split_key(key)
    root = ops.div(scalar(1, dtype), cast(p, dtype))
    sizes = standard_gamma(gamma_key, root, shape=shape, dtype=dtype)
    return ops.mul(signs(sign_key, shape=shape, dtype=dtype), pow(sizes, spread(root, shape)))


def generalized_normal(
    key: Array,
    p: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Samples of the density proportional to exp(-abs(x)**p).

    >>> from teucer import random
    >>> random.generalized_normal(random.key(0), 1.5, (2,)).shape
    (2,)
    """
    typed, _ = one_key("generalized_normal", key)
    wanted = float_dtype("generalized_normal", dtype)
    size = broadcast_shape("generalized_normal", shape, p)
    return place(_generalized_normal(typed, p, shape=size, dtype=wanted), out_sharding)


@library(static=("d", "shape", "dtype"))
def _ball(key: Array, p: Array, *, d: int, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    direction_key, size_key = split_key(key)
    x = _generalized_normal(direction_key, p, shape=(*shape, d), dtype=dtype)
    p = cast(p, dtype)
    powers = pow(ops.abs(x), spread(p, (*shape, d)))
    total = ops.add(
        reduce_sum(powers, (len(shape),)), standard_exponential(size_key, shape=shape, dtype=dtype)
    )
    norms = pow(total, spread(ops.div(scalar(1, dtype), p), shape))
    return ops.div(x, expand(norms, d, len(shape)))


def ball(
    key: Array,
    d: int,
    p: ArrayLike = 2,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Points uniform in the unit ball of the p-norm in d dimensions.

    Raises ValueError for a dtype that is no float.

    >>> from teucer import random
    >>> random.ball(random.key(0), 3, shape=(2,)).shape
    (2, 3)

    Method: Barthe, Guedon, Mendelson & Naor, Annals of Probability 33 (2005) 480, theorem 1.
    """
    typed, _ = one_key("ball", key)
    wanted = float_dtype("gamma", dtype)
    return place(
        _ball(
            typed, parameter("ball", p, 2), d=int(d), shape=as_shape("ball", shape), dtype=wanted
        ),
        out_sharding,
    )
