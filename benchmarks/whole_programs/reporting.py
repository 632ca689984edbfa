"""What the programs tell the process that started them.

When the first result was there, and how long steps take.
"""

import json
import time
from collections.abc import Callable

import jax


def measured(step: Callable[[], jax.Array], steps: int) -> None:
    """Print the first result of a step, then that of the last of `steps` more; with the seconds of
    the processor.

    They count from the start of the process to the first result, and of the quickest step. Other
    programs change them little.
    """
    value = float(step())
    print(json.dumps({"value": value, "seconds": time.process_time()}), flush=True)
    seconds = []
    for _ in range(steps):
        start = time.process_time()
        value = float(step())
        seconds.append(time.process_time() - start)
    print(json.dumps({"value": value, "seconds": min(seconds)}), flush=True)
