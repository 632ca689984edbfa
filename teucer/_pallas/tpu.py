"""Operations that TPUs have, as primitives: on other platforms they are programs of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import dtypes, tracebacks
from teucer._core.primitive import Primitive
from teucer._core.stage import stage_flat
from teucer._core.types import ShapedArray
from teucer._pallas.kernel import in_kernel
from teucer._transform.batch import batch_flat
from teucer._transform.jvp import jvp_flat
from teucer.numpy._reference_views import Bitcast

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, Dims, DTypeLike
    from teucer._lower.context import Context


@final
class Instruction(Primitive):
    """An operation of TPUs that is a function of arrays.

    compute: (*arrays, **params) -> results.
    """

    __slots__ = ()
    multiple_results = True

    def __init__(self, name: str, compute: Callable[..., Sequence[Any]]) -> None:
        self.name, self.compute = name, compute

    def program(self, **params: object) -> Callable[..., list[Any]]:
        """What it computes, as a function of arrays."""
        return lambda *xs: list(self.compute(*xs, **params))

    def types(self, *avals: ShapedArray, **params: object) -> Any:
        jaxpr, _ = stage_flat(self.program(**params), avals)
        return tuple(v.aval for v in jaxpr.outvars)

    def lower(self, ctx: Context, *xs: Array, **params: object) -> Any:
        return ctx.trace(lambda *xs: tuple(self.compute(*xs, **params)), *xs)

    def jvp(self, primals: Any, tangents: Any, **params: object) -> Any:
        return jvp_flat(self.program(**params), primals, tangents)

    def batch(self, axis: Any, args: Sequence[Array], dims: Dims, **params: object) -> Any:
        return batch_flat(self.program(**params), axis, args, dims)


def _rolled(
    x: Array, shift: ArrayLike, *, axis: int, stride: int | None, stride_axis: int | None
) -> Any:
    if stride is None or stride_axis is None:
        return [jnp.roll(x, shift, axis)]
    n = x.shape[axis]
    places = (
        lax.broadcasted_iota(np.int32, x.shape, axis)
        - shift
        - stride * lax.broadcasted_iota(np.int32, x.shape, stride_axis)
    )
    return [jnp.take_along_axis(x, places % n, axis)]


def _packed(x: Array, *, dtype: DTypeLike) -> Any:
    return [Bitcast(dtype).read(x, ())]


def _uint(size: int) -> np.dtype[Any]:
    return np.dtype(f"uint{size}")


def _packed_words(*xs: Array, dtype: np.dtype[Any]) -> list[Array]:
    size = dtype.itemsize * 8
    words: Any = None
    for k, x in enumerate(xs):
        narrow = lax.bitcast_convert_type(lax.convert_element_type(x, dtype), _uint(size))
        word = lax.convert_element_type(narrow, np.uint32) << np.uint32(k * size)
        words = word if words is None else words | word
    return [words]


def _unpacked_words(
    x: Array, *, index: int, packed: np.dtype[Any], unpacked: np.dtype[Any]
) -> list[Array]:
    size = packed.itemsize * 8
    words = lax.bitcast_convert_type(x, np.uint32)
    word = lax.shift_right_logical(words, jnp.full_like(words, index * size))
    narrow = lax.bitcast_convert_type(lax.convert_element_type(word, _uint(size)), packed)
    return [lax.convert_element_type(narrow, unpacked)]


def _stochastically_rounded(x: Array, bits: Array) -> list[Array]:
    """Random bits are added below those that stay, which are then cut off."""
    words = lax.bitcast_convert_type(x, np.uint32) + (bits & np.uint32(0xFFFF))
    cut = lax.bitcast_convert_type(words & np.uint32(0xFFFF0000), np.float32)
    return [jnp.where(jnp.isfinite(x), cut, x).astype(jnp.bfloat16)]


roll_p = Instruction("roll", _rolled)
pack_elementwise_p = Instruction("pack_elementwise", _packed_words)
unpack_elementwise_p = Instruction("unpack_elementwise", _unpacked_words)
stochastic_round_p = Instruction("stochastic_round", _stochastically_rounded)
packed_bitcast_p = Instruction("packed_bitcast", _packed)
approximate_reciprocal_p = Instruction("approximate_reciprocal", lambda x: [1 / x])
multiple_of_p = Instruction("multiple_of", lambda x, *, values: [x])


@tracebacks.api_boundary
def roll(
    x: Any, shift: Any, axis: int, *, stride: int | None = None, stride_axis: int | None = None
) -> Any:
    """x with its elements moved round along an axis; with a stride, by so much more for each place
    along another axis.

    >>> import teucer.numpy as jnp
    >>> roll(jnp.arange(4), 1, 0)
    Array([3, 0, 1, 2], dtype=int32)
    """
    if (stride is None) != (stride_axis is None):
        raise ValueError("roll: stride and stride_axis go together")
    x = jnp.asarray(x)
    axis = axis % x.ndim
    if stride_axis is not None:
        stride_axis = stride_axis % x.ndim
    if not in_kernel():
        return _rolled(x, shift, axis=axis, stride=stride, stride_axis=stride_axis)[0]
    # Places are counted from 0 up to the size of the axis.
    by = jnp.asarray(shift, np.int32)
    known = shift % x.shape[axis] if isinstance(shift, int) else None
    by = np.int32(known) if known is not None else lax.rem(by, np.int32(x.shape[axis]))
    if known is None:
        by = jnp.where(by < 0, by + np.int32(x.shape[axis]), by)
    return roll_p.call(x, by, axis=axis, stride=stride, stride_axis=stride_axis)[0]


@tracebacks.api_boundary
def bitcast(x: Array, ty: object, dim: int = -2) -> Any:
    """The bits of x taken for another dtype; of another width, the axis `dim` changes its size."""
    dtype = dtypes.as_dtype(ty)
    x = jnp.asarray(x)
    if x.ndim < 2:
        return packed_bitcast_p.call(x, dtype=dtype)[0]
    if dim % x.ndim == x.ndim - 2:
        return packed_bitcast_p.call(x, dtype=dtype)[0]
    out = packed_bitcast_p.call(jnp.moveaxis(x, dim, -2), dtype=dtype)[0]
    return jnp.moveaxis(out, -2, dim)


def reciprocal(x: ArrayLike, *, approx: bool = False, full_range: bool = True) -> Any:
    """1 / x. approx: a few bits less exact, where the machine has such an operation."""
    if approx and in_kernel():
        return approximate_reciprocal_p.call(jnp.asarray(x))[0]
    return 1 / x


def multiple_of(x: ArrayLike, values: int | Sequence[int]) -> Any:
    """x, with the promise that it is a multiple, which compilers of kernels need where parts of
    arrays begin at places that are computed."""
    if not in_kernel() or isinstance(x, int):
        return x
    given = tuple(values) if isinstance(values, Sequence) else (values,)
    return multiple_of_p.call(jnp.asarray(x), values=tuple(int(v) for v in given))[0]


@tracebacks.api_boundary
def pack_elementwise(xs: Sequence[Array], *, packed_dtype: DTypeLike) -> Any:
    """Arrays of 32 bits as narrower numbers, those of one place in one uint32; the first array's
    are in the lowest bits. xs: as many arrays as numbers fit in 32 bits."""
    dtype = dtypes.as_dtype(packed_dtype)
    most = 4 // dtype.itemsize
    if len(xs) != most:
        raise ValueError(
            f"pack_elementwise: {most} arrays of {dtype} fit in 32 bits, got {len(xs)}."
        )
    return pack_elementwise_p.call(*map(jnp.asarray, xs), dtype=dtype)[0]


@tracebacks.api_boundary
def unpack_elementwise(
    x: Array, *, index: int, packed_dtype: DTypeLike, unpacked_dtype: DTypeLike
) -> Any:
    """The array with number `index` of those that `pack_elementwise` has packed."""
    packed, unpacked = dtypes.as_dtype(packed_dtype), dtypes.as_dtype(unpacked_dtype)
    if not 0 <= index < 4 // packed.itemsize:
        raise ValueError(
            f"unpack_elementwise: index is {index}, and {4 // packed.itemsize} arrays of {packed} "
            "are packed."
        )
    x = jnp.asarray(x)
    return unpack_elementwise_p.call(x, index=index, packed=packed, unpacked=unpacked)[0]


@tracebacks.api_boundary
def stochastic_round(x: Array, random_bits: Array, *, target_dtype: DTypeLike) -> Any:
    """float32 rounded up or down to bfloat16, the likelier the nearer. random_bits: uint32."""
    if dtypes.as_dtype(target_dtype) != jnp.bfloat16 or x.dtype != np.float32:
        raise NotImplementedError(
            f"stochastic_round: from float32 to bfloat16, not from {x.dtype} to {target_dtype}.\n"
            "  Convert the operand, or round by x.astype."
        )
    return stochastic_round_p.call(x, random_bits)[0]


# --- The generator of a core --------------------------------------------------------------------


class _OfGenerator(Primitive):
    """A primitive on the state of the generator of random bits that a core has."""

    __slots__ = ()
    multiple_results = True
    mergeable = False

    def lower(self, ctx: Context, *xs: Array, **params: object) -> Any:
        raise NotImplementedError(
            f"{self.name}: {ctx.platform} has no generator of random bits like a TPU's.\n"
            "  Draw by jax.random from words of a key, jax.random.wrap_key_data(ref[...]), or "
            "interpret the kernel: pallas_call(..., interpret=pltpu.InterpretParams())."
        )


@final
class Seed(_OfGenerator):
    """Seeds the generator. Operands: int32 scalars."""

    __slots__ = ()
    name = "prng_seed"

    def types(self, *avals: ShapedArray) -> Any:
        return ()


@final
class Bits(_OfGenerator):
    """Random bits, int32."""

    __slots__ = ()
    name = "prng_random_bits"

    def types(self, *, shape: tuple[int, ...]) -> Any:
        return (ShapedArray(shape, np.dtype(np.int32)),)


prng_seed_p, prng_random_bits_p = Seed(), Bits()


def _only_in_kernels(name: str) -> None:
    if not in_kernel():
        raise NotImplementedError(
            f"{name}: the generator of a TPU core is there in kernels only.\n  Draw by jax.random."
        )


@tracebacks.api_boundary
def prng_seed(*seeds: ArrayLike) -> None:
    """Seed the generator of the core that runs the kernel. seeds: integers, at most two on TPUs."""
    _only_in_kernels("prng_seed")
    prng_seed_p.call(*(jnp.asarray(s, np.int32) for s in seeds))


@tracebacks.api_boundary
def prng_random_bits(shape: Sequence[int]) -> Any:
    """Random bits of the core's generator, int32. They differ from chip to chip."""
    _only_in_kernels("prng_random_bits")
    return prng_random_bits_p.call(shape=tuple(shape))[0]


# --- For profiles -------------------------------------------------------------------------------


@final
class Delay(Primitive):
    """Waits for some nanoseconds, on TPUs."""

    __slots__ = ()
    name = "delay"
    multiple_results = True
    mergeable = False

    def types(self, *avals: ShapedArray) -> Any:
        return ()

    def lower(self, ctx: Context, *xs: Array) -> Any:
        return ()


delay_p = Delay()


def delay(nanos: ArrayLike) -> None:
    """Wait, where time is counted; nothing elsewhere."""
    if in_kernel():
        delay_p.call(jnp.asarray(nanos, np.int32))


INSTRUCTIONS = (
    roll_p,
    packed_bitcast_p,
    approximate_reciprocal_p,
    multiple_of_p,
    pack_elementwise_p,
    unpack_elementwise_p,
    stochastic_round_p,
)
