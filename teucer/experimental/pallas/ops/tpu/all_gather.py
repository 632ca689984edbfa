"""The shards of all devices on each of them, passed on around a ring.

In each step a device sends what it got in the step before to its neighbour on the right. Thakur,
Rabenseifner & Gropp, "Optimization of Collective Communication Operations in MPICH" (2005).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import ShapeDtypeStruct, jit, lax, shard_map
from teucer import numpy as jnp
from teucer._base.lazy import listing, refusing
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import tpu as pltpu
from teucer.sharding import Mesh, PartitionSpec

if TYPE_CHECKING:
    from teucer._core.typing import Array
    from teucer.experimental.pallas.ops._types import BlockRef

__all__ = ["ag_kernel", "all_gather", "get_neighbor"]
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)


def get_neighbor(idx: Array, mesh: Mesh, axis_name: str, *, direction: str) -> dict[str, Array]:
    """The place along an axis of the device beside this one, which wraps around.

    idx: the place of this device; direction: 'left' or 'right'. Raises ValueError for others.
    """
    if direction not in ("left", "right"):
        raise ValueError(f"direction must be 'left' or 'right', got {direction!r}.")
    size = np.int32(mesh.shape[axis_name])
    step = np.int32(1) if direction == "right" else size - np.int32(1)
    return {axis_name: lax.rem(idx + step, size)}


def ag_kernel(
    x_ref: BlockRef, o_ref: BlockRef, send_sem: Any, recv_sem: Any, *, axis_name: str, mesh: Mesh
) -> None:
    """The ring along one axis, on one device. o_ref: [devices, *shape of x_ref], the shard of the
    device that is i places to the left at place i. The semaphores are one for each step."""
    size, own = mesh.shape[axis_name], jnp.asarray(lax.axis_index(axis_name))
    left, right = (get_neighbor(own, mesh, axis_name, direction=side) for side in ("left", "right"))
    # A neighbour may write here once this device has begun, and not before.
    barrier = pltpu.get_barrier_semaphore()
    for neighbour in (left, right):
        pltpu.semaphore_signal(barrier, 1, device_id=neighbour)
    pltpu.semaphore_wait(barrier, 2)
    pltpu.sync_copy(x_ref, o_ref.at[0])
    for step in range(size - 1):
        pltpu.async_remote_copy(
            o_ref.at[step], o_ref.at[step + 1], send_sem.at[step], recv_sem.at[step], right
        ).wait()


@functools.partial(jit, static_argnames=("mesh", "axis_name", "memory_space"))
def all_gather(
    x: Array,
    *,
    mesh: Mesh,
    axis_name: str | Sequence[str],
    memory_space: Any = pltpu.VMEM,
) -> Array:
    """x, whose first axis lies over axes of a mesh, whole on each device.

    axis_name: the axis, or several of them, the outermost first. memory_space: where the kernel has
    shards and result.
    Raises ValueError for a first axis that the devices do not divide.
    """
    names = (axis_name,) if isinstance(axis_name, str) else tuple(axis_name)
    count = math.prod(mesh.shape[name] for name in names)
    if not x.ndim or x.shape[0] % count:
        raise ValueError(
            f"all_gather: {count} devices do not divide the first axis of x: "
            f"{x.dtype}{list(x.shape)}."
        )

    def along(x: Array, name: str, number: int) -> Array:
        size = mesh.shape[name]
        if size == 1:
            return x
        space = pl.BlockSpec(memory_space=memory_space)
        out = pl.pallas_call(
            functools.partial(ag_kernel, axis_name=name, mesh=mesh),
            ShapeDtypeStruct((size, *x.shape), x.dtype),
            in_specs=[space],
            out_specs=space,
            scratch_shapes=[pltpu.SemaphoreType.DMA((size - 1,))] * 2,
            compiler_params=pltpu.CompilerParams(collective_id=number, has_side_effects=True),
            name="all_gather",
        )(x)
        left = lax.rem(lax.axis_index(name) + size - jnp.arange(size), np.int32(size))
        return out[left].reshape(size * x.shape[0], *x.shape[1:])

    def whole(x: Array) -> Array:
        for number, name in enumerate(reversed(names)):
            x = along(x, name, number)
        return x

    return shard_map(
        whole,
        mesh=mesh,
        in_specs=PartitionSpec(names),
        out_specs=PartitionSpec(),
        check_vma=False,
    )(x)
