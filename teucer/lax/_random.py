"""Generators of random bits as primitives.

The cipher threefry2x32, and the one that XLA has on each platform.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import dtypes
from teucer._core import array_ops, dialects
from teucer._core.primitive import Primitive
from teucer._core.types import ShapedArray
from teucer._core.typing import Array
from teucer._devices import partition
from teucer._devices.partition import Labels
from teucer._devices.shardings import explicit_sharding, typed
from teucer._hlo import rare_hlo
from teucer._lower import hlo
from teucer.lax._costs import LONG
from teucer.lax._dynamic import dynamic_update_index_in_dim
from teucer.lax._shapes import broadcast_shapes
from teucer.lax._slicing import index_in_dim
from teucer.lax._structure import canonical_shape, reshape

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.typing import ArrayLike, Dims, DTypeLike, Size
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = [
    "RandomAlgorithm", "rng_bit_generator", "rng_bit_generator_p", "rng_uniform", "rng_uniform_p",
]  # fmt: skip

UINT32 = np.dtype("uint32")

# Salmon, Moraes, Dror & Shaw, Parallel random numbers: as easy as 1, 2, 3, SC'11: the rotations of
# Threefry-2x32 (table 2), and the constant that closes the key schedule (section 3.3, C_240 of
# Skein cut to 32 bits).
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


@final
class Threefry2x32(Primitive):
    """Two words of cipher text for each counter (x0, x1) under the key (k0, k1): 20 rounds of
    Threefry-2x32.

    (C1) all operands are uint32, of shapes that broadcast.
    The rounds are written out: one fusion, which XLA compiles twice as fast on CPU as a loop over
    them, and runs five times as fast (16 million words on 2 cores: 22 ms; in a loop 125 ms).
    """

    __slots__ = ()
    name = "threefry2x32"
    multiple_results = True
    cost = LONG

    def types(self, k0: ShapedArray, k1: ShapedArray, x0: ShapedArray, x1: ShapedArray) -> Any:
        avals = (k0, k1, x0, x1)
        if any(aval.dtype != UINT32 for aval in avals):
            raise TypeError(
                f"Arguments to threefry2x32 must have uint32 type, got {[str(a) for a in avals]}"
            )
        shape = broadcast_shapes(*(aval.shape for aval in avals))
        aval = ShapedArray(shape, UINT32)
        return aval, aval

    shard = partition.aligned

    def lower(self, ctx: Context, k0: Value, k1: Value, x0: Value, x1: Value) -> Any:
        aval = ctx.avals_out[0]

        def op(name: str, x: Value, y: Value) -> Any:
            return ctx.op1(f"stablehlo.{name}", (x, y), aval)

        splats: dict[int, Any] = {}

        def splat(value: int) -> Any:
            if value not in splats:
                splats[value] = hlo.broadcast_in_dim(
                    ctx, ctx.constant(value, UINT32), aval.shape, ()
                )
            return splats[value]

        k0, k1, x0, x1 = (_spread(ctx, v, aval.shape) for v in (k0, k1, x0, x1))
        keys = (k0, k1, op("xor", op("xor", k0, k1), splat(PARITY)))
        x0, x1 = op("add", x0, k0), op("add", x1, k1)
        for i in range(5):
            for r in ROTATIONS[i % 2]:
                x0 = op("add", x0, x1)
                rotated = op(
                    "or",
                    op("shift_left", x1, splat(r)),
                    op("shift_right_logical", x1, splat(32 - r)),
                )
                x1 = op("xor", rotated, x0)
            x0 = op("add", x0, keys[(i + 1) % 3])
            x1 = op("add", op("add", x1, keys[(i + 2) % 3]), splat(i + 1))
        return x0, x1

    def batch(self, axis: Axis, args: Sequence[ArrayLike], dims: Dims) -> Any:
        rank = max(np.ndim(x) - (d is not None) for x, d in zip(args, dims, strict=True))
        xs = []
        for x, d in zip(args, dims, strict=True):
            if d is not None:
                x = array_ops.moveaxis(x, d, 0)
                shape = np.shape(x)
                x = reshape(x, (shape[0], *(1,) * (rank - len(shape) + 1), *shape[1:]))
            xs.append(x)
        return self.call(*xs), (0, 0)

    padded = dialects.through


def _spread(ctx: Context, x: Value, shape: Sequence[Size]) -> Any:
    """A value broadcast as NumPy does."""
    if x.shape == shape:
        return x
    kept = [i for i, d in enumerate(x.shape) if d != 1]
    flat = hlo.reshape(ctx, x, [x.shape[i] for i in kept])
    return hlo.broadcast_in_dim(ctx, flat, shape, [i + len(shape) - len(x.shape) for i in kept])


@final
class RandomAlgorithm(IntEnum):
    """Which generator `rng_bit_generator` uses: the platform's own, Threefry or Philox."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


_KEY_SHAPES = (((4,), UINT32), ((2,), np.dtype("uint64")))


@final
class RngBitGenerator(Primitive):
    """The next state of XLA's generator, and random bits.

    (C1) the key is uint32[4] or uint64[2].  (C2) dtype is an unsigned integer of 8 to 64 bits.
    Of batched keys only the first is used: bits for the whole batch come from it.
    """

    __slots__ = ()
    name = "rng_bit_generator"
    multiple_results = True

    def types(
        self,
        key: ShapedArray,
        *,
        shape: Sequence[Size],
        dtype: DTypeLike,
        algorithm: object,
        out_sharding: object = None,
    ) -> Any:
        if (key.shape, key.dtype) not in _KEY_SHAPES:
            raise TypeError(
                f"rng_bit_generator: unsupported key shape and dtype {key.str_short()}.\n"
                "  A key is uint32[4] or uint64[2]."
            )
        if dtype not in (np.uint8, np.uint16, np.uint32, np.uint64):
            raise TypeError(
                "rng_bit_generator: dtype must be an unsigned integer of 8 to 64 bits, got "
                f"{dtype}."
            )
        return key, ShapedArray(shape, dtype, sharding=typed(out_sharding, len(shape)))

    def shard(self, key: ShapedArray, **params: object) -> Any:
        return Labels([()], [()])

    def lower(
        self,
        ctx: Context,
        key: Value,
        *,
        shape: Sequence[Size],
        dtype: DTypeLike,
        algorithm: int,
        out_sharding: object = None,
    ) -> Any:
        name = RandomAlgorithm(algorithm).name.removeprefix("RNG_")
        out = ctx.avals_out[1]
        wide = ShapedArray((2,), np.dtype("uint64"))
        if key.dtype != UINT32:
            return rare_hlo.rng_bit_generator(ctx, key, name, out)
        state = hlo.bitcast_convert(ctx, hlo.reshape(ctx, key, (2, 2)), wide)
        state, bits = rare_hlo.rng_bit_generator(ctx, state, name, out)
        words = hlo.bitcast_convert(ctx, state, ShapedArray((2, 2), UINT32))
        return hlo.reshape(ctx, words, (4,)), bits

    def batch(
        self,
        axis: Axis,
        args: Sequence[Array],
        dims: Sequence[int],
        *,
        shape: Sequence[Size],
        **params: object,
    ) -> Any:
        keys = array_ops.moveaxis(args[0], dims[0], 0)
        first, bits = self.call(
            index_in_dim(keys, 0, 0, False), shape=(axis.size, *shape), **params
        )
        return (dynamic_update_index_in_dim(keys, first, 0, 0), bits), (0, 0)


@final
class RngUniform(Primitive):
    """Numbers from [a, b) by the platform's generator, whose state is not visible.  (C1) a and b
    are scalars of one dtype."""

    __slots__ = ()
    name = "rng_uniform"
    mergeable = False

    def types(self, a: ShapedArray, b: ShapedArray, *, shape: Sequence[Size]) -> Any:
        if a.dtype != b.dtype:
            raise ValueError(
                f"Arguments to rng_uniform must have identical dtypes, got {a.dtype} and {b.dtype}."
            )
        if a.shape != () or b.shape != ():
            raise ValueError(
                f"Arguments to rng_uniform must be scalars; got shapes {a.shape} and {b.shape}."
            )
        return (ShapedArray(shape, a.dtype),)

    def lower(self, ctx: Context, a: Value, b: Value, *, shape: Sequence[Size]) -> Any:
        sizes = ctx.constant(np.asarray(shape, np.int64))
        return (
            ctx.op1(
                "stablehlo.rng",
                (a, b, sizes),
                ctx.avals_out[0],
                "rng_distribution = #stablehlo<rng_distribution UNIFORM>",
            ),
        )


threefry2x32_p = Threefry2x32()
rng_bit_generator_p = RngBitGenerator()
rng_uniform_p = RngUniform()


def rng_bit_generator(
    key: ArrayLike,
    shape: Sequence[Size],
    dtype: DTypeLike = np.uint32,
    algorithm: int = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: object = None,
) -> Any:
    """Random bits by XLA's generator, and the key with which to go on: (new key, bits).

    key: uint32[4] or uint64[2]. Bits differ between platforms and versions of XLA; vmap over keys
    uses the first alone. Raises TypeError for another key or a dtype that is no unsigned integer.

    >>> import teucer.numpy as jnp
    >>> rng_bit_generator(jnp.zeros(4, "uint32"), (2,))[1].shape
    (2,)
    """
    kind = dtypes.check_user_dtype_supported(dtype, "rng_bit_generator")
    return rng_bit_generator_p.call(
        key,
        shape=canonical_shape(shape, "rng_bit_generator"),
        dtype=kind,
        algorithm=RandomAlgorithm(algorithm),
        out_sharding=explicit_sharding("rng_bit_generator", out_sharding, len(shape)),
    )


def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Sequence[Size]) -> Array:
    """Numbers uniform in [a, b) that differ from call to call; the programs that use it are not
    reproducible.

    Raises ValueError if a and b are no scalars of one dtype.

    >>> rng_uniform(0., 1., (3,)).shape
    (3,)
    """
    return rng_uniform_p.call(a, b, shape=tuple(shape))[0]
