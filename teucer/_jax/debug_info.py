"""Information that libraries give about the programs that they make: which transformation traces
them, and names of arguments and results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from teucer._core import debug_info


class _EveryDebugInfo(type):
    """Makes every DebugInfo of Teucer's an instance of the class under which libraries know
    them."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, debug_info.DebugInfo)


@final
class DebugInfo(debug_info.DebugInfo, metaclass=_EveryDebugInfo):
    """Names for messages about a program.

    traced_for: the transformation, such as 'jit'. func_src_info: the function, as 'name' or 'name
    at file:line'.
    arg_names: of the flat arguments. result_paths: paths of the flat results in the function's
    result, or a function that gives them.

    >>> DebugInfo("jit", "f at model.py:3", ("x",), ("result",)).func_lineno
    3
    """

    __slots__ = ("_result_paths", "_where")

    def __init__(
        self,
        traced_for: str,
        func_src_info: str,
        arg_names: Sequence[str] | None,
        result_paths: tuple[str, ...] | Callable[[], tuple[str, ...]] | None,
    ) -> None:
        name, _, self._where = func_src_info.partition(" at ")
        super().__init__(name, () if arg_names is None else tuple(arg_names), traced_for)
        self._result_paths = result_paths

    @property
    def where(self) -> str:
        """File and line of the function; '' if they are not known."""
        return self._where

    @property
    def result_paths(self) -> tuple[str, ...] | None:
        """Paths of the flat results in the function's result; None if they are not known."""
        return self._result_paths() if callable(self._result_paths) else self._result_paths
