"""Effects: the actions of a program besides computing its results."""

from __future__ import annotations

from typing import NamedTuple


class Effect(NamedTuple):
    """An effect: its kind ('debug', 'io', or 'library' for effects of libraries), and whether such
    effects keep the program's order."""

    kind: str = "library"
    ordered: bool = False

    def __str__(self) -> str:
        return f"{'Ordered' if self.ordered else ''}{self.kind.capitalize()}"


# It keeps an equation from being dead; nothing happens while the program runs.
DCE_SINK = Effect("dce sink")


class EffectTypes:
    """Classes of effects that libraries name to a transformation. All effects are taken; that they
    name theirs does no harm."""

    def __init__(self) -> None:
        self._types: set[type] = set()

    def add_type(self, effect_type: type) -> None:
        """Add a class."""
        self._types.add(effect_type)

    def contains(self, effect: object) -> bool:
        """Whether an effect is of one of the classes."""
        return isinstance(effect, tuple(self._types))
