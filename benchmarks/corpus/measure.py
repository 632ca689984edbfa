"""One case of the corpus in one library: `python measure.py jax mlp.train`.

It runs in the environment of that library. Without arguments it lists the cases (with Teucer).
It prints a JSON object a line: first how the program came to run, then for each line "turn" that it
reads, what a step takes, and at the end the memory. compare.py gives two processes their turns.
Seconds are pairs: on the clock, and of processors.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parent.parent))
import arrays  # noqa: F401 - each adds its programs to the corpus
import learning  # noqa: F401
import networks  # noqa: F401
import science  # noqa: F401
import sequences  # noqa: F401
import strangers  # noqa: F401
import transformers  # noqa: F401
from cases import PROGRAMS, Case, Cases, Library

TURN = 0.1  # seconds of steps in a turn, at least
WARM_UP = 3  # steps before the first turn, as in a training loop


def of_programs(jax: Library, name: str) -> Cases:
    """A program of this folder, or of benchmarks/programs.py, which `make bench` measures."""
    if name in PROGRAMS:
        made = PROGRAMS[name](jax, jax.numpy)
    else:
        from programs import PROGRAMS as HARD

        made = Case(*HARD[name](jax, jax.numpy))
    return {"run": made} if isinstance(made, Case) else made


def now() -> np.ndarray:
    """The clock, and what the processors have spent on this process."""
    return np.array([time.perf_counter(), time.process_time()])


def measure(library: str, name: str) -> None:
    start = now()
    jax = importlib.import_module(library)
    importlib.import_module(f"{library}.numpy")
    stages = {"start": now() - start}
    for part in ("linalg", "special", "sparse.linalg"):
        importlib.import_module(f"{library}.scipy.{part}")
    program, _, variant = name.partition(".")
    function, args = of_programs(jax, program)[variant]
    args = jax.device_put(args)
    jax.block_until_ready(jax.jit(lambda x: x + 1)(jax.numpy.ones(3)))  # the backend starts

    before = now()
    jitted = jax.jit(function)
    traced = jitted.trace(*args)
    stages["trace"] = now() - before
    lowered = traced.lower()
    stages["lower"] = now() - before - stages["trace"]
    compiled = lowered.compile()
    stages["ready"] = now() - before
    stages["compile"] = stages["ready"] - stages["trace"] - stages["lower"]
    results = jax.block_until_ready(compiled(*args))
    stages["first"] = now() - before
    value = sum(np.abs(np.asarray(leaf, np.float64)).mean() for leaf in jax.tree.leaves(results))
    say({stage: list(seconds) for stage, seconds in stages.items()} | {"value": value})

    def steps(count: int) -> np.ndarray:
        start = now()
        for _ in range(count):
            jax.block_until_ready(compiled(*args))
        return (now() - start) / count

    count = max(1, int(TURN / min(steps(1)[0] for _ in range(WARM_UP))))
    for line in sys.stdin:
        if line.strip() == "turn":
            say({"step": list(steps(count))})
    say({"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024})


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def cases() -> list[str]:
    """The cases of this folder, then those of benchmarks/programs.py."""
    from programs import PROGRAMS as HARD

    import teucer

    return [
        f"{name}.{variant}" for name in [*PROGRAMS, *HARD] for variant in of_programs(teucer, name)
    ]


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure(*sys.argv[1:])
    else:
        print("\n".join(cases()))
