"""Programs compiled for devices that are not there: they can be read, and kept for a machine that
has the devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._devices.absent import refusal
from teucer._xla.platforms import absent

if TYPE_CHECKING:
    from teucer._executables.compile import Module, Source


@final
class AheadCode:
    """The executable of a module for devices that are not there; an `Executable` of those."""

    __slots__ = ("_code", "_devices", "_calls_python")

    source: Source = "compiled"
    entry = size = None  # on disk, where no executable of its kind can be read

    def __init__(self, code: object, devices: Sequence[object], *, calls_python: bool) -> None:
        self._code, self._devices, self._calls_python = code, devices, calls_python

    def load(self) -> Any:
        """The readable part of the executable. To run it raises RuntimeError."""
        return Unloaded(self._code, self._devices)

    def whole(self) -> Any:
        """The executable of the runtime."""
        return self._code

    def data(self) -> bytes:
        """The executable as bytes, written by XLA.

        Raises ValueError if it calls Python functions, which stay in this process.
        """
        if self._calls_python:
            raise ValueError(
                "serialize: the program calls Python functions (pure_callback, io_callback or "
                "debug.print), which cannot be kept with it. Take the calls out."
            )
        data: bytes = self.whole().serialize()
        return data


@final
class Unloaded:
    """An executable of the runtime without devices."""

    __slots__ = ("_code", "_devices")

    def __init__(self, code: object, devices: Sequence[object]) -> None:
        self._code, self._devices = code, devices

    def __getattr__(self, name: str) -> Any:
        if hasattr(self._code, name):
            return getattr(self._code, name)
        raise RuntimeError(refusal("This program was compiled for", self._devices))


def compiled(module: Module, options: object, callbacks: Sequence[object]) -> AheadCode:
    """A module compiled for devices of a topology.

    Raises ValueError for devices that are named twice, or are of several topologies.
    """
    devices = module.devices
    for device in devices:
        if devices.count(device) > 1:
            raise ValueError(
                f"compile: the device {device} is named {devices.count(device)} times among "
                f"{len(devices)}. Each place of a mesh needs a device of its own."
            )
        if device.client is not devices[0].client:
            raise ValueError(
                f"compile: the devices {devices[0]} and {device} are of two topologies. Take all "
                "devices of a program from one get_topology_desc."
            )
    code = absent.compiled(module.text, devices, options)
    return AheadCode(code, devices, calls_python=bool(callbacks))
