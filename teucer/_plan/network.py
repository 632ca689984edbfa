"""How long collectives take over the links of a topology.

Chips of a TPU are wired as a torus of two or three axes. A ring over a whole axis that closes sends
both ways at once; a line, half as fast. A group that fills a box uses all axes of the box at once.
GPUs of a machine are wired all to all. The formulas: https://jax-ml.github.io/scaling-book/sharding
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from teucer._plan.chips import Chip


class Way(NamedTuple):
    """Where a group of devices sends.

    devices: how many they are. axes: the axes of the network. bandwidth: bytes that a device sends
    a second along all of them. hops: links from one end to the other. lanes: the directions of axes
    that are busy; by default both of each.
    """

    devices: int
    axes: tuple[str, ...]
    bandwidth: float
    hops: int
    lanes: tuple[str, ...] = ()

    @property
    def busy(self) -> tuple[str, ...]:
        """The names of the lanes that cannot send anything else meanwhile."""
        return self.lanes or tuple(f"{axis}{sign}" for axis in self.axes for sign in "+-")

    def __str__(self) -> str:
        return " and ".join(self.axes) or "within a chip"


_AXES = ("x", "y", "z")
BETWEEN = "slices"


class Network:
    """The links between the devices of a program, which are numbered as the program numbers
    them."""

    def __init__(self, chip: Chip, devices: Sequence[Any]) -> None:
        self.chip = chip
        self.slices = np.array([_slice(d) for d in devices])
        self.coords = np.array([_coords(d, chip) for d in devices], int).reshape(len(devices), -1)
        low, high = self.coords.min(0), self.coords.max(0)
        self.sizes: list[int] = [int(n) for n in high - low + 1]

    def closes(self, axis: int) -> bool:
        """Whether an axis of the network is a ring, and no line."""
        chip = self.chip
        if axis >= len(_AXES) or not chip.torus:
            return False
        if chip.torus > 4:
            return self.sizes[axis] == chip.torus
        # Optical switches close the axes of slices that are made of whole cubes.
        return all(n % chip.torus == 0 for n in self.sizes[:3])

    def way(self, group: Sequence[int]) -> Way:
        """Where a group of devices sends, in a collective of all of them."""
        chip, members = self.chip, np.array(group)
        if len(members) < 2:
            return Way(1, (), math.inf, 0)
        if len(set(self.slices[members].tolist())) > 1:
            # The links of all devices of a slice carry what goes to the other slices.
            inside = len(members) // len(set(self.slices[members].tolist()))
            return Way(len(members), (BETWEEN,), chip.across * max(1, inside), 2)
        if not chip.torus:
            return Way(len(members), ("links",), chip.link, 1)
        axes, speed, hops, box = [], 0.0, 0, 1
        for axis in range(self.coords.shape[1]):
            places = sorted(set(self.coords[members, axis].tolist()))
            if len(places) < 2:
                continue
            box *= len(places)
            if axis >= len(_AXES):  # the other core of a chip
                axes.append("core")
                speed += 6 * chip.link
                continue
            ring = len(places) == self.sizes[axis] and self.closes(axis)
            stride = max(1, (places[-1] - places[0]) // (len(places) - 1))
            axes.append(_AXES[axis])
            speed += chip.link * (2 if ring else 1) / stride
            hops += len(places) * stride // (2 if ring else 1)
        if box != len(members):
            # No box: neighbours are some links apart, which their messages share with others.
            apart = self._apart(group)
            speed, hops = chip.link * len(axes) / apart, round(len(members) * apart)
        return Way(len(members), tuple(axes), speed or math.inf, hops)

    def between(self) -> Way:
        """Where a device sends to the same one of each other slice."""
        return Way(len(set(self.slices.tolist())), (BETWEEN,), self.chip.across, 2)

    def _apart(self, group: Sequence[int]) -> float:
        """How many links lie between a member of a group and the next, on average."""
        after = [*group[1:], group[0]]
        hops = [len(list(self._hops(a, b))) for a, b in zip(group, after, strict=True)]
        return max(1.0, sum(hops) / len(hops))

    def seconds(self, kind: str, size: int, way: Way) -> float:
        """How long a collective takes.

        kind: XLA's name. size: bytes that each device gives to it.
        """
        n, chip = way.devices, self.chip
        if n < 2:
            return 0.0
        latency = chip.hop * way.hops
        if kind in ("all-to-all", "ragged-all-to-all"):
            if not chip.torus or BETWEEN in way.axes:
                return float(size * (n - 1) / n / way.bandwidth + latency)
            longest = max(1, round(n ** (1 / max(1, len(way.axes)))))
            return float(size * longest / 4 / (way.bandwidth / max(1, len(way.axes))) + latency)
        return float(sent(kind, size, n) / way.bandwidth + latency)

    def permute(self, size: int, pairs: Iterable[tuple[int, int]]) -> tuple[float, Way]:
        """How long a permutation takes: of all links, that which most of it passes."""
        passed: collections.Counter[Any] = collections.Counter()
        farthest, axes, count = 0, set(), 0
        lanes: set[str] = set()
        for start, end in pairs:
            if start == end:
                continue
            count += 1
            if self.slices[start] != self.slices[end]:
                passed[BETWEEN, start] += 1
                axes.add(BETWEEN)
                continue
            hops = list(self._hops(start, end))
            farthest = max(farthest, len(hops))
            passed.update(hops)
            axes |= {hop[0] for hop in hops}
            lanes |= {f"{axis}{'+' if step > 0 else '-'}" for axis, _, step in hops}
        worst = max(
            (
                n / (self.chip.across if link[0] == BETWEEN else self.chip.link)
                for link, n in passed.items()
            ),
            default=0.0,
        )
        way = Way(
            count,
            tuple(sorted(axes)),
            1 / worst if worst else math.inf,
            farthest,
            tuple(sorted(lanes)),
        )
        return size * worst + self.chip.hop * farthest, way

    def _hops(self, start: int, end: int) -> Iterable[tuple[str, Any, int]]:
        """The links from one device to another: the axis, the device, and which way."""
        if not self.chip.torus:
            yield "links", start, 1
            return
        at, to = self.coords[start].copy(), self.coords[end]
        for axis in range(min(len(_AXES), len(at))):
            n = self.sizes[axis]
            ahead = int(to[axis] - at[axis])
            if self.closes(axis):
                ahead = (ahead + n // 2) % n - n // 2
            step = 1 if ahead > 0 else -1
            for _ in range(abs(ahead)):
                yield _AXES[axis], tuple(at.tolist()), step
                at[axis] = (at[axis] + step) % n


def sent(kind: str, size: int, n: int) -> float:
    """Bytes that one of n devices sends in a ring, if each gives `size`."""
    if kind == "all-reduce":
        return 2 * size * (n - 1) / n
    if kind == "all-gather":
        return float(size * (n - 1))
    if kind in ("reduce-scatter", "all-to-all", "ragged-all-to-all"):
        return size * (n - 1) / n
    return float(size)


def _slice(device: Any) -> int:
    return int(getattr(device, "slice_index", 0) or 0)


def _coords(device: Any, chip: Chip) -> list[int]:
    if not chip.torus:
        return [int(device.id)]
    place = [*device.coords, 0, 0][:3]
    return [*place, *([int(device.core_on_chip)] if chip.devices > 1 else [])]
