"""TPUs in the grid of a mesh: which physical axes each axis of the mesh lies along.

Chips of a TPU are wired as a torus; a device says its place in `coords`. An axis of a mesh is fast
where neighbours along it are neighbours in the torus. So each axis of the mesh takes whole physical
axes, the last first, since programs communicate most along it. Single boards take a ring instead.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

# Rings through a board: the places, in the order of the devices, that follow each other.
_TRAY = (0, 1, 2, 3, 6, 7, 4, 5)
_SQUARE = (0, 1, 3, 2)
_TWO_ROWS = (0, 1, 2, 3, 7, 6, 5, 4)
_FOUR_ROWS = (0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4)
_CUBE = (0, 1, 3, 2, 6, 7, 5, 4)
# Rings through boxes of chips with one core: the kinds, the sizes of the box, and the ring.
_RINGS = (
    (("TPU v5 lite", "TPU v6 lite"), ((2, 2, 1),), _SQUARE),
    (("TPU v5 lite", "TPU v6 lite"), ((4, 2, 1), (2, 4, 1)), _TWO_ROWS),
    (("TPU v5p",), ((2, 2, 2),), _CUBE),
)
_CORES_IN_TRAYS = ("TPU v2", "TPU v3")
# Boxes where each process can have a contiguous part: for each mesh, the physical axes of each of
# its axes.
_CONTIGUOUS: dict[tuple[int, ...], dict[tuple[int, ...], tuple[tuple[int, ...], ...]]] = {
    (2, 2, 1): {(2, 2): ((1,), (0,))},
    (2, 2, 4): {(4, 4): ((2,), (0, 1))},
    (4, 4, 4): {(16, 4): ((2, 1), (0,))},
    (4, 8, 8): {(64, 4): ((2, 1), (0,)), (4, 64): ((0,), (2, 1))},
    (8, 8, 8): {(64, 8): ((2, 1), (0,))},
    (8, 16, 16): {(256, 8): ((2, 1), (0,)), (8, 256): ((0,), (2, 1))},
}


def in_torus(sizes: tuple[int, ...], devices: Sequence[Any], contiguous: bool, split: bool) -> Any:
    """TPUs in a grid.

    sizes: of the grid, as many places as devices. contiguous: each process has a box of the grid.
    split: an axis of the grid may take a part of a physical axis.
    Raises ValueError for devices that fill no box and where contiguous is not possible,
    NotImplementedError for sizes that no physical axes make up.
    """
    ring = _ring(sizes, devices)
    if ring is not None:
        return ring.reshape(sizes)
    box = _box(devices)
    if contiguous:
        return _contiguous(box, sizes)
    try:
        taken = _whole_axes(box.shape, sizes)
        return box.transpose([i for axes in taken for i in axes]).reshape(sizes)
    except NotImplementedError:
        factors = next(_split_axes(box.shape, sizes, box.shape), None) if split else None
        if factors is None:
            raise
    # Each physical axis becomes as many as there are axes of the grid, the last the fastest.
    parts = box.reshape([f for axis in zip(*factors, strict=True) for f in axis])
    n, m = len(sizes), box.ndim
    return parts.transpose([i * n + k for k in range(n) for i in range(m)]).reshape(sizes)


def _ring(sizes: tuple[int, ...], devices: Sequence[Any]) -> Any:
    """The devices of a board along a ring; for several boards with two cores a chip, of each board;
    None for others."""
    kind, n = devices[0].device_kind, len(devices)
    given = _row(devices)
    if kind in _CORES_IN_TRAYS:
        # A ring goes along the last axis, or through the only board.
        return _each(given, _TRAY) if 8 in (n, sizes[-1]) else given
    if kind == "TPU7x":
        return _each(given, _TRAY) if n in (8, 16, 32) else None
    for kinds, boxes, ring in _RINGS:
        if kind in kinds and _extent(devices) in boxes:
            return _by_place(devices)[list(ring)]
    alone = max(sizes) == 16 == n
    if alone and kind in _RINGS[0][0] and _extent(devices) == (4, 4, 1):
        return _by_place(devices)[list(_FOUR_ROWS)]
    return None


def _row(devices: Sequence[object]) -> Any:
    row = np.empty(len(devices), object)
    row[:] = devices
    return row


def _each(row: Any, ring: tuple[int, ...]) -> Any:
    return row.reshape(-1, len(ring))[:, list(ring)].reshape(-1)


def _by_place(devices: Sequence[Any]) -> Any:
    in_order: list[Any] = sorted(devices, key=lambda d: d.coords[::-1])
    return _row(in_order)


def _extent(devices: Sequence[Any]) -> tuple[int, ...]:
    """The sizes of the least box around the devices."""
    axes = list(zip(*(d.coords for d in devices), strict=True))
    return tuple(max(axis) - min(axis) + 1 for axis in axes)


def _box(devices: Sequence[Any]) -> Any:
    """The devices at their places in the torus; cores are along another axis if chips have several.

    Raises ValueError where a place has none.
    """
    least = [min(axis) for axis in zip(*(d.coords for d in devices), strict=True)]
    cores = max(d.core_on_chip or 0 for d in devices) + 1
    box = np.empty((*_extent(devices), cores), object)
    for d in devices:
        place = (*(c - low for c, low in zip(d.coords, least, strict=True)), d.core_on_chip or 0)
        box[place] = d
    if len(devices) != box.size or any(d is None for d in box.flat):
        raise ValueError(
            f"create_device_mesh: {len(devices)} devices do not fill their box in the torus, of "
            f"shape {box.shape}.\n    devices: {list(devices)[:8]}\n"
            "  Give jax.sharding.Mesh a grid of devices."
        )
    return box if cores > 1 else box[..., 0]


def _whole_axes(shape: tuple[int, ...], sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """For each axis of the grid the physical axes that make it up, as many as can be.

    The last axis chooses first. Physical axes of size 1 come with the last. Raises
    NotImplementedError for an axis that finds none.
    """
    free = dict(enumerate(shape))
    taken: list[tuple[int, ...]] = []
    for index in reversed(range(len(sizes))):
        own = _of_size(free, sizes[index])
        if own is None:
            left = [free.get(i, 0) for i in range(len(shape))]
            raise NotImplementedError(
                f"Failed to find assignment for logical_axis_index {index} of size {sizes[index]} "
                f"with remaining assignable mesh {left}. The size of each axis in your logical "
                "mesh must be equal to the product of some subset of the physical mesh axis sizes. "
                "E.g. logical mesh (4, 16) is compatible with physical mesh 4x4x4 since 4=4 and "
                "16=4x4. If you want to split physical axes, set  allow_split_physical_axes to "
                "True."
            )
        taken.append(own)
        for i in own:
            del free[i]
    taken[0] = (*taken[0], *free)
    return taken[::-1]


def _of_size(free: dict[int, int], size: int) -> tuple[int, ...] | None:
    for n in range(len(free), 0, -1):
        for own in itertools.combinations(free, n):
            if math.prod(free[i] for i in own) == size:
                return own
    return () if size == 1 else None


def _split_axes(
    free: tuple[int, ...], sizes: tuple[int, ...], shape: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All ways to give each axis of the grid factors of the physical axes.

    free: the factors of the physical axes that are left. The last axis chooses first. It prefers
    whole physical axes, the largest, and then the first ones.
    """
    if not sizes:
        if math.prod(free) == 1:
            yield ()
        return
    *rest, size = sizes
    ways = _factors(free, size)
    ways.sort(key=lambda own: -math.prod(f for f, s in zip(own, shape, strict=True) if f == s))
    for own in ways:
        left = tuple(s // f for s, f in zip(free, own, strict=True))
        for others in _split_axes(left, tuple(rest), shape):
            yield (*others, own)


def _factors(shape: tuple[int, ...], size: int) -> list[tuple[int, ...]]:
    """The ways to write a size as a product of divisors of the physical axes, the largest first."""
    if not shape:
        return [()] if size == 1 else []
    return [
        (f, *rest)
        for f in range(min(shape[0], size), 0, -1)
        if shape[0] % f == 0 and size % f == 0
        for rest in _factors(shape[1:], size // f)
    ]


def _contiguous(box: Any, sizes: tuple[int, ...]) -> Any:
    """The grid whose parts for each process are boxes."""
    known = _CONTIGUOUS.get(box.shape)
    if known is None:
        raise ValueError(
            "create_device_mesh cannot create contiguous submeshes for physical mesh topology "
            f"{box.shape}"
        )
    axes = known.get(tuple(s for s in sizes if s != 1))
    if axes is None:
        raise ValueError(
            f"create_device_mesh cannot create contiguous submeshes for mesh_shape {sizes} and "
            f"physical mesh topology {box.shape}. Available mesh_shapes: {list(known)}"
        )
    order = [i for own in axes for i in own]
    rest = [i for i in range(box.ndim) if i not in order]
    return box.transpose([*order, *rest]).reshape(sizes)
