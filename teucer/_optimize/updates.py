"""Updates are computed where what they are made of is there.

Users write all gradients and then all updates of parameters: each gradient is kept for so long. Right behind its gradient an
update becomes a part of the function that outlining makes of the layer's backward pass.
"""

from __future__ import annotations

from typing import Any

from teucer._core.jaxpr import Atom, Eqn, Jaxpr

__all__ = ["advance_updates"]


def advance_updates(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with its updates right behind the last of what they are made of; the same bits.

    What updates make of the program's arguments alone goes where it is used first; scalars (the number of a step) go before
    everything else, so that layers stay alike.
    """
    eqns = jaxpr.eqns
    updates = _updates(jaxpr)
    places = list(range(len(eqns)))  # the number of the equation that each goes with; -1: before all
    there: dict[Atom, int] = {}
    for i, eqn in enumerate(eqns):
        if i in updates:
            places[i] = max([there[v] for v in eqn.invars if v in there], default=-1)
        there.update(dict.fromkeys(eqn.outvars, places[i]))
    used: dict[Atom, int] = {}
    for i in sorted(updates, reverse=True):
        if places[i] < 0 and any(v.aval.size > 1 for v in eqns[i].outvars):
            places[i] = min([used[v] for v in eqns[i].outvars if v in used], default=i)
        for v in eqns[i].invars:
            used[v] = min(places[i], used.get(v, i))
    order = sorted(range(len(eqns)), key=places.__getitem__)
    return jaxpr if order == list(range(len(eqns))) else jaxpr.replace(eqns=[eqns[i] for i in order])


def _updates(jaxpr: Jaxpr) -> set[int]:
    """The numbers of the equations on which nothing but results depends that are new values of arguments.

    XLA fuses them with what makes their operands, and none of them makes more than it takes, but of scalars: it would be kept
    for longer.
    """
    eqns = jaxpr.eqns
    last = []  # those on which results alone depend, the last one first
    needed: set[Atom] = set()  # by others
    for i in reversed(range(len(eqns))):
        eqn = eqns[i]
        if eqn.primitive.fuses and needed.isdisjoint(eqn.outvars) and not eqn.effects and not _grows(eqn):
            last.append(i)
        else:
            needed.update(eqn.invars)
    arguments = set(jaxpr.invars)
    taken: dict[Atom, set[Any]] = {}  # types of the arguments that a variable is made of
    for i in reversed(last):
        types = {v.aval for v in eqns[i].invars if v in arguments}.union(*[taken[v] for v in eqns[i].invars if v in taken])
        taken.update(dict.fromkeys(eqns[i].outvars, types))
    updates = set()
    needed = {v for v in jaxpr.outvars if v.aval not in taken.get(v, ())}
    for i in last:
        if needed.isdisjoint(eqns[i].outvars):
            updates.add(i)
        else:
            needed.update(eqns[i].invars)
    return updates


def _grows(eqn: Eqn) -> bool:
    taken = max([v.aval.size for v in eqn.invars], default=1)
    return taken > 1 and any(v.aval.size > taken for v in eqn.outvars)
