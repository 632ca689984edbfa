"""Transposes x.T of programs in which x and x.T go through the same operations.

XLA gives a transposed array the layout of its operand, and elementwise operations keep layouts. So
operations after a transpose are on columns, and compile a second time if they are also applied to
the array itself, as when rows and columns of scores are normalised. Parameters of functions lie by
rows, also once the function is inlined. So the pass puts a call of a function behind the transpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._core import structure
from teucer._core.cost import Work
from teucer._core.jaxpr import Eqn, Jaxpr, Literal, Var, new_eqn
from teucer._core.primitive import Primitive
from teucer._optimize.passes import changed_once, map_jaxprs
from teucer._optimize.structure import params_key

if TYPE_CHECKING:
    from teucer._core.typing import Array, Aval
    from teucer._lower.context import Context
    from teucer._lower.value import Value


@structure.internal
@final
class ByRows(Primitive):
    """An array unchanged, but laid out by rows for later operations."""

    __slots__ = ()
    name = "by_rows"

    def types(self, x: Aval) -> Any:
        return (x,)

    def evaluate(self, x: Array) -> Any:
        return (x,)

    def lower(self, ctx: Context, x: Value) -> Any:
        if ctx.module.mesh is not None:  # the compiler divides the array
            return (x,)
        key = (self, x.aval, ctx.platforms)
        if key not in ctx.module.emitted:
            symbol = ctx.function(self.name, [x.aval], [x.aval], lambda x: (x,))
            ctx.module.emitted[key] = (symbol, self)
        symbol, _ = ctx.module.emitted[key]
        return ctx.op("func.call", (x,), (x.aval,), f"callee = @{symbol}")


by_rows_p = ByRows()


def by_rows(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr, inner ones included, with these transposes laid out by rows. It computes the same
    bits."""
    return changed_once(jaxpr, by_rows, _changed)


def _changed(jaxpr: Jaxpr) -> Jaxpr:
    eqns = [map_jaxprs(eqn, by_rows) if eqn.primitive.higher_order else eqn for eqn in jaxpr.eqns]
    transposes = {
        eqn.outvars[0]: eqn.invars[0]
        for eqn in eqns
        if eqn.primitive.cost.work is Work.TRANSPOSE and eqn.invars[0].aval is eqn.outvars[0].aval
    }
    if transposes:
        letters = _letters(eqns, {*transposes, *transposes.values()})
        alike = {y for y, x in transposes.items() if letters[x] & letters[y]}
        eqns = [
            new
            for eqn in eqns
            for new in ([eqn] if alike.isdisjoint(eqn.outvars) else _settled(eqn))
        ]
    return jaxpr if eqns == jaxpr.eqns else jaxpr.replace(eqns=eqns)


def _letters(eqns: Sequence[Eqn], arrays: set[Any]) -> dict[Any, set[Any]]:
    """For each of the arrays: keys of the equations that take it and no other of the arrays."""
    letters: dict[Any, set[Any]] = {x: set() for x in arrays}
    for eqn in eqns:
        taken = {v for v in eqn.invars if type(v) is not Literal and v in arrays}
        if len(taken) == 1 and (eqn.primitive.cost.fuses or eqn.primitive.cost.reduces):
            letters[taken.pop()].add((eqn.primitive, params_key(eqn.params)))
    return letters


def _settled(eqn: Eqn) -> list[Eqn]:
    """A transpose, and the equation that lays its result out by rows."""
    y = Var(eqn.outvars[0].aval)
    return [eqn.replace(outvars=[y]), new_eqn(by_rows_p, [y], eqn.outvars, {}, eqn.source)]
