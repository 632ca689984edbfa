"""Primitives that are defined by a program: the rules that they do not state follow from it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from teucer._core import array_ops
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.primitive import Primitive, Undefined
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import typeof
from teucer._core.types import Zero
from teucer._transform.batch import batch_jaxpr
from teucer._transform.jvp import jvp_jaxpr, split_tangents
from teucer._transform.transpose import transpose_jaxpr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.typing import Array, Params, Value
    from teucer._lower.context import Context


@functools.lru_cache(4096)
def _staged(primitive: Defined, avals: tuple[Any, ...], params: tuple[Any, ...]) -> ClosedJaxpr:
    # The programs are pure, so one of them serves whatever trace asks first.
    return stage_jaxpr(lambda *args: primitive.program(*args, **dict(params)), avals)


class Defined(Primitive):
    """A primitive that computes `program(*operands, **params)`, a function of arrays that returns a
    tuple.

    It stays one operation in a jaxpr, so that other interpreters (`sparsify`) find it whole.
    """

    __slots__ = ()
    # A program that computes the same and is faster; it need not have derivatives.
    quick: Callable[..., tuple[Any, ...]] | None = None

    def program(self, *args: Any, **params: object) -> tuple[Any, ...]:
        """The definition, in terms of lax."""
        raise NotImplementedError(f"{type(self).__name__}.program")

    def jaxpr(self, avals: Any, params: Params) -> ClosedJaxpr:
        """The program as a jaxpr, kept for types that have been met before."""
        return _staged(self, tuple(avals), tuple(sorted(params.items())))

    def types(self, *avals: Any, **params: object) -> tuple[Any, ...]:
        return tuple(self.jaxpr(avals, params).out_avals)

    def lower(self, ctx: Context, *values: Any, **params: object) -> tuple[Any, ...]:
        program = self.program if self.quick is None else self.quick
        return ctx.trace(lambda *args: program(*args, **params), *values)

    def jvp(self, primals: Sequence[Value], tangents: Any, **params: object) -> Any:
        closed = self.jaxpr([typeof(x) for x in primals], params)
        moving = [type(t) is not Zero for t in tangents]
        jvp, out_moving = jvp_jaxpr(closed, moving, False)
        given = [t for t, m in zip(tangents, moving, strict=True) if m]
        return split_tangents(jvp(*primals, *given), out_moving)

    def transpose(self, cts: Any, *args: Any, **params: object) -> Any:
        closed = self.jaxpr([x.aval if type(x) is Undefined else typeof(x) for x in args], params)
        linear = [type(x) is Undefined for x in args]
        given = [type(ct) is not Zero for ct in cts]
        transposed, nonzero = transpose_jaxpr(closed, linear, given)
        operands = [x for x, lin in zip(args, linear, strict=True) if not lin]
        operands += [ct for ct, g in zip(cts, given, strict=True) if g]
        outs = iter(transposed(*operands))
        found = iter([next(outs) if nz else None for nz in nonzero])
        return tuple(next(found) if lin else None for lin in linear)

    def batch(self, axis: Any, args: Sequence[Array], dims: Any, **params: object) -> Any:
        operands = [
            x if d is None else array_ops.moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True)
        ]
        avals = [
            typeof(x) if d is None else typeof(x).update(shape=typeof(x).shape[1:])
            for x, d in zip(operands, dims, strict=True)
        ]
        closed = self.jaxpr(avals, params)
        batched, out_batched = batch_jaxpr(closed, axis, [d is not None for d in dims], False)
        return batched(*operands), tuple(0 if b else None for b in out_batched)


class _Program(Defined):
    __slots__ = ()

    def __init__(
        self, name: str, several: bool, quick: Any, program: Callable[..., tuple[object, ...]]
    ) -> None:
        self.name, self.multiple_results, self.quick = name, several, quick
        self.program = program  # type: ignore[method-assign]


def defined(
    name: str, *, several: bool = False, quick: Callable[..., tuple[object, ...]] | None = None
) -> Callable[[Callable[..., tuple[Any, ...]]], Defined]:
    """A decorator: the primitive `name` that computes a function; several: whether that has more
    results than one."""
    return lambda program: _Program(name, several, quick, program)
