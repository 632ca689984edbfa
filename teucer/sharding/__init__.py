"""Shardings: meshes of devices with named axes, and how arrays are laid over them."""

from __future__ import annotations

from teucer._base import lazy

_SOURCES = {
    "teucer._devices.meshes": (
        "AbstractDevice AbstractMesh AxisType Mesh get_abstract_mesh get_mesh set_mesh "
        "use_abstract_mesh"
    ),
    "teucer._devices.shardings": (
        "NamedSharding Sharding SingleDeviceSharding make_single_device_sharding"
    ),
    "teucer._devices.axis_type": "ManualAxisType",
    "teucer._devices.forbidden": "no_collectives",
    "teucer._devices.specs": "PartitionSpec UnreducedKind",
    "teucer._sharding.shard_map": "Infer",
    "teucer.lax._sharding": "auto_axes explicit_axes reshard",
}

__getattr__, __dir__, __all__ = lazy.lazy_module(__name__, _SOURCES)
