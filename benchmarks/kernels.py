"""Kernels compiled on the CPU beside the same programs by jnp.

Python benchmarks/kernels.py [--runs 80].

Both run in turn, and the least time of each counts.
"""

import argparse
import importlib.util
import time
from pathlib import Path

import numpy as np

import teucer as jax
import teucer.numpy as jnp

_SPEC = importlib.util.spec_from_file_location(
    "kernels", Path(__file__).parents[1] / "examples" / "pallas" / "kernels.py"
)
kernels = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(kernels)


def numbers(*shape):
    return jnp.asarray(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def plain_matmul(x, y, bias):
    return jnp.maximum(x @ y + bias, 0)


def plain_layer_norm(x, scale):
    mean = x.mean(1, keepdims=True)
    inverse = jax.lax.rsqrt(((x - mean) ** 2).mean(1, keepdims=True) + 1e-6)
    return (x - mean) * inverse * scale, mean, inverse


def layer_norm(x, scale):
    """The kernel of the forward pass, which gives what the backward pass needs too."""
    y, (_, _, mean, inverse) = kernels._layer_norm_forward(x, scale)
    return y, mean, inverse


def plain_attention(q, k, v):
    return jax.nn.softmax(q @ k.T / jnp.sqrt(jnp.float32(q.shape[1]))) @ v


def cases():
    """Name, kernel, plain program, arguments."""
    matrices = numbers(512, 512), numbers(512, 512), numbers(512)
    rows, heads = numbers(1024, 1024), (numbers(1024, 64), numbers(1024, 64), numbers(1024, 64))
    yield "add, 8 rows", kernels.add, lambda x, y: x + y, (rows, rows)
    yield (
        "matmul 512, blocks 64x32x512",
        lambda *a: kernels.matmul(*a, 64, 32, 512),
        plain_matmul,
        matrices,
    )
    yield (
        "matmul 512, blocks 128x128x128",
        lambda *a: kernels.matmul(*a, 128, 128, 128),
        plain_matmul,
        matrices,
    )
    yield "softmax 1024x1024, 8 rows", kernels.softmax, jax.nn.softmax, (rows,)
    yield "layer norm 1024x1024, 8 rows", layer_norm, plain_layer_norm, (rows, numbers(1024))
    yield (
        "flash attention 1024x64, 64x64",
        lambda *a: kernels.attention(*a, 64, 64),
        plain_attention,
        heads,
    )


def least(functions, args, runs):
    """The least time of each function, in ms, run in turn."""
    found = [float("inf")] * len(functions)
    for _ in range(runs):
        for i, f in enumerate(functions):
            start = time.perf_counter()
            jax.block_until_ready(f(*args))
            found[i] = min(found[i], (time.perf_counter() - start) * 1e3)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=80)
    options = parser.parse_args()
    print(f"{'':32}{'kernel':>9}{'plain':>9}{'ratio':>7}")
    for name, kernel, plain, args in cases():
        functions = [jax.jit(kernel), jax.jit(plain)]
        for f in functions:
            jax.block_until_ready(f(*args))
        own, theirs = least(functions, args, options.runs)
        print(f"{name:32}{own:7.2f}ms{theirs:7.2f}ms{own / theirs:7.2f}")


if __name__ == "__main__":
    main()
