"""Samples of counts: Poisson, binomial and multinomial, by rejection where they are large."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike, DTypeLike, Shape
from teucer._transform.library import library
from teucer.lax import _arithmetic as ops
from teucer.lax import scan, while_loop
from teucer.lax._cumulative import cumsum
from teucer.lax._elementwise import log, log1p, sqrt
from teucer.lax._functions.special import lgamma
from teucer.lax._indexing.gather import gather
from teucer.lax._indexing.numbers import GatherDimensionNumbers, GatherScatterMode
from teucer.lax._random_keys import as_drawn, random_split_p
from teucer.lax._reductions import reduce_or
from teucer.lax._selection import where_else
from teucer.lax._shapes import broadcast_shapes
from teucer.lax._structure import full, moveaxis, reshape
from teucer.random._arguments import (
    broadcast_shape,
    cast,
    exact_only,
    float_dtype,
    int_dtype,
    parameter,
    place,
    scalar,
    spread,
)
from teucer.random._keys import one_key
from teucer.random._uniform import between, split_key


def _any(x: Any) -> Any:
    return reduce_or(x, tuple(range(np.ndim(x))))


def _like(x: Any, value: Any) -> Any:
    return full(np.shape(x), value, typeof(x).dtype)


class _Floats:
    """Arithmetic with numbers and floats of one shape, so that formulas can be written as in the
    papers."""

    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x

    def _other(self, y: _Floats | float) -> Any:
        return y.x if isinstance(y, _Floats) else scalar(y, typeof(self.x).dtype)

    def __add__(self, y: _Floats | float) -> _Floats:
        return _Floats(ops.add(self.x, self._other(y)))

    def __radd__(self, y: _Floats | float) -> _Floats:
        return _Floats(ops.add(self._other(y), self.x))

    def __sub__(self, y: _Floats | float) -> _Floats:
        return _Floats(ops.sub(self.x, self._other(y)))

    def __rsub__(self, y: _Floats | float) -> _Floats:
        return _Floats(ops.sub(self._other(y), self.x))

    def __mul__(self, y: _Floats | float) -> _Floats:
        return _Floats(ops.mul(self.x, self._other(y)))

    def __rmul__(self, y: _Floats | float) -> _Floats:
        return _Floats(ops.mul(self._other(y), self.x))

    def __truediv__(self, y: _Floats | float) -> _Floats:
        return _Floats(ops.div(self.x, self._other(y)))

    def __rtruediv__(self, y: _Floats | float) -> _Floats:
        return _Floats(ops.div(self._other(y), self.x))

    def __neg__(self) -> _Floats:
        return _Floats(ops.neg(self.x))

    def __lt__(self, y: _Floats | float) -> Any:
        return ops.lt(self.x, self._other(y))

    def __le__(self, y: _Floats | float) -> Any:
        return ops.le(self.x, self._other(y))

    def __gt__(self, y: _Floats | float) -> Any:
        return ops.gt(self.x, self._other(y))

    def __ge__(self, y: _Floats | float) -> Any:
        return ops.ge(self.x, self._other(y))

    def through(self, f: Any) -> _Floats:
        return _Floats(f(self.x))


def _uniforms(key: Any, like: Any) -> _Floats:
    return _Floats(between(key, 0.0, 1.0, shape=np.shape(like), dtype=typeof(like).dtype))


def _first_accepted(key: Any, like: Any, propose: Any) -> Any:
    """For each element the first proposal that is accepted. propose(u, v) -> proposal, accepted; u
    is centred at 0."""

    def step(state: Any) -> Any:
        key, kept, done = state
        key, u_key, v_key = split_key(key, 3)
        proposal, accepted = propose(_uniforms(u_key, like) - 0.5, _uniforms(v_key, like))
        return key, where_else(accepted, proposal.x, kept), ops.bitwise_or(done, accepted)

    start = (key, _like(like, -1), full(np.shape(like), False, np.dtype(bool)))
    return while_loop(lambda state: _any(ops.bitwise_not(state[2])), step, start)[1]


def _poisson_small(key: Any, rate: Any) -> Any:
    """The number of uniform samples whose product stays above exp(-rate), less 1: Knuth, TAOCP 2,
    section 3.4.1."""
    limit = ops.neg(rate)

    def step(state: Any) -> Any:
        key, count, total = state
        key, sub_key = split_key(key)
        more = where_else(
            ops.gt(total, limit), ops.add(count, scalar(1, typeof(count).dtype)), count
        )
        return key, more, ops.add(total, log(_uniforms(sub_key, rate).x))

    start = (key, full(np.shape(rate), 0, np.dtype("int32")), _like(rate, 0))
    counts = while_loop(lambda state: _any(ops.gt(state[2], limit)), step, start)[1]
    return ops.sub(counts, scalar(1, np.dtype("int32")))


def _poisson_large(key: Any, rate: Any) -> Any:
    """Transformed rejection for rates of 10 and more: Hormann, Insurance: Mathematics and Economics
    12 (1993) 39, PTRS."""
    lam = _Floats(rate)
    log_lam = lam.through(log)
    b = 0.931 + 2.53 * lam.through(sqrt)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def propose(u: _Floats, v: _Floats) -> tuple[_Floats, Any]:
        us = 0.5 - u.through(ops.abs)
        k = ((2 * a / us + b) * u + lam + 0.43).through(ops.floor)
        s = (v * inverse_alpha / (a / (us * us) + b)).through(log)
        t = -lam + k * log_lam - (k + 1).through(lgamma)
        quick = ops.bitwise_and(us >= 0.07, v <= v_r)
        refused = ops.bitwise_or(k < 0, ops.bitwise_and(us < 0.013, v > us))
        return k, ops.bitwise_or(quick, ops.bitwise_and(ops.bitwise_not(refused), s <= t))

    return _first_accepted(key, rate, propose)


@library(static=("shape", "dtype"))
def _poisson(key: Any, lam: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    real = np.dtype("float32")
    rate = spread(cast(lam, real), shape)
    small = ops.bitwise_or(ops.ne(rate, rate), ops.lt(rate, scalar(10, real)))
    few = _poisson_small(key, where_else(small, rate, _like(rate, 0)))
    many = _poisson_large(key, where_else(small, _like(rate, 1e5), rate))
    counts = where_else(small, cast(few, dtype), cast(many, dtype))
    return where_else(ops.eq(rate, scalar(0, real)), _like(counts, 0), counts)


def poisson(
    key: Any,
    lam: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    method: str = "exact",
    out_sharding: Any = None,
) -> Array:
    """Samples of the Poisson distribution of rate lam.

    dtype: an integer. Raises ValueError for another dtype, or if lam does not broadcast to the
    shape.

    >>> from teucer import random
    >>> random.poisson(random.key(0), 3., (4,)).shape
    (4,)

    Method: Knuth for rates below 10, Hormann's PTRS (Insurance: Mathematics and Economics 12 (1993)
    39) above.
    """
    exact_only("poisson", method)
    typed, _ = one_key("poisson", key)
    wanted = int_dtype("poisson", dtype)
    return place(
        _poisson(typed, lam, shape=broadcast_shape("poisson", shape, lam), dtype=wanted),
        out_sharding,
    )


def _stirling_error(k: float) -> float:
    """log k! less Stirling's formula for it."""
    return math.lgamma(k + 1) - (
        (k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi)
    )


_STIRLING_ERRORS = tuple(_stirling_error(k) for k in range(10))
_SCALAR_ROWS = GatherDimensionNumbers(
    offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,)
)


def _stirling(k: _Floats) -> _Floats:
    """`_stirling_error` of each element: from a table up to 9, else by the series."""
    dtype = typeof(k.x).dtype
    places = cast(ops.clamp(_like(k.x, 0), k.x, _like(k.x, 9)), np.dtype("int32"))
    table = gather(
        np.asarray(_STIRLING_ERRORS, dtype),
        reshape(places, (*np.shape(places), 1)),
        _SCALAR_ROWS,
        (1,),
        mode=GatherScatterMode.CLIP,
    )
    square = (k + 1) * (k + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
    return _Floats(where_else(k <= 9, table, series.x))


def _binomial_small(key: Any, count: Any, p: ArrayLike) -> Any:
    """The number of geometric samples that fit into count trials: Devroye (1986), section X.4.3,
    second waiting time."""
    log_miss = log1p(ops.neg(p))

    def step(state: Any) -> Any:
        key, successes, trials = state
        sub_key, key = split_key(key)
        more = where_else(
            ops.le(trials, count), ops.add(successes, scalar(1, typeof(successes).dtype)), successes
        )
        return (
            key,
            more,
            ops.add(trials, ops.ceil(ops.div(log(_uniforms(sub_key, count).x), log_miss))),
        )

    start = (key, _like(count, 0), _like(count, 0))
    found = while_loop(lambda state: _any(ops.le(state[2], count)), step, start)[1]
    return ops.sub(found, scalar(1, typeof(count).dtype))


def _binomial_large(key: Any, count: Any, p: Any) -> Any:
    """Transformed rejection: Hormann, J. Statist. Comput. Simul. 46 (1993) 101, algorithm BTRS."""
    n, p = _Floats(count), _Floats(p)
    deviation = (n * p * (1 - p)).through(sqrt)
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    v_r = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    m = ((n + 1) * p).through(ops.floor)

    def propose(u: _Floats, v: _Floats) -> tuple[_Floats, Any]:
        us = 0.5 - u.through(ops.abs)
        quick = ops.bitwise_and(us >= 0.07, v <= v_r)
        k = ((2 * a / us + b) * u + c).through(ops.floor)
        outside = ops.bitwise_or(k < 0, k > n)
        v = (v * alpha / (a / (us * us) + b)).through(log)
        bound = (
            (m + 0.5) * ((m + 1) / (odds * (n - m + 1))).through(log)
            + (n + 1) * ((n - m + 1) / (n - k + 1)).through(log)
            + (k + 0.5) * (odds * (n - k + 1) / (k + 1)).through(log)
            + _stirling(m)
            + _stirling(n - m)
            - _stirling(k)
            - _stirling(n - k)
        )
        return k, ops.bitwise_or(quick, ops.bitwise_and(ops.bitwise_not(outside), v <= bound))

    return _first_accepted(key, count, propose)


@library(static=("shape", "dtype"))
def _binomial(key: Any, n: Any, p: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    n, p = spread(cast(n, dtype), shape), spread(cast(p, dtype), shape)
    zero, one, half = scalar(0, dtype), scalar(1, dtype), scalar(0.5, dtype)
    rare = ops.lt(p, half)
    q = where_else(rare, p, ops.sub(one, p))
    bad_count = ops.bitwise_or(ops.ne(n, n), ops.lt(n, zero))
    bad_p = ops.bitwise_or(ops.ne(q, q), ops.lt(q, zero))
    infinite = ops.eq(ops.abs(n), scalar(np.inf, dtype))
    safe = where_else(bad_p, _like(q, 0.01), q)
    small = ops.bitwise_or(bad_count, ops.le(ops.mul(n, safe), scalar(10, dtype)))
    whole = ops.floor(n)
    few = _binomial_small(key, where_else(small, whole, _like(n, 0)), safe)
    many = _binomial_large(
        key, where_else(small, _like(n, 1e4), whole), where_else(small, _like(q, 0.5), safe)
    )
    invalid = ops.bitwise_or(bad_p, bad_count)
    found = where_else(invalid, _like(n, np.nan), where_else(small, few, many))
    found = where_else(ops.bitwise_and(infinite, ops.bitwise_not(invalid)), _like(n, np.inf), found)
    as_found = ops.bitwise_or(
        ops.bitwise_or(rare, bad_count), ops.bitwise_or(ops.ne(q, q), infinite)
    )
    return where_else(as_found, found, ops.sub(whole, found))


def binomial(
    key: Any, n: ArrayLike, p: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None
) -> Array:
    """Numbers of successes in n trials, each of probability p, as floats.

    A count that is negative or NaN, or a p outside [0, 1], gives NaN.
    Raises ValueError for a dtype that is no float, or if n and p do not broadcast to the shape.

    >>> from teucer import random
    >>> random.binomial(random.key(0), 10, 0.3, (4,)).shape
    (4,)

    Method: geometric waiting times for n p up to 10 (Devroye 1986, X.4.3), Hormann's BTRS (J.
    Statist. Comput. Simul. 46 (1993) 101) above.
    """
    typed, _ = one_key("binomial", key)
    wanted, own = (
        float_dtype("binomial", dtype),
        dtypes.to_inexact_dtype(dtypes.result_type(parameter("binomial", p, 1))),
    )
    # Drawn in the precision of p, as in JAX, so that a seed gives the same numbers.
    return cast(
        _binomial(typed, n, p, shape=broadcast_shape("binomial", shape, n, p), dtype=own), wanted
    )


@library(static=("shape", "real", "dtype", "unroll"))
def _multinomial(
    key: Any, n: Any, p: Any, *, shape: tuple[int, ...], real: Any, dtype: Any, unroll: int
) -> Any:
    n, p = spread(cast(n, real), shape[:-1]), spread(cast(p, real), shape)
    zero, one = scalar(0, real), scalar(1, real)
    rest = cumsum(p, len(shape) - 1, reverse=True)
    conditional = ops.div(p, where_else(ops.eq(rest, zero), _like(rest, 1), rest))
    keys = random_split_p.call(key, shape=(shape[-1],), **as_drawn())[0]

    def step(left: Any, xs: Any) -> Any:
        p, key = xs
        found = _binomial(key, left, ops.min(ops.max(p, zero), one), shape=shape[:-1], dtype=real)
        return ops.sub(left, found), found

    _, counts = scan(step, n, (moveaxis(conditional, len(shape) - 1, 0), keys), unroll=unroll)
    return cast(moveaxis(counts, 0, len(shape) - 1), dtype)


def multinomial(
    key: Any,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    unroll: int = 1,
) -> Array:
    """The number of trials, of n in all, that fall into each category.

    p: probabilities of the categories along the last axis. n: broadcasts to the other axes.
    shape: of the sample, the axis of the categories included. unroll: as of `lax.scan`.
    Raises ValueError if the shapes do not agree.

    >>> from teucer import random
    >>> random.multinomial(random.key(0), 10, np.array([0.2, 0.8])).shape
    (2,)

    Method: a binomial sample a category, of the trials that are left.
    """
    typed, _ = one_key("multinomial", key)
    real = dtypes.to_inexact_dtype(
        dtypes.result_type(parameter("multinomial", n, 0), parameter("multinomial", p, 1))
    )
    wanted = float_dtype("multinomial", dtype)
    size = broadcast_shape("multinomial", shape, p)
    if not size:
        raise ValueError("multinomial: p must have an axis of categories, got a scalar.")
    if broadcast_shapes(size[:-1], np.shape(n)) != size[:-1]:
        raise ValueError(
            f"Cannot broadcast to shape with fewer dimensions: arr_shape={np.shape(n)} "
            f"shape={size[:-1]}\n  multinomial: n must broadcast to the axes of p before the last."
        )
    return _multinomial(typed, n, p, shape=size, real=real, dtype=wanted, unroll=unroll)
