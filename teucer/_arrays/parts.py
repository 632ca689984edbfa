"""Parts of values: the parts that this process holds, and the processes that may be given some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._devices import shardings

if TYPE_CHECKING:
    from teucer._core.typing import Value
    from teucer._devices.shardings import Sharding


def refuse_host_values(args: Sequence[Value], ins: Sequence[Sharding | None], name: str) -> None:
    """Raise ValueError for host values that `in_shardings` divides over processes, since each
    process may have another value.

    ins: the sharding of each argument. name: the name of the function.
    """
    for x, sharding in zip(args, ins, strict=True):
        if not isinstance(x, ArrayImpl) and shardings.is_divided(sharding):
            raise ValueError(
                "Passing non-trivial shardings for numpy inputs is not allowed. To fix this "
                "error, either specify a replicated sharding explicitly or use "
                "`jax.make_array_from_process_local_data(...)` to convert your host local numpy "
                "inputs to a jax.Array which you can pass to jit. If the numpy input is the same "
                "on each process, then you can use `jax.make_array_from_callback(...)` to create "
                f"a `jax.Array` which you can pass to jit. Got arg shape: {np.asarray(x).shape}, "
                f"arg value: {x!s:.100}\n    function: {name}, in_shardings: {sharding}"
            )


def held_values(x: ArrayImpl) -> np.ndarray[Any, Any]:
    """The values of an array that this process holds. If it holds only parts of the array: these,
    one after another, in one dimension."""
    if x.is_fully_addressable:
        return np.asarray(x)
    parts = [np.ravel(np.asarray(shard.data)) for shard in x.addressable_shards]
    return np.concatenate([np.empty(0, x.dtype), *parts])
