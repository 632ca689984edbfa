"""Loops over small arrays are joined into one kernel.

XLA makes a kernel of each loop. To set up its code generator takes ten milliseconds, whatever the
loop does, and each call of a kernel takes some hundred nanoseconds. A call with the attribute
`xla_cpu_small_call` is one kernel, whatever it computes: XLA's own passes write small loops of
`while` so. It runs on one processor, so arrays have to be small.

The words: an equation is *small* if such a kernel can compute it and its arrays are small. A
*region* is a set of small equations that may be computed at one place. A *loop* ends at an equation
that does not fuse with its readers.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Sequence
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from teucer._core.cost import Work
from teucer._core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, jaxprs_in_params, new_eqn
from teucer._core.structure import is_loop, times
from teucer._optimize.passes import changed_once, map_jaxprs
from teucer._targets.cpu.constants import (
    JOINED_LOOPS,
    JOINED_MOST,
    JOINED_OPERANDS,
    JOINED_RATES,
    JOINED_STEPS,
    REDUCED_MOST,
    WHOLE_CALL,
)
from teucer._targets.cpu.joined_call import joined_call_p
from teucer._targets.cpu.loops import Graph, computes_operands
from teucer._targets.outlined_call import outlined_call_p
from teucer._targets.outlining.bytes import bytes_of
from teucer._xla import client as xla

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray


# Primitives whose operands or results XLA lays out as suits it; their modules are loaded by
# programs that have them.
_REORDERING = (Work.TRANSPOSE, Work.CONVOLUTION)


def joined(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with its regions as calls, where one kernel compiles sooner than several. In loops
    too, except loops that XLA makes one kernel of. Results are the same."""
    return changed_once(jaxpr, joined, _changed)


def _changed(jaxpr: Jaxpr) -> Jaxpr:
    eqns = [
        map_jaxprs(eqn, joined)
        if eqn.primitive.higher_order
        and is_loop(eqn.primitive)
        and not _is_long(eqn)
        and not all(map(_fuses, jaxprs_in_params(eqn.params)))
        else eqn
        for eqn in jaxpr.eqns
    ]
    program = _Program(eqns, jaxpr.outvars)
    if regions := program.paying(program.regions()):
        eqns = program.with_calls(regions)
    return jaxpr if eqns == jaxpr.eqns else jaxpr.replace(eqns=eqns)


def _is_long(eqn: Eqn) -> bool:
    """Whether a loop has so many steps that running its kernels takes longer than compiling them:
    separate kernels can run in parallel."""
    return times(eqn) >= JOINED_STEPS


def _fuses(jaxpr: Jaxpr) -> bool:
    """Whether all that a jaxpr does can be part of a kernel."""
    return all(
        computes_operands(eqn)
        or _is_product_of_vectors(eqn)
        or (eqn.primitive.higher_order and all(map(_fuses, jaxprs_in_params(eqn.params))))
        for eqn in jaxpr.eqns
    )


def _reorders(eqn: Eqn) -> bool:
    """Whether the operands or the result of an equation may lie otherwise than by rows."""
    return eqn.primitive.cost.reorders or eqn.primitive.cost.work in _REORDERING


def _is_product_of_vectors(eqn: Eqn) -> bool:
    """Whether an equation is a product of a vector, which is a loop; others are YNNPACK's or
    Eigen's."""
    if eqn.primitive.cost.work is not Work.PRODUCT:
        return False
    avals = [v.aval for v in (*eqn.invars, *eqn.outvars)]
    vectors = 1 in [aval.ndim for aval in avals[:2]] and avals[2].ndim < 2
    return vectors and all(aval.dtype == avals[2].dtype for aval in avals)


def _is_plain(aval: ShapedArray) -> bool:
    """Whether such kernels were tested with this type of elements. Floats of 4 and 8 bits were
    not."""
    return aval.dtype.kind in "biufc" or aval.dtype.name == "bfloat16"


def _sums(eqn: Eqn) -> bool:
    return eqn.primitive.cost.reduces or _is_product_of_vectors(eqn)


def _is_small(eqn: Eqn) -> bool:
    cost = eqn.primitive.cost
    if eqn.primitive is outlined_call_p:
        # A function of several equations may be called again. Threads might share a large one.
        size = max([v.aval.size for v in eqn.outvars])
        if len(eqn.params["jaxpr"].jaxpr.eqns) != 1 or (xla.DIVIDES_CALLS and size >= WHOLE_CALL):
            return False
    elif eqn.primitive.higher_order or not (cost.fuses or _sums(eqn)):
        return False
    if eqn.effects or len(eqn.outvars) != 1 or len(eqn.invars) > JOINED_OPERANDS:
        return False
    avals = [v.aval for v in (*eqn.invars, *eqn.outvars)]
    return (
        all(
            not aval.symbolic and not aval.extended and _is_plain(aval) and aval.size
            for aval in avals
        )
        and not (_sums(eqn) and avals[0].size > REDUCED_MOST)
        and sum(map(bytes_of, avals)) <= JOINED_MOST
    )


class _Program(Graph):
    """The equations of a jaxpr; small: whether each may be part of a region."""

    def __init__(self, eqns: list[Eqn], results: Sequence[Atom]) -> None:
        super().__init__(eqns, results)
        self.small = [_is_small(eqn) for eqn in eqns]
        self._leave_what_fuses_outside()

    def _leave_what_fuses_outside(self) -> None:
        """Small equations stop counting as small in two cases: a region would separate them from a
        loop outside with which they fuse, or it would have to change the order of elements."""
        small = self.small
        numbers = range(len(self.eqns))
        for i in reversed(numbers):
            small[i] = small[i] and not (
                self.eqns[i].outvars[0].aval.ndim > 1
                and any(
                    j >= 0 and not small[j] and _reorders(self.eqns[j]) for j in self.readers[i]
                )
            )
        for i in numbers:
            outside = [j for j in self.makers_of(i) if not small[j]]
            small[i] = (
                small[i]
                and all(map(self._in_memory, outside))
                and not (self._is_reshape(i) and len(outside) == len(self.makers_of(i)))
            )
        for i in reversed(numbers):
            outside = [j for j in self.readers[i] if j < 0 or not small[j]]
            if small[i] and len(outside) == len(self.readers[i]):
                small[i] = not self._is_for_free(i) and (
                    not self.eqns[i].primitive.cost.fuses
                    or any(j < 0 or not computes_operands(self.eqns[j]) for j in outside)
                )

    def _is_for_free(self, i: int) -> bool:
        """Whether readers of an equation's result can read its operand as well."""
        return (
            self._is_reshape(i)
            or self.eqns[i].primitive.cost.work is Work.TRANSPOSE
            or all(type(v) is Literal for v in self.eqns[i].invars)
        )

    def _in_memory(self, i: int) -> bool:
        """Whether the result of an equation outside of regions is in memory row by row, rather than
        computed where it is read."""
        eqn = self.eqns[i]
        if _reorders(eqn):
            return bool(eqn.outvars[0].aval.ndim < 2)
        if not eqn.primitive.cost.fuses:
            return True
        if self._is_reshape(i):
            return all(map(self._in_memory, self.makers_of(i)))
        return any(j < 0 or not computes_operands(self.eqns[j]) for j in self.readers[i])

    def _is_reshape(self, i: int) -> bool:
        return self.eqns[i].primitive.cost.work is Work.RESHAPE

    def regions(self) -> list[list[int]]:
        """Sets of small equations, each in the order of the program.

        Equations whose results no large equation reads are one region, the last. The others are
        grouped by the number of regions that must run before them. A region has a bounded number of
        loops, since one processor compiles each kernel.
        """
        late = [False] * len(self.eqns)
        for i in reversed(range(len(self.eqns))):
            late[i] = self.small[i] and all(j < 0 or late[j] for j in self.readers[i])
        phases = [0] * len(self.eqns)
        found: dict[int, list[int]] = {}
        ordered = 0  # the phase of the last equation with effects, which stay in their order
        for i, eqn in enumerate(self.eqns):
            before = [phases[j] + (self.small[j] and not self.small[i]) for j in self.makers_of(i)]
            phases[i] = max(before, default=0)
            if eqn.effects:
                phases[i] = ordered = max(phases[i], ordered)
            if self.small[i]:
                found.setdefault(-1 if late[i] else phases[i], []).append(i)
        return [part for region in found.values() for part in self._parts(region)]

    def _parts(self, region: list[int]) -> list[list[int]]:
        parts, ends, inside = [list[int]()], 0, set(region)
        for i in region:
            if ends == JOINED_LOOPS:
                parts.append([])
                ends = 0
            parts[-1].append(i)
            ends += self.ends_loop(i, inside)
        return parts

    def paying(self, regions: list[list[int]]) -> list[list[int]]:
        """The regions that compile sooner as one kernel than as loops of their own. Of equal loops
        XLA compiles one, but not within kernels of several."""
        loops = []
        for region in regions:
            inside = set(region)
            loops.append({self.letters[i] for i in region if self.ends_apart(i, inside)})
        sharing = Counter(itertools.chain.from_iterable(loops))
        return [
            region
            for region, apart in zip(regions, loops, strict=True)
            if sum([1 / sharing[loop] for loop in apart]) > self._as_one(region)
        ]

    def _as_one(self, region: list[int]) -> float:
        """How many loops take as long to compile as a region that is one kernel."""
        inside = set(region)
        loops = sum([self.ends_loop(i, inside) for i in region])
        functions = sum([self.eqns[i].primitive is outlined_call_p for i in region])
        return JOINED_RATES.kernel + loops * JOINED_RATES.loop + functions * JOINED_RATES.function

    def with_calls(self, regions: list[list[int]]) -> list[Eqn]:
        """The equations with regions as calls, in an order as near to theirs as can be."""
        calls = {region[0]: region for region in regions}
        heads = list(range(len(self.eqns)))
        for region in regions:
            for i in region:
                heads[i] = region[0]
        sorter = TopologicalSorter[int](dict.fromkeys(heads, ()))
        for i, head in enumerate(heads):
            sorter.add(head, *({heads[j] for j in self.makers_of(i)} - {head}))
        with_effects = [i for i, eqn in enumerate(self.eqns) if eqn.effects]
        for i, j in itertools.pairwise(with_effects):
            sorter.add(j, i)
        sorter.prepare()
        ready, eqns = list[int](), list[Eqn]()
        while sorter.is_active():
            for head in sorter.get_ready():
                heapq.heappush(ready, head)
            head = heapq.heappop(ready)
            eqns.append(self._call(calls[head]) if head in calls else self.eqns[head])
            sorter.done(head)
        return eqns

    def _call(self, region: list[int]) -> Eqn:
        inside, eqns = set(region), [self.eqns[i] for i in region]
        made = {v for eqn in eqns for v in eqn.outvars}
        operands = list(
            dict.fromkeys(
                v for eqn in eqns for v in eqn.invars if type(v) is not Literal and v not in made
            )
        )
        results = [self.eqns[i].outvars[0] for i in region if not self.readers[i] <= inside]
        function = ClosedJaxpr(Jaxpr([], operands, results, eqns))
        return new_eqn(joined_call_p, operands, results, {"jaxpr": function}, eqns[0].source)
