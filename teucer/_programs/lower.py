"""Lowering: the jaxpr of a job becomes StableHLO text."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._arrays import formats
from teucer._base import config
from teucer._base.collection import rarely_collected
from teucer._core.dialects import SUMS
from teucer._core.jaxpr import Jaxpr, Literal
from teucer._devices.placement import (
    Memories,
    Placement,
    on_device,
    over_mesh,
    pinned,
    pinned_arguments,
)
from teucer._dynamic import sizes
from teucer._executables import compilations
from teucer._lower import text
from teucer._lower.boundary import Argument
from teucer._lower.context import lower_module
from teucer._optimize.dce import dce_jaxpr
from teucer._programs.job import Job
from teucer._programs.prepare import without_dialects

if TYPE_CHECKING:
    from teucer._core.typing import Value
    from teucer._lower.module import Module


class Lowering(NamedTuple):
    """A jaxpr as StableHLO text for platforms; `kept` says which arguments the text takes.

    in_avals: of the arguments that it takes. ins, outs: the shardings that the text says.
    placement: the devices that it is for.
    """

    text: str
    kept: tuple[bool, ...]
    callbacks: tuple[Any, ...]
    has_effects: bool
    # Whether a size in the text is symbolic.
    polymorphic: bool
    in_avals: tuple[Any, ...]
    ins: tuple[Any, ...]
    outs: tuple[Any, ...]
    placement: Placement
    trace_time: float
    lower_time: float
    jaxpr: Any = None  # None for one without text
    memories: Memories = Memories(
        (), ()
    )  # of arguments that it takes and of results, empty where all are the devices'


class _Main(NamedTuple):
    """The main function of a module: the live equations, the arguments that it takes, how its
    results are laid out.

    consts: values of its first arguments, which are written into it.
    names: names of the other arguments in messages; named: whether they are the user's names.
    """

    name: str
    jaxpr: Jaxpr
    consts: Sequence[Any]
    names: list[str]
    args: list[Argument]
    ins: tuple[Any, ...]
    outs: tuple[Any, ...]
    out_buffers: list[tuple[str, ...]]
    memories: Memories
    kept: tuple[bool, ...]
    mesh: Any
    named: bool

    def write(
        self, platforms: Sequence[str], *, locations: bool, abstract: bool = False
    ) -> tuple[str, Any]:
        """Its text, and the module."""
        return lower_module(
            f"jit_{self.name}",
            self.jaxpr,
            self.args,
            platforms,
            locations=locations,
            consts=self.consts,
            outs=self.outs,
            mesh=self.mesh,
            abstract=abstract,
            out_buffers=self.out_buffers,
            solve=lambda ctx, values: sizes.in_module(ctx, values, self.names),
            arg_names=self.names if self.named else (),
        )


def lower(
    job: Job,
    platforms: Sequence[str] | None = None,
    *,
    locations: bool = False,
    consts: Sequence[Value] = (),
    arg_names: Sequence[str] = (),
) -> Lowering:
    """Lower the jaxpr of a job as it is, with the shardings of its placement, for its platform or
    for others.

    A program that itself names a mesh or a device is lowered for that.
    locations: whether operations say which lines they come from.
    consts: values of its first arguments, to be written into the program.
    arg_names: names of the other arguments in messages about symbolic dimensions.
    """
    locations = locations or config.locations.value
    with rarely_collected:  # no decorator, which costs calls and depth
        start = time.perf_counter()
        if job.jaxpr.dialects:
            job = job._replace(jaxpr=without_dialects(job.jaxpr))
        # A program that will not run may be for a mesh without devices.
        platform, abstract = job.placement.platform, platforms is not None
        if platforms is None:
            platforms = (platform,)
        if not job.quiet:
            compilations.log_begin(job.name, tuple(job.jaxpr.in_avals))
        main = _main(job, consts, arg_names)
        written, module = main.write(platforms, locations=locations, abstract=abstract)
        where = _where(job, module)
        own = tuple(platforms) == (platform,)
        if where.mesh is not main.mesh or (
            own and where is not job.placement and where.platform != platform
        ):
            again = None if not abstract else (where.platform,) if own else platforms
            return lower(
                job._replace(placement=where),
                again,
                locations=locations,
                consts=consts,
                arg_names=arg_names,
            )
    took = time.perf_counter() - start
    if not job.quiet:
        for inspection in module.inspections:
            inspection(where.device)
        compilations.log_lowered(job.name, took)
        if config.dump_ir_to.value:
            located = config.include_debug_info_in_dumps.value
            compilations.dump(
                job.name, main.jaxpr, main.write(platforms, locations=located, abstract=abstract)[0]
            )
    return Lowering(
        written,
        main.kept,
        tuple(module.host_callbacks),
        bool(main.jaxpr.effects),
        module.polymorphic,
        tuple(job.jaxpr.in_avals),
        main.ins,
        main.outs or (None,) * len(main.jaxpr.outvars),
        where,
        trace_time(main.jaxpr),
        took,
        main.jaxpr,
        main.memories,
    )


def _main(job: Job, consts: Sequence[Value], arg_names: Sequence[str]) -> _Main:
    jaxpr, placement, n = job.jaxpr, job.placement, len(consts)
    live, used = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    # Arguments with symbolic sizes determine these.
    kept = tuple(
        [
            job.keep_unused or keep or v.aval.symbolic
            for v, keep in zip(jaxpr.invars[n:], used[n:], strict=True)
        ]
    )
    invars = list(itertools.compress(jaxpr.invars[n:], kept))
    names = list(itertools.compress(arg_names or [f"args[{i}]" for i in range(len(kept))], kept))
    ins: tuple[Any, ...] = (None,) * len(invars)
    outs: tuple[Any, ...] = ()
    if placement.mesh is not None:
        pinned_ins = pinned_arguments(
            placement, [v.aval for v in jaxpr.invars[n:]], SUMS in jaxpr.dialects
        )
        given = dict(zip(jaxpr.invars[n:], placement.ins, strict=True))
        handed_on = [None if isinstance(v, Literal) else given.get(v) for v in jaxpr.outvars]
        ins, outs = (
            tuple(itertools.compress(pinned_ins, kept)),
            pinned(placement, jaxpr.out_avals, handed_on),
        )
    none: tuple[None, ...] = (None,) * len(invars)
    layouts = itertools.compress(placement.in_layouts or (None,) * len(kept), kept)
    memories = placement.memories([v.aval for v in invars], kept, jaxpr.out_avals)
    args = [
        Argument(
            v.aval,
            donated,
            sharding,
            () if layout is memory is None else text.buffer(formats.mode(layout, v.aval), memory),
        )
        for v, donated, sharding, layout, memory in zip(
            invars,
            itertools.compress(job.donated[n:], kept),
            ins,
            layouts,
            memories.ins or none,
            strict=True,
        )
    ]
    none = (None,) * len(jaxpr.outvars)
    out_buffers = (
        [
            text.buffer(formats.mode(layout, aval), memory)
            for layout, aval, memory in zip(
                placement.out_layouts or none, jaxpr.out_avals, memories.outs or none, strict=True
            )
        ]
        if placement.out_layouts or memories.outs
        else []
    )
    return _Main(
        job.name,
        live.replace(constvars=jaxpr.invars[:n], invars=invars),
        consts,
        names,
        args,
        ins,
        outs,
        out_buffers,
        memories,
        kept,
        placement.mesh,
        bool(arg_names),
    )


def _where(job: Job, module: Module) -> Placement:
    """Where a program runs: on the mesh or the device that its text names."""
    placement = job.placement
    if placement.mesh is None and module.mesh is not None:
        return over_mesh(placement, module.mesh, len(job.jaxpr.invars), module.named)
    return (
        on_device(placement, module.device, module.named)
        if module.device is not None
        else placement
    )


def trace_time(jaxpr: Jaxpr) -> float:
    """Seconds that tracing a jaxpr took."""
    return jaxpr.debug_info.seconds if jaxpr.debug_info is not None else 0.0
