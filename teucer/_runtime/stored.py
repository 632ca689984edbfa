"""What the cache on disk keeps of an executable: a lean form to load (`lean`), and the whole, compressed, to be read."""

from __future__ import annotations

import zlib
from typing import Any

from teucer._runtime import host_memory
from teucer._runtime.lean import without_bodies
from teucer._xla import client as xla

__all__ = ["load", "pack", "whole"]

# Bytes of executables from which on it gains: less is loaded in a few milliseconds.
LEAST = 1 << 16
_HEADER = 8


def pack(data: bytes, platform: str) -> bytes:
    """The content of an entry: length of the lean form, lean form, whole; zero and the whole where it would leave nothing out."""
    lean = without_bodies(data) if platform == "cpu" and len(data) >= LEAST else None
    if lean is None or len(lean) == len(data):
        return bytes(_HEADER) + data
    return len(lean).to_bytes(_HEADER, "little") + lean + zlib.compress(data, 1)


def whole(content: bytes) -> bytes:
    """What XLA wrote."""
    lean, rest = _parts(content)
    return zlib.decompress(rest) if lean else rest


def load(content: bytes, client: Any, devices: Any, options: Any) -> Any:
    """The executable of the runtime, without the instructions within fusions if there is a lean form.

    Raises the runtime's error if it cannot be loaded.
    """
    lean, rest = _parts(content)
    with host_memory.joining():
        return xla.deserialize(client, lean or rest, devices, options)


def _parts(content: bytes) -> tuple[bytes, bytes]:
    end = _HEADER + int.from_bytes(content[:_HEADER], "little")
    return content[_HEADER:end], content[end:]
