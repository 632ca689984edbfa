"""How many bytes an equation moves, and numbers of operations as people read them."""

from __future__ import annotations

from teucer._core.jaxpr import Eqn
from teucer._derived.liveness import bytes_of


def bytes_moved(eqn: Eqn) -> int:
    """Bytes of operands and results."""
    return sum(bytes_of(v.aval) for v in (*eqn.invars, *eqn.outvars))


def count_text(n: float) -> str:
    """A number of operations for people.

    >>> count_text(2.5e9)
    '2.5 G'
    """
    for factor, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if n >= factor:
            return f"{n / factor:.1f}{unit}"
    return f"{n:.0f}"
