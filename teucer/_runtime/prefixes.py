"""What `jit` is given as shardings of arguments and results, and the layouts in it: tree prefixes."""

from __future__ import annotations

from typing import Any, NamedTuple

from teucer._runtime import backends, shardings
from teucer._runtime.formats import Format
from teucer._runtime.shardings import Sharding, SingleDeviceSharding
from teucer._runtime.specs import PartitionSpec
from teucer._trees import pytrees
from teucer._xla.client import Device

__all__ = ["Prefix", "place_of", "prefixes"]


class Prefix(NamedTuple):
    """Shardings or layouts of arguments or results: a tree prefix, hashable."""

    name: str
    tree: Any
    leaves: tuple[Any, ...]

    def spread(self, full: Any) -> list[Any]:
        """One of them, or None, a leaf of the full tree.

        Raises RuntimeError for a PartitionSpec without a mesh, ValueError if this is no prefix of the tree.
        """
        found = pytrees.flatten_axes(f"pjit {self.name}", full, pytrees.tree_unflatten(self.tree, self.leaves))
        return [shardings.as_named(s, RuntimeError(
            f"jit requires a non-empty mesh in context if you are passing `PartitionSpec`s to {self.name}. You can define a "
            f"context mesh via `jax.set_mesh(mesh)`. Alternatively, provide `Sharding`s to {self.name} and then the mesh context "
            "manager is not required.")) for s in found]


def prefixes(name: str, prefix: Any) -> tuple[Prefix | None, Prefix | None]:
    """What `jit` was given as shardings, and the layouts in it."""
    leaves, tree = pytrees.tree_flatten(prefix)
    for s in leaves:
        if not isinstance(s, Sharding | PartitionSpec | Device | Format):
            raise TypeError(f"{name} leaf specifications are expected to be PartitionSpec instances or None, but got {s}")
    both = ([s.sharding if isinstance(s, Format) else s for s in leaves], [getattr(s, "layout", None) for s in leaves])
    given, layouts = (Prefix(name, tree, tuple(part)) if any(x is not None for x in part) else None for part in both)
    return given, layouts


def place_of(device: Any, backend: Any, *prefixes: Prefix | None) -> Any:
    """The one device that `device`, `backend` or the shardings of `jit` name; None for the default, or for several."""
    if device is not None and backend is not None:
        raise ValueError(f"can't specify both a device and a backend for jit, got device={device!r} and backend={backend!r}")
    if backend is not None:
        return backends.client_of(backend).local_devices()[0]
    found = {device} if device is not None else set()
    for s in [s for prefix in prefixes if prefix is not None for s in prefix.leaves if s is not None]:
        if not isinstance(s, Device | SingleDeviceSharding):
            if device is not None:
                raise ValueError("If `device` is specified to jit, then in_shardings and out_shardings should not be specified.")
            return None
        found.add(s if isinstance(s, Device) else s._device)
    if len(found) > 1:
        raise ValueError(f"jit: shardings and device name different devices: {found}.")
    return found.pop() if found else None
