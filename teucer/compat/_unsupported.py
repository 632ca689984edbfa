"""Modules of JAX that libraries import and most of their users do without.

The names are there, and raise when they are used.

colocated_python: how functions travel to the hosts of remote accelerators (orbax, maxtext, with
Pathways).
"""

from __future__ import annotations

import importlib
from types import ModuleType

from teucer._experimental.unbuilt import unbuilt

_PACKAGE = "jax.experimental.colocated_python"
LISTED = {
    f"{_PACKAGE}.func": "_make_prng_wrapped_fun",
    f"{_PACKAGE}.obj_backend": "SINGLETON_OBJECT_STORE",
    f"{_PACKAGE}.serialization": (
        "DeviceList _get_cpu_device_map _reduce_device_list _reduce_mesh "
        "_reduce_single_device_sharding"
    ),
}
_REASON = "functions do not travel to the hosts of remote accelerators."


def module(name: str) -> ModuleType:
    """The module of that name, whose names raise NotImplementedError when they are called or made
    an object of."""
    made = ModuleType(name, "Names of JAX that Teucer does not support.")
    made.__path__ = []
    for item in LISTED[name].split():
        setattr(made, item, unbuilt(f"{name}.{item}", _REASON))
    if name.endswith("serialization"):
        vars(made)["xb"] = importlib.import_module("jax._src.xla_bridge")
    return made
