"""Outlining.

Equations that a program repeats become a function that is emitted once and that XLA does not
inline.

docs/outlining.md describes the search, the costs and the decisions. The words: a *letter*
says what an equation does, whatever its operands. A *repeat* is a substring of letters that occurs
several times. Its *instances* are the occurrences with the same data flow inside, and one
*function* stands for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from teucer._core.jaxpr import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var
from teucer._core.primitive import NO_EFFECTS, FunctionCall
from teucer._optimize.dce import remove_dead
from teucer._optimize.passes import changed_once, map_jaxprs, rewrite
from teucer._optimize.structure import literal_key, params_key
from teucer._targets.outlined_call import outlined_call_p
from teucer._targets.outlining import constants
from teucer._targets.outlining.bytes import bytes_of, carried
from teucer._targets.outlining.recompute import recompute
from teucer._targets.outlining.repeats import Repeat, repeats
from teucer._targets.outlining.roll import Calls, Roller
from teucer._targets.outlining.updates import advance_updates

if TYPE_CHECKING:
    from teucer._core.typing import HostArray, Source


def outlined(jaxpr: Jaxpr, costs: constants.Costs) -> Jaxpr:
    """A program's jaxpr, of known sizes, with repeated equations as functions and loops, where that
    pays."""
    found = outline(jaxpr, costs)
    return jaxpr if found is jaxpr else remove_dead(rewrite(found))


def outline(jaxpr: Jaxpr, costs: constants.Costs) -> Jaxpr:
    """The jaxpr with repeated runs of its equations as calls of functions, nested ones too; it
    computes the same."""
    jaxpr = _calls_decided(jaxpr, costs)
    program = _Program(jaxpr, costs)
    if not program.repeats:
        return jaxpr
    again = advance_updates(recompute(jaxpr))
    if again is not jaxpr:
        program = _Program(again, costs)
    for _ in range(constants.OUTLINE_ROUNDS):
        found = program.outlined()
        if found is program.jaxpr:
            break
        program = _Program(found, costs)
    return program.jaxpr if program.jaxpr is not again else jaxpr


def _inner(jaxpr: Jaxpr, costs: constants.Costs) -> Jaxpr:
    """`outline` of a jaxpr that an equation carries, kept on it."""
    return changed_once(jaxpr, (outline, costs), lambda j: outline(j, costs))


def _calls_decided(jaxpr: Jaxpr, costs: constants.Costs) -> Jaxpr:
    """The jaxpr with each call of a jitted function outlined, where that pays, or else written in
    place.

    The jaxprs that other equations carry are outlined by themselves.
    """
    if not any(eqn.primitive.higher_order for eqn in jaxpr.eqns):
        return jaxpr
    counts = _call_counts(jaxpr)
    env: dict[Any, Atom] = {}
    eqns: list[Eqn] = []

    def write(eqn: Eqn, operands: list[Atom], outvars: Sequence[Var]) -> None:
        if _is_call(eqn):
            closed = eqn.params["jaxpr"]
            choice = eqn.params.get("outline")
            if choice or (choice is None and costs.pay(closed.eqns, counts[id(closed.jaxpr)])):
                inner = closed.replace(jaxpr=_inner(closed.jaxpr, costs))
                eqns.append(
                    Eqn(
                        outlined_call_p,
                        operands,
                        outvars,
                        {"jaxpr": inner},
                        eqn.effects,
                        eqn.source,
                    )
                )
                return
            if counts[id(closed.jaxpr)] <= 1 or choice is False:
                env.update(zip(closed.jaxpr.invars, operands, strict=True))
                for inside in closed.eqns:
                    names = [v if type(v) is DropVar else Var(v.aval) for v in inside.outvars]
                    write(inside, [_named(env, v) for v in inside.invars], names)
                    env.update(
                        (v, _named(env, name))
                        for v, name in zip(inside.outvars, names, strict=True)
                    )
                env.update(
                    zip(outvars, [_named(env, v) for v in closed.jaxpr.outvars], strict=True)
                )
                return
        new = Eqn(eqn.primitive, operands, outvars, eqn.params, eqn.effects, eqn.source)
        eqns.append(
            map_jaxprs(new, lambda j: _inner(j, costs)) if eqn.primitive.higher_order else new
        )

    for eqn in jaxpr.eqns:
        write(eqn, [_named(env, v) for v in eqn.invars], eqn.outvars)
    return jaxpr.replace(eqns=eqns, outvars=[_named(env, v) for v in jaxpr.outvars])


def _call_counts(jaxpr: Jaxpr) -> Counter[int]:
    """By the identity of jaxprs: how often they are called, in each jaxpr on the way once."""
    counts: Counter[int] = Counter()
    todo = [jaxpr]
    while todo:
        for eqn in todo.pop().eqns:
            if _is_call(eqn):
                inner = eqn.params["jaxpr"].jaxpr
                counts[id(inner)] += 1
                if counts[id(inner)] == 1:
                    todo.append(inner)
    return counts


def _is_call(eqn: Eqn) -> bool:
    return (
        isinstance(eqn.primitive, FunctionCall)
        and not eqn.effects
        and not eqn.params["jaxpr"].consts
    )


def _named(env: dict[Var, Atom], v: Atom) -> Atom:
    return v if type(v) is Literal else env.get(v, v)


@final
class _Program:
    """One look at the equations of a jaxpr.

    eqns: equations that take part. cheap: by variable, equations on constants alone that are
    written again wherever they are used. first: other equations on constants alone, and equations
    that take a part of an argument, such as `xs[3]`. They go first, so that no instance has them
    for all. Steps then differ in operands, but not in their letters.
    """

    def __init__(self, jaxpr: Jaxpr, costs: constants.Costs) -> None:
        self.jaxpr, self.costs = jaxpr, costs
        self.cheap: dict[Any, Eqn] = {}
        self.first: list[Eqn] = []
        self.eqns: list[Eqn] = []
        self._sort_out(jaxpr.eqns)
        self.letters = self._letters()
        self.repeats = repeats(
            self.letters,
            costs.short,
            lambda r: costs.pay(self._run(r.starts[0], r.length), len(r.starts)),
        )
        self.places: dict[Any, tuple[int, int]] = {}
        self.last_use: dict[Any, int] = dict.fromkeys(
            (v for v in jaxpr.outvars if type(v) is not Literal), len(self.eqns)
        )
        if not self.repeats:
            return
        for i, eqn in enumerate(self.eqns):
            for j, v in enumerate(eqn.outvars):
                self.places[v] = i, j
        for i in reversed(range(len(self.eqns))):
            for u in self.eqns[i].invars:
                if type(u) is not Literal:
                    self.last_use.setdefault(u, i)

    def _sort_out(self, eqns: Sequence[Eqn]) -> None:
        sizes: dict[
            Any, int
        ] = {}  # of the variables that depend on constants alone: how many equations make them
        whole, parts = set(self.jaxpr.invars), set()
        for eqn in eqns:
            if eqn.primitive.cost.fuses and len(eqn.invars) == 1 and not eqn.effects:
                (x,), (y,) = eqn.invars, eqn.outvars[:1]
                if (x in parts and eqn.primitive.rearranges and y.aval.size == x.aval.size) or (
                    x in whole and y.aval.size < x.aval.size and len(eqn.outvars) == 1
                ):
                    parts.add(y)
                    self.first.append(eqn)
                    continue
            size = 1
            for v in eqn.invars:
                if type(v) is not Literal:
                    if v not in sizes:
                        self.eqns.append(eqn)
                        break
                    size += sizes[v]
            else:
                if eqn.effects or eqn.primitive.higher_order:
                    self.eqns.append(eqn)
                    continue
                aval = eqn.outvars[0].aval
                exact = (not aval.extended and aval.dtype.kind in "biu") or eqn.primitive.rearranges
                cheap = size <= constants.CHEAP_MOST and eqn.primitive.cost.fuses and exact
                sizes.update((v, size if cheap else constants.CHEAP_MOST + 1) for v in eqn.outvars)
                if cheap:
                    self.cheap[eqn.outvars[0]] = eqn
                else:
                    self.first.append(eqn)

    def _letters(self) -> Any:
        """A number for each equation, equal for equations that differ only in operands and in
        values of literals."""
        table: dict[Any, int] = {}
        letters = np.empty(len(self.eqns), np.int64)
        # Plain loops: this runs for every equation of every program (benchmarks/).
        for i, eqn in enumerate(self.eqns):
            params, primitive = eqn.params, eqn.primitive
            key: list[Any] = [primitive]
            for v in eqn.invars:
                aval = v.aval
                key.append(aval if not aval.weak_type else aval.strengthen())
                if type(v) is Literal:
                    key.append(None)
            if params:
                key.append(params_key(params) if primitive.higher_order else tuple(params.values()))
            try:
                letters[i] = -i - 1 if eqn.effects else table.setdefault(tuple(key), len(table))
            except TypeError:  # a parameter that is not hashable
                letters[i] = -i - 1
        return letters

    def outlined(self) -> Jaxpr:
        """The jaxpr with calls in place of repeated equations; itself if no repeat pays."""
        found, letters = self.repeats, self.letters
        taken = np.zeros(len(letters) + 1, bool)
        for repeat in found:
            for start in repeat.starts:
                taken[start : start + repeat.length] = True
        runs: list[tuple[list[int], _Function]] = []
        for repeat in found:
            for starts in self._instances(_in_phase(self, repeat, letters, taken)):
                if self.costs.pay(self._run(starts[0], repeat.length), len(starts)):
                    function = self._function(starts, repeat.length)
                    runs += [(run, function) for run in _adjacent(starts, repeat.length)]
        if not runs:
            return self.jaxpr
        runs.sort(key=lambda run: run[0][0])
        rolled = {k for k, (starts, _) in enumerate(runs) if len(starts) >= self.costs.steps}
        while (eqns := self._written(runs, rolled)) is None:
            pass
        return (
            self.jaxpr
            if len(eqns) == len(self.eqns)
            else self.jaxpr.replace(eqns=self._with_constants(eqns))
        )

    def _written(
        self, runs: Sequence[tuple[list[int], _Function]], rolled: set[int]
    ) -> list[Eqn] | None:
        """The equations with the runs as calls or, those `rolled`, loops, where that may be.

        Where fusion ends at convolutions, equations that stay as they are must not take what a loop
        stacks: XLA compiles equal fusions once, and slices at different places make them different.
        None if some do: then `rolled` has lost that loop.
        """
        roller = Roller(self.first)
        separated = sum(
            eqn.primitive.cost.separates for eqn in self.eqns
        ) * self.costs.separated >= len(self.eqns)
        eqns: list[Eqn] = []
        makers: dict[Var, int] = {}
        end = 0
        for k, (starts, function) in enumerate(runs):
            eqns += self.eqns[end : starts[0]]
            end = starts[-1] + function.length
            calls = function.calls(starts)
            loop = roller.roll(calls, self.costs.stacked) if k in rolled else None
            if loop is not None:
                makers.update((v, k) for eqn in loop for v in eqn.outvars)
                eqns += loop
                continue
            if separated:
                sliced = {makers[v] for v in roller.stacked_for(calls) if v in makers}
                if sliced:
                    rolled -= sliced
                    return None
            if separated and carried(function.closed.jaxpr) < self.costs.carried:
                eqns += self.eqns[starts[0] : end]
            else:
                eqns += function.written(calls, [self.eqns[start].source for start in starts])
        return [*eqns, *self.eqns[end:]]

    def _run(self, start: int, length: int) -> Sequence[Eqn]:
        return self.eqns[start : start + length]

    def _instances(self, repeat: Repeat) -> Iterator[list[int]]:
        """The places of a repeat, together those where the data flow inside is the same, and the
        equations: phases may differ."""
        groups: dict[Any, list[int]] = {}
        for start in repeat.starts:
            letters = self.letters[start : start + repeat.length].tobytes()
            flow = [
                (i - start, j) if i >= start else None
                for eqn in self._run(start, repeat.length)
                for v in eqn.invars
                for i, j in (self.places.get(v, (-1, 0)) if type(v) is not Literal else (-1, 0),)
            ]
            groups.setdefault((letters, *flow), []).append(start)
        yield from groups.values()

    def _function(self, starts: list[int], length: int) -> _Function:
        """The function that stands for some instances."""
        body = _Body(self.cheap)
        for k in range(length):
            eqns = [self.eqns[start + k] for start in starts]
            operands = []
            for across in zip(*[eqn.invars for eqn in eqns], strict=True):
                i, j = (
                    self.places.get(across[0], (-1, 0))
                    if type(across[0]) is not Literal
                    else (-1, 0)
                )
                operands.append(
                    body.names[i - starts[0], j] if i >= starts[0] else body.operand(across)
                )
            body.write(k, eqns[0], operands)
        results = [
            (k, j)
            for k in range(length)
            for j in range(len(self.eqns[starts[0] + k].outvars))
            if any(
                self.last_use.get(self.eqns[start + k].outvars[j], -1) >= start + length
                for start in starts
            )
        ]
        closed = ClosedJaxpr(
            _inner(body.jaxpr([body.names[place] for place in results]), self.costs)
        )
        names = [[self.eqns[start + k].outvars[j] for start in starts] for k, j in results]
        return _Function(closed, length, starts, body.slots, names, self.last_use)

    def _with_constants(self, eqns: Sequence[Eqn]) -> list[Eqn]:
        """The equations, with equations on constants alone moved to the front or before their first
        use."""
        written: set[Any] = set()
        out: list[Eqn] = []

        def write(v: Atom) -> None:
            if type(v) is not Literal and v in self.cheap and v not in written:
                written.add(v)
                for u in self.cheap[v].invars:
                    write(u)
                out.append(self.cheap[v])

        for eqn in (*self.first, *eqns):
            for v in eqn.invars:
                write(v)
            out.append(eqn)
        for v in self.jaxpr.outvars:
            write(v)
        return out


class _Function(NamedTuple):
    """A function of `length` equations for the instances at `starts`; also each instance's operands
    and result variables."""

    closed: ClosedJaxpr
    length: int
    starts: list[int]
    operands: Sequence[Sequence[Atom]]
    results: Sequence[Sequence[Var]]
    last_use: dict[Any, int]

    def calls(self, starts: list[int]) -> Calls:
        """The instances at some of the places."""
        chosen = [self.starts.index(start) for start in starts]
        end = starts[-1] + self.length
        results = [[across[n] for n in chosen] for across in self.results]
        return Calls(
            self.closed,
            [[across[n] for n in chosen] for across in self.operands],
            results,
            [[self.last_use.get(v, -1) >= end for v in across] for across in results],
        )

    def written(self, calls: Calls, sources: Sequence[Source]) -> list[Eqn]:
        """An equation a call."""
        return [
            Eqn(
                outlined_call_p,
                [across[n] for across in calls.operands],
                [across[n] for across in calls.results],
                {"jaxpr": self.closed},
                NO_EFFECTS,
                source,
            )
            for n, source in enumerate(sources)
        ]


def _adjacent(starts: list[int], length: int) -> Iterator[list[int]]:
    """The places in groups that follow one another without a gap."""
    group: list[int] = []
    for start in starts:
        if group and start != group[-1] + length:
            yield group
            group = []
        group.append(start)
    yield group


@final
class _Body:
    """The function being written for some instances.

    names: variables that its equations define, by place. slots: for each of its arguments, the
    operands of the instances.
    """

    def __init__(self, cheap: dict[Var, Eqn]) -> None:
        self.cheap = cheap
        self.names: dict[tuple[int, int], Var] = {}
        self.slots: list[Sequence[Atom]] = []
        self.invars: list[Var] = []
        self.eqns: list[Eqn] = []
        self.known: dict[Any, Var] = {}

    def operand(self, across: Sequence[Atom]) -> Atom:
        """The parameter for the outside operands that the instances have at one place."""
        first = across[0]
        if type(first) is Literal:
            key: Any = tuple([literal_key(v) for v in across])  # type: ignore[arg-type]
            if key.count(key[0]) == len(key):
                return first
        else:
            key = tuple(across)
            if first in self.cheap and key.count(first) == len(key):
                return self.constant(first)
        if key not in self.known:
            self.known[key] = Var(first.aval)
            self.invars.append(self.known[key])
            self.slots.append(across)
        return self.known[key]

    def constant(self, v: Var) -> Var:
        """A cheap constant, written here."""
        if v not in self.known:
            eqn = self.cheap[v]
            operands = [u if isinstance(u, Literal) else self.constant(u) for u in eqn.invars]
            self.known[v] = Var(v.aval)
            self.eqns.append(eqn.replace(invars=operands, outvars=[self.known[v]]))
        return self.known[v]

    def write(self, place: int, eqn: Eqn, operands: Sequence[Atom]) -> None:
        """An equation of the instances, on operands of the function."""
        outvars = [v if type(v) is DropVar else Var(v.aval) for v in eqn.outvars]
        self.names.update(((place, j), v) for j, v in enumerate(outvars))
        self.eqns.append(Eqn(eqn.primitive, operands, outvars, eqn.params, eqn.effects, eqn.source))

    def jaxpr(self, outvars: Sequence[Var]) -> Jaxpr:
        return Jaxpr([], self.invars, outvars, self.eqns)


def _in_phase(program: _Program, repeat: Repeat, letters: HostArray, taken: HostArray) -> Repeat:
    """A repeat with its adjacent occurrences, such as layers, shifted to where few values pass from
    one to the next.

    All of its runs are shifted alike, so that they share one function: an edit of one layer leaves
    two runs. Where there are many periods, the equations of one decide alone: where a run ends must
    not, or else an edit would change the function.
    """
    starts, period = repeat
    runs = list(_adjacent(starts, period))
    if all(len(run) == 1 for run in runs):
        return repeat
    bounds = []
    for run in runs:
        low, high = run[0], run[-1] + period
        while high < len(letters) and letters[high] == letters[high - period] and not taken[high]:
            taken[high] = True
            high += 1
        while low > 0 and letters[low - 1] == letters[low - 1 + period] and not taken[low - 1]:
            low -= 1
            taken[low] = True
        bounds.append((low, high))
    # Offsets count from the beginning of the first run, where the search of every program begins.
    turns = [
        (run[0] - low - runs[0][0] + bounds[0][0]) % period
        for run, (low, _) in zip(runs, bounds, strict=True)
    ]
    many = sum(high - low for low, high in bounds) >= program.costs.many * period
    longest = max(range(len(runs)), key=lambda k: len(runs[k]))
    low, high = bounds[longest]
    if many and high - low >= constants.LONG_RUN * period:
        # The surroundings of a short run say nothing about a period.
        phase = (_cheapest_cut(program, low, high, period) - turns[longest]) % period
    else:
        phase = int(
            np.argmin(
                sum(
                    np.roll(_cut_costs(program, *bound, period), -turn)
                    for turn, bound in zip(turns, bounds, strict=True)
                )
            )
        )
    return Repeat(
        [
            start
            for turn, (low, high) in zip(turns, bounds, strict=True)
            for start in range(low + (phase + turn) % period, high - period + 1, period)
        ],
        period,
    )


def _cut_costs(program: _Program, low: int, high: int, period: int) -> Any:
    """The costs of cutting a run of equal periods, f64[period], by the offset of the first cut from
    the beginning.

    Costs are values that pass a cut from the period before to the period after, and equations that
    are left over at the ends.
    """
    count, rest = divmod(high - low, period)
    middle = low + period * (count // 2)  # only cuts within one period about here are compared
    passing = np.zeros(2 * period + 1, np.int64)
    for i in range(max(low, middle - period), min(high, middle + period)):
        for v in program.eqns[i].outvars:
            # Cuts after i, up to the last use, but not more than a period away: values used later
            # pass all cuts.
            last = min(program.last_use.get(v, -1), i + period)
            if last > i:
                passing[i + 1 - middle + period] += 1
                passing[min(last + 1 - middle + period, 2 * period)] -= 1
    passing = np.cumsum(passing)
    offsets = np.arange(period)
    left_over = np.where(offsets <= rest, rest, rest + period)
    return passing[period : 2 * period] + constants.LEFT_OVER * left_over / period


def _cheapest_cut(program: _Program, low: int, high: int, period: int) -> int:
    """Where to cut a run of many equal periods: the offset of the first cut from the beginning.

    As few values as possible are on both sides. Among equal places, the first is one where a period
    takes arguments that lie close together, as arguments of one layer do; then names decide.
    """
    costs = _shared(program, low, high, period)
    middle = low + period * ((high - low) // period // 2)
    numbers = {v: i for i, v in enumerate(program.jaxpr.invars)}
    names = [
        f"{eqn.primitive.name} {eqn.outvars[0].aval if eqn.outvars else None}"
        for eqn in program._run(low, period)
    ]

    def key(offset: int) -> tuple[int, list[str]]:
        start = middle + offset - period
        taken = [
            numbers[v]
            for eqn, after in zip(
                program._run(start, period), program._run(start + period, period), strict=True
            )
            for v, then in zip(eqn.invars, after.invars, strict=True)
            if type(v) is not Literal and v is not then and v in numbers
        ]
        return max(taken, default=0) - min(taken, default=0), names[offset:] + names[:offset]

    return min(np.flatnonzero(costs == costs.min()).tolist(), key=key)


def _shared(program: _Program, low: int, high: int, period: int) -> Any:
    """The values on both sides of a cut of a run of many equal periods, i64[period], by the offset
    of the first cut: their number, then their bytes.

    A value is on both sides if it is made or used before the cut, and used after it, not more than
    a period later. Values that are used later, by a backward pass say, pass all cuts.
    """
    middle = low + period * ((high - low) // period // 2)
    shared = np.zeros(period + 1, np.int64)
    seen: dict[Atom, int] = {}
    for i in range(max(low, middle - period), min(high, middle + 2 * period)):
        eqn = program.eqns[i]
        for v in eqn.invars:
            if type(v) is Literal or v in program.cheap:
                continue
            before = seen.get(v, i - period - 1)
            first, last = max(before + 1, middle), min(i, middle + period - 1)
            if i - before <= period and first <= last:
                shared[first - middle] += constants.PASSING + bytes_of(v.aval)
                shared[last + 1 - middle] -= constants.PASSING + bytes_of(v.aval)
            seen[v] = i
        seen.update(dict.fromkeys(eqn.outvars, i))
    return np.cumsum(shared)[:period]
