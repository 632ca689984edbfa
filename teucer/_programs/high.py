"""Programs that are given high values, or give some: they run on the arrays of which these are made (docs/high_types.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from teucer._core.jaxpr import ClosedJaxpr, Jaxpr
from teucer._core.references.types import is_reference
from teucer._core.types import high_types
from teucer._devices.placement import placement_of
from teucer._optimize.high import Low, has_high_boundary, is_high_jaxpr, lowered, taken_apart
from teucer._programs.job import Job
from teucer._programs.references.programs import arrays, run

__all__ = ["OnLow", "needs_low", "on_low", "run_high"]


def needs_low(jaxpr: Jaxpr) -> bool:
    """Whether a program is to be lowered before its arguments are looked at: it takes or gives high values, or has high primitives
    that are given references, or that close over arrays."""
    if not high_types or not is_high_jaxpr(jaxpr):
        return False
    return (has_high_boundary(jaxpr) or any(map(is_reference, (v.aval for v in jaxpr.invars)))
            or bool(lowered(ClosedJaxpr(jaxpr)).jaxpr.consts))


class OnLow(NamedTuple):
    """A job on low values, its operands, and what makes high results of the low ones."""

    job: Job
    operands: Sequence[Any]
    low: Low
    avals: Sequence[Any]

    def operands_of(self, args: Sequence[Any]) -> Sequence[Any]:
        """The low values of other arguments of the same types, behind those that the program closes over."""
        return [*self.low.jaxpr.consts, *taken_apart(args, self.avals).low]

    def raised(self, outs: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        """The high results; arguments that change get what they hold now."""
        return list(self.low.raised(outs, args))


def on_low(job: Job, args: Sequence[Any]) -> OnLow:
    """A job on high values as one on low values."""
    low = lowered(ClosedJaxpr(job.jaxpr))
    avals, inner = job.jaxpr.in_avals, low.jaxpr.jaxpr
    given = taken_apart(args, avals)
    operands = [*low.jaxpr.consts, *given.low]
    n = len(inner.constvars)
    donated = (*[False] * n, *(job.donated[i] for i in given.sources))
    place = job.placement
    values = arrays(operands)
    own = placement_of(values, place.device if place.committed and place.mesh is None else None)
    jaxpr = low.jaxpr.cache.get("hoisted")
    if jaxpr is None:
        jaxpr = low.jaxpr.cache["hoisted"] = ClosedJaxpr(inner.replace(constvars=[], invars=[*inner.constvars, *inner.invars]))
    return OnLow(job._replace(jaxpr=jaxpr.jaxpr, donated=donated, placement=own), operands, low, avals)


def run_high(job: Job, args: Sequence[Any]) -> list[Any]:
    """Run a job on high values."""
    found = on_low(job, args)
    return found.raised(run(found.job, found.operands), args)
