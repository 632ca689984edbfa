"""`teucer debug SCRIPT`: run a program, and stop at its lines."""

import sys
from collections.abc import Sequence

from teucer._executables.effects import effects_barrier
from teucer.cli import _run
from teucer.debug._stepping import Stepper


def debug(script: str, args: Sequence[str]) -> int:
    """Run the file as `teucer run` does; ask at its first line, and after an exception where it was
    raised."""
    stepper = Stepper()
    stepper.begin()
    try:
        status = _run.run(script, args)
        if not status:
            effects_barrier()
    finally:
        stepper.end()
    if status:
        stepper.examine(getattr(sys.last_value, "__traceback__", None))
    return status
