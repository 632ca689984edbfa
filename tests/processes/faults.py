"""Processes that fail, and what the others say of it.

From the folder `tests`, `python -m processes.faults --turns 20 -n 2 4` counts how each fault ended,
of so many times.
"""

import argparse
import collections
import re
import subprocess
import time

from processes.launching import launch

__all__ = ["FAST", "FAULTS", "check_fault"]

FAST = {"TEUCER_HEARTBEAT_TIMEOUT": "5", "TEUCER_COLLECTIVE_TIMEOUT": "8"}

FAULTS = {
    "raises": r"process {last} has failed: ValueError: bad data, at .*programs.py:\d+",
    "raises late": r"ProcessFailure: process {last} has failed: ValueError: bad data",
    "compiles another": (
        r"process {last} and process 0 run different programs as their call number 1 "
        r".*\n(.*\n)*?.*programs.py:\d+"
    ),
    "other order": r"process {last} and process 0 run different programs as their call number \d+",
    "other shapes": (
        r"process {last} and process 0 run different programs as their call number \d+ "
        r".*\n(.*\n)*?.*programs.py:\d+"
    ),
    "smaller batch": (
        r"process {last} and process 0 run different programs as their call number 2 .*\n"
        r".*process {last}: .*called at .*programs.py:\d+.*\n"
        r".*process 0: .*called at .*programs.py:\d+(.*\n)*?"
        r".*- .*tensor<.*\n.*\+ .*tensor<"
    ),
    "dies": r"process {last} has failed: it has given no sign for 5 s",
    "dies 0": r"process 0 has failed: it has given no sign for 5 s",
    "stops": r"process {last} has failed: it has given no sign for 5 s",
    "stops 0": r"process 0 has failed: it has given no sign for 5 s",
    "ends": r"process {last} ended without <lambda>, called at .*programs.py:\d+",
    "sleeps": r"process {last} did not come to <lambda>, called at .*programs.py:\d+",
}


def check_fault(kind, n):
    """Raise AssertionError unless every process of n ends, and the right one is named."""
    done = launch(kind, n, **FAST)
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert "wrong" not in said
    assert re.search(FAULTS[kind].format(last=n - 1), said), said
    # The table at the end says of each why it ended, without the note below tracebacks.
    assert not re.search(
        r"^ +\d+  status .* s  (\(For simplicity.*|Thread 0x.*)?$", said, re.MULTILINE
    ), said
    # Every process but those that were killed says in its last words who is at fault.
    assert not re.search(r"FATAL|Terminating process because", said), said


def main():
    """Count the outcomes, and print them as a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("-n", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--kinds", nargs="+", default=list(FAULTS), choices=list(FAULTS))
    args = parser.parse_args()
    for n in args.n:
        for kind in args.kinds:
            outcomes, longest = collections.Counter(), 0.0
            for turn in range(args.turns):
                start = time.monotonic()
                try:
                    check_fault(kind, n)
                    outcomes["right"] += 1
                except subprocess.TimeoutExpired as err:
                    outcomes["hung"] += 1
                    print(
                        f"{kind}, {n} processes, turn {turn} hung:\n{err.stdout}\n{err.stderr}",
                        flush=True,
                    )
                except AssertionError as err:
                    outcomes["wrong"] += 1
                    print(f"{kind}, {n} processes, turn {turn} was wrong:\n{err}", flush=True)
                longest = max(longest, time.monotonic() - start)
            counts = ", ".join(f"{count} {how}" for how, count in outcomes.items())
            print(
                f"{n} processes, {kind:<18} {counts}; the longest took {longest:.0f} s", flush=True
            )


if __name__ == "__main__":
    main()
