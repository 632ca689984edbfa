"""Modules of JAX that libraries import and most of their users do without.

The names are there, and raise when they are used.

colocated_python: how functions travel to the hosts of remote accelerators (orbax, with Pathways).
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NoReturn

__all__ = ["LISTED", "module"]

LISTED = {
    "jax.experimental.colocated_python.func": "_make_prng_wrapped_fun",
    "jax.experimental.colocated_python.serialization": (
        "DeviceList _get_cpu_device_map _reduce_device_list _reduce_mesh "
        "_reduce_single_device_sharding"
    ),
}


def module(name: str) -> ModuleType:
    """The module of that name, whose names raise NotImplementedError when they are called or made
    an object of."""
    made = ModuleType(name, "Names of JAX that Teucer does not support.")
    made.__path__ = []  # type: ignore[attr-defined]  # it may hold others
    for item in LISTED[name].split():
        setattr(made, item, _absent(f"{name}.{item}"))
    return made


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(f"{name} is not supported by Teucer.")


def _absent(name: str) -> type:
    def __new__(cls: type, *args: object, **kwargs: object) -> Any:
        _refuse(name)

    return type(
        name.rpartition(".")[2], (), {"__new__": __new__, "__module__": name.rpartition(".")[0]}
    )
