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


roll_p = Instruction("roll", _rolled)
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


INSTRUCTIONS = (roll_p, packed_bitcast_p, approximate_reciprocal_p, multiple_of_p)
