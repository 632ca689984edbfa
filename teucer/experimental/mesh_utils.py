"""Devices in the grid of a mesh."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from teucer._devices import backends

__all__ = ["create_device_mesh"]


def create_device_mesh(mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *, contiguous_submeshes: bool = False,
                       allow_split_physical_axes: bool = False) -> Any:
    """The devices, by default all, in a grid of the given sizes, for `jax.sharding.Mesh`.

    They are in the order in which the platform numbers them, which is that of nearness on CPU and GPU; so the two options, which
    are for the wiring of TPUs, change nothing.
    Raises ValueError unless there are as many devices as places.

    >>> import teucer as jax
    >>> create_device_mesh((1, 1), jax.devices()[:1]).shape
    (1, 1)
    """
    found = backends.devices() if devices is None else list(devices)
    sizes = tuple(mesh_shape)
    if math.prod(sizes) != len(found):
        raise ValueError(f"Number of devices {len(found)} must equal the product of mesh_shape {sizes}")
    if found[0].platform == "tpu":
        raise NotImplementedError("create_device_mesh: the wiring of TPUs is not known here.\n  Give jax.sharding.Mesh a grid "
                                  "of devices.")
    grid = np.empty(len(found), object)
    grid[:] = found
    return grid.reshape(sizes)
