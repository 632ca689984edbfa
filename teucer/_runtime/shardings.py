"""Shardings: how an array is laid over devices. Here the common base and the case of one device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from teucer._xla.arrays import HloSharding, Sharding, SingleDeviceShardingBase
from teucer._xla.client import DeviceList

__all__ = ["Sharding", "SingleDeviceSharding", "device_list", "single_device_sharding"]


class SingleDeviceSharding(SingleDeviceShardingBase):  # type: ignore[misc]  # jaxlib's classes are untyped
    """All of the array is on one device.

    >>> import teucer as jax
    >>> jax.sharding.SingleDeviceSharding(jax.devices()[0]).is_fully_replicated
    True
    """

    def __init__(self, device: Any, *, memory_kind: str | None = None) -> None:
        super().__init__(device, memory_kind)
        # C++ asks at every call.
        self._hash = hash((device.id, device.platform, memory_kind))

    def _to_xla_hlo_sharding(self, num_dimensions: int) -> Any:
        return HloSharding.replicate()

    @property
    def device_set(self) -> set[Any]:
        """The devices that hold a part of the array."""
        return {self._device}

    addressable_devices = device_set

    @property
    def num_devices(self) -> int:
        """Number of devices."""
        return 1

    @property
    def memory_kind(self) -> str | None:
        """The memory of the device, or None for its default memory."""
        kind: str | None = self._memory_kind
        return kind

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return True

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process holds all of the array."""
        return bool(self._internal_device_list.is_fully_addressable)

    @property
    def has_addressable_devices(self) -> bool:
        """Whether this process holds a part of the array."""
        return self.is_fully_addressable

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> Mapping[Any, tuple[slice, ...]]:
        """The part of the array that each device holds."""
        return {self._device: (slice(None),) * len(global_shape)}

    addressable_devices_indices_map = devices_indices_map

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of each device's part."""
        return tuple(global_shape)

    def with_memory_kind(self, kind: str) -> Self:
        """The same device, another of its memories."""
        return type(self)(self._device, memory_kind=kind)

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        """Whether both lay out an array of `ndim` axes alike."""
        return (getattr(other, "device_set", None) == self.device_set and other.is_fully_replicated
                and other.memory_kind == self.memory_kind)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, SingleDeviceSharding) and self._device is other._device
                                 and self._memory_kind == other._memory_kind)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return type(self), (self._device,)

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={self._memory_kind})"


_single: dict[Any, SingleDeviceSharding] = {}


def single_device_sharding(device: Any) -> SingleDeviceSharding:
    """The sharding for the default memory of `device`; one object a device."""
    found = _single.get(device)
    if found is None:
        found = _single[device] = SingleDeviceSharding(device)
    return found


def device_list(sharding: Any) -> Any:
    """The devices of a sharding, in its order, as C++ takes them."""
    return sharding._internal_device_list


def devices_of(sharding: Any) -> tuple[Any, ...]:
    """The devices of a sharding, in its order."""
    return tuple(sharding._internal_device_list)


def make_device_list(devices: Any) -> Any:
    """A C++ list of devices."""
    return DeviceList(tuple(devices))


