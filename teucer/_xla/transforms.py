"""Passes over HLO that users give the compiler, by name and stage of XLA's pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxlib import _jax, _xla


def give(client: Any, name: str, stage: int, callback: Callable[[bytes], bytes | None]) -> None:
    """Have the compiler of a client's platform run a pass."""
    plugin = _plugin(client)
    if plugin is None:
        _xla.register_xla_transform(name, stage, callback)
    else:
        _xla.register_xla_transform_c_api(plugin, name, stage, callback)


def take_back(client: Any, name: str, stage: int) -> bool:
    """Have the compiler forget a pass; whether it had it."""
    plugin = _plugin(client)
    if plugin is None:
        return bool(_xla.clear_xla_transform(name, stage))
    return bool(_xla.clear_xla_transform_c_api(plugin, name, stage))


def _plugin(client: Any) -> Any:
    """The handle of a plugin's compiler: its C API, or in older versions of jaxlib the client; None
    for the CPU."""
    if client.platform == "cpu":
        return None
    find = getattr(_jax, "get_pjrt_plugin", None)
    return client if find is None else find(client.platform)
