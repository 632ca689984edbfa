"""Where equations come from, as readers of jaxprs see it.

A line of the user's program, and name scopes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from teucer._base.source import Place, describe, records
from teucer._core.names import NO_SCOPES, Transform, stack_text

if TYPE_CHECKING:
    from teucer._core.typing import Source


NOWHERE: tuple[Place | None, tuple[str, ...]] = (None, NO_SCOPES)


@dataclasses.dataclass(frozen=True)
class NameStack:
    """The name scopes, the outermost first.

    >>> str(NameStack(("model", "layer")).extend("norm"))
    'model/layer/norm'
    """

    stack: tuple[str, ...] = ()

    def extend(self, name: str) -> NameStack:
        """The scopes with one more inside."""
        return NameStack((*self.stack, name))

    def transform(self, name: str) -> NameStack:
        """The scopes with a transformation inside, whose name is written around the next scope.

        >>> str(NameStack(("model",)).transform("jvp").extend("layer"))
        'model/jvp(layer)'
        """
        return NameStack((*self.stack, Transform(name)))

    def __add__(self, other: NameStack) -> NameStack:
        return NameStack((*self.stack, *other.stack))

    def __radd__(self, other: Sequence[str]) -> NameStack:
        return NameStack((*other, *self.stack))

    def __getitem__(self, index: slice) -> NameStack:
        """A part of the scopes, by a slice."""
        return NameStack(self.stack[index])

    def __len__(self) -> int:
        return len(self.stack)

    def __str__(self) -> str:
        return stack_text(self.stack)


@dataclasses.dataclass(frozen=True)
class SourceInfo:
    """A place in the user's program (None if there is none), and the scopes in force there."""

    traceback: Any
    name_stack: NameStack

    def replace(
        self, *, traceback: object = None, name_stack: NameStack | None = None
    ) -> SourceInfo:
        """The same with another place, or other scopes, where they are given."""
        return SourceInfo(
            self.traceback if traceback is None else traceback,
            self.name_stack if name_stack is None else name_stack,
        )


def source_info(source: Source) -> SourceInfo:
    """The source of an equation spelled out."""
    place, scopes = source or NOWHERE
    return SourceInfo(place, NameStack(scopes))


def source_of(info: SourceInfo) -> Source:
    """The source of an equation, which `source_info` spells out."""
    return info.traceback, info.name_stack.stack


def where(source: Source, before: str = " at ") -> str:
    """The line of the source of an equation as text, after `before`; '' if it is not known."""
    place = source[0] if source is not None else None
    return before + describe(place) if records(place) else ""
