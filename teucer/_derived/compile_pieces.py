"""Programs in pieces, each an executable of its own: lowered, compiled and put together."""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from teucer._arrays import transfer
from teucer._base import config
from teucer._core.jaxpr import Jaxpr
from teucer._devices import shardings
from teucer._devices.placement import Placement
from teucer._executables import compilations
from teucer._executables.compile import OnDemand, compile_together
from teucer._lower.boundary import Argument, donated_to
from teucer._optimize.dce import dce_jaxpr
from teucer._programs.compiler import compiler, whole_executable
from teucer._programs.job import Job
from teucer._programs.lower import Lowering, lower, trace_time
from teucer._programs.prepare import finished
from teucer._programs.program import Program, Step, Steps

if TYPE_CHECKING:
    from teucer._targets.outlining.cut_into_pieces import CutProgram


class Pieces(NamedTuple):
    """The pieces of a prepared job, each lowered.

    kept: which of its arguments the program takes. donated: which of these may be overwritten.
    start: when lowering began.
    """

    cut: CutProgram
    lowerings: dict[Jaxpr, Lowering]
    kept: tuple[bool, ...]
    donated: tuple[bool, ...]
    placement: Placement
    start: float


def pieces_of(job: Job) -> Pieces | None:
    """The pieces of a prepared job that calls large functions again and again; None if it stays
    whole. The target would divide it."""
    jaxpr, placement, start = job.jaxpr, job.placement, time.perf_counter()
    live, needed = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    kept = tuple([job.keep_unused or n for n in needed])
    live = live.replace(invars=list(itertools.compress(jaxpr.invars, kept)))
    in_pieces = job.target.pieces(live, job.mode)
    if in_pieces is None:
        return None
    donated = tuple(itertools.compress(job.donated, kept))
    lowerings = _lowered(job, in_pieces, donated)
    named = {lowering.placement for lowering in lowerings.values()} - {placement}
    where = next(iter(named), placement)
    # A program that names a mesh is one executable over it; one that names a device runs all pieces
    # there.
    if len(named) > 1 or where.mesh is not None or where.platform != placement.platform:
        return None
    if not job.target.keeps_callbacks and any(one.callbacks for one in lowerings.values()):
        return None
    lowerings = {piece: lowering._replace(placement=where) for piece, lowering in lowerings.items()}
    donated_to(
        [Argument(v.aval, d) for v, d in zip(live.invars, donated, strict=True)], jaxpr.outvars
    )
    return Pieces(in_pieces, lowerings, kept, donated, where, start)


def _lowered(job: Job, cut: CutProgram, donated: Sequence[bool]) -> dict[Jaxpr, Lowering]:
    """The lowered executables that the pieces run. donated: which of the program's arguments may be
    overwritten."""
    over = overwritten(cut, donated) if job.target.overwrites else {}
    return {
        p.jaxpr: lower(
            finished(
                Job(
                    p.jaxpr,
                    job.name,
                    job.placement,
                    over.get(p.jaxpr, (False,) * len(p.reads)),
                    outline=job.outline,
                    quiet=True,
                )
            )
        )
        for p in cut.pieces
    }


def overwritten(cut: CutProgram, donated: Sequence[bool]) -> dict[Jaxpr, tuple[bool, ...]]:
    """Which operands of each executable its results may be written over: those that nothing reads
    after any of its runs, as far as there are results of their type."""
    given = len(donated) + len(cut.consts)
    found: dict[Jaxpr, list[bool]] = {}
    for piece in cut.pieces:
        free = [
            i in piece.drops
            and piece.reads.count(i) == 1
            and (i >= given or (i < len(donated) and donated[i]))
            for i in piece.reads
        ]
        found[piece.jaxpr] = list(map(operator.and_, found.get(piece.jaxpr, free), free))
    for jaxpr, free in found.items():
        types = collections.Counter([v.aval.physical for v in jaxpr.outvars])
        for i, v in enumerate(jaxpr.invars):
            free[i] = free[i] and types[v.aval.physical] > 0
            types[v.aval.physical] -= free[i]
    return {jaxpr: tuple(free) for jaxpr, free in found.items()}


def in_pieces(job: Job) -> Program | None:
    """The program of a prepared job that its target would divide; None if it stays whole."""
    pieces = pieces_of(job)
    return None if pieces is None else compile_pieces(job, pieces)


def compile_pieces(job: Job, pieces: Pieces) -> Program:
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
            compiler(lowering, job.options, lean=jaxpr in between)
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
    code = OnDemand(functools.partial(whole_executable, job))
    return Program(code, lowering, whole.out_avals, name, _steps(pieces, programs))


def _between(pieces: CutProgram) -> set[Jaxpr]:
    """The parts between calls of functions, if they take little of the time."""
    between = {p.jaxpr for p in pieces.pieces if not p.calls}
    return set() if len(between) > sum(max(p.calls, 1) for p in pieces.pieces) // 8 else between


def _steps(pieces: Pieces, programs: dict[Jaxpr, Program]) -> Steps:
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
