"""Lowering rules that write text, for those who call them with contexts of either kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from teucer._lower.context import Context

__all__ = ["TextRule"]


@final
class TextRule:
    """A lowering rule that is written for `Context`.

    A rule that builds operations with MLIR's bindings may call it too: its context has `through`, which puts
    what the rule writes into a function and calls it.
    """

    __slots__ = ("__weakref__", "write")

    def __init__(self, write: Callable[..., Sequence[Any]]) -> None:
        self.write = write

    def __call__(self, ctx: Any, *values: Any, **params: Any) -> Any:
        if type(ctx) is Context:
            return tuple(self.write(ctx, *values, **params))
        return ctx.through(self.write, *values, **params)
