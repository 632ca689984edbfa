"""Named axes in force: those that `vmap(axis_name=...)` and `shard_map` bring, for collectives."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any


class _Axes(threading.local):
    sizes: Mapping[Any, Any] = {}
    manual: frozenset[Any] = frozenset()
    places: Mapping[Any, int] = {}


_axes = _Axes()


def axis_key() -> tuple[Any, ...]:
    """The axes in force as a hashable key."""
    return (*_axes.sizes.items(), _axes.manual, *_axes.places.items()) if _axes.sizes else ()


def axes_in_force() -> tuple[Any, ...]:
    """The names of the axes in force, the outermost first."""
    return tuple(_axes.sizes)


def manual_axes() -> frozenset[Any]:
    """The axes in force that are axes of a mesh, which `shard_map` brings."""
    return _axes.manual


def known_place(name: object) -> int | None:
    """The place along a named axis, where a program is traced for each place; None where all have
    one program."""
    return _axes.places.get(name)


def axis_size(name: object, op: str = "the collective") -> Any:
    """The size of a named axis. op: what asks for it, for messages.

    Raises NameError if no such axis is in force.
    """
    try:
        return _axes.sizes[name]
    except KeyError:
        known = ", ".join(map(repr, _axes.sizes)) or "none"
        raise NameError(
            f"Found an unbound axis name: {name}. To fix this, please call {op} under "
            "`jax.shard_map`, or vmap(..., axis_name=...).\n"
            f"    The following axis names are available: {known}."
        ) from None


class extended:
    """Add named axes in a `with` block; manual ones are axes of a mesh. places: where along them
    this is, if it is known."""

    __slots__ = ("manual", "new", "places", "saved")

    def __init__(
        self,
        new: Mapping[object, object],
        manual: bool = False,
        places: Mapping[object, int] | None = None,
    ) -> None:
        self.new, self.manual, self.places = new, manual, places or {}

    def __enter__(self) -> None:
        self.saved = _axes.sizes, _axes.manual, _axes.places
        if self.places or _axes.places:
            _axes.places = {
                **{k: i for k, i in _axes.places.items() if k not in self.new},
                **self.places,
            }
        if self.new:
            _axes.sizes = {**_axes.sizes, **self.new}
            _axes.manual = (
                _axes.manual.union(self.new) if self.manual else _axes.manual.difference(self.new)
            )

    def __exit__(self, *exc: object) -> None:
        _axes.sizes, _axes.manual, _axes.places = self.saved
