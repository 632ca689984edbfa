"""Plans: for each segment of a program a way to run it, so that all together keep a budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr
from teucer._derived.budget.amounts import Amount
from teucer._derived.budget.choose import Load, choose, least
from teucer._derived.budget.measure import Measured, measure
from teucer._derived.budget.segments import Segment, parts_of_inputs, program_of, segments, whole
from teucer._derived.budget.ways import Making, Planned, Way, again, ways_of
from teucer._derived.liveness import size_text
from teucer._derived.remat import inline_calls
from teucer._targets.outlining.bytes import bytes_of

if TYPE_CHECKING:
    from teucer._targets.interface import Target

# Equations of a program that is tried as one segment, too, at most; segments that are computed
# again together, at most; ways of a loop's body; rounds in which a choice is corrected.
SMALL, GROUPS, BODIES, ROUNDS = 64, (2, 3, 4, 6, 8, 12, 16), 6, 4


class MemoryBudgetError(ValueError):
    """A budget of memory cannot be kept. smallest: the smallest that can, in bytes."""

    __module__ = "teucer.errors"  # as which it prints

    def __init__(self, said: str, smallest: int) -> None:
        super().__init__(said)
        self.smallest = smallest


class Chosen(NamedTuple):
    """The part of a plan for a group of equal segments. where: the line of the first. kept: bytes
    of all of them that the backward pass keeps."""

    times: int
    what: str
    where: str
    kept: int


class Plan(NamedTuple):
    """The values that are kept, recomputed and offloaded, with their cost in bytes and seconds.

    budget: bytes that may be in memory; of a share, what may be kept. peak, kept: predicted.
    without: both, where all is kept. smallest: the smallest budget that can be kept. seconds: of
    the forward and the backward pass, by the cost model of the target; `least_seconds` where all is
    kept.
    """

    program: ClosedJaxpr
    budget: int
    of_share: bool
    peak: int
    kept: int
    without: tuple[int, int]
    smallest: int
    seconds: float
    least_seconds: float
    chosen: tuple[Chosen, ...]

    def __str__(self) -> str:
        peak, kept = self.without
        more = (self.seconds / self.least_seconds - 1) * 100 if self.least_seconds else 0.0
        limit = "to be kept" if self.of_share else "of memory"
        said = [
            f"budget {size_text(self.budget)} {limit}: predicted peak {size_text(self.peak)} of "
            f"{size_text(peak)}, kept {size_text(self.kept)} of {size_text(kept)}, "
            f"{more:.1f} % more computation"
        ]
        for row in self.chosen:
            often = f"{row.times} x " if row.times > 1 else ""
            said.append(
                f"  {often}{row.where or 'segment'}: {row.what}, {size_text(row.kept)} kept"
            )
        return "\n".join(said)


class _Segmented:
    """A program in segments, and the ways of each kind."""

    def __init__(
        self,
        jaxpr: Jaxpr,
        divided: Callable[[Jaxpr], list[Segment]],
        free: Sequence[bool],
        making: Making,
    ) -> None:
        self.whole, self.making = jaxpr, making
        first = parts_of_inputs(jaxpr, free)
        self.first = [eqn for eqn, f in zip(jaxpr.eqns, first, strict=True) if f]
        cut = [v for eqn in self.first for v in eqn.outvars]
        self.there = {v for v, f in zip(jaxpr.invars, free, strict=True) if f}
        self.weights = {*self.there, *cut}
        rest = [eqn for eqn, f in zip(jaxpr.eqns, first, strict=True) if not f]
        self.jaxpr = jaxpr.replace(invars=[*jaxpr.invars, *cut], eqns=rest)
        self.parts = divided(self.jaxpr)
        self.kinds: list[list[Segment]] = [
            [] for _ in range(max((part.kind for part in self.parts), default=-1) + 1)
        ]
        for part in self.parts:
            self.kinds[part.kind].append(part)
        self.programs = {part: program_of(self.jaxpr, part.start, part.stop) for part in self.parts}
        users = Counter(v for p in self.programs.values() for v in p.invars)
        # Cotangents that are sums over segments, or parts of a whole, wait for the others.
        self.waiting = {v for v in self.weights if v not in self.there or users[v] > 1}
        self.ways = [self._ways(kind) for kind in self.kinds]
        self.loads = [
            [self._load(kind, way) for way in ways]
            for kind, ways in zip(self.kinds, self.ways, strict=True)
        ]

    def _measured(self, program: Jaxpr, eqns: Sequence[Eqn]) -> Measured:
        free, apart = self._free(program)
        return measure(ClosedJaxpr(program.replace(eqns=eqns), ()), free, apart, self.making.speeds)

    def _free(self, program: Jaxpr) -> tuple[list[bool], list[bool]]:
        """Which operands are there anyway, and whose cotangents do not pass to segments."""
        return [v in self.there for v in program.invars], [
            v in self.weights for v in program.invars
        ]

    def _ways(self, kind: Sequence[Segment]) -> list[Way]:
        program = self.programs[kind[0]]
        ways = ways_of(program, *self._free(program), self.making)
        length = min(len(run) for run in _runs(kind, len(kind)))
        for n in [n for n in GROUPS if n <= length] if len(ways) > 1 else ():
            ways.append(self._grouped(kind[:n]))
        return ways

    def _grouped(self, some: Sequence[Segment]) -> Way:
        """Some segments computed again together, and each again within."""
        policy = self.making.policy

        def rewrite(program: Jaxpr) -> list[Eqn]:
            size = len(program.eqns) // len(some)
            inner = [
                again(program_of(program, i, min(i + size, len(program.eqns))), policy)
                for i in range(0, len(program.eqns), size)
            ]
            return [again(program.replace(eqns=inner), policy)]

        program = program_of(self.jaxpr, some[0].start, some[-1].stop)
        measured = self._measured(program, rewrite(program))
        return Way(rewrite, measured, f"saves nothing, {len(some)} together", len(some))

    def _load(self, kind: Sequence[Segment], way: Way) -> Load:
        first = kind[0]
        program = (
            self.programs[first]
            if way.group == 1
            else program_of(self.jaxpr, first.start, kind[way.group - 1].stop)
        )
        found = way.measured
        kept = found.own + sum(bytes_of(program.invars[i].aval) for i in found.inputs)
        kept += sum(bytes_of(program.outvars[i].aval) for i in found.results)
        n = len(_runs(kind, way.group))
        return Load(kept * n, found.back, found.seconds * n)

    def rewritten(self, choice: Sequence[int]) -> list[tuple[Jaxpr, Way]]:
        """The programs of segments, or of groups of them, in their order, and their ways."""
        found: list[tuple[Jaxpr, Way]] = []
        done: set[Segment] = set()
        for part in self.parts:
            if part in done:
                continue
            way = self.ways[part.kind][choice[part.kind]]
            group = next(run for run in _runs(self.kinds[part.kind], way.group) if part in run)
            done.update(group)
            program = program_of(self.jaxpr, group[0].start, group[-1].stop)
            if len(group) < way.group:  # the last of a run
                way = way if len(group) == way.group else self._shorter(group)
            found.append((program, way))
        return found

    def _shorter(self, group: Sequence[Segment]) -> Way:
        if len(group) > 1:
            return self._grouped(group)
        plain = [way for way in self.ways[group[0].kind] if way.group == 1]
        return min(plain, key=lambda way: way.measured.own)

    def predicted(self, choice: Sequence[int]) -> tuple[int, int]:
        """The peak, and the bytes kept, each value counted once, without parts of the program's
        inputs. The backward pass frees values kept for later segments."""
        kept: dict[Any, int] = {}
        found = self.rewritten(choice)
        peak, waiting = 0, sum(self._waits(program, way) for program, way in found)
        for program, way in found:
            measured = way.measured
            kept[program] = measured.own
            for v in [
                *[program.invars[i] for i in measured.inputs],
                *[program.outvars[i] for i in measured.results],
            ]:
                kept[v] = bytes_of(v.aval)
            peak = max(peak, sum(kept.values()) + measured.back + waiting)
            waiting -= self._waits(program, way)
        return peak, sum(size for v, size in kept.items() if v not in self.weights)

    def _waits(self, program: Jaxpr, way: Way) -> int:
        """The bytes of a segment's cotangents that are held until cotangents of other segments are
        added."""
        operands = [program.invars[i] for i in way.measured.cotangents]
        return sum(bytes_of(v.aval) for v in operands if v in self.waiting)

    def program(self, choice: Sequence[int]) -> Jaxpr:
        """The program as chosen."""
        eqns = [eqn for program, way in self.rewritten(choice) for eqn in way.rewrite(program)]
        return self.whole.replace(eqns=[*self.first, *eqns])


def _runs(kind: Sequence[Segment], group: int) -> list[list[Segment]]:
    """The segments of a kind in groups of neighbours, with at most `group` segments each."""
    found: list[list[Segment]] = []
    for part in kind:
        last = found[-1] if found else []
        if last and last[-1].stop == part.start and len(last) < group:
            last.append(part)
        else:
            found.append([part])
    return found


def plan(closed: ClosedJaxpr, amount: Amount, target: Target, function: str) -> Plan:
    """The plan of a program for a budget: its fastest ways that keep it, by the model.

    Raises ValueError where none do, with the smallest budget that can be kept.
    """
    flat = inline_calls(closed).jaxpr
    policy = Planned()
    making = Making(target.speeds, policy, not target.in_host_memory, _Bodies(policy, target))
    free = [True] * len(flat.invars)
    tried = [_Segmented(flat, segments, free, making)]
    if len(flat.eqns) <= SMALL and len(tried[0].parts) > 1:
        tried.append(_Segmented(flat, whole, free, making))
    everything = tried[0].predicted([0] * len(tried[0].kinds))
    limit = amount.size
    if limit is None:
        assert amount.share is not None
        limit = int(amount.share * everything[1])
    of_share = amount.share is not None
    found = [
        (seconds, i, choice)
        for i, program in enumerate(tried)
        if (fits := _fitting(program, limit, of_share)) is not None
        for seconds, choice in [fits]
    ]
    smallest = min(_smallest(program, of_share) for program in tried)
    if not found:
        raise MemoryBudgetError(
            _too_small(limit, smallest, everything, of_share, function), smallest
        )
    seconds, i, choice = min(found)
    chosen = tried[i]
    made = chosen.program(choice)
    peak, kept = chosen.predicted(choice)
    least_seconds = sum(loads[0].seconds for loads in tried[0].loads)
    rows = tuple(
        Chosen(len(kind), way.what, _where(flat, kind[0]), load.kept)
        for kind, ways, loads, k in zip(
            chosen.kinds, chosen.ways, chosen.loads, choice, strict=True
        )
        for way, load in [(ways[k], loads[k])]
    )
    policy.plan = Plan(
        ClosedJaxpr(made, closed.consts), limit, of_share, peak, kept, everything, smallest,
        seconds, least_seconds, rows,
    )  # fmt: skip
    return policy.plan  # type: ignore[no-any-return]


def _fitting(program: _Segmented, limit: int, of_share: bool) -> tuple[float, list[int]] | None:
    """The fastest choice within a limit. Segments share what they keep, so a sum over them is too
    large; the limit of the sum is raised by that, as long as the true one holds."""
    loads = program.loads
    if of_share:
        loads = [[load._replace(back=0) for load in found] for found in loads]
    best: tuple[float, list[int]] | None = None
    slack = 0
    for _ in range(ROUNDS):
        choice = choose(loads, limit + slack)
        if choice is None:
            choice = choose(loads, least(loads))
            assert choice is not None
        used = program.predicted(choice)[of_share]
        seconds = sum(found[k].seconds for found, k in zip(loads, choice, strict=True))
        if used <= limit and (best is None or seconds < best[0]):
            best = seconds, choice
        rough = sum(found[k].kept for found, k in zip(loads, choice, strict=True))
        rough += max((found[k].back for found, k in zip(loads, choice, strict=True)), default=0)
        if used > limit:
            slack -= max(used - limit, 1)
        elif rough - used > slack:
            slack = rough - used
        else:
            break
    return best


def _smallest(program: _Segmented, of_share: bool) -> int:
    loads = program.loads
    if of_share:
        loads = [[load._replace(back=0) for load in found] for found in loads]
    choice = choose(loads, least(loads))
    assert choice is not None
    return program.predicted(choice)[of_share]


class _Bodies:
    """The ways of a loop's body: as one checkpoint, and by its own segments."""

    def __init__(self, policy: Planned, target: Target) -> None:
        self.policy, self.target = policy, target

    def __call__(self, body: ClosedJaxpr, free: Sequence[bool]) -> list[tuple[ClosedJaxpr, str]]:
        closed = inline_calls(body)
        making = Making(self.target.speeds, self.policy, not self.target.in_host_memory, self)
        found: list[tuple[ClosedJaxpr, str]] = []
        for divided in (whole, segments):
            program = _Segmented(closed.jaxpr, divided, free, making)
            if len(program.parts) == 1:
                for ways in program.ways:
                    found += [
                        (closed.replace(jaxpr=program.program([k])), ways[k].what)
                        for k in range(1, len(ways))
                    ]
                if len(found) > BODIES:
                    step = (len(found) - 1) / (BODIES - 1)
                    found = [found[round(i * step)] for i in range(BODIES)]
                continue
            low = least(program.loads)
            high = sum(max(load.kept for load in loads) for loads in program.loads)
            for i in range(BODIES):
                choice = choose(program.loads, low + (high - low) * i / BODIES)
                if choice is not None and any(choice):
                    made = closed.replace(jaxpr=program.program(choice))
                    found.append((made, "in parts"))
        return found


def _too_small(
    limit: int, smallest: int, everything: tuple[int, int], of_share: bool, function: str
) -> str:
    if of_share:
        whole = everything[1]
        share = smallest / whole if whole else 0.0
        share = -(-share * 1000 // 1) / 1000
        return (
            f"{function}: the backward pass cannot keep as little as {size_text(limit)} of "
            f"{size_text(whole)}.\n  The smallest share that can be kept is {share:.3f}."
        )
    return (
        f"{function}: the budget of {size_text(limit)} cannot be kept.\n  The smallest budget that "
        f"can is {smallest} bytes ({size_text(smallest)}). Without a budget it takes "
        f"{size_text(everything[0])}.\n  What one layer takes is the least: smaller layers, or a "
        "smaller batch, take less."
    )


def _where(jaxpr: Jaxpr, part: Segment) -> str:
    for eqn in jaxpr.eqns[part.start : part.stop]:
        if found := eqn.where(""):
            return found.strip()
    return ""
