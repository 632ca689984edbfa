"""The ways to run a segment: keep all values for the backward pass, or recompute them from the
values that a cut of its graph keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._core import structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, new_eqn
from teucer._core.memory import HOST_KIND
from teucer._derived.budget import costs
from teucer._derived.budget.graph import Graph, Maker, frontier
from teucer._derived.budget.measure import Measured, measure, split_of
from teucer._derived.budget.segments import is_scan
from teucer._derived.remat import Offloadable, name_p, remat_p
from teucer._optimize.structure import structural_key
from teucer._targets.outlining.bytes import bytes_of

if TYPE_CHECKING:
    from teucer._targets.outlining.constants import Speeds

# Names, in programs, of values that are saved, that are offloaded, and of candidates.
_SAVED, _OFFLOADED, _VALUE = "budget: saved", "budget: offloaded", "budget: value "


class Planned:
    """The policy of checkpoints that a plan makes: values that it named are saved."""

    def __init__(self) -> None:
        self.plan: Any = None

    def __call__(self, prim: object, *avals: object, **params: object) -> object:
        if prim is not name_p:
            return False
        if params["name"] == _OFFLOADED:
            return Offloadable("device", HOST_KIND)
        return params["name"] == _SAVED


# From a segment's program to the equations to run instead.
Rewrite = Callable[[Jaxpr], list[Eqn]]


class Way(NamedTuple):
    """A way to run a segment, or `group` of a run of them together: their programs become other
    equations. what: for messages. keeps_all: whether it is as without a budget."""

    rewrite: Rewrite
    measured: Measured
    what: str
    group: int = 1
    keeps_all: bool = False


class Making(NamedTuple):
    """The functions and costs with which ways are made. bodies(body, free): the ways of a loop's
    body; free: the inputs that are kept anyway."""

    speeds: Speeds
    policy: Planned
    offloads: bool
    bodies: Callable[[ClosedJaxpr, Sequence[bool]], list[tuple[ClosedJaxpr, str]]]


def ways_of(
    program: Jaxpr, free: Sequence[bool], apart: Sequence[bool], making: Making
) -> list[Way]:
    """The ways to run a segment by itself. The first one keeps all values."""

    def way(rewrite: Rewrite, what: str, keeps_all: bool = False) -> Way:
        closed = ClosedJaxpr(program.replace(eqns=rewrite(program)), ())
        return Way(rewrite, measure(closed, free, apart, making.speeds), what, 1, keeps_all)

    found = [way(lambda p: list(p.eqns), "keeps all", True)]
    if not found[0].measured.own and not found[0].measured.results:
        return found  # nothing to save
    if len(program.eqns) == 1 and is_scan(program.eqns[0]):
        (eqn,) = program.eqns
        loop: Any = structure.of(eqn)
        n = len(loop.consts), len(loop.carry), len(loop.xs)
        inner = [True] * n[0] + [False] * n[1] + [True] * n[2]
        for body, what in making.bodies(loop.body, inner):
            found.append(way(_with_body(body), f"each step {what}"))
        return found
    for chosen in _choices(program, making.speeds):
        what = f"saves {len(chosen)} values" if chosen else "saves nothing"
        found.append(way(_again(chosen, _SAVED, (), making.policy, {}), what))
        if making.offloads:
            outside = tuple(i for i, f in enumerate(free) if not f)
            if chosen or outside:
                rewrite = _again(chosen, _OFFLOADED, outside, making.policy, {})
                found.append(way(rewrite, f"offloads {len(chosen) + len(outside)} values"))
    return found


def again(program: Jaxpr, policy: Planned) -> Eqn:
    """A checkpoint of a program that saves nothing."""
    return _again(frozenset(), _SAVED, (), policy, {})(program)[0]


def _with_body(body: ClosedJaxpr) -> Rewrite:
    def rewrite(program: Jaxpr) -> list[Eqn]:
        (eqn,) = program.eqns
        loop: Any = structure.of(eqn)
        return [
            eqn.replace(
                params=structure.params_of(eqn.primitive, eqn.params, loop._replace(body=body))
            )
        ]

    return rewrite


def _again(
    chosen: frozenset[int],
    name: str,
    inputs: Sequence[int],
    policy: Planned,
    shared: dict[Any, ClosedJaxpr],
) -> Rewrite:
    """A checkpoint which saves the chosen values, by number among those that the program computes,
    and the inputs at some places. Equal programs are one object, so that they are lowered once."""

    def rewrite(program: Jaxpr) -> list[Eqn]:
        named = _named(program, chosen, name, inputs)
        closed = shared.setdefault(structural_key(named), ClosedJaxpr(named, ()))
        params = {
            "jaxpr": closed,
            "prevent_cse": True,
            "differentiated": False,
            "policy": policy,
        }
        source = program.eqns[0].source if program.eqns else None
        outs: Any = program.outvars
        return [new_eqn(remat_p, program.invars, outs, params, source)]

    return rewrite


def _named(program: Jaxpr, chosen: frozenset[int], name: str, inputs: Sequence[int] = ()) -> Jaxpr:
    names: dict[Any, Any] = {}
    eqns: list[Eqn] = []

    def add(v: Var, source: Any) -> None:
        names[v] = Var(v.aval)
        eqns.append(new_eqn(name_p, [v], [names[v]], {"name": name}, source))

    for i in inputs:
        add(program.invars[i], program.eqns[0].source if program.eqns else None)
    number = 0
    for eqn in program.eqns:
        eqns.append(eqn.replace(invars=[names.get(v, v) for v in eqn.invars]) if names else eqn)
        for v in eqn.outvars:
            if number in chosen:
                add(v, eqn.source)
            number += 1
    outs = [names.get(v, v) for v in program.outvars]
    return program.replace(eqns=eqns, outvars=outs)


def _choices(program: Jaxpr, speeds: Speeds) -> list[frozenset[int]]:
    """Sets of values to save, by their numbers among computed values."""
    graph, numbers = graph_of(program, speeds)
    return [frozenset(numbers[v] for v in found.kept) for found in frontier(graph)]


def graph_of(program: Jaxpr, speeds: Speeds) -> tuple[Graph, dict[int, int]]:
    """The graph of a program: the values that its backward pass needs, and the operations that make
    them. Also, for each value that may be saved, its number among computed values."""
    eqns: list[Eqn] = []
    names: dict[Any, Var] = {}
    number = 0
    for eqn in program.eqns:
        eqns.append(eqn.replace(invars=[names.get(v, v) for v in eqn.invars]))
        for v in eqn.outvars:
            if not getattr(v.aval, "is_high", False):
                names[v] = Var(v.aval)
                eqns.append(new_eqn(name_p, [v], [names[v]], {"name": f"{_VALUE}{number}"}))
            number += 1
    outs: list[Any] = [names.get(v, v) for v in program.outvars]
    split, _ = split_of(ClosedJaxpr(program.replace(eqns=eqns, outvars=outs), ()))
    known = split.known.jaxpr
    n_known = sum(not u for u in split.unknown_outs)
    places: dict[Any, int] = {}

    def place(v: Any) -> int:
        return places.setdefault(v, len(places))

    makers, sizes, numbers = [], {}, {}
    for eqn in known.eqns:
        takes = tuple([place(v) for v in eqn.invars if type(v) is not Literal])
        gives = tuple([place(v) for v in eqn.outvars])
        if eqn.primitive is name_p and eqn.params["name"].startswith(_VALUE):
            makers.append(Maker(takes, gives, 0.0))
            numbers[gives[0]] = int(eqn.params["name"][len(_VALUE) :])
            sizes[gives[0]] = bytes_of(eqn.outvars[0].aval)
        else:
            makers.append(Maker(takes, gives, costs.seconds(eqn, speeds)))
    needed = frozenset(place(v) for v in known.outvars[n_known:] if type(v) is not Literal)
    least = sum(sizes.values()) / 1000
    return Graph(tuple(makers), needed, {v: n for v, n in sizes.items() if n > least}), numbers
