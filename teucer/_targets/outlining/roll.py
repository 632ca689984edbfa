"""Rolling: calls of one function that follow one another, such as the steps of a solver, become one
loop.

Values that each call takes from the one before are carried; operands that are the same for all
calls are constants; other operands are stacked, and so are the results that are used behind the
loop. A loop takes the stacked results of another as they are, in either direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

from teucer._core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from teucer._core.primitive import NO_EFFECTS
from teucer._core.provided import provided
from teucer._targets.outlining.bytes import bytes_of

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.types import ShapedArray


class Calls(NamedTuple):
    """Calls of one function, one after the other.

    operands: for each argument, the operand of each call. results: for each result, the variable of
    each call.
    used: for each result and call, whether anything behind the calls uses it.
    """

    closed: ClosedJaxpr
    operands: Sequence[Sequence[Atom]]
    results: Sequence[Sequence[Var]]
    used: Sequence[Sequence[bool]]


@final
class Roller:
    """Makes loops of a program's calls, in their order.

    elements: by variable, the stacked array that has it as an element, and the element's index.
    """

    def __init__(self, eqns: Sequence[Eqn]) -> None:
        """eqns: equations before the calls, some of which take elements such as `xs[3]`."""
        self.elements: dict[Any, tuple[Var, int]] = {}
        rows: dict[Any, tuple[Var, int]] = {}  # xs[3:4]
        for eqn in eqns:
            if len(eqn.invars) != 1 or len(eqn.outvars) != 1:
                continue
            (x,), (y,) = eqn.invars, eqn.outvars
            if (
                type(x) is Var
                and eqn.primitive is provided.loops().slice
                and y.aval.shape == (1, *x.aval.shape[1:])
            ):
                rows[y] = x, eqn.params["start_indices"][0]
            elif x in rows and eqn.primitive.rearranges and y.aval.shape == x.aval.shape[1:]:
                self.elements[y] = rows[x]

    def roll(self, calls: Calls, most: int) -> list[Eqn] | None:
        """The calls as a loop; None if one takes other than results of the call before, or if the
        loop would have to stack more than `most` bytes a step, which is time and memory that calls
        do not take."""
        kinds = _kinds(calls)
        if kinds is None:
            return None
        constant, carried, stacked = kinds
        groups = [calls.operands[i] for i in stacked]
        ranges = [self._range(group) for group in groups]
        sizes = [bytes_of(group[0].aval) for group in groups]
        backwards = sum(n for n, r in zip(sizes, ranges, strict=True) if r and r.step < 0) > sum(
            n for n, r in zip(sizes, ranges, strict=True) if r and r.step > 0
        )
        ranges = [r if r and (r.step < 0) == backwards else None for r in ranges]
        if sum(n for n, r in zip(sizes, ranges, strict=True) if r is None) > most:
            return None
        eqns: list[Eqn] = []
        direction = -1 if backwards else 1
        xs = [
            self._part(eqns, r) if r else self._stack(eqns, group[::direction])
            for group, r in zip(groups, ranges, strict=True)
        ]
        jaxpr, length = calls.closed.jaxpr, len(calls.results[0])
        carries = [place for _, place in carried]
        # The last results that are carried come out of the loop; the others that are used come out
        # stacked.
        kept = [
            place
            for place, used in enumerate(calls.used)
            if any(used[:-1]) or (used[-1] and place not in carries)
        ]
        order = [*constant, *[i for i, _ in carried], *stacked]
        body = Jaxpr(
            [],
            [jaxpr.invars[i] for i in order],
            [jaxpr.outvars[place] for place in (*carries, *kept)],
            jaxpr.eqns,
        )
        first = [calls.operands[i][0] for i in order[: len(constant) + len(carried)]]
        finals = [
            Var(jaxpr.outvars[place].aval) if place in carries[:n] else calls.results[place][-1]
            for n, place in enumerate(carries)
        ]
        ys = [Var(_stacked(jaxpr.outvars[place].aval, length)) for place in kept]
        eqns.append(
            _eqn(
                provided.loops().scan,
                [*first, *xs],
                [*finals, *ys],
                jaxpr=ClosedJaxpr(body),
                length=length,
                reverse=backwards,
                num_consts=len(constant),
                num_carry=len(carried),
                unroll=1,
            )
        )
        for place, y in zip(kept, ys, strict=True):
            across = [
                Var(v.aval) if place in carries and v is calls.results[place][-1] else v
                for v in calls.results[place]
            ]
            eqns.append(_eqn(provided.loops().unstack, [y], across[::direction], axis=0))
            self._remember(y, across[::direction])
        return eqns

    def stacked_for(self, calls: Calls) -> set[Var]:
        """The stacked arrays of which the calls take elements."""
        return {
            self.elements[v][0]
            for group in calls.operands
            for v in group
            if type(v) is not Literal and v in self.elements
        }

    def _remember(self, whole: Var, elements: Sequence[object]) -> None:
        self.elements.update(
            (v, (whole, i)) for i, v in enumerate(elements) if type(v) is not Literal
        )

    def _range(self, group: Sequence[Atom]) -> _Range | None:
        """The part of a stacked array that has these elements, in one direction or the other."""
        places = [self.elements.get(v) if type(v) is not Literal else None for v in group]
        first, second = places[:2]
        if first is None or second is None or first[0] is not second[0]:
            return None
        whole, start = first
        step = second[1] - start
        if abs(step) != 1 or any(
            p is None or p[0] is not whole or p[1] != start + step * n for n, p in enumerate(places)
        ):
            return None
        return _Range(whole, min(start, start + step * (len(group) - 1)), len(group), step)

    def _part(self, eqns: list[Eqn], part: _Range) -> Var:
        whole, start, count, _ = part
        n, *rest = whole.aval.shape
        if count == n:
            return whole
        out = Var(_stacked(whole.aval.update(shape=tuple(rest)), count))
        eqns.append(
            _eqn(
                provided.loops().slice,
                [whole],
                [out],
                start_indices=(start, *[0] * len(rest)),
                limit_indices=(start + count, *rest),
                strides=None,
            )
        )
        return out

    def _stack(self, eqns: list[Eqn], group: Sequence[Atom]) -> Var:
        out = Var(_stacked(group[0].aval, len(group)))
        eqns.append(_eqn(provided.loops().stack, group, [out], axis=0))
        self._remember(out, group)
        return out


class _Range(NamedTuple):
    """A range of elements of the stacked array `whole`: `size` elements from `start` on, in the
    direction of `step`."""

    whole: Var
    start: int
    size: int
    step: int


def _kinds(calls: Calls) -> tuple[list[int], list[tuple[int, int]], list[int]] | None:
    """For each argument: whether all calls take the same, or which result of the call before they
    take, or neither; None if an argument is a result of another call."""
    made = {
        v: (number, place)
        for place, across in enumerate(calls.results)
        for number, v in enumerate(across)
    }
    constant: list[int] = []
    carried: list[tuple[int, int]] = []
    stacked: list[int] = []
    for i, across in enumerate(calls.operands):
        origins = [made.get(v) if type(v) is not Literal else None for v in across]
        if not any(origins):
            (constant if all(v is across[0] for v in across) else stacked).append(i)
            continue
        place = origins[1][1] if origins[1] else -1
        if origins != [None, *((number, place) for number in range(len(across) - 1))]:
            return None
        carried.append((i, place))
    return constant, carried, stacked


def _eqn(
    primitive: Primitive, operands: Sequence[Atom], outvars: Sequence[Var], **params: object
) -> Eqn:
    return Eqn(primitive, operands, outvars, params, NO_EFFECTS, None)


def _stacked(aval: ShapedArray, count: int) -> Any:
    sharding = None if aval.partition is None else aval.partition.inserted(aval.ndim, 0, None)
    return aval.update(shape=(count, *aval.shape), sharding=sharding)
