"""`teucer devices`: the devices, one a line."""

import teucer as jax
from teucer.cli._errors import CommandError


def devices() -> int:
    """Print all devices of the default platform, with their kind and, where the platform tells it,
    their memory."""
    for device in found():
        print(describe(device))
    return 0


def found() -> list[jax.Device]:
    """The devices. Raises CommandError where a platform that was asked for is not there."""
    try:
        return jax.devices()
    except RuntimeError as err:
        raise CommandError(str(err)) from err


def describe(device: jax.Device) -> str:
    """One line about a device, such as 'cpu:0  cpu'; memory in GiB."""
    stats = device.memory_stats() or {}
    memory = f"  {stats['bytes_limit'] / 2**30:.1f} GiB" if "bytes_limit" in stats else ""
    return f"{device.platform}:{device.id}  {device.device_kind}{memory}"
