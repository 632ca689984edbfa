"""The instructions of a scheduled program in time, on one device of many.

A core computes what the schedule says, one after the other. Collectives that are begun and ended
apart run beside it, each along its axes of the network. What the core waits for is not overlapped.
Loops take as long as their body times the number of turns.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from teucer._derived import hlo_text as hlo
from teucer._derived.communication.groups import device_groups, pairs_of
from teucer._plan import loops
from teucer._plan.network import BETWEEN, Network, Way, sent
from teucer._plan.work import FREE, Worker, arrays, memory_size

COLLECTIVES = frozenset(
    {
        "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all",
        "collective-permute", "collective-broadcast",
    }
)  # fmt: skip
_HOST = 5  # the number of the host's memory in types


class Row(NamedTuple):
    """An instruction that takes time.

    kind: 'products', 'elements', 'memory', 'collective' or 'copy'. seconds: of one run; waited:
    what of that the core does nothing else in. times: how often it runs in a call. bytes: to
    and from memory; of a collective, what each device gives. sent: what a device sends. opcode:
    XLA's name, of what a fusion does where that is a collective.
    """

    kind: str
    opcode: str
    instruction: hlo.Instruction
    computation: hlo.Computation
    seconds: float
    waited: float
    times: float
    products: float
    bytes: int
    sent: float
    way: Way | None


class _Transfer(NamedTuple):
    row: int
    end: float


class Timeline:
    """A module on devices: `rows` in the order of the schedule, `seconds` of a call in all, and
    `unknown`, the loops whose turns depend on values."""

    def __init__(self, module: hlo.Module, network: Network) -> None:
        self._module, self._network = module, network
        self._worker = Worker(module, network.chip)
        self._done: dict[str, tuple[float, list[Row]]] = {}
        self.unknown: list[str] = []
        self.seconds, self.rows = self._run(module.entry.name)

    def _run(self, name: str) -> tuple[float, list[Row]]:
        if name not in self._done:
            self._done[name] = (0.0, [])
            self._done[name] = _Run(self, name).result()
        return self._done[name]


class _Run:
    """One run of a computation, from a moment when nothing is under way."""

    def __init__(self, line: Timeline, name: str) -> None:
        self._line = line
        self._computation = line._module.computations[name]
        self._now = 0.0
        self._free: dict[str, float] = {}
        self._rows: list[Row] = []
        self._begun: dict[str, _Transfer] = {}

    def result(self) -> tuple[float, list[Row]]:
        for row in self._computation.instructions.values():
            self._step(row)
        # What a later turn of a loop waits for ends while that turn runs.
        for key in list(self._begun):
            self._wait(key, self._now)
        return self._now, self._rows

    def _step(self, row: hlo.Instruction) -> None:
        opcode = row.opcode
        if opcode in FREE:
            return
        if opcode == "while":
            self._loop(row)
        elif opcode in ("call", "async-start") and row.called and not self._inner(row):
            self._inline(row.called, 1.0)
        elif opcode == "conditional":
            self._conditional(row)
        elif opcode.endswith("-done"):
            self._end(row)
        elif opcode.endswith("-update"):
            self._rename(row.operands[0], row.name)
        elif opcode.removesuffix("-start") in COLLECTIVES:
            self._collective(row, row, self._computation, begun=opcode.endswith("-start"))
        elif _rendezvous(row) is not None:
            self._between_slices(row)
        elif opcode in ("send", "recv") or (opcode.endswith("-start") and opcode != "async-start"):
            self._copy(row)
        else:
            inner = self._inner(row)
            if inner is None:
                self._work(row)
            else:
                self._fused(row, inner)

    # --- Work of the core -----------------------------------------------------------------------

    def _work(self, row: hlo.Instruction) -> None:
        work = self._line._worker.work(row, self._computation)
        if not work.seconds:
            return
        self._now += work.seconds
        self._rows.append(
            Row(
                work.bound, row.opcode, row, self._computation, work.seconds, work.seconds, 1.0,
                work.products, work.bytes, 0.0, None,
            )
        )  # fmt: skip

    def _loop(self, row: hlo.Instruction) -> None:
        turns = loops.turns(self._line._module, row)
        if math.isnan(turns):
            turns = 1.0
            self._line.unknown.append(row.name)
        if row.called:
            self._inline(row.called, turns)

    def _conditional(self, row: hlo.Instruction) -> None:
        runs = [self._line._run(name) for name in hlo.called_by(row)]
        if runs:
            self._add(*max(runs, key=lambda run: run[0]), 1.0)

    def _inline(self, name: str, times: float) -> None:
        if name in self._line._module.computations:
            self._add(*self._line._run(name), times)

    def _add(self, seconds: float, rows: list[Row], times: float) -> None:
        self._now += seconds * times
        self._rows += [row._replace(times=row.times * times) for row in rows]

    # --- Transfers ------------------------------------------------------------------------------

    def _inner(self, row: hlo.Instruction) -> tuple[hlo.Instruction, hlo.Computation] | None:
        """The collective within a fusion or an asynchronous call."""
        if row.opcode not in ("fusion", "async-start", "call"):
            return None
        inner = self._line._module.computations.get(row.called or "")
        for found in inner.instructions.values() if inner is not None else ():
            if found.opcode in COLLECTIVES and inner is not None:
                return found, inner
        return None

    def _fused(self, row: hlo.Instruction, inner: tuple[hlo.Instruction, hlo.Computation]) -> None:
        """A fusion around a collective: its begin, its end, work while it runs, or all of it."""
        found, computation = inner
        channel = "channel " + (found.attribute(r"channel_id=(\d+)") or found.name)
        targets = [
            r.attribute(r'custom_call_target="(\w+)"') for r in computation.instructions.values()
        ]
        if "AsyncCollectiveStart" in targets:
            self._collective(row, found, computation, begun=True, key=channel)
        elif "AsyncCollectiveDone" in targets:
            self._wait(channel)
        elif channel in self._begun or _is_step(found):
            self._work(row)
        else:
            begun = row.opcode == "async-start"
            self._collective(row, found, computation, begun=begun)

    def _collective(
        self,
        row: hlo.Instruction,
        found: hlo.Instruction,
        computation: hlo.Computation,
        *,
        begun: bool,
        key: str | None = None,
    ) -> None:
        network = self._line._network
        kind = found.opcode.removesuffix("-start")
        if "all-reduce-scatter" in (row.called or "") or "reduce-scatter" in row.name:
            kind = "reduce-scatter"
        size = sum(hlo.size_of(computation.type_of(name)) for name in found.operands)
        if kind == "collective-permute":
            seconds, way = network.permute(size, pairs_of(found))
        else:
            groups = device_groups(found, len(network.coords)) or [[*range(len(network.coords))]]
            ways = [network.way(group) for group in (groups[0], groups[-1])]
            seconds, way = max(
                ((network.seconds(kind, size, w), w) for w in ways), key=lambda t: t[0]
            )
        if way.devices < 2:
            return
        begin = max([self._now, *(self._free.get(lane, 0.0) for lane in way.busy)])
        end = begin + seconds
        for lane in way.busy:
            self._free[lane] = end
        self._rows.append(
            Row(
                "collective", kind, row, self._computation, seconds, 0.0, 1.0, 0.0, size,
                sent(kind, size, way.devices), way,
            )
        )  # fmt: skip
        name = key or row.name
        self._begun[name] = _Transfer(len(self._rows) - 1, end)
        if not begun:
            self._wait(name)

    def _between_slices(self, row: hlo.Instruction) -> None:
        """A part of a collective that goes over the network between slices: sent by each device,
        and received when all have sent."""
        name = _rendezvous(row)
        if row.opcode != "send" or name is None:
            return
        network = self._line._network
        said = row.attribute(r'_xla_megascale_transfer_type="(\w+)"') or ""
        kind = _TRANSFERS.get(said, "collective-permute")
        size = hlo.size_of(self._computation.type_of(row.operands[0]))
        way = network.between()
        seconds = network.seconds(kind, size, way)
        begin = max(self._now, self._free.get(BETWEEN, 0.0))
        self._free[BETWEEN] = begin + seconds
        self._rows.append(
            Row(
                "collective", kind, row, self._computation, seconds, 0.0, 1.0, 0.0, size,
                sent(kind, size, way.devices), way,
            )
        )  # fmt: skip
        self._begun[name] = _Transfer(len(self._rows) - 1, begin + seconds)

    def _end(self, row: hlo.Instruction) -> None:
        begun = self._computation.instructions.get(row.operands[0])
        name = None if begun is None else _rendezvous(begun)
        if name is None:
            self._wait(row.operands[0])
        elif row.opcode == "recv-done":
            self._wait(name)

    def _copy(self, row: hlo.Instruction) -> None:
        chip = self._line._network.chip
        sizes = [array.size for array in arrays(row.type) if array.size > 4]
        size = min(sizes[:2], default=0)
        to_host = memory_size(row.type, _HOST) > 0
        lane, speed = ("host", chip.host) if to_host else ("memory", chip.bandwidth)
        begin = max(self._now, self._free.get(lane, 0.0))
        self._free[lane] = begin + size / speed
        self._rows.append(
            Row(
                "copy", "copy to or from the host" if to_host else "copy", row, self._computation,
                size / speed, 0.0, 1.0, 0.0, size, 0.0, None,
            )
        )  # fmt: skip
        self._begun[row.name] = _Transfer(len(self._rows) - 1, self._free[lane])

    def _rename(self, old: str, new: str) -> None:
        if old in self._begun:
            self._begun[new] = self._begun.pop(old)

    def _wait(self, key: str, over: float = 0.0) -> None:
        """Wait for the end of a transfer; over: how long a next turn of a loop gives it."""
        transfer = self._begun.pop(key, None)
        if transfer is None:
            return
        waited = max(0.0, transfer.end - self._now - over)
        row = self._rows[transfer.row]
        self._rows[transfer.row] = row._replace(waited=row.waited + waited)
        self._now += waited


# What libtpu calls the collectives between slices.
_TRANSFERS = {
    "ALL_REDUCE": "all-reduce", "ALL_GATHER": "all-gather", "REDUCE_SCATTER": "reduce-scatter",
    "ALL_TO_ALL": "all-to-all",
}  # fmt: skip


def _rendezvous(row: hlo.Instruction) -> str | None:
    """The name of a collective between slices, of a part of it."""
    if row.opcode not in ("send", "recv") or "xla_megascale_runtime" not in row.attributes:
        return None
    return row.attribute(r'_xla_host_transfer_rendezvous="([^"]*)"')


def _is_step(found: hlo.Instruction) -> bool:
    """Whether a collective in a fusion is one that goes on while the fusion works."""
    return "async_collective_fusion_config" in found.attributes
