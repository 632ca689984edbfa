"""A line for a compilation that takes long, while it does."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
from typing import Any, final

from teucer._base import config, source

_logger = logging.getLogger("teucer")
_SHOWN = 5  # types of arguments


@final
class watched:
    """In the `with` block XLA compiles a module. One thread, which is started once, sleeps until a
    compilation may have taken too long."""

    __slots__ = ("due", "start", "text", "thread")

    def __init__(self, text: str) -> None:
        self.text = text

    def __enter__(self) -> None:
        limit = config.warn_slow_compile.value
        if limit > 0:
            self.start, self.thread = time.monotonic(), threading.get_ident()
            self.due = self.start + limit
            _watcher.add(self)

    def __exit__(self, *exc: object) -> None:
        _watcher.running.pop(self, None)

    def tell(self) -> None:
        """Warn that a program is being compiled, for how long, and at which line of the user's
        program."""
        frame: Any = sys._current_frames().get(self.thread)
        while frame is not None and source.is_internal(frame.f_code.co_filename):
            frame = frame.f_back
        at = "" if frame is None else f", at {frame.f_code.co_filename}:{frame.f_lineno}"
        _logger.warning(
            "XLA has been compiling %s for %.0f seconds%s. (TEUCER_WARN_SLOW_COMPILE=0 turns this "
            "line off.)",
            _described(self.text),
            time.monotonic() - self.start,
            at,
        )


class _Watcher:
    """The thread that watches, and the running compilations that were not reported yet."""

    def __init__(self) -> None:
        self.running: dict[watched, None] = {}
        self._changed = threading.Condition()
        self._asleep = False  # until somebody compiles
        self._thread: threading.Thread | None = None

    def add(self, compilation: watched) -> None:
        self.running[compilation] = None
        if self._thread is None or self._asleep:
            with self._changed:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._look, name="teucer slow compilations", daemon=True
                    )
                    self._thread.start()
                self._changed.notify()

    def _look(self) -> None:
        while True:
            with self._changed:
                self._asleep = not self.running
                due = min([c.due for c in list(self.running)], default=None)
                self._changed.wait(None if due is None else max(due - time.monotonic(), 0))
                self._asleep = False
            for c in list(self.running):
                if c.due <= time.monotonic() and self.running.pop(c, c) is None:
                    c.tell()


def _described(text: str) -> str:
    """Describe a module: its name, the types of its arguments, and the length of its text."""
    name = re.search(r"^module @([\w.$-]+)", text, re.MULTILINE)
    main = re.search(r"@main\((.*)", text)
    types = re.findall(r"tensor<([^>]*)>", main[1].partition(") -> ")[0]) if main else []
    shown = ", ".join(types[:_SHOWN]) + (", ..." if len(types) > _SHOWN else "")
    return f"{name[1] if name else 'a module'}({shown}), {text.count(chr(10))} lines of StableHLO,"


def _anew() -> None:
    global _watcher
    _watcher = _Watcher()


_watcher = _Watcher()
os.register_at_fork(after_in_child=_anew)  # which has no threads
