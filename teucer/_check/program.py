"""The input of rules: a traced function with its graph, and the options of its `jit`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from teucer._base.source import Place
from teucer._check.findings import Line
from teucer._check.graph import Graph, Value
from teucer._check.lines import line_of_function
from teucer._derived.stages import Traced
from teucer._trees import pytrees


class Found(NamedTuple):
    """A result of a rule: a number, the fault, its place, and the remedy.

    at: an equation's place, a value, or a line.
    """

    number: str
    message: str
    at: Place | Value | Line | None
    remedy: str


class Settings(NamedTuple):
    """The options of a check beside the function."""

    memory: float | None = None  # bytes of a device
    compiled: bool = False  # whether the compiler may be asked
    called: bool = False  # whether the function is one that a program calls


class Program:
    """A traced function."""

    def __init__(
        self,
        fun: Callable[..., object],
        traced: Traced,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        settings: Settings,
    ) -> None:
        self.fun, self.traced, self.settings = fun, traced, settings
        self.args, self.kwargs = args, kwargs
        self.jaxpr = traced.jaxpr
        self.names = traced.arg_names

    @functools.cached_property
    def graph(self) -> Graph:
        return Graph(self.jaxpr, self.names)

    @property
    def leaves(self) -> list[Any]:
        """The arguments, flat."""
        return pytrees.tree_leaves((self.args, self.kwargs))

    @property
    def donated(self) -> tuple[bool, ...]:
        """Which arguments are donated."""
        return tuple(self.traced.staged.donated[len(self.traced.staged.consts) :])

    @property
    def line(self) -> Line | None:
        """Where the function is defined."""
        return line_of_function(self.fun)


Rule: TypeAlias = Callable[[Program], Iterator[Found]]
