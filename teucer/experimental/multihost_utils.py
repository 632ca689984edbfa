"""Values that the processes of a program share. There is one process so far, for which these say what there is to say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import teucer as jax
from teucer import tree
from teucer.sharding import Mesh, NamedSharding, PartitionSpec

__all__ = ["assert_equal", "broadcast_one_to_all", "global_array_to_host_local_array", "host_local_array_to_global_array",
           "live_devices", "process_allgather", "reached_preemption_sync_point", "sync_global_devices"]


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """What the process 0 (or the one with is_source) has, in all of them, as NumPy arrays.

    >>> broadcast_one_to_all({"step": 3})
    {'step': array(3)}
    """
    return tree.map(np.asarray, in_tree)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """What all processes have, as NumPy arrays: stacked along a new first axis, or concatenated if tiled.

    >>> process_allgather(np.arange(2)).shape, process_allgather(np.arange(2), tiled=True).shape
    ((1, 2), (2,))
    """
    return tree.map(np.asarray if tiled else lambda x: np.asarray(x)[None], in_tree)


def sync_global_devices(name: str) -> None:
    """Wait until all processes have come here; name: the same in all of them."""


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raise AssertionError if the processes do not have equal values."""


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Arrays laid over a mesh, of which each process gives its part; pspecs: a PartitionSpec for each, as a prefix tree."""
    return _each(lambda spec, x: jax.device_put(x, NamedSharding(global_mesh, spec)), pspecs, local_inputs)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Of arrays laid over a mesh the part of this process; pspecs: a PartitionSpec for each, as a prefix tree."""
    return _each(lambda spec, x: jax.device_put(x, NamedSharding(global_mesh, spec)), pspecs, global_inputs)


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether the processes, told to end, have come to a step at which all of them save.

    Raises RuntimeError, since no service that tells them is set up.
    """
    raise RuntimeError("Distributed JAX not initialized: there is one process.")


@contextmanager
def live_devices(devices: list[Any]) -> Iterator[list[Any]]:
    """Those of the devices whose processes are alive."""
    yield list(devices)


def _each(function: Any, pspecs: Any, inputs: Any) -> Any:
    def under(spec: Any, part: Any) -> Any:
        return tree.map(lambda x: function(PartitionSpec() if spec is None else spec, x), part)
    return tree.map(under, pspecs, inputs, is_leaf=lambda s: s is None or isinstance(s, PartitionSpec))
