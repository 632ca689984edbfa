"""Backends: the clients of the platforms."""

from __future__ import annotations

from typing import Any

from teucer._devices import backends as _backends
from teucer._devices.backends import clear_backends

__all__ = ["backends", "clear_backends", "get_backend", "get_default_device"]


def backends() -> dict[str, Any]:
    """The backends by platform.

    >>> "cpu" in backends()
    True
    """
    return _backends.backends()


def get_backend(platform: Any = None) -> Any:
    """The backend of a platform, such as 'cpu'; the default one if None.

    Raises RuntimeError if there is none.

    >>> get_backend("cpu").platform
    'cpu'
    """
    return _backends.client_of(platform)


def get_default_device() -> Any:
    """The device on which programs run that name none: that of `jax_default_device`, else the first.

    >>> import teucer as jax
    >>> get_default_device() in jax.devices()
    True
    """
    return _backends.target_device()
