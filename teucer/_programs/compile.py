"""Compiling: a job becomes a program, which is kept on its jaxpr."""

from __future__ import annotations

import functools
import time

from teucer._base import config, memo
from teucer._core.dialects import IN_HOST_MEMORY
from teucer._core.provided import provided
from teucer._devices import processes
from teucer._executables import compilations
from teucer._programs.compiler import compiler
from teucer._programs.job import Job
from teucer._programs.lower import Lowering, lower
from teucer._programs.prepare import finished, is_over_mesh, prepared
from teucer._programs.program import Program

_MOST = 256  # programs of one jaxpr: for other devices, shardings, options


def program_for(job: Job) -> Program:
    """The program of a job; kept on its jaxpr."""
    key, programs = job.key, job.jaxpr.cache.setdefault("programs", {})
    program: Program | None = programs.get(key)
    if program is None:
        if config.explain_cache_misses.value:
            from teucer._executables import explanations  # for explanations of misses

            explanations.program(job.jaxpr, programs, key)
        program = memo.remember(programs, key, compile_job(job), _MOST)
    return program


def compile_job(job: Job, lowering: Lowering | None = None) -> Program:
    """The program of a job: prepared, lowered and compiled, or prefetched.

    lowering: the job lowered as it is, if that is there.
    """
    start = time.perf_counter()
    prefetch = job.prefetch if job.prefetch is not None and job.prefetch.first_use() else None
    if prefetch is not None:
        from teucer._programs import prefetched  # for what comes again

        written = prefetched.PrefetchKey(job, lowering)
        found = None if config.dump_ir_to.value else prefetch.take(written.fingerprint)
        if found is not None:
            return prefetched.program(job, found, written.lowering, start)
    ready = prepared(job)
    program = provided.in_pieces(ready) if _may_divide(ready) else None
    if program is None:
        program = _compile_whole(ready)
    if prefetch is not None:
        entries = {
            e.entry: e.size
            for e in program.executables
            if e.entry is not None and e.size is not None
        }
        whole = program.steps is None and program.placement.mesh is None
        prefetch.settle(entries, functools.partial(written.says, program) if whole else None)
    return program


def _compile_whole(job: Job) -> Program:
    """The program of a prepared job as one executable."""
    lowering = lower(finished(job))
    start = time.perf_counter()
    executable, source = compiler(lowering, job.options)()
    compilations.record(
        compilations.Compilation(
            job.name,
            lowering.in_avals,
            lowering.trace_time,
            lowering.lower_time,
            time.perf_counter() - start,
            executable.size,
            source,
        )
    )
    agreement = None
    if processes.state.client is not None:
        from teucer._executables.agreement import agreement_of  # for several processes

        agreement = agreement_of(lowering.placement.devices, job.name, lowering.text, executable)
    return Program(executable, lowering, job.jaxpr.out_avals, job.name, agreement=agreement)


def _may_divide(job: Job) -> bool:
    """Whether a prepared job may be compiled in pieces: on one device, where its arguments and
    results lie as usual."""
    jaxpr, place = job.jaxpr, job.placement
    return (
        len(jaxpr.eqns) > 1  # first, for eager calls of one operation
        and place.mesh is None
        and not (place.in_layouts or place.out_layouts)
        and not (any(place.in_kinds) or any(place.out_kinds))
        and job.target.divides(jaxpr, job.mode)
        and not is_over_mesh(jaxpr)
        and IN_HOST_MEMORY not in jaxpr.dialects
    )
