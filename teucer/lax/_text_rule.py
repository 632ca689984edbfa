"""Lowering rules that write text, for those who call them with contexts of either kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, final

from teucer._lower.context import Context
from teucer._lower.value import Value


class Bound(Protocol):
    """The context of a rule that builds with MLIR's bindings."""

    def through(
        self, write: Callable[..., Sequence[Value]], *values: object, **params: object
    ) -> Sequence[object]:
        """Call what a rule for `Context` writes, on values of MLIR."""


@final
class TextRule:
    """A lowering rule that is written for `Context`.

    A rule that builds operations with MLIR's bindings may call it too: its context has `through`,
    which puts what the rule writes into a function and calls it.
    """

    __slots__ = ("__weakref__", "write")

    def __init__(self, write: Callable[..., Sequence[Value]]) -> None:
        self.write = write

    def __call__(self, ctx: Context | Bound, *values: object, **params: object) -> Sequence[object]:
        if isinstance(ctx, Context):
            return tuple(self.write(ctx, *values, **params))
        return ctx.through(self.write, *values, **params)
