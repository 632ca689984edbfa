"""The extent of programs: how many equations there are, and whether sizes are known."""

from __future__ import annotations

from teucer._core.jaxpr import Jaxpr, jaxprs_in_params


def has_symbolic_sizes(jaxpr: Jaxpr) -> bool:
    """Whether arguments have symbolic sizes, which cannot be compared."""
    for v in jaxpr.invars:
        for d in v.aval.shape:
            if type(d) is not int:
                return True
    return False


def has_more(jaxpr: Jaxpr, equations: int) -> bool:
    """Whether a program has more equations than a number, counting inner jaxprs."""
    todo = [jaxpr]
    while todo and equations >= 0:
        eqns = todo.pop().eqns
        equations -= len(eqns)
        todo += [
            inner
            for eqn in eqns
            if eqn.primitive.higher_order
            for inner in jaxprs_in_params(eqn.params)
        ]
    return equations < 0
