"""Loops that count, for targets that have an instruction for them.

`counts(dtype)` says whether the target counts in a dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from teucer import lax
from teucer._core.jaxpr import ClosedJaxpr, Literal


def counter(body: ClosedJaxpr, m: int, counts: Callable[[np.dtype[Any]], bool]) -> int | None:
    """The number of the carried value that is one more each time, as `fori_loop` makes them; None
    without one."""
    jaxpr = body.jaxpr
    made = {eqn.outvars[0]: eqn for eqn in jaxpr.eqns if eqn.primitive is lax.add_p}
    for k, (v, out) in enumerate(zip(jaxpr.invars[m:], jaxpr.outvars, strict=False)):
        eqn = made.get(out)
        if (
            eqn is not None
            and eqn.invars[0] is v
            and _is_one(eqn.invars[1])
            and v.aval.shape == ()
            and counts(v.aval.dtype)
        ):
            return k
    return None


def bounded(
    cond: ClosedJaxpr, body: ClosedJaxpr, k: int, m: int, counts: Callable[[np.dtype[Any]], bool]
) -> tuple[int, int] | None:
    """For a loop while i < n, where i is one more each time and n stays as it is: the numbers of i
    and n in the carry."""
    jaxpr = cond.jaxpr
    if (
        k
        or len(jaxpr.eqns) != 1
        or jaxpr.eqns[0].primitive is not lax.lt_p
        or jaxpr.outvars[0] is not jaxpr.eqns[0].outvars[0]
    ):
        return None
    i, n = (jaxpr.invars.index(v) if v in jaxpr.invars else -1 for v in jaxpr.eqns[0].invars)
    inner = body.jaxpr
    if (
        i < 0
        or n < 0
        or counter(body, m, counts) != i
        or inner.outvars[n] is not inner.invars[m + n]
    ):
        return None
    return i, n


def _is_one(atom: Any) -> bool:
    return type(atom) is Literal and np.ndim(atom.val) == 0 and atom.val == 1
