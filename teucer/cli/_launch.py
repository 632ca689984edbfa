"""`teucer launch -n N PROGRAM [ARGS]`.

N processes of one program on this machine, as on a cluster.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import IO

from teucer._base import config, tracebacks
from teucer.cli._errors import CommandError

_SAVING = 30.0  # seconds in which processes may save their state when they are told to end
_GRACE = 15.0  # seconds in which the others may notice, and report what they waited for
_LAST_LINES = 40
# Messages of the library of collectives on each connection. Several threads write them piece by
# piece.
_GLOO = re.compile(
    r"(\[Gloo\] Rank|is connected to|peer ranks\.|Expected number of connected peer ranks is :"
    r"|[\d ])+"
)
# Lines below an exception: the note on frames, and the lines that Python prints when it is ended.
_BELOW = (" ", tracebacks.NOTE[:40], "Timeout (", "Thread 0x", "Current thread 0x")


class _Process:
    """One of the processes. Its output is passed on with its number before each line."""

    def __init__(self, number: int, command: Sequence[str], env: dict[str, str]) -> None:
        self.number, self.started, self.ended = number, time.monotonic(), None  # type: int, float, float | None
        self.errors: deque[str] = deque(maxlen=_LAST_LINES)
        self.popen = subprocess.Popen(
            command,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
        )
        self._readers = [
            threading.Thread(target=self._copy, args=pair, daemon=True)
            for pair in ((self.popen.stdout, sys.stdout), (self.popen.stderr, sys.stderr))
        ]
        for reader in self._readers:
            reader.start()

    def _copy(self, source: IO[str], target: IO[str]) -> None:
        for line in source:
            if "peer ranks" in line and _GLOO.fullmatch(line.rstrip()):
                continue
            if target is sys.stderr:
                self.errors.append(line.rstrip())
            target.write(
                f"[{self.number}] {line}" if line.endswith("\n") else f"[{self.number}] {line}\n"
            )
            target.flush()

    def poll(self) -> int | None:
        """The exit status, once it has ended."""
        status = self.popen.poll()
        if status is not None and self.ended is None:
            self.ended = time.monotonic()
            for reader in self._readers:
                reader.join(5)
        return status

    def why(self) -> str:
        """The most telling of the last lines that it printed: of an exception, or of the watch over
        processes."""
        lines = [line for line in self.errors if line and not line.startswith(_BELOW)]
        said = [line for line in lines if line.startswith("teucer: process")]
        return (said or lines or [""])[-1]

    def blamed(self) -> int | None:
        """The process of whose failure this one speaks."""
        found = re.search(r"(?:ends: |ProcessFailure: )process (\d+)", self.why())
        return int(found.group(1)) if found and int(found.group(1)) != self.number else None


def launch(count: int, devices: int | None, port: int | None, program: Sequence[str]) -> int:
    """Run a program in `count` processes; the exit status of the first that failed, or 0.

    devices: CPU devices in each. port: where the coordination service listens; a free one by
    default.
    """
    if not program:
        raise CommandError("a program is missing: teucer launch -n 4 program.py.")
    if not program[0].startswith("-") and not os.path.exists(program[0]):
        raise CommandError(f"no such file: {program[0]}.")
    address = f"127.0.0.1:{port or _free_port()}"
    command = [sys.executable, "-u", "-m", "teucer", "run", *program]
    processes: list[_Process] = []
    for number in range(count):
        env = {
            **os.environ,
            "JAX_COORDINATOR_ADDRESS": address,
            "JAX_NUM_PROCESSES": str(count),
            "JAX_PROCESS_ID": str(number),
            "JAX_LOCAL_PROCESS_ID": str(number),
        }
        if devices is not None:
            env["JAX_NUM_CPU_DEVICES"] = str(devices)
        processes.append(_Process(number, command, env))
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        _wait(processes, config.enable_recoverability.value)
    except KeyboardInterrupt:
        _end(processes, signal.SIGINT)
    except _Terminated:
        _end(processes, signal.SIGTERM, _SAVING)
    finally:
        signal.signal(signal.SIGTERM, before)
    return _report(processes)


class _Terminated(BaseException):
    """SIGTERM has come."""


def _terminate(number: int, frame: object) -> None:
    raise _Terminated


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as s:
        return int(s.getsockname()[1])


def _wait(processes: Sequence[_Process], recoverable: bool) -> None:
    """Until all have ended, or some time after one has failed: then the rest is ended.

    recoverable: the rest may go on.
    """
    failed_at = None
    while True:
        states = [p.poll() for p in processes]
        if None not in states:
            return
        if any(states) and failed_at is None and not recoverable:
            failed_at = time.monotonic()
        if failed_at is not None and time.monotonic() > failed_at + _GRACE:
            _end([p for p in processes if p.poll() is None], signal.SIGTERM)
            return
        time.sleep(0.02)


def _end(processes: Sequence[_Process], how: signal.Signals, grace: float = 3) -> None:
    """Ask processes to end, and kill those that do not: a stopped process receives no other
    signal."""
    for p in processes:
        if p.poll() is None:
            p.popen.send_signal(how)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and any(p.poll() is None for p in processes):
        time.sleep(0.02)
    for p in processes:
        if p.poll() is None:
            p.popen.kill()
            p.popen.wait()
            p.poll()


def _report(processes: Sequence[_Process]) -> int:
    """Print which process failed first and why, if one did."""
    failed = [p for p in sorted(processes, key=lambda p: p.ended or 0.0) if p.poll()]
    if not failed:
        return 0
    print("process  ended      after  why", file=sys.stderr)
    for p in sorted(processes, key=lambda p: p.ended or 0.0):
        status, after = p.poll() or 0, (p.ended or 0.0) - p.started
        how = f"status {status}" if status >= 0 else signal.Signals(-status).name
        print(
            f"{p.number:7}  {how:9}  {after:4.1f} s  {p.why() if status else ''}", file=sys.stderr
        )
    by_number = {p.number: p for p in processes}
    first = next(
        (p for p in failed if p.blamed() is None), by_number.get(failed[0].blamed() or 0, failed[0])
    )
    status = first.poll() or 1
    print(f"teucer launch: process {first.number} failed first.", file=sys.stderr)
    return status if status > 0 else 128 - status
