"""Dead code: equations whose results nothing uses and that do nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from teucer._core.jaxpr import Jaxpr, Literal

__all__ = ["dce_jaxpr"]


def dce_jaxpr(jaxpr: Jaxpr, used_outputs: Sequence[bool]) -> tuple[Jaxpr, list[bool]]:
    """The jaxpr that computes only the outputs marked, and which of its inputs are left in use.

    The result takes only the inputs that are used.
    """
    outvars = [v for v, used in zip(jaxpr.outvars, used_outputs, strict=True) if used]
    live: set[Any] = {v for v in outvars if type(v) is not Literal}
    eqns = []
    # Plain loops: this runs for every equation that is lowered (benchmarks/).
    for eqn in reversed(jaxpr.eqns):
        if not eqn.effects:
            for out in eqn.outvars:
                if out in live:
                    break
            else:
                continue
        eqns.append(eqn)
        for u in eqn.invars:
            if type(u) is not Literal:
                live.add(u)
    used = [v in live for v in jaxpr.invars]
    invars = [v for v, keep in zip(jaxpr.invars, used, strict=True) if keep]
    constvars = jaxpr.constvars
    return Jaxpr(constvars, invars, outvars, eqns[::-1], debug_info=jaxpr.debug_info), used
