"""Operations that NVIDIA's GPUs have: an approximate tanh, barriers, inline assembly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from teucer import lax
from teucer import numpy as jnp
from teucer._base import dtypes
from teucer._core import array_ops
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, Dims, Value
    from teucer._lower.context import Context


@final
class ApproxTanh(Primitive):
    """The hyperbolic tangent, by an instruction of the GPU; on other platforms as exact as tanh.
    (C1) floats."""

    __slots__ = ()
    name = "approx_tanh"

    def types(self, x: Any) -> Any:
        if not dtypes.issubdtype(x.dtype, jnp.floating):
            raise TypeError(
                f"approx_tanh does not accept dtype {x.dtype}: an array of floats is wanted."
            )
        return (x,)

    def lower(self, ctx: Any, x: Any) -> Any:
        return ctx.trace(lambda x: (lax.tanh(x),), x)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        (y,) = outs = self.call(*primals)
        (t,) = tangents
        return outs, (
            typeof(y).zero
            if type(t) is Zero
            else lax.mul(t, lax.sub(lax.full_like(y, 1), lax.mul(y, y))),
        )

    def batch(self, axis: Any, args: Sequence[Array], dims: Dims) -> Any:
        return self.call(*args), dims


@final
class DebugBarrier(Primitive):
    """All threads of a step wait for one another. No operands, no results."""

    __slots__ = ()
    name = "debug_barrier"
    multiple_results = True
    mergeable = False

    def types(self) -> Any:
        return ()

    def lower(self, ctx: Context) -> Any:
        return ()


@final
class InlineAssembly(Primitive):
    """Instructions of the GPU on corresponding elements. Operands have one shape.  (C1) results
    have it too."""

    __slots__ = ()
    name = "elementwise_inline_asm"
    multiple_results = True

    def types(self, *avals: Any, results: tuple[Any, ...], **params: object) -> Any:
        shape = avals[0].shape if avals else results[0][0]
        if any(s != shape for s, _ in results) or any(a.shape != shape for a in avals):
            raise ValueError(
                "elementwise_inline_asm: operands and results must have one shape, got "
                f"{[a.shape for a in avals]} and {[s for s, _ in results]}."
            )
        return tuple([ShapedArray(s, d) for s, d in results])

    def lower(self, ctx: Context, *xs: Any, asm: str, **params: object) -> Any:
        raise NotImplementedError(
            f"elementwise_inline_asm: {ctx.platform} does not know NVIDIA's instructions.\n"
            f"    asm: {asm!r:.80}\n"
            "  Run the kernel on an NVIDIA GPU, or write what it computes by jnp."
        )

    def batch(
        self, axis: Any, args: Any, dims: Any, *, results: tuple[Any, ...], **params: object
    ) -> Any:
        xs = [array_ops.to_axis(x, d, axis.size, 0) for x, d in zip(args, dims, strict=True)]
        wider = tuple([((axis.size, *s), d) for s, d in results])
        return self.call(*xs, results=wider, **params), (0,) * len(results)


approx_tanh_p, debug_barrier_p, elementwise_inline_asm_p = (
    ApproxTanh(),
    DebugBarrier(),
    InlineAssembly(),
)


def approx_tanh(x: ArrayLike) -> Any:
    """tanh(x), on NVIDIA GPUs by one instruction, with a relative error of about 2**-11 for
    float32.

    x: T[shape], T floating  ->  T[shape]. Source: PTX ISA, tanh.approx.

    >>> approx_tanh(jnp.zeros(2))
    Array([0., 0.], dtype=float32)
    """
    return approx_tanh_p.call(x)[0]


def debug_barrier() -> None:
    """Let all threads of a step of the grid wait for one another; nothing where a step has one
    thread."""
    debug_barrier_p.call()


def elementwise_inline_asm(
    asm: str, *, args: Sequence[Value], constraints: str, pack: int, result_shape_dtypes: Any
) -> Any:
    """Apply instructions of NVIDIA's PTX to corresponding elements of arrays of one shape.

    asm: the instructions, with $0, $1, ... for results and operands. constraints: their registers,
    as LLVM writes them, '=r,r'.
    pack: how many elements of each array one piece of assembly takes.
    result_shape_dtypes: things with shape and dtype, of the results. Returns a list of arrays.
    Raises on other platforms.
    """
    results = tuple((tuple(s.shape), dtypes.as_dtype(s.dtype)) for s in result_shape_dtypes)
    return list(
        elementwise_inline_asm_p.call(
            *args, asm=asm, constraints=constraints, pack=int(pack), results=results
        )
    )


def max_contiguous(x: ArrayLike, values: Sequence[Value]) -> Any:
    """x, with the promise that its first `values` elements are contiguous."""
    return x
