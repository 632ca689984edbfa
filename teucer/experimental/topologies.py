"""Devices of an accelerator as a description, over which programs are lowered and compiled.

Attached devices have one. Of devices that are not there jaxlib compiles only what is given to it by
another door, so those are refused; a program is lowered for them all the same, over a
`jax.sharding.AbstractMesh`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from teucer._base.lazy import listing, refusing
from teucer._devices import backends
from teucer._devices.meshes import Mesh
from teucer.experimental.mesh_utils import create_device_mesh

__all__ = ["TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh"]
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)


class TopologyDescription:
    """The devices of a platform, in `devices`: a list of `jax.Device`."""

    __slots__ = ("devices",)

    def __init__(self, devices: list[Any]) -> None:
        self.devices = devices


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """The description of the devices of a platform, by default of the default one.

    Raises RuntimeError for a platform that is not there.

    >>> get_attached_topology("cpu").devices[0].platform
    'cpu'
    """
    return TopologyDescription(backends.devices(platform))


def get_topology_desc(
    topology_name: str = "", platform: str | None = None, **kwargs: object
) -> NoReturn:
    """The description of devices that need not be attached, by a name such as 'v5e:2x2' of a
    platform, by default 'tpu'.

    Raises NotImplementedError: no program is compiled for them here.
    """
    name = "tpu" if platform is None else platform
    asked = (
        f"get_topology_desc({topology_name!r}, "
        f"platform={platform!r}{''.join(f', {k}={v!r}' for k, v in kwargs.items())})"
    )
    raise NotImplementedError(
        f"{asked}: topology not implemented for {name}: devices that are not attached cannot be "
        "compiled for.\n  get_attached_topology describes those that are; jax_num_cpu_devices "
        "says how many CPUs are simulated.\n  Lower a program for others over a "
        f"jax.sharding.AbstractMesh: jit(f).trace(...).lower(lowering_platforms=({name!r},)), or "
        "jax.export."
    )


def make_mesh(
    topo: TopologyDescription,
    mesh_shape: Sequence[int],
    axis_names: tuple[str, ...],
    *,
    contiguous_submeshes: bool = False,
) -> Mesh:
    """A mesh of the devices of a description, of the given sizes and names of axes.

    contiguous_submeshes: is for the wiring of TPUs, and changes nothing elsewhere.
    Raises ValueError unless there are as many devices as places.

    >>> make_mesh(TopologyDescription(get_attached_topology().devices[:1]), (1,), ("x",)).size
    1
    """
    return Mesh(
        create_device_mesh(mesh_shape, topo.devices, contiguous_submeshes=contiguous_submeshes),
        axis_names,
    )
