"""The process that runs answers: python -m teucer.cli.guard.child.

It prints a line of JSON before each answer and one after it, so that its parent knows which answer
ended it.
"""

from __future__ import annotations

import json
import sys
import time

import teucer as jax
from teucer.cli.guard.table import all_answers


def main() -> None:
    """Run the answers whose names stand in the input, and report the outcome of each."""
    names: list[str] = json.loads(sys.stdin.read())
    jax.config.update("jax_enable_x64", True)
    answers = {answer.name: answer for answer in all_answers()}
    for name in names:
        print(json.dumps({"begun": name, "seconds": answers[name].seconds}), flush=True)
        start = time.perf_counter()
        try:
            fault = answers[name].check()
        except Exception as err:  # an exception of the compiler is the outcome
            fault = f"{type(err).__name__}: {str(err).splitlines()[0] if str(err) else ''}"
        seconds = time.perf_counter() - start
        print(json.dumps({"name": name, "fault": fault, "took": seconds}), flush=True)


if __name__ == "__main__":
    main()
