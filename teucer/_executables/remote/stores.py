"""Where a team keeps entries: whatever fsspec can reach, and folders of web servers, read-only."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, Protocol, final

NAME = re.compile(r"[0-9a-f]{64}\.xla")
_FIRST = 1 << 20  # bytes of the first request, which suffices for most entries
_CHUNK = 8 << 20
_DRIVERS = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs"}
# Stores in which an object appears as a whole. Elsewhere it is written beside, and moved.
_WHOLE = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "oci", "memory"})


class Unusable(Exception):
    """A store that cannot be used; the message has the remedy."""


class Store(Protocol):
    """Named entries, stored elsewhere. Methods raise the exceptions of the library beneath."""

    writable: bool

    def get(self, name: str, most: int, received: Callable[[int], None]) -> bytes | None:
        """The bytes of an entry; None if the store has no entry of that name.

        received: called with the number of bytes that have come so far. Raises OSError if an entry
        has more than `most` bytes.
        """

    def put(self, name: str, data: bytes) -> None:
        """Write an entry, which others see as a whole or not at all."""

    def sizes(self) -> dict[str, int]:
        """The names of all entries, with their sizes in bytes; 0 where those are not known."""


def open_store(address: str, seconds: float) -> Store:
    """The store at an address. seconds: how long a web server may be silent.

    Raises Unusable, or an exception of the library beneath.
    """
    scheme = address.partition("://")[0].lower()
    return _Web(address, seconds) if scheme in ("http", "https") else _Files(address, scheme)


def shown(text: str, address: str = "") -> str:
    """A text without the secrets that addresses may hold: users, passwords, and all after a
    question mark."""
    for part in (address, *address.split("?")[1:]):
        if part:
            text = text.replace(part, shown(part) if part == address else "...")
    text = re.sub(r"(?<=://)[^/\s@]+@", "...@", text)
    return re.sub(r"(\b\w[\w+.-]*://[^\s?]*)\?\S+", r"\1?...", text)


@final
class _Files:
    """A folder of a file system of fsspec's."""

    writable = True

    def __init__(self, address: str, scheme: str) -> None:
        driver = _DRIVERS.get(scheme, "")
        try:
            import fsspec
        except ImportError:
            raise Unusable(
                f"fsspec is not installed. Install it: pip install {f'fsspec {driver}'.strip()}"
            ) from None
        try:
            self._fs, root = fsspec.core.url_to_fs(
                address, use_listings_cache=False, skip_instance_cache=True
            )
        except ImportError as err:
            advice = f" Install it: pip install {driver}" if driver else ""
            raise Unusable(f"{err}.{advice}") from None
        self._root = str(root).rstrip("/")
        self._whole = scheme in _WHOLE

    def get(self, name: str, most: int, received: Callable[[int], None]) -> bytes | None:
        """As `Store.get`: a small entry takes one request."""
        path = f"{self._root}/{name}"
        try:
            data = self._part(path, 0, _FIRST)
            received(len(data))
            if len(data) < _FIRST:
                return data
            size = int(self._fs.info(path)["size"])
            if size > most:
                raise OSError(f"{name} has {size} bytes, which is more than the cache may have")
            parts = [data]
            for start in range(_FIRST, size, _CHUNK):
                parts.append(self._part(path, start, min(start + _CHUNK, size)))
                received(len(parts[-1]))
            return b"".join(parts)
        except FileNotFoundError:
            return None

    def _part(self, path: str, start: int, end: int) -> bytes:
        try:
            return bytes(self._fs.cat_file(path, start=start, end=end))
        except FileNotFoundError:
            raise
        except Exception:
            if start == 0 and self._fs.info(path)["size"] == 0:  # which has no range
                return b""
            raise

    def put(self, name: str, data: bytes) -> None:
        """As `Store.put`."""
        path = f"{self._root}/{name}"
        if self._whole:
            self._fs.pipe_file(path, data)
            return
        beside = f"{self._root}/.new-{os.urandom(8).hex()}"
        self._fs.makedirs(self._root, exist_ok=True)
        try:
            self._fs.pipe_file(beside, data)
            self._fs.mv(beside, path)
        except Exception:
            if self._fs.exists(beside):
                self._fs.rm_file(beside)
            raise

    def sizes(self) -> dict[str, int]:
        """As `Store.sizes`."""
        self._fs.invalidate_cache()
        try:
            rows: list[dict[str, Any]] = self._fs.ls(self._root, detail=True)
        except FileNotFoundError:
            return {}
        named = ((row["name"].rstrip("/").rpartition("/")[2], row["size"]) for row in rows)
        return {name: int(size or 0) for name, size in named if NAME.fullmatch(name)}


@final
class _Web:
    """A folder of a web server, by the standard library alone."""

    writable = False

    def __init__(self, address: str, seconds: float) -> None:
        from urllib.parse import unquote, urlsplit

        parts = urlsplit(address)
        self._headers = {"User-Agent": "teucer"}
        if parts.username is not None:
            import base64

            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        self._parts = parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="")
        self._seconds = seconds

    def get(self, name: str, most: int, received: Callable[[int], None]) -> bytes | None:
        """As `Store.get`."""
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        path = f"{self._parts.path.rstrip('/')}/{name}"
        request = Request(self._parts._replace(path=path).geturl(), headers=self._headers)
        parts, size = [], 0
        try:
            with urlopen(request, timeout=self._seconds) as response:
                while data := response.read1(_CHUNK):
                    parts.append(data)
                    received(len(data))
                    size += len(data)
                    if size > most:
                        raise OSError(f"{name} has more bytes than the cache may have")
        except HTTPError as err:
            err.close()
            if err.code in (404, 410):
                return None
            raise OSError(f"the server answers {err.code} {err.reason}") from None
        return b"".join(parts)

    def put(self, name: str, data: bytes) -> None:
        """Raise PermissionError."""
        raise PermissionError("web servers are read only")

    def sizes(self) -> dict[str, int]:
        """As `Store.sizes`, of a server that answers with a page of links."""
        page = self.get("", 64 << 20, lambda _: None)
        return dict.fromkeys(NAME.findall((page or b"").decode(errors="replace")), 0)
