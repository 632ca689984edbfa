"""The lowering of high types.

A jaxpr with values of libraries' types becomes a jaxpr on arrays and references
(docs/high_types.md).

It evaluates the jaxpr on high values that hold traced arrays: each high primitive is replaced by
its own implementation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, final

from teucer._core import array_ops, dialects
from teucer._core.high import AvalQDD, is_high, low_types, low_values, stated
from teucer._core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr, jaxprs_in_params
from teucer._core.reference_types import RefType
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import Trace, current_trace, using
from teucer._dialects.references.discharge import with_literals

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Aval, Params, Value, Values


def has_high_boundary(jaxpr: Jaxpr) -> bool:
    """Whether inputs or results of a jaxpr have high types."""
    return any(is_high(v.aval) for v in (*jaxpr.constvars, *jaxpr.invars, *jaxpr.outvars))


class Operands(NamedTuple):
    """The operands of a call, taken apart.

    sources: for each low value, the operand that it is a part of.
    """

    low: list[Any]
    sources: list[int]

    def count(self, start: int, stop: int) -> int:
        """How many low values make up the operands from `start` to `stop`."""
        return sum(start <= i < stop for i in self.sources)


class Low(NamedTuple):
    """A jaxpr on low values: (low inputs) -> (low results, then the last low values of inputs that
    change).

    outs: the types of the high results. ends: for each input that changes its number, its type, and
    its last state.
    """

    jaxpr: ClosedJaxpr
    outs: tuple[Any, ...]
    ends: tuple[tuple[int, AvalQDD], ...]

    def raised(self, outs: Sequence[Value], operands: Sequence[Value]) -> tuple[Any, ...]:
        """The results of the high jaxpr, from the results of the low one. Operands that change get
        their new states."""
        rest = iter(outs)
        results = tuple([_raised(aval, rest) for aval in self.outs])
        for i, end in self.ends:
            end.aval.update_from_loval(end.qdd, operands[i], *islice(rest, len(low_types(end))))
        return results


def _raised(aval: Aval, values: Iterator[Value]) -> Any:
    """A value of type `aval`, made of the next low values of the iterator."""
    if not is_high(aval):
        return next(values)
    parts = list(islice(values, len(low_types(aval))))
    return aval.new_from_loval(*parts) if type(aval) is AvalQDD else aval.raise_val(*parts)


def taken_apart(
    operands: Sequence[Value], avals: Sequence[Aval], refs: dict[int, list[Value]] | None = None
) -> Operands:
    """The operands of a call, taken apart into low values.

    With `refs`, operands that change become references, which are kept there by the id of the
    operand. An operand that is given twice becomes the same references.
    """
    low: list[Any] = []
    sources: list[int] = []
    for i, (x, aval) in enumerate(zip(operands, avals, strict=True)):
        if refs is not None and type(aval) is AvalQDD:
            parts = refs.get(id(x))
            if parts is None:
                parts = refs[id(x)] = list(map(array_ops.new_reference, low_values(x, aval)))
        else:
            parts = low_values(x, aval)
        low += parts
        sources += [i] * len(parts)
    return Operands(low, sources)


def lowered(closed: ClosedJaxpr, *, in_place: bool = False) -> Low:
    """A jaxpr on low values. Kept on it.

    in_place: inputs that change are references to the low values of which they are made, which the
    jaxpr writes at its end; their state may not change. Raises TypeError if it does.
    """
    found: Low = closed.kept(("low", in_place), lambda: _lowered(closed, in_place))
    return found


def _lowered(closed: ClosedJaxpr, in_place: bool) -> Low:
    avals = closed.in_avals
    ends: list[tuple[int, AvalQDD]] = []

    def on_low(*args: Value) -> list[Any]:
        # Libraries use their own primitives to take values apart, too.
        with using(LowTrace(current_trace())):
            return evaluated(iter(args))

    def evaluated(rest: Iterator[Value]) -> list[Any]:
        given: list[Any] = []
        refs: dict[int, list[Any]] = {}
        for i, aval in enumerate(avals):
            if in_place and type(aval) is AvalQDD:
                refs[i] = list(islice(rest, len(low_types(aval))))
                given.append(aval.new_from_loval(*map(array_ops.read_reference, refs[i])))
            else:
                given.append(_raised(aval, rest))
        first = {i: low_values(given[i], avals[i]) for i in refs}
        outs = eval_jaxpr(closed.jaxpr, closed.consts, *given)
        low = [
            v for y, aval in zip(outs, closed.out_avals, strict=True) for v in low_values(y, aval)
        ]
        ends[:] = [
            (i, AvalQDD(a.aval, given[i].cur_qdd()))
            for i, a in enumerate(avals)
            if type(a) is AvalQDD
        ]
        for i, end in ends:
            if in_place:
                _write(refs[i], first[i], low_values(given[i], end), avals[i], end)
            else:
                low += low_values(given[i], end)
        return low

    low_avals = [
        RefType(low) if in_place and type(a) is AvalQDD else low
        for a in avals
        for low in low_types(a)
    ]
    jaxpr = stage_jaxpr(on_low, low_avals, closed.jaxpr.debug_info)
    return Low(jaxpr, tuple(closed.out_avals), () if in_place else tuple(ends))


def _write(refs: Values, first: Values, last: Values, begin: AvalQDD, end: AvalQDD) -> None:
    """At the end of a loop's step, write the low values of a value to its references."""
    refuse_other_state(begin, end, "a step of a loop leaves it holding something else than before")
    for ref, old, new in zip(refs, first, last, strict=True):
        if new is not old:
            array_ops.write_reference(ref, new)


def refuse_other_state(one: AvalQDD, other: AvalQDD, why: str) -> None:
    """Raise TypeError unless two states of a value are of the same types."""
    if _unweak(one.qdd) != _unweak(other.qdd):
        raise TypeError(
            f"type-changing mutations not allowed: of a value of type {one.aval.str_short()}, "
            f"{why}.\n    one: {one.qdd}\n    other: {other.qdd}\n"
            "  The tree, the shapes and the dtypes must stay as they are."
        )


def refuse_mutable(primitive: Primitive, avals: Sequence[Aval]) -> None:
    """Raise NotImplementedError if a value that changes is in the carry or among the xs of a
    loop."""
    for aval in avals:
        if type(aval) is AvalQDD:
            raise NotImplementedError(
                f"{primitive}: a value that changes, of type {aval.str_short()}, is in the carry "
                "or among the xs of a loop.\n  Close over it."
            )


def put_back(
    operands: Sequence[Value], avals: Sequence[AvalQDD], refs: dict[int, list[Value]]
) -> None:
    """Give operands that change the new state, from their references after a loop."""
    done = set()
    for x, aval in zip(operands, avals, strict=True):
        if id(x) in refs and id(x) not in done:
            done.add(id(x))
            aval.aval.update_from_loval(aval.qdd, x, *map(array_ops.read_reference, refs[id(x)]))


def _unweak(state: object) -> Any:
    return state.normalize() if hasattr(state, "normalize") else state


@final
class LowTrace(Trace):
    """Evaluates high primitives, takes the operands of calls apart, and hands the rest on to the
    trace that records."""

    __slots__ = ()

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Params
    ) -> tuple[Any, ...]:
        if dialects.high[type(primitive)]:
            return primitive.evaluate(*args, **params)
        avals = [stated(x) for x in args]
        # Rules of custom functions have had their say.
        if (
            dialects.keeps_references[type(primitive)]
            or any(map(is_high, avals))
            or any(inner.is_high for inner in jaxprs_in_params(params))
            or (dialects.makes_references[type(primitive)] and not args and params["aval"].is_high)
        ):
            on_low = dialects.on_low.of(primitive)
            if on_low is not None:
                return tuple(on_low(args, avals, **params))
            raise NotImplementedError(
                f"{primitive}: it carries or takes values of high types, and is not known to take "
                f"them apart.\n    operands: {', '.join(a.str_short(True) for a in avals)}\n"
                f"  Define {type(primitive).__name__}.on_low."
            )
        assert self.parent is not None
        return self.parent.process(primitive, args, params)

    def __repr__(self) -> str:
        return "a function on high types being lowered"


def evaluate_high(primitive: Primitive, args: tuple[Value, ...], params: Params) -> tuple[Any, ...]:
    """Run a primitive of arrays on concrete values, some of which are of high types."""
    return LowTrace(current_trace()).process(primitive, args, params)


def lower_high(jaxpr: Jaxpr) -> Jaxpr:
    """The pass: a jaxpr without constants whose inputs and results are low, with nothing high
    within."""
    found = with_literals(lowered(ClosedJaxpr(jaxpr)).jaxpr)
    assert not found.consts
    return found.jaxpr
