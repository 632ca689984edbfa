"""Watching the other processes of a program, so that none waits for ever for one that does not
come.

Two threads a process. One beats: it writes a count to the coordination service, and reads which
processes have failed. In the first process that has not failed it also reads the counts of all
others, and writes down which have stopped. The other judges: from what the first has read, from how
long the service has not answered, and from how long a program that runs over several processes has
been running. Its verdict names the process at fault, and ends this one. Before each such program,
processes compare what they are about to run with the first of them.

jaxlib watches, too, but it aborts the process with a text that names no process, so its timeout is
set high.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from teucer._base import config, source
from teucer._devices import threads
from teucer._devices.calls import (
    Call,
    Program,
    differ,
    hexadecimal,
    key_of,
    other_thread,
    two_threads,
)
from teucer._devices.links import Links, Unreachable
from teucer._devices.processes import ProcessFailure, state
from teucer._xla.client import XlaRuntimeError

Error = TypeVar("Error", bound=Exception)

ROOT = "teucer"  # of the keys in the coordination service
_REMEMBERED = 32  # calls that a process tells others of
_SUSPICIOUS = 3.0  # seconds a call runs before it is compared with other processes' calls
_GRACE = 3.0  # seconds in which the main thread may raise the verdict itself
_IN_FLIGHT = (
    16  # calls: with several devices a process, more than 32 hang in XLA (jaxlib 0.10 to 0.12)
)


class _Seen(NamedTuple):
    """The calls that another process has reported: for each group how many, and the last one."""

    counts: dict[str, int]
    calls: dict[str, dict[int, list[str]]]
    ended: bool


class Watch:
    """This process's watch over the others, and its reports to them."""

    def __init__(
        self,
        client: Any,
        number: int,
        count: int,
        address: str,
        silence: int,
        come_again: Callable[[], Any],
    ) -> None:
        self._client, self._number, self._count, self._address = client, number, count, address
        self._come_again, self._rival = come_again, ""
        self._again: list[Any] = []
        self._silence, self._period = silence, min(1.0, silence / 5)
        self._beats = 0
        self._answered = time.monotonic()
        self._heard = dict.fromkeys(range(count), ("", self._answered))
        self._last: dict[tuple[int, ...], Call] = {}
        self._exchanged: dict[str, int] = {}
        self._rounds: collections.Counter[tuple[int, ...]] = collections.Counter()
        self._recent: collections.deque[Call] = collections.deque(maxlen=_REMEMBERED)
        self._in_flight: collections.deque[Call] = collections.deque()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=work, name=f"teucer{work.__name__}", daemon=True)
            for work in (self._beat, self._judge)
        ]
        self._told: str | None = None
        self.links = Links(number, address, self._found, self._tell)
        self._ended = self._failing = False
        self._stopped = threading.Event()
        self._concluded = threading.Event()
        self._raised = False
        self.verdict: ProcessFailure | None = None
        self._since = 0.0
        self.failed: set[int] = set()
        self._written: frozenset[int] = frozenset()

    def start(self) -> None:
        """Start both threads, and let the others reach this process."""
        self.links.open()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End both threads: the process must not end while one is within jaxlib, which would abort
        it."""
        self._stopped.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(5)
        self.links.close()

    # What this process does

    def begin(self, program: Program) -> Call:
        """Write down a call that is about to run, and compare it with the first process's call.

        Raises ProcessFailure if that makes another call, or has failed, and RuntimeError if another
        thread of this process is in a call of the same group.
        """
        group = program.group
        if self.verdict is not None:
            self.check(group)
        oldest: Call | None = None
        with self._lock:
            last = self._last.get(group)
            number = 0 if last is None else last.number + 1
            call = Call(program, number)
            if last is not None and last.results is None and last.thread != call.thread:
                raise self._failure(RuntimeError(two_threads(last, call)))
            self._last[group] = call
            self._recent.append(call)
            waiting = self._in_flight
            while waiting and not waiting[0].running():
                waiting.popleft()
            if program.limited and len(waiting) >= _IN_FLIGHT:
                oldest = waiting[-_IN_FLIGHT]
            waiting.append(call)
        try:
            if config.check_programs.value:
                self._agree(call)
            if oldest is not None:
                oldest.wait()
        except BaseException:
            call.results = ()
            raise
        return call

    def give_up(self) -> None:
        """Calls of this thread that have begun and have no results have failed."""
        me = threading.get_ident()
        with self._lock:
            for last in self._last.values():
                if last.thread == me and last.results is None:
                    last.results = ()

    def _forget_ended(self) -> Call | None:
        """The oldest call that has not ended yet."""
        with self._lock:
            while self._in_flight and not self._in_flight[0].running():
                self._in_flight.popleft()
            return self._in_flight[0] if self._in_flight else None

    def _agree(self, call: Call) -> None:
        """Raise ProcessFailure if the first process of the group makes another call."""
        program = call.program
        group, own, links = program.group, program.fingerprint, self.links
        try:
            if self._number == group[0]:
                site = program.name, call.place
                links.say(group, own, call.number, call.label, site, call.describe)
                return
            if links.lies_there(group, own, call.number, call.label):
                return
            said = links.hear(group, call.number, functools.partial(self._turn, call))
        except Unreachable:  # perhaps it has failed
            if not self._concluded.wait(3 * self._period):
                raise
            self._raised = True
            assert self.verdict is not None
            raise self.verdict from None
        if said is None or (said.fingerprint == own and said.thread == call.label):
            return
        name, line = links.describe(group, said).split("\n", 1)
        if said.fingerprint == own:
            text = other_thread(call, self._number, group[0], name, line)
        else:
            difference = program.difference(said.fingerprint)
            text = differ(call, self._number, group[0], name, line, difference)
        raise self._failure(ProcessFailure(text, (self._number,)))

    def _failure(self, error: Error) -> Error:
        """An error that ends this process, also where the thread that raises it is not the main
        one."""
        if not threads.is_main():
            self._conclude(str(error), (self._number,))
        return error

    def _turn(self, call: Call) -> None:
        """Runs now and then while a process waits for the first process of a call's group."""
        self.check(call.program.group)
        if time.monotonic() > call.started + config.collective_timeout.value:
            raise _did_not_come(
                call.program.group[0], f"{call.program.name}, called at {call.line}"
            )

    def _found(self, key: str, milliseconds: int) -> str:
        return str(self._client.blocking_key_value_get(f"{ROOT}/{key}", milliseconds))

    def _tell(self, key: str, text: str) -> None:
        self._client.key_value_set(f"{ROOT}/{key}", text, allow_overwrite=True)

    def ask(self, key: str, group: tuple[int, ...], what: str) -> str:
        """The text that the first process of a group writes under a key, once it has.

        Raises ProcessFailure if it does not come.
        """
        return str(self._asked(self._client.blocking_key_value_get, key, group, what))

    def ask_bytes(self, key: str, group: tuple[int, ...], what: str) -> bytes:
        """As `ask`, for bytes."""
        return bytes(self._asked(self._client.blocking_key_value_get_bytes, key, group, what))

    def _asked(
        self, get: Callable[[str, int], Any], key: str, group: tuple[int, ...], what: str
    ) -> Any:
        deadline = time.monotonic() + config.collective_timeout.value
        while True:
            try:
                return get(key, 1000)
            except XlaRuntimeError as err:
                failure = err
            self.check(group)
            if "DEADLINE" not in str(failure):
                raise self.explained(failure)
            if time.monotonic() > deadline:
                raise _did_not_come(group[0], what)

    def exchange(self, subject: str, call: Call, text: str, what: str) -> dict[int, str]:
        """The text that each process of a call's group writes about a subject, once all have
        written.

        what: describes the wait for errors. Raises ProcessFailure if a process does not write.
        """
        group = call.program.group
        place = f"{ROOT}/{subject}/{key_of(group)}"
        self._client.key_value_set(f"{place}/{call.number}/{self._number}", text)
        told = {
            i: text if i == self._number else self.ask(f"{place}/{call.number}/{i}", (i,), what)
            for i in group
        }
        last = self._exchanged.get(place)
        if last is not None:  # all have read that
            self._client.key_value_delete(f"{place}/{last}/{self._number}")
        self._exchanged[place] = call.number
        return told

    def check(self, group: tuple[int, ...]) -> None:
        """Raise the verdict, if there is one and it concerns these processes."""
        if self.verdict is not None and (not self._survives() or self.failed.intersection(group)):
            self._raised = True
            raise self.verdict

    def explained(self, err: Exception) -> Exception:
        """The watch's verdict in place of an error of a program over several processes; the error
        if there is none. Waits at most as long as a process may be silent, and one turn.
        """
        if "Gloo" not in str(err) and "UNAVAILABLE" not in str(err):
            return err
        if not self._concluded.wait(self._silence + 3 * self._period + 1):
            return err
        self._raised = True
        assert self.verdict is not None
        return self.verdict

    def tell_failure(self, failure: BaseException) -> None:
        """Tell the others that this process ends with an exception of its own."""
        if failure is self.verdict:
            return
        trace, line = failure.__traceback__, ""
        while trace is not None:
            if not source.is_internal(trace.tb_frame.f_code.co_filename):
                line = f", at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
            trace = trace.tb_next
        first_line = str(failure).strip().partition("\n")[0].rstrip(".")
        said = f": {first_line:.300}" if first_line else ""
        text, self._failing = f"{type(failure).__name__}{said}{line}", True
        with contextlib.suppress(XlaRuntimeError):
            self._client.key_value_set(f"{ROOT}/failed/{self._number}", text, allow_overwrite=True)

    def meet(self, name: str, seconds: float) -> None:
        """Wait until all processes that have not failed are here.

        Raises RuntimeError if not all come within the time, or one has failed.
        """
        self._ended = self._ended or name == "shutdown"
        others = [i for i in range(self._count) if i not in self.failed]
        self.check(tuple(others if self._survives() else range(self._count)))
        try:
            self._client.key_value_set(
                f"{ROOT}/here/{name}/{self._number}", "", allow_overwrite=True
            )
            self._client.wait_at_barrier(f"{ROOT}/{name}", int(seconds * 1000), others)
        except XlaRuntimeError as err:
            known = self._concluded.wait(2 * self._period)
            if known and (not self._survives() or self.failed.intersection(others)):
                self._raised = True
                raise self.verdict from err  # type: ignore[misc]  # there is one
            missing = sorted(set(others) - self._present(name))
            raise RuntimeError(
                f"{_names(missing)} did not come to '{name}' within {seconds:g} s.\n    process "
                f"{self._number} waits there."
            ) from err
        if name == "shutdown":
            self.stop()
            self._part()

    def alive_of(self, group: list[int], failure: str) -> set[int]:
        """The processes of a group that have come here and have not failed. The first of them
        decides, so that all agree. failure: the failure of this process, if any.
        """
        place = f"{ROOT}/alive/{key_of(tuple(group))}/{self._rounds[tuple(group)]}"
        self._rounds[tuple(group)] += 1
        with contextlib.suppress(XlaRuntimeError):
            self._client.key_value_set(
                f"{place}/here/{self._number}", failure, allow_overwrite=True
            )
        deadline = time.monotonic() + config.collective_timeout.value
        while time.monotonic() < deadline:
            decided = self._value(f"{place}/decided")
            if decided:
                return {int(i) for i in decided.split(",")}
            here = {
                int(key.rpartition("/")[2]): text
                for key, text in self._client.key_value_dir_get(f"{place}/here/")
            }
            left = [i for i in group if i not in self.failed]
            if self._number == left[0] and set(left) <= set(here):
                alive = [i for i in left if not here[i]] or [self._number]
                self._client.key_value_set(
                    f"{place}/decided", key_of(tuple(alive)), allow_overwrite=False
                )
            time.sleep(0.02)
        raise ProcessFailure(
            f"live_devices: processes {group} did not all come or fail within "
            f"{config.collective_timeout.value} s (teucer_collective_timeout)."
        )

    def _present(self, name: str) -> set[int]:
        with contextlib.suppress(XlaRuntimeError):
            return {
                int(key.rpartition("/")[2])
                for key, _ in self._client.key_value_dir_get(f"{ROOT}/here/{name}/")
            }
        return set(range(self._count))

    def _part(self) -> None:
        """Process 0, which ends the service, leaves when the others have; they say so with their
        last word."""
        with contextlib.suppress(XlaRuntimeError):
            if self._number:
                self._client.key_value_set(
                    f"{ROOT}/here/parted/{self._number}", "", allow_overwrite=True
                )
                return
            deadline = time.monotonic() + 5
            while (
                len(self._present("parted")) < self._count - 1 - len(self.failed)
                and time.monotonic() < deadline
            ):
                time.sleep(0.02)
            time.sleep(0.1 if self._count > 1 else 0)

    # The thread that beats

    def _beat(self) -> None:
        while not self._stopped.wait(self._period if self._beats else 0):
            try:
                self._beats += 1
                self._client.key_value_set(
                    f"{ROOT}/beats/{self._number}", str(self._beats), allow_overwrite=True
                )
                told = self._own_calls()
                if told != self._told:
                    self._client.key_value_set(
                        f"{ROOT}/calls/{self._number}", told, allow_overwrite=True
                    )
                    self._told = told
                self._listen()
                self._keep_number()
                failed = {
                    int(key.rpartition("/")[2]): text
                    for key, text in self._client.key_value_dir_get(f"{ROOT}/failed/")
                }
                self._answered = time.monotonic()
            except XlaRuntimeError as err:
                if not self._stopped.is_set():
                    self._conclude(
                        f"the coordination service at {self._address}, which process 0 has "
                        f"started, is gone: {str(err).partition(chr(10))[0]:.200}",
                        (0,),
                    )
                return
            given_up = failed.pop(self._number, None)
            if given_up is not None and not self._failing:
                self._conclude(
                    f"the other processes have given up process {self._number}: {given_up}", ()
                )
            new = {i: text for i, text in failed.items() if i not in self.failed}
            if new:
                self.failed.update(new)
                self._conclude(
                    "\n    ".join(
                        f"process {i} has failed: {text}" for i, text in sorted(new.items())
                    ),
                    tuple(sorted(new)),
                )

    def _keep_number(self) -> None:
        """Come again where another process came with this one's number: jaxlib hears the last that
        came, which was refused."""
        rival = self._value(f"{ROOT}/rivals/{self._number}")
        if rival not in ("", self._rival):
            self._rival = rival
            self._again.append(self._come_again())
            print(
                (
                    f"teucer: process {self._number} goes on; another process came with its "
                    f"number, and was refused: {rival}"
                ),
                file=sys.stderr,
            )

    def _listen(self) -> None:
        """Which processes have not beaten for too long? The first one hears all others, and these
        hear the first."""
        first = min(set(range(self._count)) - self.failed, default=0)
        if self._number == first:
            heard = self._client.key_value_dir_get(f"{ROOT}/beats/")
        else:
            heard = [(f"{ROOT}/beats/{first}", self._value(f"{ROOT}/beats/{first}"))]
        now, gone = time.monotonic(), None
        for key, text in heard:
            i = int(key.rpartition("/")[2])
            if self._heard[i][0] != text:
                self._heard[i] = (text, now)
            elif now - self._heard[i][1] > self._silence and i not in self.failed:
                gone = self._present("shutdown") if gone is None else gone
                if i not in gone:
                    self._client.key_value_set(
                        f"{ROOT}/failed/{i}",
                        f"it has given no sign for {self._silence} s: it has died, is stopped, or "
                        "cannot be reached",
                        allow_overwrite=True,
                    )

    def _value(self, key: str) -> str:
        try:
            return self._client.key_value_try_get(key)  # type: ignore[no-any-return]
        except XlaRuntimeError as err:
            if "NOT_FOUND" in str(err):
                return ""
            raise

    def _own_calls(self) -> str:
        with self._lock:
            recent = list(self._recent)
            counts = {key_of(group): last.number + 1 for group, last in self._last.items()}
        calls: dict[str, dict[int, list[str]]] = {}
        for call in recent:
            program = call.program
            calls.setdefault(key_of(program.group), {})[call.number] = [
                hexadecimal(call),
                program.name,
                call.line,
            ]
        return json.dumps([counts, calls, self._ended])

    # The thread that judges

    def _judge(self) -> None:
        while not self._stopped.wait(self._period):
            now = time.monotonic()
            oldest = self._forget_ended()
            if now - self._answered > 2 * self._silence:
                self._conclude(
                    f"the coordination service at {self._address}, on the machine of process 0, "
                    f"has not answered for {2 * self._silence} s",
                    (0,),
                )
            elif oldest is not None and self.verdict is None and now - oldest.started > _SUSPICIOUS:
                with contextlib.suppress(XlaRuntimeError):  # the other thread sees that too
                    self._compare(oldest, now - oldest.started)
            if self.verdict is not None and (not self._survives() or self._stuck(oldest, now)):
                self._end()

    def _compare(self, call: Call, age: float) -> None:
        """Does every process of a call's group make the same calls, and will it come to this
        one?"""
        seen = {
            int(key.rpartition("/")[2]): _read(text)
            for key, text in self._client.key_value_dir_get(f"{ROOT}/calls/")
        }
        members = call.program.group
        group = key_of(members)
        with self._lock:
            own = {c.number: c for c in self._recent if c.program.group == members}
        others = [i for i in members if i != self._number and i in seen]
        for number, mine in sorted(own.items()):
            for i in others:
                theirs = seen[i].calls.get(group, {}).get(number)
                if theirs is not None and theirs[0] != hexadecimal(mine):
                    self._conclude(differ(mine, self._number, i, theirs[1], theirs[2]), (i,))
                    return
        behind = [i for i in others if seen[i].counts.get(group, 0) <= call.number]
        ended = [i for i in behind if seen[i].ended]
        where = f"{call.program.name}, called at {call.line}"
        if ended:
            self._conclude(
                (
                    f"{_names(ended)} ended without {where}, in which process {self._number} waits "
                    "for it"
                ),
                tuple(ended),
            )
        elif age > config.collective_timeout.value:
            late = behind or others
            last = "".join(
                f"\n    the last call of process {i}: {_last(seen[i], group)}" for i in late
            )
            self._conclude(
                (
                    f"{_names(late)} did not come to {where}, within {age:.0f} s "
                    f"(teucer_collective_timeout){last}"
                ),
                tuple(late),
            )

    def _stuck(self, oldest: Call | None, now: float) -> bool:
        """Whether this process, which could go on without the failed ones, waits for one of them
        within XLA."""
        return (
            oldest is not None
            and now - self._since > self._silence
            and not self.failed.isdisjoint(oldest.program.group)
        )

    def _survives(self) -> bool:
        return bool(config.enable_recoverability.value)

    def _conclude(self, what: str, processes: tuple[int, ...]) -> None:
        if self.verdict is None or self._survives():
            self.failed.update(processes)
            self.verdict, self._since = ProcessFailure(what, processes), time.monotonic()
            self._concluded.set()
            known = self._written
            self._written = known.union(processes)
            for i in set(processes) - known:
                with contextlib.suppress(XlaRuntimeError):
                    self._client.key_value_set(f"{ROOT}/failed/{i}", what, allow_overwrite=False)

    def _end(self) -> None:
        """End this process; the main thread may do that itself, unless it waits for a message that
        will not come."""
        # At the end of the program it waits at a barrier of jaxlib, which nothing interrupts.
        deadline = time.monotonic() + (0 if self._ended else _GRACE)
        while time.monotonic() < deadline + (10 if self._raised else 0):
            if self._stopped.wait(0.05):
                return
        if not self._raised:
            print(f"teucer: process {self._number} ends: {self.verdict}", file=sys.stderr)
            with self._lock:
                waiting = self._in_flight[0] if self._in_flight else None
            if waiting is not None:
                print(
                    f"    it was waiting in {waiting.program.name}, called at {waiting.line}",
                    file=sys.stderr,
                )
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(state.exit_status or 1)


def _did_not_come(number: int, what: str) -> ProcessFailure:
    return ProcessFailure(
        f"process {number} did not come to {what}, within {config.collective_timeout.value} s "
        "(teucer_collective_timeout).",
        (number,),
    )


def _read(text: str) -> _Seen:
    counts, calls, ended = json.loads(text)
    return _Seen(
        counts, {group: {int(n): c for n, c in by.items()} for group, by in calls.items()}, ended
    )


def _last(seen: _Seen, group: str) -> str:
    calls = seen.calls.get(group)
    if not calls:
        return "none"
    _, name, line = calls[max(calls)]
    return f"{name}, called at {line}"


def _names(processes: list[int]) -> str:
    return f"process{'es' * (len(processes) != 1)} {', '.join(map(str, processes))}"
