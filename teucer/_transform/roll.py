"""Rolling: calls of one function that follow one another, such as the steps of a solver, become one loop.

What each call takes from the one before is carried; what all take alike is constant; other operands are stacked, and so are
the results that are used behind the loop. What one loop stacks another one takes as it is, in either direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, final

from teucer._core.jaxpr import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var
from teucer._core.primitive import NO_EFFECTS

__all__ = ["Calls", "Roller", "install"]

_ops: dict[str, Any] = {}


def install(**primitives: Any) -> None:
    """Say what the primitives `scan`, `stack`, `unstack` and `slice` are: `lax` states them and installs them here."""
    _ops.update(primitives)


class Calls(NamedTuple):
    """Calls of one function, one after the other.

    operands: for each argument, what the calls take. results: for each result, what the calls name it.
    used: for each result and call, whether anything behind the calls uses it.
    """

    closed: ClosedJaxpr
    operands: Sequence[Sequence[Atom]]
    results: Sequence[Sequence[Var]]
    used: Sequence[Sequence[bool]]
    source: Any


@final
class Roller:
    """Makes loops of a program's calls, in their order.

    elements: by variable, the stacked array of which it is an element, and which.
    """

    def __init__(self) -> None:
        self.elements: dict[Any, tuple[Var, int]] = {}

    def roll(self, calls: Calls, most: int) -> list[Eqn] | None:
        """The calls as a loop; None if one takes more than results of the one before, or if they stack and unstack more
        than `most` bytes a step, which is time and memory that calls do not take."""
        length = len(calls.operands[0]) if calls.operands else len(calls.results[0])
        made = {v: (number, place) for place, across in enumerate(calls.results) for number, v in enumerate(across)}
        constant, carried, stacked = [], [], []
        for i, across in enumerate(calls.operands):
            before = [made.get(v) if type(v) is not Literal else None for v in across]
            if not any(before[1:]):
                if before[0] is not None:
                    return None
                (constant if all(v is across[0] for v in across) else stacked).append(i)
                continue
            places = {b[1] if b is not None and b[0] == number else None for number, b in enumerate(before[1:])}
            (place,) = places if len(places) == 1 else (None,)
            if place is None or before[0] is not None:
                return None
            carried.append((i, place))
        kept = [place for place, used in enumerate(calls.used) if any(used[:-1])
                or (used[-1] and place not in {p for _, p in carried})]
        backwards = self._runs_backwards([calls.operands[i] for i in stacked])
        eqns: list[Eqn] = []
        taken = [self._as_stacked(calls.operands[i], backwards) for i in stacked]
        size = sum(_bytes(calls.operands[i][0].aval) for i, found in zip(stacked, taken, strict=True) if found is None)
        if size + sum(_bytes(calls.results[place][0].aval) for place in kept if calls.used[place][-1]) > most:
            return None
        xs = [found if found is not None else self._stack(eqns, calls.operands[i], backwards)
              for i, found in zip(stacked, taken, strict=True)]
        jaxpr = calls.closed.jaxpr
        order = [*constant, *(i for i, _ in carried), *stacked]
        outvars = [*(jaxpr.outvars[place] for _, place in carried), *(jaxpr.outvars[place] for place in kept)]
        body = ClosedJaxpr(Jaxpr([], [jaxpr.invars[i] for i in order], outvars, jaxpr.eqns))
        operands = [calls.operands[i][0] for i in order[:len(constant) + len(carried)]]
        last = {}
        for _, place in carried:
            last.setdefault(place, calls.results[place][-1])
        names = [last.pop(place) if place in last else DropVar(jaxpr.outvars[place].aval) for _, place in carried]
        ys = [Var(_stacked_aval(jaxpr.outvars[place].aval, length)) for place in kept]
        eqns.append(self._eqn("scan", [*operands, *_written(eqns, xs)], [*names, *ys], source=calls.source, jaxpr=body, length=length,
                              num_consts=len(constant), num_carry=len(carried), reverse=backwards, unroll=1))
        carries = {place for _, place in carried}
        for place, y in zip(kept, ys, strict=True):
            across = list(calls.results[place])
            if place in carries:  # the last one is what the loop carries out
                across[-1] = DropVar(across[-1].aval)
            self._unstack(eqns, y, across[::-1] if backwards else across)
        return eqns
