"""Results of calls that are operands unchanged.

What the `forward` rules of primitives that carry jaxprs share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from teucer._core.jaxpr import Atom, Eqn, Jaxpr, Literal


def unchanged(jaxpr: Jaxpr) -> list[int | Literal | None]:
    """For each output that is an input or a literal: the input's number, or the literal. None for
    computed outputs."""
    position: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.invars)}
    return [v if type(v) is Literal else position.get(v) for v in jaxpr.outvars]


def atoms(sources: Sequence[int | Literal | None], operands: Sequence[Atom]) -> list[Atom | None]:
    """The finds of `unchanged`, as operands of the call."""
    return [operands[s] if isinstance(s, int) else s for s in sources]


def forward_call(eqn: Eqn, key: str) -> tuple[Eqn, list[Atom | None]]:
    """The `forward` rule of a call of the jaxpr `params[key]` on all operands; a result returned
    twice is one result."""
    jaxpr = eqn.params[key].jaxpr
    found = atoms(unchanged(jaxpr), eqn.invars)
    first: dict[Any, Atom] = {}
    for i, (v, out) in enumerate(zip(jaxpr.outvars, eqn.outvars, strict=True)):
        if found[i] is None and first.setdefault(v, out) is not out:
            found[i] = first[v]
    return eqn, found
