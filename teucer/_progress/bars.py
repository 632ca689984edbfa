"""Bars: with rich, with tqdm, or as lines of text."""

from __future__ import annotations

import functools
import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

_PAUSE = 1.0  # seconds between lines of text, at least


class Shown(NamedTuple):
    """How far a loop is. total: None where it is not known; rate: steps a second."""

    label: str
    step: int
    total: int | None
    rate: float
    values: Mapping[str, float]

    def __str__(self) -> str:
        """A line of text.

        >>> print(Shown("train", 50, 200, 12.5, {"loss": 0.25}))
        train 50/200  12.5 steps/s  loss 0.25
        """
        of = "" if self.total is None else f"/{self.total}"
        said = f"{self.label or 'step'} {self.step}{of}  {self.rate:.3g} steps/s"
        return "  ".join([said, *(f"{name} {x:.4g}" for name, x in self.values.items())])


class Display(Protocol):
    """Where a bar is shown, from the first step of a loop to its last."""

    def update(self, shown: Shown) -> None: ...
    def close(self) -> None: ...


class Bar:
    """The bar of a loop. Its first step begins it anew, its last one ends it.

    kind: how it is shown (`loops.progress`).
    """

    def __init__(self, label: str, kind: str | Callable[[Shown], object]) -> None:
        self.label, self.kind = label, kind
        self.lock = threading.Lock()
        self.display: Display | None = None
        self.start, self.first = 0.0, 1
        self.last = Shown(label, 0, None, 0.0, {})
        _make(kind)  # raises here for a kind that there is not, not in the program

    def tell(self, step: int, total: int | None, values: Mapping[str, float]) -> None:
        """A step has been taken, the first is 1. Calls may come out of order."""
        with self.lock:
            now = time.perf_counter()
            if step == 1 or self.display is None:
                self._close()
                self.display, self.start = _make(self.kind)(), now
                self.last = Shown(self.label, 0, total, 0.0, {})
                self.first = step
            if step > self.last.step:
                took = now - self.start
                rate = (step - self.first) / took if took > 0 else 0.0
                self.last = Shown(self.label, step, total, rate, values)
                self.display.update(self.last)
            if step == total:
                self._close()

    def end(self, count: int, values: Mapping[str, float]) -> None:
        """The loop has ended, after so many steps."""
        with self.lock:
            if self.display is not None and count > self.last.step:
                self.display.update(self.last._replace(step=count, values=values))
            self._close()

    def _close(self) -> None:
        if self.display is not None:
            self.display.close()
            self.display = None


def _make(kind: str | Callable[[Shown], object]) -> Callable[[], Display]:
    if not isinstance(kind, str):
        return functools.partial(_Calls, kind)
    if kind == "auto":
        there = (name for name in ("rich", "tqdm") if importlib.util.find_spec(name))
        kind = next(there, "text")
    makers: dict[str, Callable[[], Display]] = {"rich": _Rich, "tqdm": _Tqdm, "text": _Text}
    if kind not in makers:
        raise ValueError(
            f"progress: there is no bar {kind!r}.\n  Take 'auto', 'rich', 'tqdm', 'text', or a "
            "function."
        )
    return makers[kind]


class _Calls:
    """A function of the user."""

    def __init__(self, function: Callable[[Shown], object]) -> None:
        self.function = function

    def update(self, shown: Shown) -> None:
        self.function(shown)

    def close(self) -> None:
        pass


class _Text:
    """Lines on the standard error stream, for logs."""

    def __init__(self) -> None:
        self.said = 0.0
        self.waiting: Shown | None = None

    def update(self, shown: Shown) -> None:
        now = time.perf_counter()
        if now - self.said >= _PAUSE or shown.step == shown.total:
            print(shown, file=sys.stderr, flush=True)
            self.said, self.waiting = now, None
        else:
            self.waiting = shown

    def close(self) -> None:
        if self.waiting is not None:
            print(self.waiting, file=sys.stderr, flush=True)


class _Tqdm:
    """A bar of tqdm; in notebooks its widget."""

    def __init__(self) -> None:
        from tqdm.auto import tqdm

        self.bar = tqdm(unit=" steps")

    def update(self, shown: Shown) -> None:
        if self.bar.total != shown.total:
            self.bar.total = shown.total
        self.bar.set_description(shown.label, refresh=False)
        told = {name: f"{x:.4g}" for name, x in shown.values.items()}
        self.bar.set_postfix(told, refresh=False)
        self.bar.update(shown.step - self.bar.n)

    def close(self) -> None:
        self.bar.close()


class _Live:
    """The one display of rich, which holds the bars of all loops that run: nested ones are below
    each other."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.progress: Any = None
        self.count = 0

    def add(self, label: str) -> Any:
        with self.lock:
            if self.progress is None:
                from rich import progress

                self.progress = progress.Progress(
                    progress.TextColumn("{task.description}"),
                    progress.BarColumn(),
                    progress.MofNCompleteColumn(),
                    progress.TextColumn("{task.fields[told]}"),
                    progress.TimeRemainingColumn(),
                )
                self.progress.start()
            self.count += 1
            return self.progress.add_task(label, total=None, told="")

    def remove(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                self.progress.stop()
                self.progress = None


_live = _Live()


class _Rich:
    """A bar of rich."""

    def __init__(self) -> None:
        self.task = _live.add("")

    def update(self, shown: Shown) -> None:
        told = "  ".join(
            [f"{shown.rate:.3g} steps/s", *(f"{n} {x:.4g}" for n, x in shown.values.items())]
        )
        _live.progress.update(
            self.task,
            description=shown.label,
            completed=shown.step,
            total=shown.total,
            told=told,
        )

    def close(self) -> None:
        _live.remove()
