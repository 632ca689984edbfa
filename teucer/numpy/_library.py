"""Library functions that are compiled when called eagerly and plain Python while a program is traced."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from teucer._core import trace
from teucer._transform.library import library

__all__ = ["fast"]


def fast(function: Callable[..., Any] | None = None, /, *, static: Sequence[str] = ()) -> Any:
    """As `library`, but while a program is traced the call does not go through C++, which takes 5 us (benchmarks/trace.py)."""
    if function is None:
        return functools.partial(fast, static=static)
    compiled = library(function, static=static)
    current, plain = trace._current, function

    def face(*args: Any, **kwargs: Any) -> Any:
        return compiled(*args, **kwargs) if current.trace is trace.EVAL else plain(*args, **kwargs)
    functools.update_wrapper(face, function)
    face.compiled = compiled  # type: ignore[attr-defined]
    return face
