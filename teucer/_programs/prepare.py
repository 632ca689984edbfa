"""Preparing: a jaxpr as its user wrote it becomes the one that is compiled."""

from __future__ import annotations

from teucer._base import config
from teucer._base.collection import rarely_collected
from teucer._core.jaxpr import Jaxpr
from teucer._core.types import partitioned
from teucer._optimize.dce import remove_dead
from teucer._optimize.discharge import discharge
from teucer._optimize.passes import optimize
from teucer._programs.job import Job
from teucer._targets.cpu.outline import outlined

__all__ = ["prepared"]


@rarely_collected
def prepared(job: Job) -> Job:
    """The job with its jaxpr optimised and outlined. What is lowered to be read is as its user wrote it."""
    jaxpr = discharge(job.jaxpr)
    if partitioned and _has_partitions(jaxpr):
        return job._replace(jaxpr=jaxpr)
    if config.optimize_jaxprs.value:
        jaxpr = optimize(jaxpr)
    jaxpr = remove_dead(jaxpr)
    if job.placement.mesh is None:
        jaxpr = outlined(jaxpr, job.outline, job.placement.platform)
    return job._replace(jaxpr=jaxpr)


def _has_partitions(jaxpr: Jaxpr) -> bool:
    """Whether types say partitions, of which the passes know nothing, nor XLA's partitioner of calls that stay calls."""
    return any(getattr(v.aval, "sharding", None) is not None
               for v in (*jaxpr.invars, *(v for eqn in jaxpr.eqns for v in eqn.outvars)))
