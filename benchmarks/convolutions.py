"""Single convolutions over two axes by YNNPACK and by Eigen: what `by_eigen` is fitted to.

    python benchmarks/convolutions.py --turns 12 > table.md

Both run in turn, forward and each gradient alone. The table has the least CPU time of each, in
microseconds, the millions of products, and what `by_eigen` says of the convolution.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import teucer as jax
from teucer._targets.cpu.convolutions import by_eigen

DEFAULT = "LIBRARY_FUSION_TYPE_DOT,LIBRARY_FUSION_TYPE_REDUCE"
OPTIONS = {
    "YNNPACK": f"{DEFAULT},LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION",
    "Eigen": DEFAULT,
}
# images, height, width, features, features of the result, kernel, stride
SIZES = [
    (n, size, inner, outer, kernel, stride)
    for n, size, kernel, stride in [
        (1, 32, 3, 1),
        (4, 32, 3, 1),
        (8, 16, 3, 1),
        (8, 8, 3, 1),
        (32, 32, 3, 1),
        (32, 8, 3, 1),
        (8, 32, 3, 2),
        (32, 16, 3, 2),
        (8, 32, 1, 1),
        (32, 16, 1, 1),
        (8, 16, 1, 2),
        (8, 32, 5, 1),
        (8, 28, 7, 1),
        (8, 56, 7, 2),
        (8, 32, 4, 4),
        (8, 32, 4, 2),
        (4, 64, 2, 2),
    ]
    for inner, outer in [
        (3, 32),
        (8, 32),
        (16, 16),
        (24, 24),
        (32, 12),
        (32, 32),
        (48, 12),
        (64, 16),
        (108, 12),
        (64, 24),
        (64, 64),
        (32, 128),
        (128, 32),
        (128, 128),
    ]
    if n * (size // stride) ** 2 * inner * outer * kernel**2 <= 2.5e8
]


def seconds(f: object, args: tuple[object, ...], least: float) -> np.ndarray:
    """What a call takes, on the clock and of processors: means over as many as take `least`
    seconds."""
    count, start = 0, now()
    while True:
        jax.block_until_ready(f(*args))
        count += 1
        spent = now() - start
        if spent[1] >= least:
            return spent / count


def now() -> np.ndarray:
    return np.array([time.perf_counter(), time.process_time()])


def variants(n: int, size: int, inner: int, outer: int, kernel: int, stride: int) -> dict:
    """Name -> (function, arguments)."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, size, size, inner)).astype(np.float32)
    w = rng.normal(size=(kernel, kernel, inner, outer)).astype(np.float32)

    def convolve(x, w):
        return jax.lax.conv_general_dilated(
            x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    y = np.asarray(convolve(x, w))
    image, weight = (jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (x, w))
    return {
        "forward": (convolve, (x, w)),
        "image": (lambda y, w: jax.linear_transpose(lambda x: convolve(x, w), image)(y)[0], (y, w)),
        "kernel": (
            lambda y, x: jax.linear_transpose(lambda w: convolve(x, w), weight)(y)[0],
            (y, x),
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--least", type=float, default=0.004, help="seconds of a turn")
    options = parser.parse_args()
    print(
        "| images, size, features, kernel, stride | which | products | YNNPACK | Eigen | by_eigen |"
    )
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    for sizes in SIZES:
        for name, (f, args) in variants(*sizes).items():
            args = jax.device_put(args)
            (eqn,) = [
                eqn
                for eqn in jax.jit(f).trace(*args).jaxpr.eqns
                if eqn.primitive is jax.lax.conv_general_dilated_p
            ]
            _, gain = by_eigen(*[v.aval for v in (*eqn.invars, *eqn.outvars)], **eqn.params)
            compiled = {
                library: jax.jit(
                    f, compiler_options={"xla_cpu_experimental_ynn_fusion_type": kinds}
                )
                .lower(*args)
                .compile()
                for library, kinds in OPTIONS.items()
            }
            best = dict.fromkeys(OPTIONS, np.full(2, np.inf))
            for g in compiled.values():
                jax.block_until_ready(g(*args))
            for _ in range(options.turns):
                for library, g in compiled.items():
                    best[library] = np.minimum(best[library], seconds(g, args, options.least))
            n, size, inner, outer, kernel, stride = sizes
            products = n * (size // stride) ** 2 * inner * outer * kernel**2
            row = [
                f"{n} x {size} x {size} x {inner} to {outer}, {kernel} x {kernel}, {stride}",
                name,
                f"{products / 1e6:.2f}",
                *[f"{best[library][clock] * 1e6:.0f}" for clock in (1, 0) for library in OPTIONS],
                f"{gain / 1e6:.2f}",
            ]
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
