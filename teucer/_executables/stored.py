"""The form in which the cache on disk keeps an executable.

A form that loads faster, where the target has one, and the whole, compressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from teucer._core.provided import provided
from teucer._xla import client as xla

_HEADER = 8


def pack(data: bytes, platform: str) -> bytes:
    """The content of an entry: how long the stripped form is, that form, the whole; zero and the
    whole if nothing is left out."""
    stripped: bytes | None = provided.target(platform).pack(data)
    if stripped is None or len(stripped) == len(data):
        return bytes(_HEADER) + data
    import zlib  # for executables of some size; also below

    return len(stripped).to_bytes(_HEADER, "little") + stripped + zlib.compress(data, 1)


def whole(content: bytes) -> bytes:
    """The bytes that XLA wrote."""
    stripped, rest = _parts(content)
    if not stripped:
        return rest
    import zlib

    return zlib.decompress(rest)


def load(
    content: bytes, client: Any, devices: Any, options: Any, callbacks: Sequence[Any] = ()
) -> Any:
    """The executable of the runtime, without the instructions within fusions if there is a stripped
    form.

    Raises the runtime's error if it cannot be loaded.
    """
    stripped, rest = _parts(content)
    with provided.target(client.platform).loading():
        return xla.deserialize(client, stripped or rest, devices, options, callbacks)


def _parts(content: bytes) -> tuple[bytes, bytes]:
    end = _HEADER + int.from_bytes(content[:_HEADER], "little")
    return content[_HEADER:end], content[end:]
