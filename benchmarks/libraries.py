"""Teucer and JAX side by side.

Each answers from a process of its own, so that neither sees the other.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).parent


class Answer(NamedTuple):
    """The first result of a function, the CPU seconds of its quickest call, and by the clock those
    of its median call."""

    value: np.ndarray
    cpu: float
    clock: float


class Library:
    """A library in another process, which applies functions to arrays."""

    def __init__(self, python: str, name: str, folder: str) -> None:
        self.name, self.folder = name, folder
        self.process = subprocess.Popen(
            [python, __file__, name, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=HERE.parent,
        )

    def apply(self, function: str, *arguments: np.ndarray, repetitions: int = 0) -> Answer:
        """Apply a function to arrays.

        function: a path such as `numpy.sin`, or `lambda` of arrays with jnp, lax, special, sparse,
        random and jax in scope.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for i, x in enumerate(arguments):
            np.save(f"{self.folder}/in{i}.npy", x)
        print(repetitions, len(arguments), function, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"{self.name} ended while it computed {function}; its error is above."
            )
        cpu, clock = map(float, line.split())
        return Answer(np.load(f"{self.folder}/out.npy"), cpu, clock)


def serve(name: str, folder: str) -> None:
    """Answer lines `repetitions arguments function`: apply it, jitted, to the arrays of in0.npy and
    so on, and write out.npy."""
    root = importlib.import_module(name)
    scope: dict[str, Any] = {
        "jax": root,
        "jnp": root.numpy,
        "lax": root.lax,
        "random": root.random,
        "sparse": importlib.import_module(f"{name}.experimental.sparse"),
        "special": importlib.import_module(f"{name}.scipy.special"),
    }
    known: dict[str, Any] = {}
    for line in sys.stdin:
        count, number, text = line.rstrip("\n").split(" ", 2)
        if text.startswith("lambda"):
            function = eval(text, scope)  # a row of our own tables
        else:
            module, _, attribute = text.rpartition(".")
            function = getattr(importlib.import_module(f"{name}.{module}"), attribute)
        arrays = [np.load(f"{folder}/in{i}.npy") for i in range(int(number))]
        root.config.update(
            "jax_enable_x64", any(x.dtype.name in ("float64", "complex128") for x in arrays)
        )
        arguments = [root.numpy.asarray(x) for x in arrays]
        jitted = known.setdefault(text, root.jit(function))
        out = root.tree.leaves(jitted(*arguments))[0]
        np.save(f"{folder}/out.npy", np.asarray(out))
        cpu, clock = [], []
        for _ in range(int(count)):
            start, start_cpu = time.perf_counter(), time.process_time()
            root.block_until_ready(jitted(*arguments))
            cpu.append(time.process_time() - start_cpu)
            clock.append(time.perf_counter() - start)
        print(min(cpu, default=0.0), float(np.median(clock)) if clock else 0.0, flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
