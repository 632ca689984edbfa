"""The primitives of lax, by name."""

from __future__ import annotations

from typing import Any

from teucer import lax
from teucer.lax import linalg

_MODULES = {name: module for module in (linalg, lax) for name in dir(module) if name.endswith("_p")}
__all__ = list(_MODULES)  # the names are strings, from the modules


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'teucer.extend.core.primitives' has no attribute {name!r}")
    return getattr(_MODULES[name], name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
