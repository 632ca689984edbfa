"""Named axes in force: those that `vmap(axis_name=...)` and `shard_map` bring, for collectives."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

__all__ = ["axis_key", "axis_size", "extended"]


class _Axes(threading.local):
    sizes: Mapping[Any, Any] = {}


_axes = _Axes()


def axis_key() -> tuple[Any, ...]:
    """The axes in force as a hashable key."""
    return tuple(_axes.sizes.items()) if _axes.sizes else ()


def axis_size(name: Any) -> Any:
    """The size of a named axis.

    Raises NameError if no such axis is in force.
    """
    try:
        return _axes.sizes[name]
    except KeyError:
        known = ", ".join(map(repr, _axes.sizes)) or "none"
        raise NameError(f"Found an unbound axis name: {name}. The following axis names are available: {known}.\n"
                        "  An axis is named by vmap(..., axis_name=...) or by a mesh under shard_map.") from None


class extended:
    """Add named axes in a `with` block."""

    __slots__ = ("new", "saved")

    def __init__(self, new: Mapping[Any, Any]) -> None:
        self.new = new

    def __enter__(self) -> None:
        self.saved = _axes.sizes
        if self.new:
            _axes.sizes = {**self.saved, **self.new}

    def __exit__(self, *exc: object) -> None:
        _axes.sizes = self.saved
