"""Copies, semaphores and random bits of a kernel that is run step by step.

A copy is done when it starts, or not before somebody waits for it, in an order that a seed draws.
Until then nobody may touch what it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from teucer import numpy as jnp
from teucer._core.jaxpr import Eqn
from teucer._pallas import copies, tpu
from teucer.lax import _references

if TYPE_CHECKING:
    from teucer._pallas.checked import Checker, Memory


class Touched(NamedTuple):
    """Elements of memory: the numbers of their places in it."""

    memory: Memory
    places: np.ndarray[Any, Any]

    def meets(self, memory: Memory, places: np.ndarray[Any, Any]) -> bool:
        """Whether some of the elements are among others."""
        return memory is self.memory and bool(np.isin(places, self.places).any())


class Copy(NamedTuple):
    """A copy that is under way. done: whether the values are there, and only its end is open."""

    eqn: Eqn
    source: Touched
    target: Touched
    sems: list[Touched]
    add: bool
    done: bool


@final
class Machine:
    """The copies under way, and the generator of random bits, of one run."""

    def __init__(self, *, eager: bool, seed: int | None) -> None:
        self.eager, self.order = eager, np.random.default_rng(seed) if seed is not None else None
        self.pending: list[Copy] = []
        self.bits = np.random.Generator(np.random.Philox(0))

    def meets(self, memory: Memory, places: np.ndarray[Any, Any], *, writes: bool) -> Copy | None:
        """A copy under way that an access to elements gets in the way of."""
        for copy in self.pending:
            if copy.target.meets(memory, places) or (writes and copy.source.meets(memory, places)):
                return copy
        return None

    def finish(self, sem: Touched) -> bool:
        """End a copy that a semaphore tells of; whether there was one."""
        told = [c for c in self.pending if any(s.meets(*sem) for s in c.sems)]
        if not told:
            return False
        chosen = told[0 if self.order is None else int(self.order.integers(len(told)))]
        self.pending.remove(chosen)
        if not chosen.done:
            perform(chosen)
        for s in chosen.sems:
            s.memory.values[s.places] += 1
        return True


def perform(copy: Copy) -> None:
    """Perform a copy: move its values from source to target."""
    values = copy.source.memory.values[copy.source.places.reshape(-1)]
    places = copy.target.places.reshape(-1)
    if copy.add:
        np.add.at(copy.target.memory.values, places, values)
    else:
        copy.target.memory.values[places] = values
    copy.target.memory.written[places] = np.maximum(copy.target.memory.written[places], 0)


def _touched(check: Checker, eqn: Eqn, part: copies.Part) -> Touched:
    memory, block = part.ref
    if check.params.detect_out_of_bounds:
        check.inside(eqn, memory, block.shape, part.views, part.places)
    places = _references.read_part(jnp.asarray(block), *part.places, views=part.views)
    return Touched(memory, np.asarray(places))


def _taken(check: Checker, eqn: Eqn, operands: Sequence[Any]) -> tuple[list[Touched], Any]:
    if eqn.params.get("mesh"):
        raise NotImplementedError(
            f"{check.name}: {eqn.primitive} of another device is not checked.\n"
            "  Interpret it without checks, interpret=True, under jax.shard_map."
        )
    found = copies.taken(operands, eqn.params["views"])
    return [_touched(check, eqn, p) for p in found.parts], found.rest


def _start(check: Checker, eqn: Eqn, operands: Sequence[Any]) -> Sequence[Any]:
    (source, target, *sems), _ = _taken(check, eqn, operands)
    check.note(eqn, *source, reads=True)
    check.note(eqn, *target, reads=eqn.params["add"], writes=True)
    machine = check.machine
    copy = Copy(eqn, source, target, sems, eqn.params["add"], machine.eager)
    if machine.eager:
        perform(copy)
    else:  # what is there until then says nothing
        target.memory.written[target.places] = np.where(
            target.memory.written[target.places] == check.step, -1,
            target.memory.written[target.places],
        )  # fmt: skip
    machine.pending.append(copy)
    return ()


def _wait(check: Checker, eqn: Eqn, operands: Sequence[Any]) -> Sequence[Any]:
    (_, _, *sems), _ = _taken(check, eqn, operands)
    _take(check, eqn, sems[-1 if eqn.params["send"] else 0], 1, True)
    return ()


def _take(check: Checker, eqn: Eqn, sem: Touched, n: int, decrement: bool) -> None:
    while int(sem.memory.values[sem.places]) < n:
        if check.machine.finish(sem):
            check.turns.told()
        elif not check.turns.wait(check.core, lambda: int(sem.memory.values[sem.places]) >= n):
            check.fail(
                f"waits for ever: the semaphore is {int(sem.memory.values[sem.places])}, and "
                f"nobody is left to make it {n}",
                sem.memory,
                eqn,
                "Start the copy, or signal the semaphore, before.",
            )
    if decrement:
        sem.memory.values[sem.places] -= n


def _semaphore_wait(check: Checker, eqn: Eqn, operands: Sequence[Any]) -> Sequence[Any]:
    (sem,), (value,) = _taken(check, eqn, operands)
    _take(check, eqn, sem, int(value), eqn.params["decrement"])
    return ()


def _signal(check: Checker, eqn: Eqn, operands: Sequence[Any]) -> Sequence[Any]:
    (sem,), (inc, *rest) = _taken(check, eqn, operands)
    memory = sem.memory
    if eqn.params["core"]:
        core = int(rest[-1])
        if not 0 <= core < len(memory.peers):
            check.fail(
                f"core {core} is told, of {len(memory.peers)}",
                memory,
                eqn,
                "Interpret as many cores as the mesh has: num_cores_or_threads=.",
            )
        memory = memory.peers[core]
    memory.values[sem.places] += int(inc)
    check.turns.told()
    return ()


def _read(check: Checker, eqn: Eqn, operands: Sequence[Any]) -> Sequence[Any]:
    (sem,), _ = _taken(check, eqn, operands)
    return (jnp.asarray(sem.memory.values[sem.places], np.int32),)


def _seed(check: Checker, eqn: Eqn, operands: Sequence[Any]) -> Sequence[Any]:
    key = [int(x) & 0xFFFFFFFF for x in operands]
    check.machine.bits = np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))
    return ()


def _bits(check: Checker, eqn: Eqn, operands: Sequence[Any]) -> Sequence[Any]:
    drawn = check.machine.bits.integers(-(2**31), 2**31, eqn.params["shape"], np.int64)
    return (jnp.asarray(drawn.astype(np.int32)),)


# (check, equation, operands) -> results.
RULES: dict[Any, Callable[..., Sequence[Any]]] = {
    copies.dma_start_p: _start,
    copies.dma_wait_p: _wait,
    copies.semaphore_signal_p: _signal,
    copies.semaphore_wait_p: _semaphore_wait,
    copies.semaphore_read_p: _read,
    tpu.prng_seed_p: _seed,
    tpu.prng_random_bits_p: _bits,
}
