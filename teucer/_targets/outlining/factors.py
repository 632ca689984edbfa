"""Factors by which updates multiply, such as learning rates, become operands of the pieces.

Researchers change these numbers more often than any other part of a program. As operands they are
not in the text of a piece, so another learning rate compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, final

from teucer._core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from teucer._core.primitive import Primitive
from teucer._core.provided import provided
from teucer._optimize.structure import literal_key


def with_factors(
    jaxpr: Jaxpr, function_of: Callable[[Eqn], Jaxpr | None]
) -> tuple[Jaxpr, set[Literal]]:
    """The jaxpr, whose functions take the factors of their updates as arguments, and the factors of
    equations between calls.

    function_of: the function that an equation calls, if it becomes pieces.
    Updates are the loops and reductions that results alone need. Their products by 0, 1 or -1 stay,
    which XLA simplifies.
    """
    updates = _Updates(function_of)
    alone, _ = updates.of(jaxpr, frozenset(range(len(jaxpr.outvars))))
    taking = {key: _taking(*found) for key, found in updates.functions.items()}
    factors: set[Literal] = set()
    eqns = []
    for i, eqn in enumerate(jaxpr.eqns):
        function = function_of(eqn)
        if function is not None:
            closed, literals = taking[id(function)]
            if literals:
                eqn = eqn.replace(invars=[*eqn.invars, *literals], params={"jaxpr": closed})
        elif i in alone and (found := _factors(eqn)):
            own: dict[Atom, Literal] = {v: Literal(v.val, v.aval) for v in found}  # of this alone
            factors.update(own.values())
            eqn = eqn.replace(invars=[own.get(v, v) for v in eqn.invars])
        eqns.append(eqn)
    return jaxpr.replace(eqns=eqns), factors


@final
class _Updates:
    """functions: by identity, each function that is called, and which of its equations results
    alone need in all calls."""

    def __init__(self, function_of: Callable[[Eqn], Jaxpr | None]) -> None:
        self.function_of = function_of
        self.functions: dict[int, tuple[Jaxpr, set[int]]] = {}
        self.known: dict[Any, tuple[set[int], set[Atom]]] = {}

    def of(self, jaxpr: Jaxpr, results: frozenset[int]) -> tuple[set[int], set[Atom]]:
        """The numbers of the updates, which only some results need, and the values that something
        else needs. The results are given as numbers."""
        key = id(jaxpr), results
        if key not in self.known:
            needed: set[Atom] = {v for i, v in enumerate(jaxpr.outvars) if i not in results}
            alone: set[int] = set()
            for i in reversed(range(len(jaxpr.eqns))):
                eqn = jaxpr.eqns[i]
                function = self.function_of(eqn)
                if function is not None:
                    given = frozenset([j for j, v in enumerate(eqn.outvars) if v not in needed])
                    inside, taken = self.of(function, given)
                    common = self.functions.setdefault(id(function), (function, set(inside)))[1]
                    common &= inside
                    needed.update(
                        v for v, u in zip(eqn.invars, function.invars, strict=True) if u in taken
                    )
                elif needed.isdisjoint(eqn.outvars) and _follows(eqn):
                    alone.add(i)
                else:
                    needed.update(eqn.invars)
            self.known[key] = alone, needed
        return self.known[key]


def _follows(eqn: Eqn) -> bool:
    cost = eqn.primitive.cost
    return (cost.fuses or cost.reduces) and not eqn.effects


def _taking(function: Jaxpr, alone: Collection[int]) -> tuple[ClosedJaxpr, list[Literal]]:
    """A function with arguments for the factors of some of its equations, and the factors.

    Equal factors are one argument if the equations around are of one kind. Otherwise a learning
    rate that happens to equal another number would be merged with it.
    """
    makers = {v: eqn.primitive for eqn in function.eqns for v in eqn.outvars}
    users: dict[Atom, set[Primitive]] = {}
    for eqn in function.eqns:
        for v in eqn.invars:
            users.setdefault(v, set()).add(eqn.primitive)
    places: dict[Any, Var] = {}
    literals: list[Literal] = []
    eqns = list(function.eqns)
    for i in sorted(alone):
        eqn = eqns[i]
        stands: dict[Atom, Var] = {}
        for literal in _factors(eqn):
            around = [makers.get(v) for v in eqn.invars if type(v) is Var]
            key = literal_key(literal), *around, frozenset(users.get(eqn.outvars[0], ()))
            if key not in places:
                places[key] = Var(literal.aval)
                literals.append(literal)
            stands[literal] = places[key]
        if stands:
            eqns[i] = eqn.replace(invars=[stands.get(v, v) for v in eqn.invars])
    invars = [*function.invars, *places.values()]
    return ClosedJaxpr(function.replace(invars=invars, eqns=eqns)), literals


def _factors(eqn: Eqn) -> list[Literal]:
    """The numbers that a product multiplies by."""
    if eqn.primitive is not provided.quotients.multiply:
        return []
    return [
        v
        for v in eqn.invars
        if type(v) is Literal and v.aval.dtype.kind not in "biu" and v.val not in (0, 1, -1)
    ]
