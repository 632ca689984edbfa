"""Forgetting traces and compiled programs."""

from __future__ import annotations

from collections.abc import Callable

from teucer._base import memo
from teucer._derived import linear_programs
from teucer._devices import backends
from teucer._executables import compile, misses
from teucer._programs import eager
from teucer._transform import linearize
from teucer._xla.dispatcher import forget_calls

_users: list[Callable[[], object]] = []


def register(forget: Callable[[], object]) -> None:
    """Have a function called whenever programs are forgotten."""
    _users.append(forget)


def clear_caches() -> None:
    """Forget all traces and all programs in memory; the disk cache stays."""
    for forget in _users:
        forget()
    memo.forget()
    misses.forget()
    forget_calls()
    eager.forget()
    linearize.forget()
    linear_programs.forget()
    compile.clear_memory()


def clear_backends(_crash: bool = False) -> None:
    """Forget all programs and backends; the next use makes them anew. Arrays stay valid. _crash:
    accepted and not used."""
    clear_caches()
    backends.clear_backends()
