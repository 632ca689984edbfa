"""The members that every sharding has, for those who look at, or derive from, `Sharding`.

The class is jaxlib's and has none. Shardings of Teucer define all of them; a subclass of a library
defines what raises here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teucer._xla.arrays import Sharding, attach

Index = Mapping[Any, tuple[slice, ...]]


def _abstract(name: str, doc: str, is_property: bool) -> Any:
    def member(self: Sharding, *args: object) -> Any:
        raise NotImplementedError(
            f"Subclasses should implement this method.\n    {type(self).__name__}.{name}"
        )

    member.__name__, member.__doc__ = name, doc
    return property(member, doc=doc) if is_property else member


def _here(devices: Any) -> Any:
    return [d for d in devices if d.process_index == d.client.process_index()]


def _addressable_devices(self: Any) -> set[Any]:
    return set(_here(self.device_set))


def _has_addressable_devices(self: Any) -> bool:
    return bool(self.addressable_devices)


def addressable_devices_indices_map(self: Any, global_shape: tuple[int, ...]) -> Index:
    """The part of the array that each device of this process holds."""
    whole = self.devices_indices_map(global_shape)
    return {d: whole[d] for d in _here(whole)}


_PROPERTIES = {
    "device_set": "The devices that hold a part of the array.",
    "is_fully_addressable": "Whether this process holds all of the array.",
    "is_fully_replicated": "Whether every device holds the whole array.",
    "memory_kind": "The memory of the devices.",
    "num_devices": "Number of devices.",
}
_METHODS = {
    "devices_indices_map": "The part of the array that each device holds.",
    "is_equivalent_to": "Whether both lay out an array of some number of axes alike.",
    "shard_shape": "The shape of each device's part.",
    "with_memory_kind": "The same layout in another memory of the devices.",
}


def attach_members() -> None:
    """Give the class of all shardings its members."""
    attach(
        Sharding,
        {
            **{name: _abstract(name, doc, True) for name, doc in _PROPERTIES.items()},
            **{name: _abstract(name, doc, False) for name, doc in _METHODS.items()},
            "addressable_devices": property(
                _addressable_devices,
                doc="The devices of this process that hold a part of the array.",
            ),
            "has_addressable_devices": property(
                _has_addressable_devices, doc="Whether this process holds a part of the array."
            ),
            "addressable_devices_indices_map": addressable_devices_indices_map,
        },
    )
