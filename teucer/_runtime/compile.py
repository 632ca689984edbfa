"""Compilation of StableHLO text, and its caches: in memory by text, and on disk."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from teucer._base import config, memo
from teucer._runtime import cpu_features
from teucer._xla import client as xla

__all__ = ["cache_dir", "clear_memory", "compile_module"]

_memory: dict[Any, Any] = {}


def compile_module(text: str, devices: Sequence[Any], *, num_replicas: int = 1, use_shardy: bool = False,
                   overrides: Mapping[str, Any] | None = None, callbacks: Sequence[Any] = ()) -> Any:
    """The executable of a StableHLO module on the given devices.

    overrides: XLA debug options by name. callbacks: Python functions that the module calls; such a module is not cached.
    Raises the compiler's error if XLA refuses the module or an option.
    """
    ids = tuple(d.id for d in devices)
    options = tuple(sorted((overrides or {}).items()))
    if callbacks:
        build = xla.compile_options(ids, num_replicas=num_replicas, use_shardy=use_shardy, overrides=dict(options))
        return xla.compile_text(devices[0].client, text, xla.DeviceList(tuple(devices)), build, callbacks)
    key = (text, devices[0].platform, ids, num_replicas, use_shardy, options)
    found = _memory.get(key)
    if found is None:
        found = _load_or_compile(text, devices, ids, num_replicas, use_shardy, dict(options))
        found = memo.remember(_memory, key, found)
    return found


def clear_memory() -> None:
    """Forget the executables that are kept in memory."""
    _memory.clear()


def _load_or_compile(text: str, devices: Sequence[Any], ids: tuple[int, ...], num_replicas: int, use_shardy: bool,
                     overrides: dict[str, Any]) -> Any:
    client = devices[0].client
    options = xla.compile_options(ids, num_replicas=num_replicas, use_shardy=use_shardy, overrides=overrides)
    device_list = xla.DeviceList(tuple(devices))
    path = _path(text, devices, options)
    if path is not None:
        loaded = _load(path, client, device_list, options)
        if loaded is not None:
            return loaded
    executable = xla.compile_text(client, text, device_list, options)
    if path is not None:
        _store(path, executable)
    return executable


def cache_dir() -> Path | None:
    """The folder of the disk cache; None if it is off."""
    if not config.config.jax_enable_compilation_cache:
        return None
    chosen = config.config.teucer_cache_dir
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "teucer"


def _path(text: str, devices: Sequence[Any], options: Any) -> Path | None:
    folder = cache_dir()
    if folder is None:
        return None
    digest = hashlib.sha256()
    first = devices[0]
    flags = os.environ.get("XLA_FLAGS", "")
    for part in (xla.jaxlib_version, first.platform, first.device_kind, first.client.platform_version,
                 cpu_features.host() if first.platform == "cpu" else "", flags, text):
        digest.update(part.encode())
        digest.update(b"\0")
    digest.update(options.SerializeAsString())
    return folder / f"{digest.hexdigest()}.xla"


def _load(path: Path, client: Any, devices: Any, options: Any) -> Any:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if len(data) < 32 or hashlib.sha256(data[32:]).digest() != data[:32]:
        return None
    try:
        executable = xla.deserialize(client, data[32:], devices, options)
        os.utime(path)
        return executable
    except (xla.XlaRuntimeError, OSError):
        return None


def _store(path: Path, executable: Any) -> None:
    """Write an entry whole or not at all. A cache that cannot be written is a slower program, not an error."""
    try:
        data = executable.serialize()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(data).digest() + data)
        os.replace(name, path)
    except (xla.XlaRuntimeError, OSError):
        return
