"""Shardings: how arrays are laid over devices."""

from teucer._runtime.shardings import Sharding, SingleDeviceSharding

__all__ = ["Sharding", "SingleDeviceSharding"]
