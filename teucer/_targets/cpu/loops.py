"""The loops of machine code that XLA makes of equations, as far as they can be told beforehand.

A loop ends at an equation that does not fuse with what reads its result, or at a result of the
program. It computes the equations before it that fuse.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from teucer._core.cost import Work
from teucer._core.jaxpr import Atom, Eqn, Jaxpr
from teucer._optimize.structure import params_key
from teucer._targets.cpu.constants import WAYS


def computes_operands(eqn: Eqn) -> bool:
    """Whether the loop of an equation can compute its operands."""
    cost = eqn.primitive.cost
    return cost.fuses or cost.reduces or cost.work is Work.GATHER


class Reading:
    """How loops read the variables of a jaxpr.

    A loop computes a variable once for each way in which it reads it.

    apart: whether a loop that rearranges elements reads them in another way than one that does not.
    ways: for each variable the elements that are computed in each way. Ways are numbers; more than
    `WAYS` are not told apart.
    spread: the variables that are read by loops over more elements.
    """

    def __init__(self, jaxpr: Jaxpr, *, apart: bool = True) -> None:
        self.ways: dict[Atom, dict[int, float]] = {}
        self.spread: set[Atom] = set()
        self.apart = apart
        self._end(len(jaxpr.eqns), jaxpr.outvars)
        for i in reversed(range(len(jaxpr.eqns))):
            eqn = jaxpr.eqns[i]
            if eqn.primitive.cost.fuses:
                self._read(i, eqn)
            else:
                self._end(i, eqn.invars)

    def _end(self, i: int, operands: Sequence[Atom]) -> None:
        for n, v in enumerate(operands):
            self.ways.setdefault(v, {})[hash((i, n))] = v.aval.size

    def _read(self, i: int, eqn: Eqn) -> None:
        size = max([v.aval.size for v in eqn.outvars])
        own: dict[int, float] = {}
        for out in eqn.outvars:
            own.update(self.ways.get(out, ()))
        if self.apart and eqn.primitive.rearranges:
            own = {hash((i, way)): n for way, n in own.items()}
        for v in eqn.invars:
            if v.aval.size < size or not self.spread.isdisjoint(eqn.outvars):
                self.spread.add(v)
            each = _evaluated(eqn, v) / max(size, 1)
            found = self.ways.setdefault(v, {})
            for way, n in own.items():
                if way in found or len(found) < WAYS:
                    found[way] = max(found.get(way, 0), each * n)


def _evaluated(eqn: Eqn, operand: Atom) -> int:
    """How many elements of an operand the loop of an equation computes. Elements that are constant
    in the innermost loop are computed outside it."""
    size: int = operand.aval.size
    shape: tuple[int, ...] = eqn.outvars[0].aval.shape
    if size == 1 or eqn.primitive.cost.work is not Work.BROADCAST:
        return min(size, math.prod(shape))
    axes: tuple[int, ...] = eqn.params["broadcast_dimensions"]
    last = max([axis for n, axis in zip(operand.aval.shape, axes, strict=True) if n != 1])
    return math.prod(shape[: last + 1])


class Graph:
    """The equations of a jaxpr, and the readers of their results.

    makers: the number of the equation that makes a variable. readers: for each equation the numbers
    of equations that read its results; -1 for results of the program. letters: for each equation a
    key of the loop that makes its result.
    """

    def __init__(self, eqns: list[Eqn], results: Sequence[Atom]) -> None:
        self.eqns = eqns
        self.makers = {v: i for i, eqn in enumerate(eqns) for v in eqn.outvars}
        self.readers: list[set[int]] = [set() for _ in eqns]
        for i, vs in [*((i, eqn.invars) for i, eqn in enumerate(eqns)), (-1, results)]:
            for v in vs:
                if v in self.makers:
                    self.readers[self.makers[v]].add(i)
        self.letters = _letters(eqns)

    def makers_of(self, i: int) -> set[int]:
        """The equations that make the operands of one."""
        return {self.makers[v] for v in self.eqns[i].invars if v in self.makers}

    def ends_loop(self, i: int, region: set[int]) -> bool:
        """Whether a loop of a region makes the result of an equation."""
        return not self.eqns[i].primitive.cost.fuses or not self.readers[i] <= region

    def ends_apart(self, i: int, region: set[int]) -> bool:
        """Whether a loop makes the result of an equation if the region is no kernel. Then a reader
        outside may compute it, unless it has to be in memory."""
        return not self.eqns[i].primitive.cost.fuses or any(
            j < 0 or not computes_operands(self.eqns[j]) for j in self.readers[i] - region
        )


def _letters(eqns: Sequence[Eqn]) -> list[Hashable]:
    letters: list[Hashable] = []
    of: dict[Atom, Hashable] = {}
    for i, eqn in enumerate(eqns):
        operands = [of.get(v, v.aval) for v in eqn.invars]
        try:
            letter: Hashable = hash((eqn.primitive, params_key(eqn.params), *operands))
        except TypeError:  # a parameter that is not hashable
            letter = i
        if eqn.primitive.cost.fuses:
            of.update(dict.fromkeys(eqn.outvars, letter))
        letters.append(letter)
    return letters
