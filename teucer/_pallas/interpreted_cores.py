"""Cores of a kernel that is run step by step: threads that take turns.

One core runs at a time, until it waits for what others must do. So a run is the same each time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import final


class _Stopped(Exception):
    """Another core has failed."""


@final
class Turns:
    """Whose turn it is among some cores."""

    def __init__(self, cores: int) -> None:
        self.live, self.waiting = list(range(cores)), set[int]()
        self.now = 0
        self.changed = threading.Condition()
        self.error: BaseException | None = None

    def run(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Run a task on each core. Raises the first error of any."""
        if len(tasks) == 1:
            tasks[0]()
            return
        threads = [
            threading.Thread(target=self._on_core, args=(core, task))
            for core, task in enumerate(tasks)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.error is not None:
            raise self.error

    def wait(self, core: int, ready: Callable[[], bool]) -> bool:
        """Let other cores run until something is so; False if no core can go on."""
        with self.changed:
            self.waiting.add(core)
            while not ready():
                if self.waiting.issuperset(self.live):
                    return False
                self._next(core)
                self._until(core)
            self.waiting.discard(core)
            return True

    def told(self) -> None:
        """Something has changed that cores may wait for."""
        with self.changed:
            self.waiting.clear()

    def _on_core(self, core: int, task: Callable[[], None]) -> None:
        try:
            with self.changed:
                self._until(core)
            task()
        except _Stopped:
            pass
        except BaseException as err:  # raised by the thread that has called
            self.error = self.error or err
        finally:
            with self.changed:
                self._next(core)
                self.live.remove(core)
                self.changed.notify_all()

    def _next(self, core: int) -> None:
        after = [c for c in self.live if c > core] or self.live
        self.now = after[0]
        self.changed.notify_all()

    def _until(self, core: int) -> None:
        while self.now != core and self.error is None:
            self.changed.wait()
        if self.error is not None:
            raise _Stopped
