"""Python functions that XLA calls while it compiles: they divide calls among devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxlib import _jax

from teucer._xla.client import loaded_plugins, plugin_listeners, raised_while_compiling

_partitioners: dict[str, tuple[Any, ...]] = {}
_inspections: list[Any] = []


def register_partitioner(name: str, partition: Any) -> None:
    """Let `partition` decide what each device runs for calls of a target, with all plugins: loaded
    ones and later ones.

    It is given types, shardings and the name of the call, and returns a module as text, and
    shardings.
    """

    # Shardy does not ask the first and the last.
    rules = (lambda sharding, *rest: sharding, _recording(partition), lambda *args: args[1][0])
    _partitioners[name] = rules
    _jax.register_custom_call_partitioner(name, *rules, True)
    for plugin in loaded_plugins:
        _jax.register_custom_call_partitioner(name, *rules, True, c_api=plugin)


def inspection(tell: Callable[[Any], None]) -> str:
    """A name, for the text of a program, of a function that is told a sharding. The function lives
    as long as the process."""
    told = _recording(tell)
    _inspections.append(told)
    return "".join(f"\\{byte:02X}" for byte in _jax.encode_inspect_sharding_callback(told))


def _recording(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that XLA calls, whose exception is kept."""

    def recording(*args: Any) -> Any:
        try:
            return function(*args)
        except BaseException as err:
            raised_while_compiling.append(err)
            raise

    return recording


def _plugin_loaded(plugin: Any) -> None:
    """Let a plugin have the partitioners."""
    for name, rules in _partitioners.items():
        _jax.register_custom_call_partitioner(name, *rules, True, c_api=plugin)


plugin_listeners.append(_plugin_loaded)
