"""Which values of a program are in memory at once.

Its predicted peak, and how far `checkpoint` would lower it.

The model: equations run in their order. A value is in memory from the equation that makes it to the
last one that uses it, unless compilers fuse it into its use. Arguments stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._base import source
from teucer._core import structure
from teucer._core.cost import Work
from teucer._core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, jaxprs_in_params
from teucer._core.names import TRANSPOSE
from teucer._derived.remat import inline_calls
from teucer._optimize.passes import optimize
from teucer._targets.outlining.bytes import bytes_of
from teucer._transform.jit_calls import hoist_consts

if TYPE_CHECKING:
    pass

__all__ = ["Live", "Peak", "Run", "Saving", "bytes_of", "is_backward", "peak_of", "size_text"]

_ROWS = 12


class Live(NamedTuple):
    """A value that is in memory at the peak: an argument, by its name, or a result of an equation.

    residual: whether the forward pass made it and the backward pass uses it.
    """

    aval: Any
    size: int
    eqn: Eqn | None
    name: str
    residual: bool


class Saving(NamedTuple):
    """An estimate of the bytes by which a `checkpoint` would lower the peak."""

    what: str
    place: str
    size: int


class Peak(NamedTuple):
    """The peak of a program in bytes, and the values in memory then.

    at: the equation that runs then. levels: for each equation, the bytes in memory while it runs.
    """

    size: int
    at: Eqn | None
    live: tuple[Live, ...]
    arguments: int
    results: int
    savings: tuple[Saving, ...]
    levels: tuple[tuple[int, Eqn], ...] = ()

    def __str__(self) -> str:
        where = _place(self.at)
        said = [
            f"predicted peak {size_text(self.size)}" + (f", at {where}" if where else ""),
            "alive at the peak:",
        ]
        rows: dict[Any, list[Live]] = {}
        for live in self.live:
            rows.setdefault((live.aval, live.name, _place(live.eqn), live.residual), []).append(
                live
            )
        ordered = sorted(rows.items(), key=lambda row: -sum(live.size for live in row[1]))
        for (aval, name, place, residual), found in ordered[:_ROWS]:
            total = size_text(sum(live.size for live in found))
            times = f" x {len(found)}" if len(found) > 1 else ""
            kept = ", kept for the backward pass" if residual else ""
            said.append(f"  {total:>10}  {aval.str_short(True)}{times}  {name or place}{kept}")
        rest = ordered[_ROWS:]
        if rest:
            said.append(
                f"  {size_text(sum(live.size for _, found in rest for live in found)):>10}  "
                f"{len(rest)} others"
            )
        for saving in self.savings:
            said.append(
                f"{saving.what} at {saving.place} would take about {size_text(saving.size)} off "
                "the peak"
            )
        return "\n".join(said)


def size_text(size: float) -> str:
    """Bytes for people.

    >>> size_text(3 * 2**20)
    '3.0 MiB'
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    i = 0
    while abs(size) >= 1024 and i < len(units) - 1:
        size, i = size / 1024, i + 1
    return f"{size:.0f} {units[i]}" if i == 0 else f"{size:.1f} {units[i]}"


def is_backward(eqn: Eqn | None) -> bool:
    """Whether an equation is of a backward pass."""
    return eqn is not None and eqn.source is not None and TRANSPOSE in eqn.source[1]


def _place(eqn: Eqn | None) -> str:
    if eqn is None:
        return ""
    return f"{eqn.primitive}{eqn.where()}"


def peak_of(closed: ClosedJaxpr, names: Sequence[str] = (), donated: Sequence[bool] = ()) -> Peak:
    """The predicted peak of a program on one device. names: what its arguments are called. donated:
    which may be overwritten."""
    jaxpr = optimize(inline_calls(hoist_consts(closed.jaxpr)).jaxpr)
    n_consts = len(jaxpr.invars) - len(closed.jaxpr.invars)
    called = [
        *("a constant",) * n_consts,
        *(names or [f"argument {i}" for i in range(len(closed.jaxpr.invars))]),
    ]
    free = [False] * n_consts + list(donated or (False,) * len(closed.jaxpr.invars))
    run = Run(jaxpr, called, free)
    live = tuple(sorted(run.live, key=lambda v: -v.size))
    arguments, results = (sum(bytes_of(v.aval) for v in vs) for vs in (jaxpr.invars, jaxpr.outvars))
    savings = _savings(jaxpr, run) if run.peak else ()
    return Peak(run.peak, run.at, live, arguments, results, savings, tuple(run.levels))


class Run:
    """The memory of a jaxpr whose equations run one after the other. peak: bytes at most. at: the
    equation of the peak. live: the values alive at the peak. there: the variables of these
    values."""

    def __init__(self, jaxpr: Jaxpr, names: Sequence[str], free: Sequence[bool]) -> None:
        self.jaxpr = jaxpr
        eqns = jaxpr.eqns
        self.users = _users(jaxpr)
        self.virtual = {v for eqn in eqns for v in eqn.outvars if self._has_no_place(eqn, v)}
        self.last = self._last_uses()
        forever = len(eqns)
        held: dict[Var, Live] = {}
        for v, name, is_free in zip(jaxpr.invars, names, free, strict=True):
            held[v] = Live(v.aval, bytes_of(v.aval), None, name, False)
            if not is_free:
                self.last[v] = forever
        ends: dict[int, list[Var]] = {}
        for v, i in self.last.items():
            ends.setdefault(i, []).append(v)
        written = sum(bytes_of(v.aval) for v in jaxpr.outvars if type(v) is Literal)
        self.peak = now = sum(live.size for live in held.values()) + written
        self.at: Eqn | None = None
        self.levels: list[tuple[int, Eqn]] = []
        self.live: list[Live] = list(held.values())
        self.there: list[Var] = list(held)
        for i, eqn in enumerate(eqns):
            made = [v for v in eqn.outvars if v not in self.virtual]
            new = sum(bytes_of(v.aval) for v in made)
            reused = self._reused(eqn, ends.get(i, ()), made, held)
            during = now + new - reused + _within(eqn)
            for v in made:
                held[v] = Live(v.aval, bytes_of(v.aval), eqn, "", self._is_residual(eqn, v))
            self.levels.append((during, eqn))
            if during > self.peak:
                self.peak, self.at = during, eqn
                self.live, self.there = list(held.values()), list(held)
            now += new
            for v in (*ends.get(i, ()), *(v for v in made if self.last.get(v, i) <= i)):
                gone = held.pop(v, None)
                now -= gone.size if gone is not None else 0

    def _is_residual(self, eqn: Eqn, v: Var) -> bool:
        return not is_backward(eqn) and any(is_backward(user) for user in self.users.get(v, ()))

    def _has_no_place(self, eqn: Eqn, v: Var) -> bool:
        """Whether compilers compute a value where it is used."""
        cost = eqn.primitive.cost
        users = self.users.get(v, ())
        if cost.work is Work.TRANSPOSE and users:  # products read their operands in any order
            return all(
                user is not None and user.primitive.cost.work is Work.PRODUCT for user in users
            )
        if not cost.fuses or not users or None in users or (len(users) > 1 and not cost.cheap):
            return False
        return all(user.primitive.cost.fuses or user.primitive.cost.reduces for user in users)

    def _last_uses(self) -> dict[Var, int]:
        """For each value the number of the last equation that reads it."""
        last: dict[Var, int] = {
            v: len(self.jaxpr.eqns) for v in self.jaxpr.outvars if type(v) is not Literal
        }
        for i in range(len(self.jaxpr.eqns) - 1, -1, -1):
            eqn = self.jaxpr.eqns[i]
            # A value that is computed where it is used reads its operands there.
            at = max([last.get(v, i) if v in self.virtual else i for v in eqn.outvars], default=i)
            for v in eqn.invars:
                if type(v) is not Literal:
                    last[v] = max(last.get(v, -1), at)
        return last

    @staticmethod
    def _reused(eqn: Eqn, ending: Sequence[Var], made: Sequence[Var], held: dict[Var, Live]) -> int:
        """Bytes of operands that end here and in whose place results are written."""
        if not (eqn.primitive.cost.fuses or eqn.primitive.higher_order):
            return 0
        found = structure.of(eqn) if eqn.primitive.higher_order else None
        # A loop reads elements of its operands in each step, and overwrites only its carry.
        over = found.carry if isinstance(found, structure.Loop) else eqn.invars
        sizes = [held[v].size for v in ending if v in held and v in over]
        total = 0
        for v in made:
            size = bytes_of(v.aval)
            if size in sizes:
                sizes.remove(size)
                total += size
        return total


def _users(jaxpr: Jaxpr) -> dict[Atom, list[Any]]:
    """The equations that use a value; None stands for the caller."""
    users: dict[Atom, list[Any]] = {}
    for eqn in jaxpr.eqns:
        for v in {id(v): v for v in eqn.invars if type(v) is not Literal}.values():
            users.setdefault(v, []).append(eqn)
    for out in jaxpr.outvars:
        if type(out) is not Literal:
            users.setdefault(out, []).append(None)
    return users


def _within(eqn: Eqn) -> int:
    """The bytes that an equation needs while it runs, beside its operands and results. A loop
    copies each element of the arrays that it steps through."""
    most = 0
    loop = structure.of(eqn) if eqn.primitive.higher_order else None
    n_xs = len(loop.xs) if isinstance(loop, structure.Loop) else 0
    for jaxpr in jaxprs_in_params(eqn.params):
        if eqn.primitive.cost.reduces or not eqn.primitive.higher_order:
            continue
        key = "temporaries at the peak"
        found = jaxpr.cache.get(key)
        if found is None:
            inner = optimize(inline_calls(hoist_consts(jaxpr)).jaxpr)
            run = Run(inner, [""] * len(inner.invars), [True] * len(inner.invars))
            outside = sum(bytes_of(v.aval) for v in inner.invars[: len(inner.invars) - n_xs])
            found = jaxpr.cache[key] = max(run.peak - outside, 0)
        most = max(most, found)
    return most


# --- What checkpoint would do ---------------------------------------------------------------------


def _savings(jaxpr: Jaxpr, run: Run) -> tuple[Saving, ...]:
    residuals = [live for live in run.live if live.residual]
    found = [*_of_scans(residuals), *_of_functions(jaxpr, residuals)]
    worth = [saving for saving in found if saving.size * 20 >= run.peak]
    return tuple(sorted(worth, key=lambda saving: -saving.size)[:3])


def _of_scans(residuals: Sequence[Live]) -> list[Saving]:
    """Propose a checkpoint around the body of a scan: it keeps the carries, not the residuals of
    the steps."""
    left: dict[int, list[Live]] = {}
    for live in residuals:
        if live.eqn is not None and _is_scan(live.eqn):
            left.setdefault(id(live.eqn), []).append(live)
    savings = []
    for found in left.values():
        eqn = found[0].eqn
        assert eqn is not None
        loop: Any = structure.of(eqn)
        length, n = loop.times, len(loop.consts)
        ys = sum(live.size for live in found)
        carries = length * sum(map(bytes_of, loop.body.in_avals[n : n + len(loop.carry)]))
        savings.append(
            Saving(
                "jax.checkpoint around the body of the scan",
                _where(eqn),
                ys - carries - ys // max(length, 1),
            )
        )
    return savings


def _is_scan(eqn: Eqn) -> bool:
    found = structure.of(eqn)
    return isinstance(found, structure.Loop) and found.condition is None


def _of_functions(jaxpr: Jaxpr, residuals: Sequence[Live]) -> list[Saving]:
    """Propose a checkpoint for each function of the user: it keeps the arguments, not the
    residuals.

    A call is a run of equations of a function whose instructions follow one another.
    """
    by_code: dict[Any, list[Eqn]] = {}
    for eqn in jaxpr.eqns:
        made_in = source.records(eqn.place)
        if made_in and not is_backward(eqn):
            by_code.setdefault(made_in[0][0], []).append(eqn)
    made_by = {id(live.eqn): live for live in residuals}
    kept = {v for eqn in jaxpr.eqns if id(eqn) in made_by for v in eqn.outvars}
    savings = []
    for code, eqns in by_code.items():
        calls = _calls(eqns)
        if len(calls) < 2 and not any(map(_is_scan, eqns)):
            continue  # all of it would be computed again at once
        given = {v for call in calls for v in _given(call)} - set(jaxpr.invars)
        freed = [
            sum(
                bytes_of(v.aval)
                for eqn in call
                for v in eqn.outvars
                if v in kept and v not in given
            )
            for call in calls
        ]
        more = sum(bytes_of(v.aval) for v in given if v not in kept)
        name = code.co_qualname.rpartition("<locals>.")[2]
        savings.append(
            Saving(
                f"jax.checkpoint({name})" if name.isidentifier() else f"jax.checkpoint of {name}",
                f"{_where(eqns[0])}",
                sum(freed) - more - max(freed, default=0),
            )
        )
    return savings


def _calls(eqns: Sequence[Eqn]) -> list[list[Eqn]]:
    calls: list[list[Eqn]] = []
    last = -1
    for eqn in eqns:
        _, instruction = source.records(eqn.place)[0]
        if not calls or instruction < last:
            calls.append([])
        calls[-1].append(eqn)
        last = instruction
    return calls


def _given(call: Sequence[Eqn]) -> set[Any]:
    own = {v for eqn in call for v in eqn.outvars}
    return {v for eqn in call for v in eqn.invars if type(v) is not Literal and v not in own}


def _where(eqn: Eqn) -> str:
    return source.describe(eqn.place)
