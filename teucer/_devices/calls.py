"""Calls of programs that run over several processes, and the error for two that differ."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

from teucer._base import source
from teucer._devices import threads
from teucer._xla.arrays import is_deleted, is_ready

_ONE_THREAD = "Let one thread make such calls, or have threads wait for each other."


class Program(Protocol):
    """A program that runs over several processes, its group.

    limited: whether only so many of its calls may be in flight.
    """

    group: tuple[int, ...]
    name: str
    fingerprint: int
    limited: bool

    def difference(self, other: int) -> str:
        """The differences between this program and the program of another fingerprint, as lines."""


class Call:
    """A call of a program.

    results: None until the call has been made. The call ends when they are computed.
    """

    __slots__ = ("label", "number", "place", "program", "results", "started", "thread")
    results: Sequence[Any] | None

    def __init__(self, program: Program, number: int) -> None:
        self.program, self.number = program, number
        self.place, self.thread, self.label = (
            source.here(),
            threading.get_ident(),
            threads.own.number,
        )
        self.started, self.results = time.monotonic(), None

    @property
    def line(self) -> str:
        """The user's line."""
        return source.describe(self.place)

    def describe(self) -> str:
        """The text that other processes get of this call: its program and line."""
        return f"{self.program.name}\n{self.line}"

    def running(self) -> bool:
        """Whether the call has not ended yet, as far as its results show."""
        if self.results is None:
            return True
        for x in self.results:
            if not is_deleted(x) and not is_ready(x):
                return True
        self.results = ()
        return False

    def wait(self) -> None:
        """Wait until the results of the call are computed, if the call has been made."""
        for x in self.results or ():
            if not is_deleted(x):
                x.block_until_ready()


def key_of(group: tuple[int, ...]) -> str:
    """The process numbers joined by commas, for keys of the coordination service."""
    return ",".join(map(str, group))


def differ(call: Call, number: int, other: int, name: str, line: str, difference: str = "") -> str:
    """The message for two processes whose calls of one number run different programs."""
    return (
        f"process {number} and process {other} run different programs as their call number "
        f"{call.number} over processes {key_of(call.program.group)}.\n"
        f"    process {number}: {call.program.name}, called at {call.line}\n"
        f"    process {other}: {name}, called at {line}{difference}\n"
        "  All processes must make the same calls in the same order, with arguments of the same "
        "shapes. What\n  differs between them must come in as an argument's values. What does not "
        "communicate,\n  each may run alone."
    )


def hexadecimal(call: Call) -> str:
    """The fingerprint of a call's program, as text for the other processes."""
    return f"{call.program.fingerprint:016x}"


def two_threads(first: Call, second: Call) -> str:
    """The error for calls that two threads of this process make at once."""
    lines = "".join(
        f"\n    thread {threads.name_of(call.thread)}: {call.program.name}, called at {call.line}"
        for call in (first, second)
    )
    return (
        f"{second.program.name}: two threads of this process call programs over processes "
        f"{key_of(second.program.group)} at once, so other processes need not run them in the same "
        f"order.{lines}\n  {_ONE_THREAD}"
    )


def other_thread(call: Call, number: int, other: int, name: str, line: str) -> str:
    """The message for a call that another process makes in another thread."""
    return (
        f"process {number} and process {other} make their call number {call.number} over processes "
        f"{key_of(call.program.group)} in different threads.\n"
        f"    process {number}, thread {threads.name_of(call.thread)}: {call.program.name}, called "
        f"at {call.line}\n    process {other}: {name}, called at {line}\n  {_ONE_THREAD}"
    )
