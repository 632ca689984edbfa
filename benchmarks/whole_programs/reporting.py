"""What the programs tell the process that started them: when the first result was there, and how long steps take."""

import json
import time
from collections.abc import Callable

import jax


def measured(step: Callable[[], jax.Array], steps: int) -> None:
    """Print the first result of a step, then the time of the quickest of those that follow and the last result."""
    print(json.dumps({"first": float(step())}), flush=True)
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        last = float(step())
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"last": last, "step": min(seconds)}), flush=True)
