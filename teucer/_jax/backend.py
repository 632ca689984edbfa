"""Backends: the clients of the platforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from teucer._derived.caches import register
from teucer._devices import backends as made
from teucer._executables.compile import clear_memory
from teucer._xla import client as xla


def backends() -> dict[str, Any]:
    """The backends by platform.

    >>> "cpu" in backends()
    True
    """
    return made.backends()


def get_backend(platform: object = None) -> Any:
    """The backend of a platform, such as 'cpu'; the default one if None.

    Raises RuntimeError if there is none.

    >>> get_backend("cpu").platform
    'cpu'
    """
    return made.client_of(platform)


def get_default_device() -> Any:
    """The device of programs that name none: `jax_default_device`, else the first.

    >>> import teucer as jax
    >>> get_default_device() in jax.devices()
    True
    """
    return made.target_device()


def backend_xla_version(platform: object = None) -> int | None:
    """The version of XLA in the plugin of a platform; None where the plugin does not say, and on
    the CPU.

    Raises RuntimeError if there is no such platform.

    >>> backend_xla_version("cpu")
    """
    return getattr(get_backend(platform), "xla_version", None)


def clear_in_memory_compilation_cache() -> None:
    """Forget the executables that are kept in memory by their text. Executables held by functions
    stay."""
    clear_memory()


def get_compile_options(
    num_replicas: int,
    num_partitions: int,
    device_assignment: object = None,
    env_options_overrides: Mapping[str, Any] | None = None,
    fdo_profile: bytes | None = None,
    detailed_logging: bool = True,
    backend: object = None,
) -> Any:
    """The options by which a client compiles a program: `CompileOptions` of jaxlib.

    device_assignment: numbers of devices, int[replicas, partitions] or, for one partition,
    int[replicas].
    env_options_overrides: XLA's debug options by name. fdo_profile: a profile that guides the
    compiler.
    detailed_logging: whether the compiler may log the program. backend: accepted for programs
    written for JAX. Raises ValueError if the assignment has another shape, and the runtime's error
    for an option that is not known.

    >>> get_compile_options(1, 2).num_partitions
    2
    """
    ids = None
    if device_assignment is not None:
        ids = np.asarray(device_assignment)
        ids = ids[:, None] if ids.ndim == 1 and num_partitions == 1 else ids
        if ids.shape != (num_replicas, num_partitions):
            raise ValueError(
                "device_assignment does not match num_replicas and num_partitions: "
                f"{device_assignment} vs {num_replicas}, {num_partitions}."
            )
    return xla.raw_options(
        num_replicas,
        num_partitions,
        ids,
        overrides=env_options_overrides or {},
        profile=fdo_profile,
        log=detailed_logging,
    )


def register_backend_cache(cache: Any, for_what: str) -> None:
    """Have a cache forgotten when `clear_backends` or `jax.clear_caches` forgets programs.

    cache: has `cache_clear()`, as what `functools.lru_cache` returns. for_what: a name, for errors.
    Raises TypeError for another object.
    """
    if not callable(getattr(cache, "cache_clear", None)):
        raise TypeError(
            f"register_backend_cache: the cache for {for_what!r} has no method cache_clear: "
            f"{cache!r:.100}"
        )
    register(cache.cache_clear)


def register_backend_factory(
    name: str,
    factory: Callable[[], Any],
    *,
    priority: int = 0,
    fail_quietly: bool = True,
    experimental: bool = False,
    make_topology: object = None,
    c_api: object = None,
) -> None:
    """Have a platform made by a function, when backends are made for the next time.

    factory: returns a client of jaxlib, or None where there is no such hardware. priority: of the
        default platform; CUDA has 200, the CPU 0. fail_quietly: whether the other platforms do
        where the function raises, and the option jax_platforms is not set. experimental,
        make_topology, c_api: accepted for programs written for JAX.
    Raises TypeError for an object that is no function.
    """
    if not callable(factory):
        raise TypeError(
            "register_backend_factory: factory must be a function that returns a client, got "
            f"{factory!r}"
        )
    made.register_factory(name, made.Factory(factory, priority, fail_quietly))
