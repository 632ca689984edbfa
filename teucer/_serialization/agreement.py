"""How all processes of a program make one save: a token at its start, one outcome at its end."""

from __future__ import annotations

import collections
import hashlib
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import final

from teucer._base import config
from teucer._devices.processes import state
from teucer._xla.client import XlaRuntimeError

_saves: collections.Counter[str] = collections.Counter()
_TURN = 1000  # ms after which a process that waits looks whether another has failed


class BarrierTimeoutError(Exception):
    """A process has not come to the end of a save within its time."""

    __module__ = "teucer.experimental.array_serialization.serialization"


@final
class Save:
    """One save to a folder, the same in all processes, which make it in the same order."""

    def __init__(self, folder: Path | str, seconds: float) -> None:
        """seconds: how long a process waits for another."""
        self._folder, self._deadline = folder, time.monotonic() + seconds
        self._seconds = seconds
        failed = set() if state.watch is None else state.watch.failed
        self.processes = [i for i in range(state.num_processes) if i not in failed]
        self.process = state.process_id
        name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
        self._place = f"teucer/saves/{name}/{_saves[name]}"
        _saves[name] += 1

    def token(self, prepare: Callable[[], None]) -> str:
        """A word that no other save has.

        The first process prepares the folder before; an exception there is raised in all.
        """
        first = self.processes[0]
        if self.process == first:
            said, failure = f"token {secrets.token_hex(8)}", None
            try:
                prepare()
            except Exception as err:  # is told to the others, and raised below
                said, failure = f"failed {type(err).__name__}: {err}", err
            self._say("token", said)
            if failure is not None:
                raise failure
        else:
            said = self._ask("token", first)
        kind, _, text = said.partition(" ")
        if kind == "failed":
            raise RuntimeError(f"saving to {self._folder}: process {first} has failed: {text}")
        return text

    def finish(self, failure: Exception | None, commit: Callable[[], None]) -> None:
        """Report how this process's part has gone.

        If all have succeeded, the first process commits; then all return, or raise.

        Raises the failure of this process, or RuntimeError with another process's failure;
        BarrierTimeoutError if one does not come.
        """
        own = (
            ""
            if failure is None
            else f"process {self.process} has failed: {type(failure).__name__}: {failure}"
        )
        first, *rest = self.processes
        if self.process != first:
            self._say(f"done/{self.process}", own)
            outcome = self._ask("outcome", first)
        else:
            try:
                said = [own, *[self._ask(f"done/{i}", i) for i in rest]]
                outcome = next(filter(None, said), "")
                if not outcome:
                    commit()
            except Exception as err:
                self._say("outcome", f"process {first} has failed: {type(err).__name__}: {err}")
                raise
            self._say("outcome", outcome)
        if failure is not None:
            raise failure
        if outcome:
            raise RuntimeError(f"saving to {self._folder}: {outcome}")

    def _say(self, key: str, text: str) -> None:
        if len(self.processes) > 1:
            state.client.key_value_set(f"{self._place}/{key}", f"said {text}", allow_overwrite=True)

    def _ask(self, key: str, process: int) -> str:
        while True:
            try:
                said: str = state.client.blocking_key_value_get(f"{self._place}/{key}", _TURN)
                return said.removeprefix("said ")
            except XlaRuntimeError as err:
                if "DEADLINE" not in str(err):
                    raise
            watch = state.watch
            if watch is not None and watch.verdict is not None and process in watch.failed:
                raise watch.verdict
            if time.monotonic() > self._deadline:
                raise BarrierTimeoutError(
                    f"saving to {self._folder}: process {process} did not come to this save "
                    f"within {self._seconds:g} s; process "
                    f"{self.process} waits for it.\n  All processes must save the same arrays in "
                    "the same order; with more time, "
                    "if it is slow: timeout_secs."
                )


def patience() -> float:
    """The default number of seconds that a save waits."""
    return float(config.collective_timeout.value)
