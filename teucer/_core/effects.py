"""What a program does besides computing its results."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DCE_SINK", "Effect"]


class Effect(NamedTuple):
    """An effect: its kind ('debug', 'io'; 'library' for those of libraries), and whether such effects keep the program's order."""

    kind: str = "library"
    ordered: bool = False

    def __str__(self) -> str:
        return f"{'Ordered' if self.ordered else ''}{self.kind.capitalize()}"


# It keeps an equation from being dead; nothing happens while the program runs.
DCE_SINK = Effect("dce sink")
