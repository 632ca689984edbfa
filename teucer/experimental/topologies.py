"""Devices of an accelerator as a description, over which programs are lowered and compiled.

The devices need not be there: the plugin of their platform describes them and compiles for them,
but runs nothing (docs/accelerators.md).
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from teucer._base.lazy import listing, refusing
from teucer._devices import backends, hardware
from teucer._devices.meshes import Mesh
from teucer.experimental.mesh_utils import create_device_mesh

__all__ = ["TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh"]
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)


# By platform: the module that knows its names, and the extra that installs its plugin.
_DESCRIBED = {
    "tpu": ("teucer._targets.tpu.topologies", "tpu"),
    "cuda": ("teucer._targets.gpu.topologies", "cuda13"),
}
_OTHER_NAMES = {None: "tpu", "gpu": "cuda"}


class TopologyDescription:
    """The devices of a platform, in `devices`: a list of `jax.Device`."""

    __slots__ = ("_topology", "devices")

    def __init__(self, devices: list[Any]) -> None:
        self.devices = devices
        self._topology: Any = None

    def serialize(self) -> bytes:
        """The description as bytes, for another process.

        Raises ValueError for devices that `get_topology_desc` did not describe.
        """
        if self._topology is None:
            raise ValueError(
                "TopologyDescription.serialize: these are devices of this machine. Only what "
                "get_topology_desc describes has a form outside of the process."
            )
        data: bytes = self._topology.serialize()
        return data

    @classmethod
    def deserialize(cls, serialized: bytes) -> TopologyDescription:
        """The description that `serialize` wrote, of TPUs.

        Raises RuntimeError without their plugin.
        """
        from teucer._xla.platforms import absent  # loads what reads MLIR

        library = _library("tpu")
        return _described(absent.restored("tpu", library, serialized))


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """The description of the devices of a platform, by default of the default one.

    Raises RuntimeError for a platform that is not there.

    >>> get_attached_topology("cpu").devices[0].platform
    'cpu'
    """
    return TopologyDescription(backends.devices(platform))


def get_topology_desc(
    topology_name: str = "", platform: str | None = None, **kwargs: object
) -> TopologyDescription:
    """The description of devices that need not be there.

    topology_name: of TPUs, a generation and the chips along each axis, 'v5e:4x4'; of GPUs, 'h100'.
    platform: 'tpu' by default, 'cuda', or 'gpu' for the same.
    kwargs: of TPUs num_slices, chips_per_host_bounds, wrap, chip_config_name, as libtpu takes them.
    Of GPUs topology, 'SLICESxHOSTSxDEVICES', by default '1x1x8'; and target_config, XLA's text of a
    GPU which has no name here.
    Raises ValueError for a name or sizes that nothing has, NotImplementedError for a platform that
    has no such descriptions, RuntimeError without the platform's plugin.
    """
    name = _OTHER_NAMES.get(platform, platform)
    if name not in _DESCRIBED:
        raise NotImplementedError(
            f"get_topology_desc({topology_name!r}, platform={platform!r}): topology not "
            f"implemented for {name}: only 'tpu' and 'cuda' have descriptions.\n  "
            "get_attached_topology describes attached devices; jax_num_cpu_devices says how many "
            "CPUs are simulated."
        )
    checked = importlib.import_module(_DESCRIBED[name][0]).checked
    topology_name, options = checked(topology_name, kwargs)
    from teucer._xla.platforms import absent  # loads what reads MLIR

    return _described(absent.topology(name, _library(name), topology_name, options))


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


def _described(topology: Any) -> TopologyDescription:
    from teucer._xla.platforms import absent  # loads what reads MLIR

    described = TopologyDescription(absent.devices_of(topology))
    described._topology = topology
    return described


def _library(platform: str) -> str:
    """The shared library of a platform's plugin, ready to be loaded.

    Raises RuntimeError if it is not installed.
    """
    from teucer._xla.platforms.plugins import plugin_libraries

    libraries = plugin_libraries()
    if platform not in libraries:
        raise RuntimeError(
            f"get_topology_desc: the plugin of {platform!r} compiles for its devices, and is not "
            f'installed: pip install "teucer[{_DESCRIBED[platform][1]}]".'
        )
    hardware.quiet(platform)
    return libraries[platform]
