"""Compilation of StableHLO text, and its caches: in memory by text, and on disk."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from teucer._base import config, memo
from teucer._runtime import cpu_features, disk_cache
from teucer._xla import client as xla

__all__ = ["clear_memory", "compile_module", "executable_bytes"]

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


def executable_bytes(text: str, devices: Sequence[Any], *, overrides: Mapping[str, Any] | None = None) -> bytes:
    """What XLA writes of the executable of a module.

    It comes from the cache on disk, or from compiling anew: an executable that was loaded cannot be written again.
    Raises the runtime's error if the executable cannot be written.
    """
    options = xla.compile_options(tuple(d.id for d in devices), overrides=overrides)
    path = _path(text, devices, options)
    found = None if path is None else disk_cache.read(path)
    if found is None:
        found = xla.compile_text(devices[0].client, text, xla.DeviceList(tuple(devices)), options).serialize()
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
    found = None if path is None else disk_cache.read(path)
    if found is not None:
        with contextlib.suppress(xla.XlaRuntimeError):  # what does not load is compiled anew, and replaced
            return xla.deserialize(client, found, device_list, options)
    start = time.perf_counter()
    executable = xla.compile_text(client, text, device_list, options)
    if path is not None and time.perf_counter() - start >= config.persistent_cache_min_compile_time_secs.value:
        with contextlib.suppress(xla.XlaRuntimeError):  # some programs cannot be serialized
            disk_cache.write(path, executable.serialize())
    return executable


def _path(text: str, devices: Sequence[Any], options: Any) -> Path | None:
    folder = disk_cache.cache_dir()
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
    return folder / (digest.hexdigest() + disk_cache.SUFFIX)
