"""Backends and devices: which platforms there are, made on first use."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from teucer._base import config
from teucer._core.provided import provided
from teucer._devices import processes
from teucer._xla import client as xla

# Platforms by their public names; a name on the left also answers to those on the right.
_ALIASES = {"gpu": ("cuda", "rocm")}
# The default platform is the first of these that there is.
_PREFERENCE = ("tpu", "cuda", "rocm", "cpu")
# Users' platforms of a higher priority come before platforms of plugins.
_PLUGIN_PRIORITY = 200

logger = logging.getLogger("teucer")

_lock = threading.RLock()


class Factory(NamedTuple):
    """The maker of a client for a platform that users register. quiet: whether the other platforms
    are used if it fails."""

    make: Callable[[], Any]
    priority: int
    quiet: bool


_clients: dict[str, Any] = {}
_factories: dict[str, Factory] = {}
_failures: dict[str, str] = {}
config.EarlyOption.too_late = staticmethod(lambda: bool(_clients))


def platforms_called(name: str) -> tuple[str, ...]:
    """The platforms that a name stands for, one or several.

    >>> platforms_called("gpu"), platforms_called("cpu")
    (('cuda', 'rocm'), ('cpu',))
    """
    return _ALIASES.get(name, (name,))


def backends() -> dict[str, Any]:
    """The clients by platform name, the default one first."""
    if not _clients:
        with _lock:
            if not _clients:
                _clients.update(_make_clients())
    return _clients


def _make_clients() -> dict[str, Any]:
    from teucer._devices import hardware  # here and below: `import teucer` would take longer
    from teucer._xla.platforms import lapack, plugins

    wanted = config.config.jax_platforms
    libraries = plugins.plugin_libraries() if wanted != "cpu" else {}
    asked = _expand(wanted or "", libraries)
    others = sorted(_factories, key=lambda name: -_factories[name].priority)
    first = [name for name in others if _factories[name].priority > _PLUGIN_PRIORITY]
    rest = [name for name in others if name not in first]
    names = asked or [
        *first,
        *sorted(libraries, key=_rank),
        *(n for n in rest if _factories[n].priority > 0),
        "cpu",
        *(n for n in rest if _factories[n].priority <= 0),
    ]
    made: dict[str, Any] = {}
    for name in names:
        missing = None if asked or name in _factories else hardware.lacks(name)
        if missing is not None:
            _failures[name] = missing
            continue
        try:
            client = (
                _factories[name].make() if name in _factories else _make_client(name, libraries)
            )
            if client is not None:
                made[name] = client
            else:
                _failures[name] = "its function found no such hardware"
        except Exception as err:
            if name == "cpu" and not isinstance(err, RuntimeError):
                raise
            _failures[name] = str(err)
            if asked or name == "cpu" or (name in _factories and not _factories[name].quiet):
                raise RuntimeError(
                    f"Unable to initialize backend '{name}': {err}\n  The option jax_platforms is "
                    f"{wanted!r}; the plugins found are {sorted(libraries)}."
                ) from err
            logger.warning(
                "Unable to initialize backend '%s': %s\n  JAX_PLATFORMS=cpu leaves it alone.",
                name,
                err,
            )
    lapack.register()
    return made


def _make_client(name: str, libraries: dict[str, str]) -> Any:
    if name == "cpu":
        return _cpu()
    if name not in libraries:
        raise RuntimeError("no plugin for this platform is installed.")
    from teucer._devices import hardware  # as above

    hardware.quiet(name)
    return xla.plugin_client(name, libraries[name], _plugin_options(name))


def _plugin_options(name: str) -> dict[str, Any]:
    """The options of a plugin's client: from jax_pjrt_client_create_options, and which GPUs to
    use."""
    given = config.config.jax_pjrt_client_create_options or {}
    if isinstance(given, str):
        given = dict(pair.split(":", 1) for pair in filter(None, given.split(";")))
    options = dict(given)
    visible = config.config.jax_cuda_visible_devices
    if name == "cuda" and visible != "all":
        try:
            options["visible_devices"] = [int(number) for number in visible.split(",")]
        except ValueError:
            raise RuntimeError(
                "jax_cuda_visible_devices is 'all' or numbers of GPUs with commas, got "
                f"{visible!r}."
            ) from None
    return options


def _rank(name: str) -> int:
    return _PREFERENCE.index(name) if name in _PREFERENCE else -1


def _expand(wanted: str, libraries: dict[str, str]) -> list[str]:
    names: list[str] = []
    for name in filter(None, wanted.split(",")):
        choices = [
            n
            for n in (name, *_ALIASES.get(name, ()))
            if n in libraries or n in _factories or n == "cpu"
        ]
        names.append(choices[0] if choices else name)
    return names


def _cpu() -> Any:
    count = config.config.jax_num_cpu_devices
    if count == 0:
        raise RuntimeError(
            "the option jax_num_cpu_devices is 0, and there must be a device; -1: as XLA_FLAGS "
            "says."
        )
    if config.config.teucer_keep_memory:
        provided.target("cpu").keep_memory()
    return xla.cpu_client(
        count if count > 0 else None,
        asynchronous=config.config.jax_cpu_enable_async_dispatch,
        **processes.state.cpu_options,
    )


def register_factory(name: str, factory: Factory) -> None:
    """Have a platform made by a function, the next time that backends are made."""
    _factories[name] = factory


def client_of(platform: Any = None) -> Any:
    """The client for a platform name, a client itself, or the default client for None.

    Raises RuntimeError if there is no such platform.
    """
    if platform is not None and not isinstance(platform, str):
        return platform
    clients = backends()
    if platform is None:
        platform = config.platform_name.value
        if not platform:
            return next(iter(clients.values()))
    for name in (platform, *_ALIASES.get(platform, ())):
        if name in clients:
            return clients[name]
    failed = [n for n in (platform, *_ALIASES.get(platform, ())) if n in _failures]
    why = f": {_failures[failed[0]]}" if failed else ""
    from teucer._advice import mistakes  # of errors alone

    raise RuntimeError(
        f"Unknown backend {platform}{why}. Available backends are {list(clients)}."
        + ("" if why else mistakes.on_platform(platform))
    )


def clear_backends() -> None:
    """Forget all clients; arrays made by them stay valid."""
    with _lock:
        _clients.clear()
        _failures.clear()


def devices(backend: object = None) -> list[Any]:
    """All devices of a platform, including other processes' devices.

    backend: a platform name ('cpu', 'gpu', 'tpu', ...) or None for the default one.
    Raises RuntimeError if the platform is not there.

    >>> devices("cpu")[0].platform
    'cpu'
    """
    return list(client_of(backend).devices())


def device_count(backend: object = None) -> int:
    """Number of devices of all processes."""
    return int(client_of(backend).device_count())


def local_devices(
    process_index: int | None = None, backend: object = None, host_id: int | None = None
) -> list[Any]:
    """The devices of one process, by default of this one.

    Raises ValueError if there is no process of that index.
    """
    client = client_of(backend)
    index = process_index if process_index is not None else host_id
    if index is None:
        index = client.process_index()
    found = [d for d in client.devices() if d.process_index == index]
    if not found:
        raise ValueError(
            f"local_devices: unknown process_index {index}.\n"
            f"  There are {process_count(client)} processes."
        )
    return found


def local_device_count(backend: object = None) -> int:
    """Number of devices of this process."""
    return int(client_of(backend).local_device_count())


def process_index(backend: object = None) -> int:
    """The index of this process; 0 where there is one."""
    return int(client_of(backend).process_index())


def process_count(backend: object = None) -> int:
    """Number of processes that have devices."""
    return max(int(d.process_index) for d in client_of(backend).devices()) + 1


def process_indices(backend: object = None) -> list[int]:
    """The indices of all processes."""
    return list(range(process_count(backend)))


host_id, host_count, host_ids = process_index, process_count, process_indices


def default_backend() -> str:
    """The platform name of the default backend: 'cpu', 'gpu' or 'tpu'."""
    platform = str(client_of().platform)
    return "gpu" if platform in _ALIASES["gpu"] else platform


def target_device(platform: object = None) -> Any:
    """The device on which uncommitted values live: the option jax_default_device, else the first
    device."""
    if platform is None:
        chosen = config.default_device.value
        if chosen is not None:
            return client_of(chosen).local_devices()[0] if isinstance(chosen, str) else chosen
    return client_of(platform).local_devices()[0]
