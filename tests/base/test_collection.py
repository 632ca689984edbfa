"""Python's search for cycles is rarer while programs are traced and compiled, and as it was
afterwards."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import teucer as jax
from teucer._base.collection import RARELY, rarely_collected


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    found = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*found)


def test_rarely_while_a_function_is_traced_and_as_before_then() -> None:
    seen = []

    @jax.jit
    def inner(x: Any) -> Any:
        return x + 1

    def f(x: Any) -> Any:
        y = inner(x)
        seen.append(gc.get_threshold())
        return y

    jax.jit(f)(1.0)
    jax.make_jaxpr(f)(1.0)
    jax.eval_shape(f, 1.0)
    assert seen == [(RARELY, 10, 10)] * 3 and gc.get_threshold() == (700, 10, 10)


def test_as_before_after_an_error() -> None:
    def f(x: Any) -> Any:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        jax.jit(f)(1.0)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("chosen", [(0, 10, 10), (2 * RARELY, 5, 5)])
def test_who_collects_more_rarely_is_left_alone(chosen: tuple[int, int, int]) -> None:
    gc.set_threshold(*chosen)
    with rarely_collected:
        assert gc.get_threshold() == chosen
    assert gc.get_threshold() == chosen


def test_what_the_traced_function_chooses_holds() -> None:
    def f(x: Any) -> Any:
        gc.set_threshold(900, 3, 3)
        return x

    jax.jit(f)(1.0)
    assert gc.get_threshold() == (900, 3, 3)


def test_cycles_are_still_found() -> None:
    class Node:
        pass

    def f(x: Any) -> Any:
        first = Node()
        first.self = first  # type: ignore[attr-defined]
        gone = weakref.ref(first)
        del first
        kept = [[] for _ in range(2 * RARELY)]  # type: ignore[var-annotated]
        assert gone() is None
        return x + len(kept)

    assert jax.jit(f)(1.0) == 2 * RARELY + 1


def test_threads_that_overlap() -> None:
    inside, outside = threading.Event(), threading.Event()

    def other() -> None:
        with rarely_collected:
            inside.set()
            outside.wait()

    thread = threading.Thread(target=other)
    with rarely_collected:
        thread.start()
        inside.wait()
    assert gc.get_threshold() == (RARELY, 10, 10)  # the other is still inside
    outside.set()
    thread.join()
    assert gc.get_threshold() == (700, 10, 10)
