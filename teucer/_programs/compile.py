"""Compiling: a job becomes a program, which is kept on its jaxpr."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, final

from teucer._arrays import transfer
from teucer._base import config
from teucer._core.jaxpr import Jaxpr
from teucer._devices import shardings
from teucer._devices.placement import Placement
from teucer._executables import compilations, preload
from teucer._executables.compile import (
    Executable,
    OnDemand,
    Source,
    compile_module,
    compile_together,
    fingerprint,
)
from teucer._lower.boundary import Argument, donated_to
from teucer._optimize.dce import dce_jaxpr
from teucer._programs.agreement import agree
from teucer._programs.job import Job
from teucer._programs.lower import Lowering, lower, trace_time
from teucer._programs.prepare import is_over_mesh, prepared
from teucer._programs.program import Program, Step, Steps
from teucer._targets.outlined_call import outlined_call_p
from teucer._targets.table import target_of

if TYPE_CHECKING:
    from teucer._targets.cpu.pieces import CutProgram

__all__ = ["compile_job", "located", "program_for"]


def program_for(job: Job) -> Program:
    """The program of a job; kept on its jaxpr."""
    key, cache = job.key, job.jaxpr.cache
    program: Program | None = cache.get(key)
    if program is None:
        if config.explain_cache_misses.value:
            from teucer._executables import explanations  # for those who ask

            explanations.program(job.jaxpr, key)
        program = cache[key] = compile_job(job)
    return program


def compile_job(job: Job, lowering: Lowering | None = None) -> Program:
    """The program of a job: prepared, lowered and compiled, or what its forecast says that this
    gives.

    lowering: the job lowered as it is, if that is there.
    """
    start = time.perf_counter()
    written = _AsWritten(job, lowering)
    forecast = job.forecast if job.forecast is not None and job.forecast.first_use() else None
    foreseen = (
        forecast.take(written.fingerprint)
        if forecast is not None and not config.dump_ir_to.value
        else None
    )
    if foreseen is not None:
        return _foreseen_program(job, foreseen, written.lowering, start)
    ready = prepared(job)
    pieces = _pieces_of(ready)
    program = _compile_whole(ready) if pieces is None else _compile_pieces(ready, pieces)
    if forecast is not None:
        entries = {
            e.entry: e.size
            for e in program.executables
            if e.entry is not None and e.size is not None
        }
        whole = program.steps is None and program.placement.mesh is None
        forecast.settle(entries, functools.partial(written.says, program) if whole else None)
    return program


@final
class _AsWritten:
    """A job lowered as its user wrote it, as soon as somebody asks."""

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
            ),
        )

    def says(self, program: Program) -> tuple[str | None, tuple[bool, ...]]:
        """What a forecast says of the program, which is one executable."""
        return self.fingerprint(), program.kept


def _foreseen_program(
    job: Job, foreseen: preload.Foreseen, written: Lowering, start: float
) -> Program:
    """The program that a forecast has named; start: when it began to be looked for."""
    if not job.quiet:
        compilations.log_begin(job.name, written.in_avals)
        compilations.log_lowered(job.name, written.lower_time)
    lowering = written._replace(text="", kept=foreseen.kept, jaxpr=None)
    compilations.record(
        compilations.Compilation(
            job.name,
            written.in_avals,
            written.trace_time,
            written.lower_time,
            time.perf_counter() - start,
            foreseen.loaded.size,
            "disk",
        )
    )
    code = OnDemand(functools.partial(_prepared_executable, job), foreseen.loaded.code)
    return Program(code, lowering, job.jaxpr.out_avals, job.name)


def _compile_whole(job: Job) -> Program:
    """The program of a prepared job as one executable."""
    lowering = lower(job)
    agreement = agree(lowering.placement.devices, job.name, lowering.text)
    start = time.perf_counter()
    executable, source = _compiler(lowering, job.options)()
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


class _Pieces(NamedTuple):
    """The pieces of a prepared job, each lowered.

    kept: which of its arguments they take, of which `donated` may be overwritten. start: when they
    began to be lowered.
    """

    cut: CutProgram
    lowerings: dict[Jaxpr, Lowering]
    kept: tuple[bool, ...]
    donated: tuple[bool, ...]
    placement: Placement
    start: float


def _pieces_of(job: Job) -> _Pieces | None:
    """The pieces of a prepared job that calls large functions again and again; None if it stays
    whole."""
    jaxpr, placement, start = job.jaxpr, job.placement, time.perf_counter()
    laid_out = placement.in_layouts or placement.out_layouts
    if (
        placement.mesh is not None
        or laid_out
        or outlined_call_p not in [eqn.primitive for eqn in jaxpr.eqns]
        or is_over_mesh(jaxpr)
    ):
        return None
    live, needed = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    kept = tuple([job.keep_unused or n for n in needed])
    live = live.replace(invars=list(itertools.compress(jaxpr.invars, kept)))
    in_pieces = job.target.pieces(live, job.mode)
    if in_pieces is None:
        return None
    lowerings = {
        p.jaxpr: lower(Job(p.jaxpr, job.name, placement, (False,) * len(p.reads), quiet=True))
        for p in in_pieces.pieces
    }
    named = {lowering.placement for lowering in lowerings.values()} - {placement}
    where = next(iter(named), placement)
    # What speaks of a mesh runs over it as a whole; of a device, all pieces run there.
    if len(named) > 1 or where.mesh is not None or where.platform != placement.platform:
        return None
    lowerings = {piece: lowering._replace(placement=where) for piece, lowering in lowerings.items()}
    donated = tuple(itertools.compress(job.donated, kept))
    donated_to(
        [Argument(v.aval, d) for v, d in zip(live.invars, donated, strict=True)], jaxpr.outvars
    )
    return _Pieces(in_pieces, lowerings, kept, donated, where, start)


def _compile_pieces(job: Job, pieces: _Pieces) -> Program:
    """The program of a prepared job in pieces, which are compiled all at the same time."""
    whole, name, lowerings = job.jaxpr, job.name, pieces.lowerings
    took = time.perf_counter() - pieces.start
    if not job.quiet:
        compilations.log_begin(name, whole.in_avals)
        compilations.log_lowered(name, took)
        if config.dump_ir_to.value:
            for jaxpr, lowering in lowerings.items():
                compilations.dump(name, jaxpr, lowering.text)
    job.target.keep_memory(of_threads=True)
    between = _between(pieces.cut)
    compiled = compile_together(
        [
            _compiler(lowering, job.options, lean=jaxpr in between)
            for jaxpr, lowering in lowerings.items()
        ]
    )
    sources = {source for _, source in compiled}
    compilations.record(
        compilations.Compilation(
            name,
            tuple(whole.in_avals),
            trace_time(whole),
            took,
            time.perf_counter() - pieces.start - took,
            sum(executable.size or 0 for executable, _ in compiled),
            next(s for s in ("compiled", "disk", "memory") if s in sources),
        )
    )
    programs = {
        jaxpr: Program(executable, lowering, jaxpr.out_avals, name)
        for (jaxpr, lowering), (executable, _) in zip(lowerings.items(), compiled, strict=True)
    }
    lowering = Lowering(
        "",
        pieces.kept,
        tuple(c for one in lowerings.values() for c in one.callbacks),
        False,
        False,
        tuple(whole.in_avals),
        (),
        (),
        pieces.placement,
        0.0,
        0.0,
    )
    code = OnDemand(functools.partial(_whole_executable, job))
    return Program(code, lowering, whole.out_avals, name, _steps(pieces, programs))


def _between(pieces: CutProgram) -> set[Jaxpr]:
    """What runs between the calls of functions, where it takes but little of the time."""
    between = {p.jaxpr for p in pieces.pieces if not p.calls}
    return set() if len(between) > sum(max(p.calls, 1) for p in pieces.pieces) // 8 else between


def _steps(pieces: _Pieces, programs: dict[Jaxpr, Program]) -> Steps:
    donated, sharding = pieces.donated, shardings.single_device_sharding(pieces.placement.device)
    steps = [
        Step(
            programs[p.jaxpr],
            tuple(itertools.compress(p.reads, programs[p.jaxpr].kept)),
            p.drops,
            tuple([i for i in p.drops if i < len(donated) and donated[i]]),
        )
        for p in pieces.cut.pieces
    ]
    return Steps(
        tuple(steps),
        tuple([transfer.to_sharding(c, sharding) for c in pieces.cut.consts]),
        pieces.cut.results,
    )


def located(job: Job) -> tuple[Lowering, Executable]:
    """A job lowered, and compiled as one executable, whose instructions say where in the user's
    program they come from."""
    lowering = lower(prepared(job)._replace(quiet=True), locations=True)
    return lowering, _compiler(lowering, job.options)()[0]


def _prepared_executable(job: Job) -> Executable:
    return _whole_executable(prepared(job))


def _whole_executable(job: Job) -> Executable:
    """The one executable of a prepared job."""
    return _compiler(lower(job._replace(quiet=True)), job.options)()[0]


def _compiler(
    lowering: Lowering,
    options: Sequence[tuple[str, object]],
    *,
    lean: bool = False,
) -> Callable[[], tuple[Executable, Source]]:
    """What compiles a lowered jaxpr; lean: quickly rather than well."""
    placement = lowering.placement
    return functools.partial(
        compile_module,
        lowering.text,
        placement.devices,
        use_shardy=placement.mesh is not None,
        overrides=dict(options),
        callbacks=lowering.callbacks,
        switches=target_of(placement.platform).switches(
            lowering.jaxpr, lean=lean, parts=len(placement.devices)
        ),
    )
