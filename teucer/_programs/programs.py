"""Programs: jaxprs lowered, compiled and run on devices."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from teucer._arrays import formats, transfer
from teucer._arrays.arrays import ArrayImpl, check_live
from teucer._base import config, dtypes, host_memory
from teucer._base.collection import rarely_collected
from teucer._core.jaxpr import Jaxpr
from teucer._core.stage import DebugInfo, stage_flat
from teucer._core.trace import typeof
from teucer._core.types import float0, partitioned
from teucer._devices import shardings
from teucer._devices.placement import Placement, chosen_by_compiler, on_device, over_mesh, pinned, placement_of, spread
from teucer._dynamic import sizes
from teucer._executables import compilations, effects, misses, preload
from teucer._executables.callbacks import explained
from teucer._executables.compile import Executable, LoadedCode, OnDemand, Source, compile_module, compile_together, fingerprint
from teucer._lower.context import Argument, lower_module
from teucer._lower.donations import donated_to
from teucer._optimize.dce import dce_jaxpr, remove_dead
from teucer._optimize.passes import optimize
from teucer._targets.cpu.outline import outlined
from teucer._targets.cpu.outlined_call import outlined_call_p
from teucer._targets.cpu.pieces import FORCED, Cut, cut
from teucer._targets.cpu.switches import has_plain_loops, suits_eigen
from teucer._xla import arrays as xla_arrays
from teucer._xla.client import XlaRuntimeError
from teucer._xla.dispatcher import FastPath

__all__ = ["Lowering", "Placement", "Program", "compile_program", "compile_staged", "execute", "fast_path",
           "in_order", "lower_program", "placement_of", "prepared", "program_for"]


class Step(NamedTuple):
    """A piece of a program: which values it reads, which nobody needs after it, and which of those are donated arguments."""

    program: Program
    reads: tuple[int, ...]
    drops: tuple[int, ...]
    donated: tuple[int, ...]


class Steps(NamedTuple):
    """The pieces of a program in the order in which they run (`_targets/cpu/pieces.py`)."""

    steps: tuple[Step, ...]
    consts: tuple[Any, ...]
    results: tuple[int, ...]

    def run(self, args: Sequence[Any]) -> list[Any]:
        """The results of the program for arguments that are on its device.

        Raises the runtime's error if a donated argument is another one too, before anything has run.
        """
        all_donated = [i for step in self.steps for i in step.donated]
        if all_donated and len({id(x) for x in args}) < len(args):
            _refuse_shared(args, all_donated)
        values = [*args, *self.consts]
        for program, reads, drops, donated in self.steps:
            values += xla_arrays.execute(program.executable, [values[i] for i in reads], program.handlers)
            for i in donated:
                values[i].delete()
            for i in drops:
                values[i] = None
        return [values[i] for i in self.results]


def _refuse_shared(args: Sequence[Any], donated: Sequence[int]) -> None:
    for i in donated:
        for j, x in enumerate(args):
            if x is args[i] and i != j:
                raise XlaRuntimeError(
                    "INVALID_ARGUMENT: Attempt to donate the same buffer twice, or to donate and to use it, in one call: "
                    f"leaves {min(i, j)} and {max(i, j)} of the arguments that the program uses are one array, "
                    f"{typeof(x).str_short()}.\n  Give one of them as a copy, x.copy(), or do not donate it (donate_argnums).")


@final
class Program:
    """An executable with what is needed to call it: which arguments it takes, and how its results are wrapped.

    steps: the pieces that it runs in, in the place of one executable.
    """

    __slots__ = ("_executable", "kept", "placement", "in_shardings", "out_shardings", "in_orders", "out_avals", "handlers", "name",
                 "has_effects", "callbacks", "tangents_of_integers", "steps")

    def __init__(self, executable: Executable | LoadedCode | OnDemand, lowering: Lowering, out_avals: Sequence[Any], name: str,
                 steps: Steps | None = None) -> None:
        self.steps = steps
        self._executable, self.kept, self.name, self.has_effects = executable, lowering.kept, name, lowering.has_effects
        placement = self.placement = lowering.placement
        self.callbacks = lowering.callbacks
        if placement.mesh is None:
            single = shardings.single_device_sharding(placement.device)
            self.in_shardings, self.out_shardings = [single] * sum(self.kept), [single] * len(out_avals)
        else:
            loaded, taken = executable.load(), list(itertools.compress(lowering.in_avals, self.kept))
            self.in_shardings = chosen_by_compiler(lowering.ins, loaded.get_parameter_shardings(), taken, placement)
            self.out_shardings = chosen_by_compiler(lowering.outs, loaded.get_output_shardings(), out_avals, placement)
            out_avals = list(map(shardings.sharded_aval, out_avals, self.out_shardings))
        self.in_orders: list[tuple[int, ...] | None] = [None] * sum(self.kept)
        if placement.in_layouts or isinstance(executable, LoadedCode):
            self.in_orders = list(map(formats.order_by, executable.load().get_parameter_layouts()))
        self.tangents_of_integers = [(i, aval) for i, aval in enumerate(out_avals) if aval.dtype == float0]
        self.out_avals = [aval.carrier for aval in out_avals]
        self.handlers = [xla_arrays.result_handler(a, s, self.placement.committed)
                         for a, s in zip(self.out_avals, self.out_shardings, strict=True)]

    @property
    def executable(self) -> Any:
        """The executable of the runtime."""
        return self._executable.load()

    @property
    def whole(self) -> Any:
        """The executable of the runtime with all of its instructions, for who reads them."""
        return self._executable.whole()

    @property
    def executables(self) -> list[Executable]:
        """What was compiled: the executable, or that of each piece."""
        if self.steps is not None:
            return [e for program in dict.fromkeys(step.program for step in self.steps.steps) for e in program.executables]
        return [self._executable] if isinstance(self._executable, Executable) else []

    @property
    def data(self) -> bytes:
        """What XLA writes of the executable."""
        data: bytes = self._executable.data()
        return data

    def run(self, args: Sequence[Any]) -> list[Any]:
        """The results for the arguments that it takes, on its devices."""
        if self.steps is not None:
            return self.steps.run(args)
        return xla_arrays.execute(self.executable, args, self.handlers)


class Lowering(NamedTuple):
    """A jaxpr as StableHLO text for platforms; `kept` says which arguments the text takes.

    in_avals: of the arguments that it takes. ins, outs: the shardings that the text says. placement: the devices that it is for.
    """

    text: str
    kept: tuple[bool, ...]
    callbacks: tuple[Any, ...]
    has_effects: bool
    # Whether sizes are symbolic somewhere in the text.
    polymorphic: bool
    in_avals: tuple[Any, ...]
    ins: tuple[Any, ...]
    outs: tuple[Any, ...]
    placement: Placement
    trace_time: float
    lower_time: float
    jaxpr: Any = None  # None for one without text


@rarely_collected
def prepared(jaxpr: Jaxpr, outline: bool | None, placement: Placement, platform: str) -> Jaxpr:
    """A jaxpr without constants as it is compiled: optimised and outlined. What is lowered to be read is as its user wrote it.

    outline: as in `jit`.
    """
    # The passes know nothing of partitions in types, nor XLA's partitioner of calls that stay calls.
    if partitioned and any(getattr(v.aval, "sharding", None) is not None
                           for v in (*jaxpr.invars, *(v for eqn in jaxpr.eqns for v in eqn.outvars))):
        return jaxpr
    if config.optimize_jaxprs.value:
        jaxpr = optimize(jaxpr)
    jaxpr = remove_dead(jaxpr)
    return jaxpr if placement.mesh is not None else outlined(jaxpr, outline, platform)


@rarely_collected
def lower_program(jaxpr: Jaxpr, name: str, donated: Sequence[bool], keep_unused: bool, platforms: Sequence[str], *,
                  placement: Placement, locations: bool = False, quiet: bool = False, consts: Sequence[Any] = (),
                  arg_names: Sequence[str] = ()) -> Lowering:
    """Lower a jaxpr without constants, with the shardings of `placement`.

    A program that itself speaks of a mesh or a device is for that. quiet: nothing of it is logged or dumped.
    consts: values of its first arguments, to be written into the program.
    arg_names: what messages about symbolic dimensions call the other arguments.
    """
    in_avals, start = tuple(jaxpr.in_avals), time.perf_counter()
    if not quiet:
        compilations.log_begin(name, in_avals)
    live, used = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    n = len(consts)
    # Arguments of symbolic sizes say what these are.
    kept = tuple([keep_unused or keep or v.aval.symbolic for v, keep in zip(jaxpr.invars[n:], used[n:], strict=True)])
    invars = list(itertools.compress(jaxpr.invars[n:], kept))
    names = list(itertools.compress(arg_names or [f"args[{i}]" for i in range(len(kept))], kept))
    mesh: Any
    ins: tuple[Any, ...]
    outs: tuple[Any, ...]
    if placement.mesh is None:
        mesh, ins, outs = None, (None,) * len(invars), ()
    else:
        mesh, ins, outs = placement.mesh, tuple(itertools.compress(placement.ins, kept)), pinned(placement, jaxpr.out_avals)
    live = live.replace(constvars=jaxpr.invars[:n], invars=invars)
    taken = itertools.compress(placement.in_layouts or (None,) * len(kept), kept)
    args = [Argument(v.aval, d, s, formats.mode(layout, v.aval))
            for v, d, s, layout in zip(invars, itertools.compress(donated[n:], kept), ins, taken, strict=True)]
    out_modes = list(map(formats.mode, placement.out_layouts, jaxpr.out_avals))

    def write(located: bool) -> tuple[str, Any]:
        return lower_module(f"jit_{name}", live, args, platforms, locations=located, consts=consts, outs=outs, mesh=mesh,
                            out_layouts=out_modes,
                            solve=lambda ctx, values: sizes.in_module(ctx, values, names))

    text, module = write(locations)
    where = (over_mesh(placement, module.mesh, len(in_avals)) if mesh is None and module.mesh is not None
             else on_device(placement, module.device, module.device_named) if module.device is not None else placement)
    own = tuple(platforms) == (placement.platform,)
    if where.mesh is not mesh or (own and where.platform != placement.platform):
        return lower_program(jaxpr, name, donated, keep_unused, (where.platform,) if own else platforms, placement=where,
                             locations=locations, quiet=quiet, consts=consts, arg_names=arg_names)
    jaxpr = live
    took = time.perf_counter() - start
    if not quiet:
        compilations.log_lowered(name, took)
        if config.dump_ir_to.value:
            compilations.dump(name, jaxpr, write(config.include_debug_info_in_dumps.value)[0])
    return Lowering(text, kept, tuple(module.host_callbacks), bool(jaxpr.effects), module.polymorphic, in_avals, ins,
                    outs or (None,) * len(jaxpr.outvars), where, _trace_time(jaxpr), took, jaxpr)


def _trace_time(jaxpr: Jaxpr) -> float:
    return jaxpr.debug_info.seconds if jaxpr.debug_info is not None else 0.0


def compile_program(lowering: Lowering, out_avals: Sequence[Any], name: str, options: tuple[tuple[str, Any], ...] = (),
                    ) -> Program:
    """Compile what `lower_program` wrote."""
    start = time.perf_counter()
    executable, source = _executable(lowering, options)
    compilations.record(compilations.Compilation(name, lowering.in_avals, lowering.trace_time, lowering.lower_time,
                                                 time.perf_counter() - start, executable.size, source))
    return Program(executable, lowering, out_avals, name)


def program_for(jaxpr: Jaxpr, name: str, donated: Sequence[bool], keep_unused: bool, placement: Placement,
                options: tuple[tuple[str, Any], ...] = (), outline: bool | None = None) -> Program:
    """The program of a jaxpr without constants; kept on the jaxpr."""
    key = ("program", tuple(donated), keep_unused, placement, options, outline, config.optimize_jaxprs.value,
           config.outline.value)
    found = jaxpr.cache.get(key)
    if found is None:
        if config.explain_cache_misses.value:
            misses.explain_program(jaxpr, key)
        found = jaxpr.cache[key] = compile_staged(jaxpr, name, donated, keep_unused, placement, options, outline)
    return found


def compile_staged(jaxpr: Jaxpr, name: str, donated: Sequence[bool], keep_unused: bool, placement: Placement,
                   options: tuple[tuple[str, Any], ...], outline: bool | None, *, quiet: bool = False,
                   written: Lowering | None = None) -> Program:
    """The program of a jaxpr without constants: optimised and outlined, or what a forecast says that this gives.

    quiet: nothing is logged or dumped. written: the jaxpr lowered as it is, if that is there.
    """
    start = time.perf_counter()

    def lowered(jaxpr: Jaxpr) -> Lowering:
        return lower_program(jaxpr, name, donated, keep_unused, (placement.platform,), quiet=True, placement=placement)

    def as_compiled() -> Jaxpr:
        return prepared(jaxpr, outline, placement, placement.platform)

    @functools.cache
    def as_written() -> tuple[Lowering, str | None]:
        found = written or lowered(jaxpr)
        return found, _fingerprint(found, donated, keep_unused, options, outline)

    forecast = jaxpr.cache.pop(preload.Forecast, None)
    foreseen = forecast.take(lambda: as_written()[1]) if forecast is not None and not config.dump_ir_to.value else None
    if foreseen is not None:
        return _foreseen_program(foreseen, as_written()[0], jaxpr.out_avals, name, quiet, start,
                                 lambda: _executable(lowered(as_compiled()), options)[0])
    program = _compile_prepared(as_compiled(), name, donated, keep_unused, placement, options, outline, quiet)
    if forecast is not None:
        forecast.settle({e.entry: e.size for e in program.executables if e.entry is not None and e.size is not None},
                        None if program.steps or program.placement.mesh else lambda: (as_written()[1], program.kept))
    return program


def _fingerprint(written: Lowering, donated: Sequence[bool], keep_unused: bool, options: tuple[tuple[str, Any], ...],
                 outline: bool | None) -> str | None:
    """Of a program as it is written; None where its executable could not be run without it, or is for a mesh."""
    if written.callbacks or written.has_effects or written.placement.mesh is not None:
        return None
    return fingerprint(written.text, written.placement.devices, dict(options), (
        *donated, keep_unused, outline, config.outline.value, config.optimize_jaxprs.value))


def _foreseen_program(foreseen: preload.Foreseen, written: Lowering, out_avals: Sequence[Any], name: str, quiet: bool,
                      start: float, make: Callable[[], Executable]) -> Program:
    """The program that a forecast has named; make: its executable without forecast; start: when it began to be looked for."""
    if not quiet:
        compilations.log_begin(name, written.in_avals)
        compilations.log_lowered(name, written.lower_time)
    lowering = written._replace(text="", kept=foreseen.kept, jaxpr=None)
    compilations.record(compilations.Compilation(name, written.in_avals, written.trace_time, written.lower_time,
                                                 time.perf_counter() - start, foreseen.loaded.size, "disk"))
    return Program(OnDemand(make, foreseen.loaded.code), lowering, out_avals, name)


def _compile_prepared(jaxpr: Jaxpr, name: str, donated: Sequence[bool], keep_unused: bool, placement: Placement,
                      options: tuple[tuple[str, Any], ...], outline: bool | None, quiet: bool) -> Program:
    """The program of a jaxpr as `prepared` gives it: in pieces if it calls large functions again and again, else as a whole."""
    def lowered(jaxpr: Jaxpr, donated: Sequence[bool], keep_unused: bool, quiet: bool) -> Lowering:
        return lower_program(jaxpr, name, donated, keep_unused, (placement.platform,), quiet=quiet, placement=placement)

    laid_out = placement.in_layouts or placement.out_layouts
    if placement.mesh is None and not laid_out and any(eqn.primitive is outlined_call_p for eqn in jaxpr.eqns):
        start = time.perf_counter()
        live, needed = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
        kept = tuple([keep_unused or n for n in needed])
        live = live.replace(invars=list(itertools.compress(jaxpr.invars, kept)))
        given = tuple(itertools.compress(donated, kept))
        forced = outline is True or (outline is None and config.outline.value == "force")
        in_pieces = cut(live, FORCED) if forced else cut(live)
        lowerings = {p.jaxpr: lowered(p.jaxpr, (False,) * len(p.reads), False, quiet=True)
                     for p in (in_pieces.pieces if in_pieces is not None else ())}
        named = {found.placement for found in lowerings.values()} - {placement}
        where = next(iter(named), placement)
        # What speaks of a mesh runs over it as a whole; of a device, all pieces run there.
        if in_pieces is not None and len(named) < 2 and where.mesh is None and where.platform == placement.platform:
            lowerings = {piece: found._replace(placement=where) for piece, found in lowerings.items()}
            donated_to([Argument(v.aval, d) for v, d in zip(live.invars, given, strict=True)], jaxpr.outvars)
            steps = _compile_pieces(in_pieces, lowerings, given, jaxpr, name, where, options, quiet, start)
            made = OnDemand(lambda: _executable(lowered(jaxpr, donated, keep_unused, quiet=True), options)[0])
            callbacks = tuple(c for found in lowerings.values() for c in found.callbacks)
            lowering = Lowering("", kept, callbacks, False, False, tuple(jaxpr.in_avals), (), (), where, 0.0, 0.0)
            return Program(made, lowering, jaxpr.out_avals, name, steps)
    return compile_program(lowered(jaxpr, donated, keep_unused, quiet), jaxpr.out_avals, name, options)


def _compile_pieces(in_pieces: Cut, lowerings: dict[Jaxpr, Lowering], donated: Sequence[bool], whole: Jaxpr, name: str,
                    placement: Placement, options: tuple[tuple[str, Any], ...], quiet: bool, start: float) -> Steps:
    """The pieces compiled, all at the same time; donated: of the arguments that they read; start: when they began to be lowered."""
    took = time.perf_counter() - start
    if not quiet:
        compilations.log_begin(name, whole.in_avals)
        compilations.log_lowered(name, took)
        if config.dump_ir_to.value:
            for jaxpr, lowering in lowerings.items():
                compilations.dump(name, jaxpr, lowering.text)
    host_memory.keep_heaps()
    between = {p.jaxpr for p in in_pieces.pieces if not p.calls}
    if len(between) > sum(max(p.calls, 1) for p in in_pieces.pieces) // 8:
        between = set()  # what runs between the calls takes more than a little of the time
    found = compile_together([functools.partial(_executable, lowering, options, jaxpr in between)
                              for jaxpr, lowering in lowerings.items()])
    sources = {source for _, source in found}
    compilations.record(compilations.Compilation(
        name, tuple(whole.in_avals), _trace_time(whole), took, time.perf_counter() - start - took,
        sum(executable.size or 0 for executable, _ in found), next(s for s in ("compiled", "disk", "memory") if s in sources)))
    made = {jaxpr: Program(executable, lowering, jaxpr.out_avals, name)
            for (jaxpr, lowering), (executable, _) in zip(lowerings.items(), found, strict=True)}
    sharding = shardings.single_device_sharding(placement.device)
    steps = [Step(made[p.jaxpr], tuple(itertools.compress(p.reads, made[p.jaxpr].kept)), p.drops,
                  tuple([i for i in p.drops if i < len(donated) and donated[i]])) for p in in_pieces.pieces]
    return Steps(tuple(steps), tuple([transfer.to_sharding(c, sharding) for c in in_pieces.consts]), in_pieces.results)


def _executable(lowering: Lowering, options: tuple[tuple[str, Any], ...], lean: bool = False) -> tuple[Executable, Source]:
    placement = lowering.placement
    return compile_module(lowering.text, placement.devices, use_shardy=placement.mesh is not None, overrides=dict(options),
                          callbacks=lowering.callbacks, lean=lean or has_plain_loops(lowering.jaxpr),
                          eigen=suits_eigen(lowering.jaxpr))


def execute(program: Program, args: Sequence[Any], *, checked: bool = True) -> list[Any]:
    """Run a program on all of its jaxpr's arguments, on host or device."""
    if config.no_execution.value:
        raise RuntimeError(f"JAX tried to execute function jit({program.name}), but the no_execution config option is set.")
    for x in args:
        if type(x) is ArrayImpl:
            check_live(x)
    taken = itertools.compress(args, program.kept)
    ready = [x if type(x) is ArrayImpl and x._sharding is sharding else transfer.to_sharding(x, sharding)
             for x, sharding in zip(taken, program.in_shardings, strict=True)]
    ready = [x if formats.order_of(x) == order else in_order(x, order) for x, order in zip(ready, program.in_orders, strict=True)]
    try:
        if program.has_effects or (program.callbacks and program.steps is None):
            outs, token = xla_arrays.execute_with_token(program.executable, ready, program.handlers)
            effects.watch(token, program)
        else:
            outs = program.run(ready)
    except XlaRuntimeError as err:
        raise explained(err)  # noqa: B904  # it has its cause
    if checked:
        check_finite(outs, program.name)
    for i, aval in program.tangents_of_integers:
        outs[i] = np.zeros(aval.shape, float0)
    return outs


@functools.lru_cache(256)
def _identity(aval: Any) -> Jaxpr:
    return stage_flat(lambda x: (x,), [aval], DebugInfo("device_put"))[0]


def in_order(x: Any, order: tuple[int, ...] | None) -> Any:
    """An array with its axes in memory in the given order, the slowest first; None: row by row."""
    aval = typeof(x)
    old, new = (None if o is None else formats.Layout(o[:aval.ndim]) for o in (formats.order_of(x), order))
    spread_over = x._sharding if x._sharding.num_devices > 1 else None
    placement = (placement_of([x]) if spread_over is None else spread([x], None, [spread_over]))._replace(
        in_layouts=(old,) if old else (), out_layouts=(new,) if new else ())
    return execute(program_for(_identity(aval), "device_put", (False,), True, placement), [x])[0]


def check_finite(outs: Sequence[Any], name: str) -> None:
    """Raise FloatingPointError for a NaN or infinity, as the options jax_debug_nans and jax_debug_infs ask."""
    if not (config.debug_nans.value or config.debug_infs.value):
        return
    for out in outs:
        if not dtypes.issubdtype(out.dtype, np.inexact):
            continue
        value = np.asarray(out).astype(np.complex128 if out.dtype.kind == "c" else np.float64)
        if config.debug_nans.value and np.isnan(value).any():
            raise FloatingPointError(f"invalid value (nan) encountered in {name}\n    result: {out.aval}")
        if config.debug_infs.value and np.isinf(value).any():
            raise FloatingPointError(f"invalid value (inf) encountered in {name}\n    result: {out.aval}")


def fast_path(program: Program, out_tree: Any, args: Sequence[Any], n_consts: int = 0) -> FastPath | None:
    """What the C++ dispatcher needs to run the program itself next time; None where Python must see each call.

    args: of this call, constants first, before it deletes those that are donated. C++ takes their layouts for a part of the
    signature, and does not change them.
    """
    if (program.has_effects or program.callbacks or program.steps is not None or program.tangents_of_integers
            or any(program.in_orders)
            or any(type(x) is ArrayImpl and not x.is_deleted() and formats.order_of(x) is not None for x in args)
            or config.debug_nans.value or config.debug_infs.value):
        return None
    kept = program.kept
    ready = list(map(transfer.to_sharding, itertools.compress(args[:n_consts], kept), program.in_shardings))
    return FastPath(program.executable, out_tree, program.in_shardings, program.out_shardings, program.out_avals,
                    [program.placement.committed] * len(program.out_avals), [True] * len(ready) + list(kept[n_consts:]),
                    [None] * len(program.in_shardings), ready)


def shard_arg_fallback(x: Any, sharding: Any, layout: Any, copy_semantics: Any = None) -> Any:
    """Called by the C++ dispatcher for an argument that is not where the executable wants it."""
    return transfer.to_sharding(x, sharding)
