"""Forgetting what has been traced and compiled."""

from __future__ import annotations

from teucer._base import memo
from teucer._devices import backends
from teucer._executables import compile, misses
from teucer._programs import eager
from teucer._transform import linearize
from teucer._xla.dispatcher import forget_calls

__all__ = ["clear_backends", "clear_caches"]


def clear_caches() -> None:
    """Forget all traces and all programs in memory; the disk cache stays."""
    memo.forget()
    misses.forget()
    forget_calls()
    eager.forget()
    linearize.forget()
    compile.clear_memory()


def clear_backends() -> None:
    """Forget all programs and backends; the next use makes them anew."""
    clear_caches()
    backends.clear_backends()
