"""What `teucer profile` costs while a program runs, and how much of the time it gives lines.

Prints a table.

Steps run recorded and not recorded in turn, in one process, so that both meet the same noise. The
least time of each counts. The cost of the end is what reading the trace and making the table takes,
once a run.
"""

import argparse
import time

import transformer

import teucer as jax
import teucer.numpy as jnp
from teucer.debug._profile import Recording


def mlp():
    """A step of gradient descent of three layers."""
    ws, x = [jnp.ones((512, 512)) * 0.01 for _ in range(3)], jnp.ones((256, 512))

    def loss(ws):
        y = x
        for w in ws:
            y = jnp.tanh(y @ w)
        return (y**2).mean()

    return jax.jit(
        lambda ws: [w - 0.1 * g for w, g in zip(ws, jax.grad(loss)(ws), strict=True)]
    ), ws


def transformer_step():
    """A step of gradient descent of a transformer of two layers."""
    loss, batch = transformer.make_loss(jax, jnp), transformer.make_batch()
    params = jax.tree.map(jnp.asarray, transformer.init_params(2))
    return jax.jit(
        lambda p: jax.tree.map(lambda w, g: w - 0.01 * g, p, jax.grad(loss)(p, *batch))
    ), params


def rnn():
    """The gradient of a scan over 100 steps of a small cell."""

    def loss(w, xs):
        cell = lambda h, x: (jnp.tanh(h @ w + x), None)  # noqa: E731
        return (jax.lax.scan(cell, jnp.zeros((32, 64)), xs)[0] ** 2).sum()

    xs = jnp.ones((100, 32, 64))
    return jax.jit(lambda w: w - 0.01 * jax.grad(loss)(w, xs)), jnp.eye(64)


def small():
    """A program of microseconds: the cost of a call."""
    return jax.jit(lambda x: jnp.sin(x) + 1), jnp.ones(10)


def steps(f, state, count):
    """The least seconds of a step."""
    best = float("inf")
    for _ in range(count):
        start = time.perf_counter()
        state = jax.block_until_ready(f(state))
        best = min(best, time.perf_counter() - start)
    return best


def measured(make, rounds, count):
    """Seconds of a step alone and recorded, seconds at the end, and the parts of the time that have
    a line."""
    f, state = make()
    alone, recorded, ends, attributed = [], [], [], []
    steps(f, state, 3)
    for _ in range(rounds):
        alone.append(steps(f, state, count))
        recording = Recording().start()
        recorded.append(steps(f, state, count))
        start = time.perf_counter()
        attributed.append(recording.stop().attributed)
        ends.append(time.perf_counter() - start)
    return min(alone), min(recorded), min(ends), min(attributed)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=15)
    options = parser.parse_args()
    print("| program | step, ms | recorded, ms | cost, % | at the end, s | time with a line, % |")
    print("| --- | --- | --- | --- | --- | --- |")
    for make in (mlp, transformer_step, rnn, small):
        alone, recorded, end, attributed = measured(make, options.rounds, options.steps)
        print(
            f"| {make.__name__} | {1e3 * alone:.3f} | {1e3 * recorded:.3f} | "
            f"{100 * (recorded / alone - 1):.1f} | {end:.2f} | {100 * attributed:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
