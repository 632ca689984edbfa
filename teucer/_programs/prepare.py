"""Preparing: a jaxpr as its user wrote it becomes the one that is compiled."""

from __future__ import annotations

from teucer._base import config
from teucer._base.collection import rarely_collected
from teucer._core.dialects import HIGH, REFERENCES
from teucer._core.jaxpr import Jaxpr, jaxprs_in_params
from teucer._core.names import tagging, tags_of
from teucer._optimize.dce import remove_dead
from teucer._optimize.passes import optimize
from teucer._programs.job import Job


def prepared(job: Job) -> Job:
    """The job with its jaxpr optimised, and rewritten for the compiler of its platform.

    A job that is lowered only to be read stays as its user wrote it.
    """
    with rarely_collected:  # no decorator, which costs calls and depth
        jaxpr = job.jaxpr
        if jaxpr.dialects:
            jaxpr = without_dialects(jaxpr)
        if tagging() and _has_tags(jaxpr):
            return job._replace(jaxpr=jaxpr)
        jaxpr = optimize(jaxpr) if config.optimize_jaxprs.value else remove_dead(jaxpr)
        return job._replace(jaxpr=job.target.prepare(jaxpr, job.mode))


def without_dialects(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr without high types and references. The given jaxpr has no constants, and its inputs
    and results are arrays. The passes run in this order."""
    if HIGH in jaxpr.dialects:
        from teucer._dialects.high.lowering import lower_high

        jaxpr = lower_high(jaxpr)
    if REFERENCES in jaxpr.dialects:
        from teucer._dialects.references.discharge import discharge

        jaxpr = discharge(jaxpr)
    return jaxpr


def finished(job: Job) -> Job:
    """The last rewrite of a prepared job, or of a piece of one, before it becomes an executable.

    No rewrite if operations must keep their source lines.
    """
    alone = len(job.jaxpr.eqns) < 2  # first, for eager calls of one operation
    if alone or job.placement.mesh is not None or config.locations.value or is_over_mesh(job.jaxpr):
        return job
    return job._replace(jaxpr=job.target.finished(job.jaxpr, job.mode))


def is_over_mesh(jaxpr: Jaxpr) -> bool:
    """Whether a part of the program is written for each device of a mesh (shard_map). Then all of
    it runs over that mesh."""
    return any(
        eqn.primitive.within is not None or any(map(is_over_mesh, jaxprs_in_params(eqn.params)))
        for eqn in jaxpr.eqns
        if eqn.primitive.higher_order
    )


def _has_tags(jaxpr: Jaxpr) -> bool:
    """Whether equations have tags, which tell the compiler something about operations. Then the
    operations must stay as the user wrote them."""
    return any(
        tags_of(eqn.source) or any(map(_has_tags, jaxprs_in_params(eqn.params)))
        for eqn in jaxpr.eqns
    )
