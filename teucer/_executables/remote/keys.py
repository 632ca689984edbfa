"""The key of a team, which identifies the team's own entries."""

from __future__ import annotations

import os
from typing import final

from teucer._executables import disk_cache

KEY, KEY_FILE = "TEUCER_CACHE_KEY", "TEUCER_CACHE_KEY_FILE"
_SHORTEST = 16  # characters: who can read entries could try all shorter ones


class UnusableKey(Exception):
    """A key that cannot be used, and why. The text does not hold the key."""


@final
class Key:
    """A secret key. Its repr does not show the secret."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def __repr__(self) -> str:
        return "Key(...)"

    def __reduce__(self) -> str:
        raise TypeError("keys are not written anywhere")

    def signature(self, data: bytes | memoryview, about: bytes) -> bytes:
        """HMAC-SHA256 of `about` and the data (RFC 2104)."""
        import hmac

        signing = hmac.new(self._secret, about, "sha256")
        signing.update(data)
        return signing.digest()


def team_key() -> Key | None:
    """The key that the environment holds, or names a file of; None if it does neither.

    Raises UnusableKey.
    """
    secret, where = os.environ.get(KEY, "").strip().encode(), KEY
    file = os.environ.get(KEY_FILE, "")
    if not secret and file:
        secret, where = _in_file(file), f"{KEY_FILE} ({file})"
    if not secret:
        return None
    if len(secret) < _SHORTEST:
        raise UnusableKey(f"{where}: the key has fewer than {_SHORTEST} characters")
    return Key(secret)


def _in_file(name: str) -> bytes:
    try:
        with open(os.path.expanduser(name), "rb") as file:
            if not disk_cache.is_ours(os.fstat(file.fileno())):
                raise UnusableKey(f"{KEY_FILE} ({name}): others may write this file")
            secret = file.read(1 << 16).strip()
    except OSError as err:
        raise UnusableKey(f"{KEY_FILE} ({name}): {err.strerror}") from None
    if not secret:
        raise UnusableKey(f"{KEY_FILE} ({name}): the file is empty")
    return secret
