"""A training step on 1000 batches of random sizes.

One compilation with dynamic_dims, beside JAX compiling each size.

`python benchmarks/dynamic_sizes.py --jax PYTHON --teucer PYTHON` prints seconds and calls a second.
JAX's time is extrapolated: --sizes distinct sizes are compiled and run, and then run again; the
rest is counted as so many compilations and runs more.
"""

import argparse
import importlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BOUND, CALLS, LAYERS = 1024, 1000, (64, 256, 256, 10)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax", help="a Python that has JAX")
    parser.add_argument("--teucer", help="a Python that has Teucer")
    parser.add_argument(
        "--sizes", type=int, default=30, help="how many sizes JAX compiles (default: %(default)s)"
    )
    parser.add_argument(
        "--measure", choices=("jax", "bound", "power", "each"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.sizes)))
        return
    rows = [
        ("jax", "JAX, a compilation each size", options.jax),
        ("each", "Teucer, a compilation each size", options.teucer),
        ("bound", f"Teucer, dynamic_dims={BOUND}", options.teucer),
        ("power", "Teucer, power of two", options.teucer),
    ]
    print(
        f"{CALLS} batches of {len(set(batch_sizes()))} different sizes up to {BOUND}, MLP of "
        f"widths {LAYERS}, loss and gradient"
    )
    print(f"{'':34} {'compiled':>8} {'total':>9} {'calls/s':>9} {'a call, warm':>13}")
    for kind, text, python in rows:
        if python is None:
            continue
        found = run(python, kind, options.sizes)
        print(
            f"{text:34} {found['compiled']:8} {found['total']:7.1f} s "
            f"{CALLS / found['total']:9.0f} {found['warm'] * 1e3:10.2f} "
            f"ms{'  (extrapolated)' if kind in ('jax', 'each') else ''}"
        )


def run(python, kind, sizes):
    """A measure in a process of its own, with no compiled program on disk."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [python, Path(__file__), f"--measure={kind}", f"--sizes={sizes}"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "TEUCER_CACHE_DIR": cache},
        )
    if done.returncode:
        sys.exit(f"{kind} failed under {python}; its error is above.")
    return json.loads(done.stdout)


def batch_sizes():
    return np.random.default_rng(0).integers(1, BOUND + 1, CALLS).tolist()


def measure(kind, n_compiled):
    jax = importlib.import_module("jax" if kind == "jax" else "teucer")
    jnp = importlib.import_module(f"{jax.__name__}.numpy")
    rng = np.random.default_rng(1)
    weights = [
        jnp.asarray((rng.standard_normal((m, n)) / np.sqrt(m)).astype(np.float32))
        for m, n in itertools.pairwise(LAYERS)
    ]

    def loss(weights, x, labels):
        for w in weights[:-1]:
            x = jnp.maximum(x @ w, 0)
        logits = x @ weights[-1]
        picked = jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=1) - picked)

    options = {
        "bound": {"dynamic_dims": {"x": BOUND, "labels": BOUND}},
        "power": {"dynamic_dims": {"x": "power of two", "labels": "power of two"}},
    }.get(kind, {})
    step = jax.jit(jax.value_and_grad(loss), **options)
    batches = [
        (
            rng.standard_normal((n, LAYERS[0])).astype(np.float32),
            rng.integers(0, LAYERS[-1], n).astype(np.int32),
        )
        for n in batch_sizes()
    ]

    def seconds(batches):
        start = time.perf_counter()
        for x, labels in batches:
            value, gradients = step(weights, x, labels)
        jax.block_until_ready((value, gradients))
        return time.perf_counter() - start

    jax.block_until_ready(
        jax.grad(loss)(
            weights, np.ones((BOUND + 1, LAYERS[0]), np.float32), np.zeros(BOUND + 1, np.int32)
        )
    )
    if kind in ("bound", "power"):
        total = seconds(batches)
        warm = seconds(batches) / CALLS
        compiled = (
            1 if kind == "bound" else len({max(len(x) - 1, 0).bit_length() for x, _ in batches})
        )
        return {"total": total, "warm": warm, "compiled": compiled}
    first = {len(b[0]): b for b in batches}
    some = list(first.values())[:n_compiled]
    cold = seconds(some) / len(some)
    warm = seconds(some) / len(some)
    return {
        "total": len(first) * (cold - warm) + CALLS * warm,
        "warm": warm,
        "compiled": len(first),
    }


if __name__ == "__main__":
    main()
