"""What `jit` is given as shardings of arguments and results, and the layouts in it: tree prefixes."""

from __future__ import annotations

from typing import Any, NamedTuple

from teucer._arrays.formats import Format
from teucer._core.specs import UNCONSTRAINED, PartitionSpec
from teucer._devices import backends, placement, shardings
from teucer._devices.shardings import Sharding
from teucer._trees import pytrees

__all__ = ["Prefix", "everywhere", "place_of", "prefixes"]


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
        return [shardings.as_named(placement.with_devices(s), RuntimeError(
            f"jit requires a non-empty mesh in context if you are passing `PartitionSpec`s to {self.name}. You can define a "
            f"context mesh via `jax.set_mesh(mesh)`. Alternatively, provide `Sharding`s to {self.name} and then the mesh context "
            "manager is not required.")) for s in found]


def prefixes(name: str, prefix: Any) -> tuple[Prefix | None, Prefix | None]:
    """What `jit` was given as shardings, and the layouts in it."""
    leaves, tree = pytrees.tree_flatten(prefix)
    for s in leaves:
        if not isinstance(s, Sharding | PartitionSpec | Format):
            raise TypeError(f"{name} leaf specifications are expected to be PartitionSpec instances or None, but got {s}")
        spec = getattr(s.sharding if isinstance(s, Format) else s, "spec", s)
        if isinstance(spec, PartitionSpec) and UNCONSTRAINED in spec.partitions:
            raise ValueError(f"Unconstrained dims are not allowed when passed to {name}: {s}\n  Within the function "
                             "with_sharding_constraint takes them; None in the place of the sharding leaves all to the compiler.")
    both = ([s.sharding if isinstance(s, Format) else s for s in leaves], [getattr(s, "layout", None) for s in leaves])
    given, layouts = (Prefix(name, tree, tuple(part)) if any(x is not None for x in part) else None for part in both)
    return given, layouts


def place_of(device: Any, backend: Any) -> Any:
    """The one device that `device` or `backend` of `jit` names; None where they name none."""
    if device is not None and backend is not None:
        raise ValueError(f"can't specify both a device and a backend for jit, got device={device!r} and backend={backend!r}")
    return device if backend is None else backends.client_of(backend).local_devices()[0]


def everywhere(name: str, sharding: Any) -> Prefix:
    """What `jit` would have been given if all were to have one sharding."""
    return Prefix(name, pytrees.tree_structure(sharding), (sharding,))
