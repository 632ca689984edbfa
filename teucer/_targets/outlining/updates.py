"""Move optimizer updates next to the gradients that they consume.

Users write all gradients first, and then all updates of parameters, so every gradient stays alive
until then. Right after its gradient, an update becomes a part of the function that outlining makes
of the layer's backward pass.
"""

from __future__ import annotations

from typing import Any

from teucer._core.jaxpr import Atom, Eqn, Jaxpr


def advance_updates(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with each update right after the last of its operands; the bits are the same.

    Parts of an update that depend on the program's arguments alone go to their first use. Scalars
    (the number of a step) go before everything else, so that layers stay alike. Scalars that derive
    from gradients (the sum of their squares) go as late as possible. Updates that move to one place
    stand in the order in which results need them. So the updates of a layer stay together after a
    norm that clips all gradients.
    """
    eqns = jaxpr.eqns
    updates = updates_of(jaxpr)
    places = list(
        range(len(eqns))
    )  # the number of the equation that each goes with; -1: before all
    there: dict[Atom, int] = {}
    for i, eqn in enumerate(eqns):
        if i in updates:
            places[i] = max([there[v] for v in eqn.invars if v in there], default=-1)
        there.update(dict.fromkeys(eqn.outvars, places[i]))
    used: dict[Atom, int] = {}
    for i, eqn in reversed(list(enumerate(eqns))):
        if i in updates:
            scalar = all(v.aval.size == 1 for v in (*eqn.invars, *eqn.outvars))
            if scalar == (places[i] >= 0):
                places[i] = min([used[v] for v in eqn.outvars if v in used], default=i)
        last = places[i] if i in updates else i - 1  # the last place before it, where it stays
        for v in eqn.invars:
            used[v] = min(last, used.get(v, last))
    depth_first = _depth_first(jaxpr, updates)
    order = sorted(range(len(eqns)), key=lambda i: (places[i], depth_first.get(i, -1)))
    return (
        jaxpr if order == list(range(len(eqns))) else jaxpr.replace(eqns=[eqns[i] for i in order])
    )


def _depth_first(jaxpr: Jaxpr, updates: set[int]) -> dict[int, int]:
    """For each update its number in the order in which results need them, operands before their
    uses.

    The operand with the longest chain of equations comes first. So a norm of all gradients comes
    before anything else that the first update needs, and that update is like the others.
    """
    eqns = jaxpr.eqns
    made: dict[Atom, int] = {}
    depths: dict[int, int] = {}
    for i in sorted(updates):
        depths[i] = 1 + max([depths[made[v]] for v in eqns[i].invars if v in made], default=0)
        made.update(dict.fromkeys(eqns[i].outvars, i))
    todo = sorted(updates, reverse=True) + [made[v] for v in reversed(jaxpr.outvars) if v in made]
    numbers: dict[int, int] = {}
    while todo:
        missing = [
            made[v] for v in reversed(eqns[todo[-1]].invars) if v in made and made[v] not in numbers
        ]
        if missing:
            todo += sorted(missing, key=depths.__getitem__)
        else:
            numbers.setdefault(todo.pop(), len(numbers))
    return numbers


def updates_of(jaxpr: Jaxpr) -> set[int]:
    """The numbers of update equations: only results that are new values of arguments, or scalars,
    depend on them.

    XLA fuses them with the equations of their operands, or they are reductions. None makes more
    bytes than it takes, except from scalars: the result would be kept for longer.
    """
    eqns = jaxpr.eqns
    last = []  # equations on which results alone depend, the last one first
    needed: set[Atom] = set()  # by others
    for i in reversed(range(len(eqns))):
        eqn = eqns[i]
        apart = not needed.isdisjoint(eqn.outvars) or eqn.effects or _grows(eqn)
        if not apart and (eqn.primitive.cost.fuses or eqn.primitive.cost.reduces):
            last.append(i)
        else:
            needed.update(eqn.invars)
    arguments = set(jaxpr.invars)
    taken: dict[Atom, set[Any]] = {}  # types of the arguments that a variable is made of
    for i in reversed(last):
        types = {v.aval for v in eqns[i].invars if v in arguments}.union(
            *[taken[v] for v in eqns[i].invars if v in taken]
        )
        taken.update(dict.fromkeys(eqns[i].outvars, types))
    arrays = {v for v in jaxpr.outvars if v.aval.size > 1}
    new = []  # elements of `last` that no other array needs
    needed = {v for v in arrays if v.aval not in taken.get(v, ())}
    for i in last:
        if needed.isdisjoint(eqns[i].outvars):
            new.append(i)
        else:
            needed.update(eqns[i].invars)
    updates = set()
    used: set[Atom] = arrays
    for i in new:
        if not used.isdisjoint(eqns[i].outvars):
            updates.add(i)
            used.update(eqns[i].invars)
    # Scalar results that are computed from operands of updates (the norm of the gradients), but not
    # the loss.
    for i in reversed(new):
        if i not in updates and all(v in used or v.aval.size == 1 for v in eqns[i].invars):
            updates.add(i)
            used.update(eqns[i].outvars)
    return updates


def _grows(eqn: Eqn) -> bool:
    taken = max([v.aval.size for v in eqn.invars], default=1)
    return taken > 1 and any(v.aval.size > taken for v in eqn.outvars)
