"""Programs: executables with the data needed to call them, whole or in pieces."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

from teucer._arrays import formats
from teucer._core.types import float0
from teucer._devices import shardings
from teucer._devices.placement import Memories, chosen_by_compiler
from teucer._executables import effects
from teucer._executables.callbacks import by_transfers, raise_put_off
from teucer._executables.compile import AnyExecutable, Executable, LoadedCode, OnDemand
from teucer._programs.lower import Lowering
from teucer._xla import arrays as xla_arrays

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Value
    from teucer._executables.agreement import Agreement


class Step(NamedTuple):
    """A piece of a program: which values it reads, which are dead after it, and which of those
    are donated arguments."""

    program: Program
    reads: tuple[int, ...]
    drops: tuple[int, ...]
    donated: tuple[int, ...]


class Steps(NamedTuple):
    """The pieces of a program in the order in which they run (`outlining/cut_into_pieces.py`)."""

    steps: tuple[Step, ...]
    consts: tuple[Any, ...]
    results: tuple[int, ...]

    def run(self, args: Sequence[Value]) -> list[Any]:
        """The results of the program for arguments that are on its device."""
        values = [*args, *self.consts]
        for program, reads, drops, donated in self.steps:
            values += program.start([values[i] for i in reads])
            for i in donated:
                values[i].delete()
            for i in drops:
                values[i] = None
        return [values[i] for i in self.results]


@final
class Program:
    """An executable with the data needed to call it: the arguments that it takes, and the wrapping
    of its results.

    steps: the pieces that it runs in, in the place of one executable. agreement: with the other
    processes that run it. divided: whether `jit` was told to divide arguments over processes.
    """

    __slots__ = (
        "_executable",
        "kept",
        "placement",
        "in_shardings",
        "out_shardings",
        "in_orders",
        "out_avals",
        "handlers",
        "name",
        "has_effects",
        "callbacks",
        "tangents_of_integers",
        "steps",
        "agreement",
        "divided",
        "keeps_stack",
    )

    def __init__(
        self,
        executable: AnyExecutable | LoadedCode | OnDemand,
        lowering: Lowering,
        out_avals: Sequence[ShapedArray],
        name: str,
        steps: Steps | None = None,
        agreement: Agreement | None = None,
    ) -> None:
        self.steps, self.agreement = steps, agreement
        # Profiles of memory show where large results were made; one stack a program is kept.
        self.keeps_stack = any(aval.size > 1 << 14 for aval in out_avals)
        self._executable, self.kept, self.name, self.has_effects = (
            executable,
            lowering.kept,
            name,
            lowering.has_effects,
        )
        placement = self.placement = lowering.placement
        self.divided = any(map(shardings.is_divided, placement.ins))
        self.callbacks = lowering.callbacks
        if placement.mesh is None:
            single = shardings.single_device_sharding(placement.device)
            self.in_shardings, self.out_shardings = (
                [single] * sum(self.kept),
                [single] * len(out_avals),
            )
        else:
            loaded, taken = (
                executable.load(),
                list(itertools.compress(lowering.in_avals, self.kept)),
            )
            self.in_shardings = chosen_by_compiler(
                lowering.ins, loaded.get_parameter_shardings(), taken, placement
            )
            self.out_shardings = chosen_by_compiler(
                lowering.outs,
                loaded.get_output_shardings(),
                out_avals,
                placement,
                list(zip(taken, self.in_shardings, strict=True)),
            )
            out_avals = list(map(shardings.sharded_aval, out_avals, self.out_shardings))
        if lowering.memories.ins or lowering.memories.outs:
            self._in_memories(lowering.memories)
        if lowering.memories.outs:
            out_avals = list(map(shardings.sharded_aval, out_avals, self.out_shardings))
        self.in_orders: list[tuple[int, ...] | None] = [None] * sum(self.kept)
        if placement.in_layouts or isinstance(executable, LoadedCode):
            self.in_orders = list(map(formats.order_by, executable.load().get_parameter_layouts()))
        self.tangents_of_integers = [
            (i, aval) for i, aval in enumerate(out_avals) if aval.dtype == float0
        ]
        self.out_avals = [aval.carrier for aval in out_avals]
        self.handlers = [
            xla_arrays.result_handler(a, s, self.placement.committed)
            for a, s in zip(self.out_avals, self.out_shardings, strict=True)
        ]

    def _in_memories(self, memories: Memories) -> None:
        """Let arguments and results be in their memories."""
        if memories.ins:
            self.in_shardings = [
                s.with_memory_kind(kind)
                for s, kind in zip(self.in_shardings, memories.ins, strict=True)
            ]
        if memories.outs:
            self.out_shardings = [
                s.with_memory_kind(kind)
                for s, kind in zip(self.out_shardings, memories.outs, strict=True)
            ]

    @property
    def executable(self) -> Any:
        """The executable of the runtime."""
        return self._executable.load()

    @property
    def whole(self) -> Any:
        """The runtime's executable with all of its instructions, for tools that read them."""
        return self._executable.whole()

    @property
    def executables(self) -> list[Executable]:
        """The executables: one, or one for each piece."""
        if self.steps is not None:
            return [
                e
                for program in dict.fromkeys(step.program for step in self.steps.steps)
                for e in program.executables
            ]
        return [self._executable] if isinstance(self._executable, Executable) else []

    @property
    def data(self) -> bytes:
        """The executable as bytes, written by XLA."""
        data: bytes = self._executable.data()
        return data

    def run(self, args: Sequence[Value]) -> list[Any]:
        """The results for the arguments that it takes, on its devices."""
        return self.start(args) if self.steps is None else self.steps.run(args)

    def start(self, args: Sequence[Value]) -> list[Any]:
        """The results of its executable. `jax.effects_barrier` waits for the effects of this
        run."""
        run = self.executable, args, self.handlers, self.keeps_stack
        self.keeps_stack = False
        if not self.has_effects and not self.callbacks:
            outs: list[Any] = xla_arrays.execute(*run)
            return outs
        outs, token = xla_arrays.execute_with_token(*run)
        if by_transfers(self.callbacks) or (self.callbacks and self.placement.mesh is not None):
            token.block_until_ready()
            raise_put_off()
        effects.watch(token, self)
        return outs
