"""Compiling: a job becomes a program, which is kept on its jaxpr."""

from __future__ import annotations

import functools
import time

from teucer._base import config, memo
from teucer._executables import compilations
from teucer._executables.agreement import agree
from teucer._programs.compiler import compiler
from teucer._programs.foreseen import AsWritten, foreseen_program
from teucer._programs.job import Job
from teucer._programs.lower import Lowering, lower
from teucer._programs.pieces import compile_pieces, pieces_of
from teucer._programs.prepare import finished, prepared
from teucer._programs.program import Program

_MOST = 256  # programs of one jaxpr: for other devices, shardings, options


def program_for(job: Job) -> Program:
    """The program of a job; kept on its jaxpr."""
    key, programs = job.key, job.jaxpr.cache.setdefault("programs", {})
    program: Program | None = programs.get(key)
    if program is None:
        if config.explain_cache_misses.value:
            from teucer._executables import explanations  # for those who ask

            explanations.program(job.jaxpr, programs, key)
        program = memo.remember(programs, key, compile_job(job), _MOST)
    return program


def compile_job(job: Job, lowering: Lowering | None = None) -> Program:
    """The program of a job: prepared, lowered and compiled, or what its forecast says that this
    gives.

    lowering: the job lowered as it is, if that is there.
    """
    start = time.perf_counter()
    written = AsWritten(job, lowering)
    forecast = job.forecast if job.forecast is not None and job.forecast.first_use() else None
    foreseen = (
        forecast.take(written.fingerprint)
        if forecast is not None and not config.dump_ir_to.value
        else None
    )
    if foreseen is not None:
        return foreseen_program(job, foreseen, written.lowering, start)
    ready = prepared(job)
    pieces = pieces_of(ready)
    program = _compile_whole(ready) if pieces is None else compile_pieces(ready, pieces)
    if forecast is not None:
        entries = {
            e.entry: e.size
            for e in program.executables
            if e.entry is not None and e.size is not None
        }
        whole = program.steps is None and program.placement.mesh is None
        forecast.settle(entries, functools.partial(written.says, program) if whole else None)
    return program


def _compile_whole(job: Job) -> Program:
    """The program of a prepared job as one executable."""
    lowering = lower(finished(job))
    agreement = agree(lowering.placement.devices, job.name, lowering.text)
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
    return Program(executable, lowering, job.jaxpr.out_avals, job.name, agreement=agreement)
