"""Names and places of users' functions, for messages."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any

from teucer._base.source import is_internal, known_files

UNKNOWN = "<unknown>"
"""The place of what is not defined in Python."""


def fun_name(fun: Callable[..., Any]) -> str:
    """The name of a function, through partials and bound methods."""
    if isinstance(fun, functools.partial):
        return fun_name(fun.func)
    name = getattr(fun, "__name__", None)
    return name if isinstance(name, str) and name else type(fun).__name__


def of_code(code: Any) -> Any:
    """A function made of a code object. It tells the place and the parameters of the code, and must
    not be called. None if `code` is no code object."""
    if not isinstance(code, CodeType):
        return None
    return FunctionType(code, {}, closure=tuple([CellType() for _ in code.co_freevars]))


def is_own(fun: Callable[..., Any]) -> bool:
    """Whether a function is Teucer's own."""
    file = getattr(getattr(fun, "__code__", None), "co_filename", "")
    return known_files[file] if file in known_files else is_internal(file)


def where(fun: Callable[..., Any]) -> str:
    """File and line of a function's definition, as far as known."""
    if isinstance(fun, functools.partial):
        return where(fun.func)
    code = definition(fun)
    return f"{code.co_filename}:{code.co_firstlineno}" if isinstance(code, CodeType) else UNKNOWN


def definition(fun: Callable[..., Any]) -> CodeType | type:
    """The code object that all functions made by one line of a program share. For a callable
    object: the code of its class, or the class."""
    if isinstance(fun, functools.partial):
        return definition(fun.func)
    unwrapped = inspect.unwrap(fun, stop=_is_users) if hasattr(fun, "__wrapped__") else fun
    code = getattr(unwrapped, "__code__", None) or getattr(
        type(unwrapped).__call__, "__code__", None
    )
    return code if isinstance(code, CodeType) else type(unwrapped)


def _is_users(fun: Any) -> bool:
    """Whether a function that may wrap another is the one that the user wrote."""
    if getattr(fun, "__wrapped__", fun) is fun:
        return True
    return hasattr(fun, "__code__") and not is_internal(fun.__code__.co_filename)


def fun_text(fun: Callable[..., Any]) -> str:
    """A function as error messages name it."""
    if not hasattr(fun, "__code__"):
        return repr(fun)
    place = where(fun)
    return f"function {fun_name(fun)}" + (
        "" if is_internal(place.rpartition(":")[0]) else f" at {place}"
    )
