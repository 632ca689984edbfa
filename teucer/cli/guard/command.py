"""Runs the answers in separate processes, and prints the faults."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from teucer._executables import guard as table
from teucer._executables import untried
from teucer._xla.client import jaxlib_version
from teucer.cli._errors import CommandError
from teucer.cli.guard.table import all_answers

# The command line of the process that runs answers.
CHILD = [sys.executable, "-m", "teucer.cli.guard.child"]
# Seconds until it says its first answer, and the next one.
_START = 120.0


class Found(NamedTuple):
    """The outcome of an answer. fault: "" if it is right. took: seconds."""

    name: str
    fault: str
    took: float


def guard(pattern: str, output: Path | None) -> int:
    """Run the answers whose names match, print the faults, write all as JSON to `output`; the
    status is 1 where there are faults."""
    names = [answer.name for answer in all_answers() if re.search(pattern, answer.name)]
    if not names:
        raise CommandError(f"no answer's name matches {pattern!r}.")
    print(f"jaxlib {jaxlib_version}: {len(names)} known answers")
    found = []
    for one in run(names):
        found.append(one)
        if one.fault:
            print(f"  {one.name}: {one.fault}", flush=True)
    wrong = [one for one in found if one.fault]
    print(f"{len(found) - len(wrong)} right, {len(wrong)} wrong")
    for fault in table.known_faults():
        print(f"  known, {'and avoided' if fault.remedy else 'not avoided'}: {fault.what}")
    text = json.dumps(
        {"jaxlib": jaxlib_version, "found": [one._asdict() for one in found]}, indent=1
    )
    if output is not None:
        output.write_text(text + "\n")
    if not pattern and (kept := untried.found_path()) is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(text)
    return 1 if wrong else 0


def run(names: Sequence[str]) -> Iterator[Found]:
    """The outcome of each answer. An answer that ends its process, or takes too long, is a fault;
    the others go on in a new process."""
    left = list(names)
    with tempfile.TemporaryDirectory() as cache:  # programs are compiled anew
        while left:
            for one in _run_in_one_process(left, cache):
                left.remove(one.name)
                yield one


def _run_in_one_process(names: Sequence[str], cache: str) -> Iterator[Found]:
    with subprocess.Popen(
        CHILD,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TEUCER_CACHE_DIR": cache},
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(list(names)))
        child.stdin.close()
        begun, late, seconds = names[0], False, _START
        while True:
            watch = threading.Timer(seconds, child.kill)
            watch.start()
            line = _line(child.stdout)
            late = not watch.is_alive()
            watch.cancel()
            if not line:
                break
            said = json.loads(line)
            if "begun" in said:
                begun, seconds = said["begun"], said["seconds"]
            else:
                begun, seconds = "", _START
                yield Found(said["name"], said["fault"], said["took"])
        status = child.wait()
    if begun:
        what = "takes too long" if late else f"ends the process ({_status(status)})"
        yield Found(begun, what, seconds)


def _line(stream: IO[str]) -> str:
    """The next line of JSON; libraries may print others."""
    for line in stream:
        if line.startswith("{"):
            return line
    return ""


def _status(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"
