"""Small programs that a check must find a fault in, or must not: each function says which."""

from collections.abc import Callable
from typing import Any, NamedTuple

import teucer as jax


class Case(NamedTuple):
    """A function on arguments, and the numbers that are found in it. report: a public thread."""

    number: str
    fun: Callable[..., Any]
    args: tuple[Any, ...]
    found: bool
    report: str = ""

    @property
    def id(self) -> str:
        return f"{self.number}-{'fault' if self.found else 'fine'}-{self.fun.__name__}"


# By id: pytest imports the modules that fill it under a second name, for their doctests.
CASES: dict[str, Case] = {}


def _add(case):
    CASES[case.id] = case


def fault(number, *args, report=""):
    """Of a function in which a check finds that number."""

    def add(fun):
        _add(Case(number, fun, args, True, report))
        return fun

    return add


def fine(number, *args):
    """Of a function in which it does not."""

    def add(fun):
        _add(Case(number, fun, args, False))
        return fun

    return add


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, "float32")


def i32(*shape):
    return jax.ShapeDtypeStruct(shape, "int32")
