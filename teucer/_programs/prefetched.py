"""Programs that an earlier process has made: prefetched, and taken before the job is prepared."""

from __future__ import annotations

import functools
import time
from typing import final

from teucer._base import config
from teucer._executables import compilations, prefetch
from teucer._executables.compile import OnDemand, fingerprint
from teucer._programs.compiler import prepared_executable
from teucer._programs.job import Job
from teucer._programs.lower import Lowering, lower
from teucer._programs.program import Program


@final
class PrefetchKey:
    """The key of a prefetched program: the job lowered as its user wrote it, computed on first
    use."""

    __slots__ = ("_job", "_lowering")

    def __init__(self, job: Job, lowering: Lowering | None) -> None:
        self._job, self._lowering = job, lowering

    @property
    def lowering(self) -> Lowering:
        if self._lowering is None:
            self._lowering = lower(self._job._replace(quiet=True))
        return self._lowering

    def fingerprint(self) -> str | None:
        """None for a program whose executable could not be run without it, or that is for a
        mesh."""
        job, lowering = self._job, self.lowering
        if lowering.callbacks or lowering.has_effects or lowering.placement.mesh is not None:
            return None
        return fingerprint(
            lowering.text,
            lowering.placement.devices,
            dict(job.options),
            (
                *job.donated,
                job.keep_unused,
                job.outline,
                config.outline.value,
                config.optimize_jaxprs.value,
                job.target.decisions(),
            ),
        )

    def says(self, program: Program) -> tuple[str | None, tuple[bool, ...]]:
        """The prefetch list's entry of the program, which is one executable."""
        return self.fingerprint(), program.kept


def program(
    job: Job, found: prefetch.PrefetchedProgram, written: Lowering, start: float
) -> Program:
    """The program that was prefetched; start: when it began to be looked for."""
    if not job.quiet:
        compilations.log_begin(job.name, written.in_avals)
        compilations.log_lowered(job.name, written.lower_time)
    lowering = written._replace(text="", kept=found.kept, jaxpr=None)
    compilations.record(
        compilations.Compilation(
            job.name,
            written.in_avals,
            written.trace_time,
            written.lower_time,
            time.perf_counter() - start,
            found.loaded.size,
            "disk",
        )
    )
    code = OnDemand(functools.partial(prepared_executable, job), found.loaded.code)
    return Program(code, lowering, job.jaxpr.out_avals, job.name)
