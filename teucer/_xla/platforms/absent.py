"""Devices that are not there: plugins describe them, and compile for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jaxlib import _jax

from teucer._xla import mlir
from teucer._xla.client import load_plugin


def topology(platform: str, library: str, name: str, options: Mapping[str, Any]) -> Any:
    """The devices of a name as the plugin of a platform describes them.

    Raises the runtime's error for a name or an option that the plugin does not know.
    """
    load_plugin(platform, library)
    return _jax.get_default_c_api_topology(platform, name, dict(options))


def devices_of(topology: Any) -> list[Any]:
    """The devices of a topology, of a client that only compiles."""
    return list(topology._make_compile_only_devices())


def restored(platform: str, library: str, data: bytes) -> Any:
    """The topology that `serialize` wrote."""
    load_plugin(platform, library)
    return _jax.DeviceTopology.deserialize(data)


def compiled(text: str, devices: Sequence[Any], options: Any) -> Any:
    """The executable of a module for devices of one topology. It can be read and serialised."""
    module: str | bytes = text
    if "jax.uses_shape_polymorphism" in text.partition("\n")[0]:
        module = _jax.mlir.refine_polymorphic_shapes(text.encode())  # bytecode
    return devices[0].client.compile(mlir.parse(module), _jax.DeviceList(tuple(devices)), options)
