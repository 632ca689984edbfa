"""`shard_map` under its old name and arguments; use `jax.shard_map`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from teucer._base.lazy import listing
from teucer._sharding import shard_map as _shard_map

if TYPE_CHECKING:
    from teucer._devices.meshes import BaseMesh

__all__ = ["shard_map"]
__dir__ = listing(__name__, __all__)


def shard_map(
    f: Callable[..., object],
    mesh: BaseMesh,
    in_specs: object,
    out_specs: object,
    check_rep: bool = True,
    auto: frozenset[str] = frozenset(),
) -> Any:
    """As `jax.shard_map`. check_rep: its check_vma. auto: the mesh axes that are not in its
    axis_names."""
    names = frozenset(mesh.axis_names) - auto if auto else frozenset()
    return _shard_map.shard_map(
        f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep, axis_names=names
    )
