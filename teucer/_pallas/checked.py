"""A kernel run step by step in Python, with checks.

Races between steps, reads of memory that was never written, indices outside.

Accesses of a step to each element are compared with those of other steps. An error names
the line of the kernel.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, final

import numpy as np

from teucer import numpy as jnp
from teucer._base import source
from teucer._core import structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn, interpret
from teucer._core.reference_types import AccumEffect, ReadEffect
from teucer._core.trace import current_trace
from teucer._pallas import accesses
from teucer._pallas.interpreted_copies import RULES, Machine
from teucer._pallas.interpreted_cores import Turns
from teucer._pallas.semaphores import SemaphoreType
from teucer.lax import _references
from teucer.numpy._index_keys import ARRAY, NEW, starts_of

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, Size, Value


@dataclasses.dataclass(frozen=True)
class InterpretParams:
    """How a kernel is interpreted: pallas_call(..., interpret=pl.InterpretParams(...)). It then
    runs outside of jit only.

    detect_races: steps that write what another step writes or reads are refused, as steps may run
        at the same time elsewhere. Where steps are meant to add up, in order, leave it out.
    detect_uninitialized_reads: so are reads of elements of results and scratch memory that no step
    has written.
    detect_out_of_bounds: so are indices outside of a block.
    on_race: 'raise', or 'warn' to warn of a race and go on.
    uninitialized_memory: the content of memory that no step has written: 'nan', or 'zero'.
    dma_execution_mode: when copies are done: 'on_wait', not before somebody waits for them, or
        'eager', as they start. random_seed: of the order in which copies end that one semaphore
        tells; by default as they have started.
    num_cores_or_threads: cores over which the first axis of the grid is divided that
        dimension_semantics calls parallel. One runs at a time, until it waits for another.
    grid_point_recorder: called before each step with its place in the grid and the number of its
        core.
    """

    detect_races: bool = False
    detect_uninitialized_reads: bool = True
    detect_out_of_bounds: bool = True
    on_race: str = "raise"
    uninitialized_memory: str = "nan"
    grid_point_recorder: Callable[..., object] | None = None
    dma_execution_mode: str = "on_wait"
    random_seed: int | None = None
    num_cores_or_threads: int = 1

    def __post_init__(self) -> None:
        for name, said, words in (
            ("on_race", self.on_race, ("raise", "warn")),
            ("uninitialized_memory", self.uninitialized_memory, ("nan", "zero")),
            ("dma_execution_mode", self.dma_execution_mode, ("on_wait", "eager")),
        ):
            if said not in words:
                raise ValueError(
                    f"InterpretParams: {name} is {words[0]!r} or {words[1]!r}, not {said!r}."
                )


class KernelError(RuntimeError):
    """A fault of a checked kernel."""

    __module__ = "teucer.errors"


@final
class Memory:
    """The flat array behind a reference while a kernel is checked, with the accesses to each
    element.

    places: the places in it of the current block's elements. written, read: by element, the last
    step that did so, -1 for none; shared: whether other steps see it.
    """

    __slots__ = ("name", "peers", "places", "read", "shape", "shared", "values", "written")

    def __init__(self, name: str, value: ArrayLike, given: bool, shared: bool) -> None:
        value = np.asarray(value)
        self.name, self.shape, self.values, self.shared = (
            name,
            value.shape,
            value.reshape(-1).copy(),
            shared,
        )
        self.written = np.full(self.values.size, -2 if given else -1)  # -2: before the kernel
        self.read = np.full(self.values.size, -1)
        self.places = np.arange(self.values.size).reshape(value.shape)
        self.peers: tuple[Memory, ...] = (self,)  # the same memory of each core

    @property
    def array(self) -> np.ndarray[Any, Any]:
        return self.values.reshape(self.shape)


_BY_ATOMIC = -3  # the writer of an element: atomic operations, which several steps may do


class Checker:
    """The checks of one core in a run; `step` is the number of the step that runs."""

    def __init__(
        self, params: InterpretParams, name: str, core: int, machine: Machine, turns: Turns
    ) -> None:
        self.params, self.name, self.step, self.place = params, name, 0, ()
        self.core, self.machine, self.turns = core, machine, turns

    def scoped(self, aval: Any, space: object) -> Memory:
        """Memory of run_scoped. Semaphores begin at 0; other memory holds nothing."""
        semaphore = isinstance(space, SemaphoreType)
        nothing = 0 if semaphore or self.params.uninitialized_memory == "zero" else None
        fill = _nothing(aval.dtype) if nothing is None else nothing
        given = np.full(aval.shape, fill, aval.dtype)
        return Memory("memory of run_scoped", given, semaphore, False)

    def end(self) -> None:
        """Refuse copies that are under way when the kernel ends."""
        for copy in self.machine.pending:
            self.fail(
                "the kernel ends before a copy does",
                copy.target.memory,
                copy.eqn,
                "Wait for each copy: copy.wait().",
            )

    def fail(self, what: str, memory: Memory, eqn: Eqn, remedy: str) -> NoReturn:
        raise self.fault(what, memory, eqn, remedy)

    def race(self, what: str, memory: Memory, eqn: Eqn, remedy: str) -> None:
        fault = self.fault(f"a race: {what}", memory, eqn, remedy)
        if self.params.on_race == "raise":
            raise fault
        warnings.warn(str(fault), stacklevel=2)

    def fault(self, what: str, memory: Memory, eqn: Eqn, remedy: str) -> KernelError:
        at = source.describe(eqn.place)
        return KernelError(
            f"{self.name}: {what}.\n    reference: {memory.name}\n"
            f"    step: {self.step}, at {self.place} of the grid\n    at {at}\n  {remedy}"
        )

    def touch(
        self,
        eqn: Eqn,
        memory: Memory,
        block: np.ndarray[Any, Any],
        views: Any,
        places: Sequence[Any],
        used: bool,
    ) -> np.ndarray[Any, Any]:
        """Where the part is in memory, after the checks that the effects of the equation ask for.
        used: whether its result is."""
        if self.params.detect_out_of_bounds:
            self.inside(eqn, memory, block.shape, views, places)
        part = np.asarray(_references.read_part(jnp.asarray(block), *places, views=views))
        self.mark(eqn, memory, part, used)
        return part

    def mark(
        self,
        eqn: Eqn,
        memory: Memory,
        part: np.ndarray[Any, Any],
        used: bool,
        *,
        atomic: bool = False,
    ) -> None:
        """Check and note an access to the elements at some places; negative places are skipped."""
        kinds = {type(e) for e in eqn.effects}
        # A write gives what was there: it reads if that is used.
        reads = AccumEffect in kinds or (ReadEffect in kinds and (kinds == {ReadEffect} or used))
        writes = kinds != {ReadEffect}
        self.note(eqn, memory, part, reads=reads, writes=writes, atomic=atomic)

    def note(
        self,
        eqn: Eqn,
        memory: Memory,
        part: np.ndarray[Any, Any],
        *,
        reads: bool = False,
        writes: bool = False,
        atomic: bool = False,
    ) -> None:
        """Check and note that elements are read, or written, or both."""
        inner = part[part >= 0]
        copy = self.machine.meets(memory, inner, writes=writes) if self.machine.pending else None
        if copy is not None and self.params.detect_races:
            self.race(
                "elements are touched that a copy is about to "
                + ("write" if copy.target.meets(memory, inner) else "read"),
                memory,
                eqn,
                f"Wait for the copy before, which starts at {source.describe(copy.eqn.place)}.",
            )
        if reads and self.params.detect_uninitialized_reads and (memory.written[inner] == -1).any():
            self.fail(
                "elements are read that nobody has written",
                memory,
                eqn,
                "Write them first, in the first step say: pl.when.",
            )
        if self.params.detect_races and memory.shared:
            others = memory.written[inner]
            if ((others >= 0) & (others != self.step)).any():
                self.race(
                    (
                        "elements were written by step "
                        f"{others[(others >= 0) & (others != self.step)][0]}"
                    ),
                    memory,
                    eqn,
                    (
                        "Steps may run at the same time: let each write elements of its own, or "
                        "add them up in one step."
                    ),
                )
            if (
                writes
                and not atomic
                and ((memory.read[inner] >= 0) & (memory.read[inner] != self.step)).any()
            ):
                self.race(
                    "elements are written that another step has read",
                    memory,
                    eqn,
                    "Steps may run at the same time: read from an argument that is not written.",
                )
        if reads:
            memory.read[inner] = self.step
        if writes:
            memory.written[inner] = _BY_ATOMIC if atomic else self.step

    def inside(
        self, eqn: Eqn, memory: Memory, shape: Sequence[int], views: Any, places: Sequence[Any]
    ) -> None:
        at = 0
        for view in views:
            own, at = places[at : at + view.n], at + view.n
            key = getattr(view, "key", None)
            if key is None:
                return  # behind a view of other shape nothing is known
            sizes = iter(view.shape)
            for item, start in zip(key.items, starts_of(key, own), strict=True):
                n = None if item == NEW else next(sizes)
                if start is not None:
                    first = np.asarray(start)
                    last = first + (item[1] - 1 if item[0] == "window" else 0)
                    low = -n if item[0] == "array" or item[0] == "scalar" else 0  # type: ignore[operator]
                    if first.size and (first.min() < low or last.max() >= n):
                        self.fail(
                            (
                                f"an index is out of bounds: {int(first.min())} to "
                                f"{int(last.max())} for an axis of {n}"
                            ),
                            memory,
                            eqn,
                            "Mask the load or store, or choose blocks that divide the array.",
                        )


def run_kernel(check: Checker, jaxpr: ClosedJaxpr, args: Sequence[Value]) -> list[Any]:
    """Run a jaxpr in Python; references are pairs (memory, places of its block in it)."""
    used = {*jaxpr.jaxpr.outvars, *(v for eqn in jaxpr.eqns for v in eqn.invars)}

    def handle(eqn: Eqn, operands: tuple[Any, ...]) -> Sequence[Any]:
        primitive, params = eqn.primitive, eqn.params
        if primitive in (_references.get_p, _references.swap_p, _references.addupdate_p):
            return _access(check, eqn, operands, not used.isdisjoint(eqn.outvars))
        if primitive in _MASKED:
            return _masked(check, eqn, operands, not used.isdisjoint(eqn.outvars))
        if primitive is _references.empty_ref_p:
            memory = check.scoped(params["aval"], params["memory_space"])
            return ((memory, memory.places),)
        if primitive in RULES:
            return RULES[primitive](check, eqn, operands)
        match structure.of(eqn, operands):
            case structure.Call(body):
                return run_kernel(check, body, operands)
            case structure.Branch(platforms=None) as branch:
                return run_kernel(check, branch.chosen(int(branch.index)), branch.operands)
            case structure.Loop() as loop:
                return _looped(check, eqn, loop)
            case _:
                pass
        if any(type(x) is tuple for x in operands):
            raise NotImplementedError(
                f"{check.name}: {primitive} on references is not checked.\n"
                "  Interpret it without checks."
            )
        return current_trace().process(primitive, operands, params)

    return interpret(jaxpr, args, handle)


def _access(check: Checker, eqn: Eqn, operands: tuple[Any, ...], used: bool) -> Sequence[Any]:
    memory, block = operands[0]
    views = eqn.params["views"]
    places = operands[1:] if eqn.primitive is _references.get_p else operands[2:]
    part = check.touch(eqn, memory, block, views, places, used)
    found = np.where(part >= 0, memory.values[np.maximum(part, 0)], _nothing(memory.values.dtype))
    if eqn.primitive is _references.get_p:
        return (jnp.asarray(found),)
    value = np.broadcast_to(np.asarray(operands[1]), part.shape)
    inner = part >= 0
    if eqn.primitive is _references.addupdate_p:
        np.add.at(memory.values, part[inner], value[inner])
        return ()
    memory.values[part[inner]] = value[inner]
    return (jnp.asarray(found),)


_MASKED = (
    accesses.masked_load_p,
    accesses.masked_swap_p,
    accesses.atomic_rmw_p,
    accesses.atomic_cas_p,
)


def _masked(check: Checker, eqn: Eqn, operands: tuple[Any, ...], used: bool) -> Sequence[Any]:
    """A load, a store or an atomic operation that touches elements where a mask is true."""
    (memory, block), first, second = operands[:3]
    primitive = eqn.primitive
    views, places = accesses.spread_out(eqn.params["views"], operands[3:], known=True)
    part = np.asarray(_references.read_part(jnp.asarray(block), *places, views=views))
    mask = np.broadcast_to(
        np.asarray(
            {accesses.masked_load_p: first, accesses.atomic_cas_p: True}.get(primitive, second)
        ),
        part.shape,
    )
    if check.params.detect_out_of_bounds and views:
        _inside_where(check, eqn, memory, views[-1], places[len(places) - views[-1].n :], mask)
    part = np.where(mask, part, -1)
    atomic = primitive in (accesses.atomic_rmw_p, accesses.atomic_cas_p)
    check.mark(eqn, memory, part, used or atomic, atomic=atomic)
    found = np.where(part >= 0, memory.values[np.maximum(part, 0)], _nothing(memory.values.dtype))
    first, second = (np.broadcast_to(np.asarray(x), part.shape) for x in (first, second))
    if primitive is accesses.masked_load_p:
        return (jnp.asarray(np.where(mask, found, second).astype(found.dtype)),)
    if primitive is accesses.masked_swap_p:
        memory.values[part[part >= 0]] = first[part >= 0]
        return (jnp.asarray(np.where(mask, found, first).astype(found.dtype)),)
    for i in np.ndindex(part.shape):  # in order, since an element may be named several times
        if part[i] < 0:
            continue
        old = found[i] = memory.values[part[i]]
        memory.values[part[i]] = (
            (second[i] if old == first[i] else old)
            if primitive is accesses.atomic_cas_p
            else np.asarray(accesses.COMBINE[eqn.params["operation"]](old, first[i]))
        )
    return (jnp.asarray(found),)


def _inside_where(
    check: Checker, eqn: Eqn, memory: Memory, view: Any, places: Sequence[object], mask: Any
) -> None:
    """That places lie inside where the mask is true."""
    key = getattr(view, "key", None)
    if key is None:
        return
    sizes = iter(view.shape)
    for item, place in zip(key.items, starts_of(key, places), strict=True):
        n = None if item == NEW else next(sizes)
        if item == ARRAY and mask.any():
            touched = np.broadcast_to(place, mask.shape)[mask]
            if touched.min() < -n or touched.max() >= n:  # type: ignore[operator]
                check.fail(
                    (
                        f"an index is out of bounds: {int(touched.min())} to {int(touched.max())} "
                        f"for an axis of {n}"
                    ),
                    memory,
                    eqn,
                    "Mask the load or store, or choose blocks that divide the array.",
                )


def _nothing(dtype: Any) -> Any:
    return np.array(np.nan if dtype.kind not in "iub" else 0).astype(dtype)


def _looped(check: Checker, eqn: Eqn, loop: structure.Loop) -> Sequence[Any]:
    carry, rows = loop.run(
        lambda i, body, args: run_kernel(check, body, args), lambda x, i: jnp.asarray(x)[i], bool
    )
    made = eqn.outvars[len(carry) :]
    if not rows:
        return [*carry, *(jnp.zeros(v.aval.shape, v.aval.dtype) for v in made)]
    return [*carry, *(jnp.stack(list(ys)) for ys in zip(*rows, strict=True))]


def run_checked(
    params: InterpretParams,
    name: str,
    grid: Sequence[int],
    axis: int | None,
    memories: Sequence[Sequence[Memory]],
    blocks: Callable[[Sequence[int]], Sequence[object]],
    body: ClosedJaxpr,
    before: Sequence[object],
    sizes: Sequence[Size],
) -> None:
    """Run the steps of a grid. axis: that which cores share. memories: what each core sees.
    blocks(place) are the places in memory of the blocks that a step sees."""
    cores = len(memories)
    machine = Machine(eager=params.dma_execution_mode == "eager", seed=params.random_seed)
    turns = Turns(cores)
    checks = [Checker(params, name, core, machine, turns) for core in range(cores)]

    def on_core(core: int) -> None:
        check = checks[core]
        for step, place in enumerate(itertools.product(*map(range, grid))):
            if axis is not None and place[axis] * cores // grid[axis] != core:
                continue
            check.step, check.place = step, place
            if params.grid_point_recorder is not None:
                params.grid_point_recorder(tuple(map(np.int32, place)), np.int32(core))
            seen = [(m, b) for m, b in zip(memories[core], blocks(place), strict=True)]
            run_kernel(check, body, [*before, *map(np.int32, place), *sizes, *seen])

    turns.run([functools.partial(on_core, core) for core in range(cores)])
    checks[0].end()
