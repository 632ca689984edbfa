"""Devices in the grid of a mesh."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base.lazy import listing, refusing
from teucer._core.provided import provided
from teucer._devices import backends
from teucer._experimental.torus import in_torus

if TYPE_CHECKING:
    from teucer._core.typing import HostArray

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> HostArray:
    """The devices, by default all, in a grid of the given sizes, for `jax.sharding.Mesh`.

    On CPU and GPU they are in the order in which the platform numbers them, so that neighbours are
    near. TPUs are wired as a torus: each axis of the grid, the last first, takes as many axes of
    the torus as have its size.
    contiguous_submeshes: of TPUs, each process has a box of the grid. allow_split_physical_axes: an
    axis of the grid may take a part of an axis of the torus.
    Raises ValueError unless there are as many devices as places, and where contiguous_submeshes is
    not possible, NotImplementedError for sizes that no axes of the torus make up.

    >>> import teucer as jax
    >>> create_device_mesh((1, 1), jax.devices()[:1]).shape
    (1, 1)
    """
    found = backends.devices() if devices is None else list(devices)
    sizes = tuple(mesh_shape)
    if math.prod(sizes) != len(found):
        raise ValueError(
            f"Number of devices {len(found)} must equal the product of mesh_shape {sizes}"
        )
    if found and provided.target(found[0].platform).wired:
        return in_torus(sizes, found, contiguous_submeshes, allow_split_physical_axes)
    grid = np.empty(len(found), object)
    grid[:] = found
    return grid.reshape(sizes)


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[object] | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> HostArray:
    """The devices in a grid whose axes lie within granules and over them: granules are connected by
    a slower network.

    mesh_shape: of the devices of one granule. dcn_mesh_shape: of the granules; the shorter of the
    two has axes of size 1 before its own. The grid has their product.
    process_is_granule: whether the granules are processes, rather than groups of devices with one
    `slice_index`.
    should_sort_granules_by_key: whether they are sorted by number, rather than in the order of
    `devices`. Raises ValueError unless there are as many granules, and as many devices in each, as
    the shapes say.

    >>> import teucer as jax
    >>> create_hybrid_device_mesh((1,), (1,), jax.devices()[:1], process_is_granule=True).shape
    (1,)
    """
    n = max(len(mesh_shape), len(dcn_mesh_shape))
    inner, outer = (
        (1,) * (n - len(shape)) + tuple(shape) for shape in (mesh_shape, dcn_mesh_shape)
    )
    key = "process_index" if process_is_granule else "slice_index"
    granules: dict[int, list[Any]] = {}
    for d in backends.devices() if devices is None else devices:
        if not hasattr(d, key):
            raise ValueError(
                f"Device {d} does not have attribute {key}. See `process_is_granule` option.\n"
                "  On this platform granules are processes: process_is_granule=True."
            )
        granules.setdefault(getattr(d, key), []).append(d)
    numbers = sorted(granules) if should_sort_granules_by_key else list(granules)
    if len(numbers) != math.prod(outer):
        raise ValueError(
            f"Number of slices {len(numbers)} must equal the product of dcn_mesh_shape {outer}"
        )
    grids = [
        create_device_mesh(inner, granules[i], allow_split_physical_axes=allow_split_physical_axes)
        for i in numbers
    ]
    stacked = np.stack(grids).reshape(*outer, *inner)
    axes = [
        axis
        for pair in zip(range(len(outer)), range(len(outer), 2 * len(outer)), strict=True)
        for axis in pair
    ]
    return stacked.transpose(axes).reshape([m * n for m, n in zip(outer, inner, strict=True)])
