"""The form of an entry in a store: magic, signature, checksum, content.

Signature and checksum cover the entry's name, so that no entry stands for another. The signature of
an unsigned entry is zero.
"""

from __future__ import annotations

import hashlib
import hmac

from teucer._executables.remote.keys import Key

_MAGIC = b"teucer-remote-1\0"
_DIGEST = 32
_UNSIGNED = bytes(_DIGEST)
OVERHEAD = len(_MAGIC) + 2 * _DIGEST


class Refused(Exception):
    """An entry that is not used, and why."""


def sealed(name: str, content: bytes, key: Key | None) -> bytes:
    """The bytes that a store keeps for an entry; signed, if there is a key."""
    about = _about(name)
    signature = _UNSIGNED if key is None else key.signature(content, about)
    return b"".join((_MAGIC, signature, _checksum(about, content), content))


def opened(name: str, data: bytes, key: Key | None, unsigned: bool) -> bytes:
    """The content of an entry that a store has given.

    unsigned: whether unsigned entries, or entries whose signature cannot be checked without a
    key, may be used.
    Raises Refused if the entry is damaged, or not signed with the key.
    """
    view = memoryview(data)
    if view[: len(_MAGIC)] != _MAGIC or len(data) < OVERHEAD:
        raise Refused("it is no entry of a cache, or one of another version")
    signature = bytes(view[len(_MAGIC) :][:_DIGEST])
    content, about = view[OVERHEAD:], _about(name)
    if view[OVERHEAD - _DIGEST : OVERHEAD] != _checksum(about, content):
        raise Refused("it is damaged: its checksum does not fit")
    if key is None:
        if not unsigned:
            raise Refused("there is no key to check its signature by")
    elif signature == _UNSIGNED:
        if not unsigned:
            raise Refused("it is not signed")
    elif not hmac.compare_digest(signature, key.signature(content, about)):
        raise Refused("its signature does not fit the key")
    return bytes(content)


def _about(name: str) -> bytes:
    return _MAGIC + name.encode() + b"\0"


def _checksum(about: bytes, content: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(about)
    digest.update(content)
    return digest.digest()
