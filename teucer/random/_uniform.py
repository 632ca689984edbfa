"""Uniform samples: bits, reals of an interval, integers of a range, signs and coin tosses."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike, DTypeLike, Shape
from teucer._transform.library import library
from teucer.lax import _arithmetic as ops
from teucer.lax._conversion import bitcast_convert_type
from teucer.lax._random_keys import as_drawn, random_bits_p, random_split_p
from teucer.lax._selection import where_else
from teucer.lax._shapes import broadcast_shapes
from teucer.lax._slicing import index_in_dim
from teucer.random._arguments import (
    aligned,
    as_shape,
    broadcast_shape,
    cast,
    float_dtype,
    int_dtype,
    parameter,
    place,
    scalar,
    spread,
)
from teucer.random._keys import one_key

if TYPE_CHECKING:
    from teucer._core.typing import Value
    from teucer._devices.specs import OutSharding


def raw_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Any:
    """Unsigned integers of `bit_width` bits from a typed key."""
    return random_bits_p.call(key, bit_width=bit_width, shape=shape, **as_drawn())[0]


def split_key(key: Any, num: int = 2) -> list[Any]:
    """New typed keys from one."""
    keys = random_split_p.call(key, shape=(num,), **as_drawn())[0]
    return [index_in_dim(keys, i, 0, False) for i in range(num)]


def bits(
    key: Array,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Uniformly random bits as unsigned integers.

    dtype: an unsigned integer; by default uint32 or, with 64-bit types on, uint64.
    Raises ValueError for another dtype.

    >>> from teucer import random
    >>> random.bits(random.key(0), (2,))
    Array([4070199207, 4202968722], dtype=uint32)
    """
    typed, _ = one_key("bits", key)
    wanted = (
        dtypes.canonicalize_dtype("uint64")
        if dtype is None
        else dtypes.check_user_dtype_supported(dtype, "bits")
    )
    if not dtypes.issubdtype(wanted, np.unsignedinteger):
        raise ValueError(
            "dtype argument to `bits` must be an unsigned int dtype, got "
            f"{dtypes.as_dtype(dtype).name}"
        )
    width = wanted.itemsize * 8
    return place(raw_bits(typed, width, as_shape("bits", shape)), out_sharding)


def _unit_interval(key: Array, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    """Reals of [0, 1): random bits as the fraction of a float in [1, 2), less 1."""
    limits = dtypes.finfo(dtype)
    fraction = limits.nmant
    width = 8 if fraction < 8 else limits.bits
    container = np.dtype(f"uint{limits.bits}")
    random = cast(raw_bits(key, width, shape), container)
    one = scalar(np.asarray(1, dtype).view(container), container)
    shifted = ops.shift_right_logical(random, scalar(width - fraction, container))
    return ops.sub(bitcast_convert_type(ops.bitwise_or(shifted, one), dtype), scalar(1, dtype))


@library(static=("shape", "dtype"))
def between(
    key: Any, low: ArrayLike, high: ArrayLike, *, shape: tuple[int, ...], dtype: DTypeLike
) -> Any:
    """Reals of [low, high)."""
    low, high = (aligned(cast(x, dtype), len(shape)) for x in (low, high))
    floats = _unit_interval(key, shape, dtype)
    both = broadcast_shapes(np.shape(low), np.shape(high))
    low, high = spread(low, both), spread(high, both)
    low, width = (spread(x, shape) for x in (low, ops.sub(high, low)))
    return ops.max(low, ops.add(ops.mul(floats, width), low))


def uniform(
    key: Value,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Reals uniform in [minval, maxval).

    dtype: a float. minval, maxval: numbers or arrays that broadcast to the shape.
    Raises ValueError for another dtype, or bounds that do not broadcast.

    >>> from teucer import random
    >>> random.uniform(random.key(0), (2,))
    Array([0.947667 , 0.9785799], dtype=float32)
    """
    typed, _ = one_key("uniform", key)
    wanted = float_dtype("uniform", dtype)
    size = as_shape("uniform", shape)
    if np.ndim(minval) or np.ndim(maxval):
        bounds = broadcast_shapes(np.shape(minval), np.shape(maxval))
        if size == () and set(bounds) == {1}:
            size = bounds  # as in JAX; libraries rely on it
        broadcast_shape("uniform", size, minval, maxval)
    return place(
        between(
            typed,
            parameter("uniform", minval, 3),
            parameter("uniform", maxval, 4),
            shape=size,
            dtype=wanted,
        ),
        out_sharding,
    )


@library(static=("shape", "dtype"))
def whole_numbers(
    key: Array, low: ArrayLike, high: ArrayLike, *, shape: tuple[int, ...], dtype: DTypeLike
) -> Any:
    """Integers of low, ..., high - 1, of a dtype of 32 or 64 bits."""
    limits = dtypes.iinfo(dtype)
    low, high = _as_integers(low), _as_integers(high)
    # The range of all values of the dtype ends one above the largest, which the dtype itself cannot
    # hold.
    beyond = ops.gt(high, _limit(limits.max, high))
    bounds = [
        aligned(x, len(shape))
        for x in (cast(_clamped(low, limits), dtype), cast(_clamped(high, limits), dtype), beyond)
    ]
    low, high, beyond = [spread(x, broadcast_shapes(*map(np.shape, bounds))) for x in bounds]
    first, second = (raw_bits(k, limits.bits, shape) for k in split_key(key))
    unsigned = np.dtype(f"uint{limits.bits}")
    one = scalar(1, unsigned)
    span = where_else(ops.le(high, low), one, cast(ops.sub(high, low), unsigned))
    span = where_else(ops.bitwise_and(beyond, ops.gt(high, low)), ops.add(span, one), span)
    # Two words, so that the remainder is close to uniform: first * 2**bits + second modulo the
    # span.
    half = ops.rem(scalar(2 ** (limits.bits // 2), unsigned), span)
    factor = spread(ops.rem(ops.mul(half, half), span), shape)
    span = spread(span, shape)
    offset = ops.rem(ops.add(ops.mul(ops.rem(first, span), factor), ops.rem(second, span)), span)
    return ops.add(spread(low, shape), cast(offset, dtype))


@library(static=("shape", "dtype"))
def _short_integers(
    key: Array, low: Array, high: Array, *, shape: tuple[int, ...], dtype: DTypeLike
) -> Any:
    """Integers of a dtype of less than 32 bits: drawn as int32."""
    limits = dtypes.iinfo(dtype)
    wide = np.dtype("int32")
    bounds = (
        ops.max(ops.min(cast(x, wide), scalar(limits.max + 1, wide)), scalar(limits.min, wide))
        for x in (low, high)
    )
    return cast(whole_numbers(key, *bounds, shape=shape, dtype=wide), dtype)


def _as_integers(x: ArrayLike) -> Any:
    """Bounds as integers: floats lose their fraction."""
    own = typeof(x).dtype
    return x if dtypes.issubdtype(own, np.integer) else cast(x, dtypes.canonicalize_dtype(int))


def _limit(value: int, x: ArrayLike) -> Any:
    """A limit as a number of x's dtype, cut to its range."""
    own = typeof(x).dtype
    limits = dtypes.iinfo(own)
    return scalar(builtins.min(builtins.max(value, limits.min), limits.max), own)


def _clamped(x: ArrayLike, limits: Any) -> Any:
    return ops.max(ops.min(x, _limit(limits.max, x)), _limit(limits.min, x))


def randint(
    key: Array,
    shape: Shape,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Integers uniform in minval, ..., maxval - 1.

    dtype: an integer. minval, maxval: integers or arrays of them that broadcast to the shape; the
    bounds are cut to the dtype's range, and a range that is empty gives minval.
    Raises TypeError for another dtype, ValueError for bounds that do not broadcast.

    >>> from teucer import random
    >>> random.randint(random.key(0), (3,), 0, 10)
    Array([9, 0, 2], dtype=int32)
    """
    typed, _ = one_key("randint", key)
    wanted = dtypes.check_user_dtype_supported(int if dtype is None else dtype, "randint")
    if not dtypes.issubdtype(wanted, np.integer):
        raise TypeError(f"randint only accepts integer dtypes, got {wanted.name}")
    size = as_shape("randint", shape)
    if np.ndim(minval) or np.ndim(maxval):
        broadcast_shape("randint", size, minval, maxval)
    draw = whole_numbers if dtypes.bit_width(wanted) >= 32 else _short_integers
    return place(
        draw(
            typed,
            parameter("randint", minval, 2),
            parameter("randint", maxval, 3),
            shape=size,
            dtype=wanted,
        ),
        out_sharding,
    )


@library(static=("shape", "precise"))
def toss(key: Array, p: ArrayLike, *, shape: tuple[int, ...], precise: bool = False) -> Any:
    """True with probability p."""
    dtype = typeof(p).dtype
    p = spread(p, shape)
    if not precise:
        return ops.lt(between(key, 0.0, 1.0, shape=shape, dtype=dtype), p)
    # The second sample refines the first by as many bits again.
    both = between(key, 0.0, 1.0, shape=(2, *shape), dtype=dtype)
    coarse, fine = index_in_dim(both, 0, 0, False), index_in_dim(both, 1, 0, False)
    return ops.lt(ops.mul(fine, scalar(dtypes.finfo(dtype).eps, dtype)), ops.sub(p, coarse))


def bernoulli(
    key: Array,
    p: ArrayLike = 0.5,
    shape: Shape | None = None,
    mode: str = "low",
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """True with probability p, else False.

    p: floats; shape: by default the shape of p. mode "high" takes twice the bits, for probabilities
    close to 0. Raises TypeError if p is not a float, ValueError for another mode or for shapes that
    do not broadcast.

    >>> from teucer import random
    >>> random.bernoulli(random.key(0), 0.5, (3,))
    Array([False, False,  True], dtype=bool)
    """
    if mode not in ("high", "low"):
        raise ValueError(f"got {mode=}, expected 'high' or 'low'")
    typed, _ = one_key("bernoulli", key)
    dtype = typeof(parameter("bernoulli", p, 1)).dtype
    if not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(f"bernoulli probability `p` must have a floating dtype, got {dtype}.")
    size = broadcast_shape("bernoulli", shape, p)
    return place(toss(typed, cast(p, dtype), shape=size, precise=mode == "high"), out_sharding)


@library(static=("shape", "dtype"))
def signs(key: Array, *, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    """-1 or 1, each with probability 1/2."""
    heads = toss(key, scalar(0.5, dtypes.canonicalize_dtype(float)), shape=shape)
    number = dtype if dtype != np.bool_ else np.dtype("int32")
    return cast(ops.sub(ops.mul(scalar(2, number), cast(heads, number)), scalar(1, number)), dtype)


def rademacher(
    key: Array,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """-1 or 1, each with probability 1/2.

    dtype: any number; by default an integer.

    >>> from teucer import random
    >>> random.rademacher(random.key(0), (3,))
    Array([-1, -1,  1], dtype=int32)
    """
    typed, _ = one_key("rademacher", key)
    wanted = (
        int_dtype("rademacher", None)
        if dtype is None
        else dtypes.check_user_dtype_supported(dtype, "rademacher")
    )
    return place(signs(typed, shape=as_shape("rademacher", shape), dtype=wanted), out_sharding)
