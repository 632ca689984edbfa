"""`teucer devices`: the devices, one a line."""

import teucer as jax


def devices() -> int:
    """Print all devices of the default platform, with their kind and, where the platform tells it, their memory."""
    for device in jax.devices():
        print(describe(device))
    return 0


def describe(device: jax.Device) -> str:
    """One line about a device, such as 'cpu:0  cpu'; memory in GiB."""
    stats = device.memory_stats() or {}
    memory = f"  {stats['bytes_limit'] / 2**30:.1f} GiB" if "bytes_limit" in stats else ""
    return f"{device.platform}:{device.id}  {device.device_kind}{memory}"
