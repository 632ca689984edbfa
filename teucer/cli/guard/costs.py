"""The costs of programs as they grow: time at n and 4 n, memory, and time to compile.

Times are of the processor."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.cli.guard.answer import Answer

__all__ = ["ANSWERS"]

# A linear program may take this many times as long at 4 n: caches end, and other programs run on
# the machine. A quadratic one takes 16 times as long.
_LINEAR = 10.0
# Processor seconds that are too few to compare: a program that takes less at 4 n is not slow.
_SHORT = 0.05
# Limits for a small program: processor seconds to compile, and bytes beside its arguments and
# results.
_COMPILE, _TEMPORARY = 15.0, 4.0


def _linear(program: Callable[[int], tuple[Callable[..., Any], list[Any]]], n: int) -> str:
    times = [_least(*program(size)) for size in (n, 4 * n)]
    if times[1] > _SHORT and times[1] > _LINEAR * times[0]:
        return f"{times[0] * 1e3:.3g} ms for {n}, {times[1] * 1e3:.3g} ms for {4 * n}"
    return ""


def _least(f: Callable[..., Any], args: list[Any]) -> float:
    compiled = jax.jit(f)
    jax.block_until_ready(compiled(*args))
    found = []
    for _ in range(5):
        start = time.process_time()
        jax.block_until_ready(compiled(*args))
        found.append(time.process_time() - start)
    return min(found)


def _memory(program: Callable[[int], tuple[Callable[..., Any], list[Any]]], n: int) -> str:
    f, args = program(n)
    found = jax.jit(f).lower(*args).compile().memory_analysis()
    needed = found.argument_size_in_bytes + found.output_size_in_bytes
    if found.temp_size_in_bytes > _TEMPORARY * needed:
        return f"{found.temp_size_in_bytes} bytes beside {needed} of arguments and results"
    return ""


def _compiled(f: Callable[..., Any], *args: Any) -> str:
    start = time.process_time()
    jax.jit(f).lower(*args).compile()
    seconds = time.process_time() - start
    return "" if seconds < _COMPILE else f"{seconds:.3g} s of the processor to compile"


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0.1, 1, shape).astype(np.float32)


def _written(n: int) -> Any:
    loop = lambda: lax.fori_loop(  # noqa: E731
        0, n - 1, lambda t, a: a.at[t + 1].set(a[t] / 2 + 1), jnp.zeros(n)
    )
    return loop, []


def _stacked(n: int) -> Any:
    return lambda: lax.scan(lambda c, _: (c / 2 + 1, c), 0.0, None, length=n)[1], []


def _read(n: int) -> Any:
    return lambda xs: lax.scan(lambda c, x: (c / 2 + x, None), 0.0, xs)[0], [_floats(n)]


def _rows_written(n: int) -> Any:
    return (
        lambda xs: lax.fori_loop(0, n, lambda i, a: a.at[i].set(jnp.sin(xs[i])), jnp.zeros((n, 8))),
        [_floats(n, 8)],
    )


def _drawn(n: int) -> Any:
    """jax 31284: the written value is chosen by a random number."""

    def step(carry: Any) -> Any:
        i, xs = carry
        j = jax.random.randint(jax.random.key(i), (), 0, 2)
        return i + 1, xs.at[i].set(xs[j])

    return lambda xs: lax.while_loop(lambda c: c[0] < n, step, (0, xs))[1], [_floats(n)]


def _gradient(n: int) -> Any:
    f = lambda xs: lax.scan(lambda c, x: (jnp.tanh(c + x), c), 0.0, xs)[1].sum()  # noqa: E731
    return jax.grad(f), [_floats(n)]


def _carried(n: int) -> Any:
    """A large array that a loop reads and does not write."""
    return lambda x: lax.fori_loop(0, 100, lambda i, c: c + x[i], 0.0), [_floats(100 * n)]


def _factors(a: Any) -> Any:
    return jnp.linalg.cholesky(a @ a.transpose(0, 2, 1) + jnp.eye(4))


_LINEAR_PROGRAMS: dict[str, tuple[Callable[[int], Any], int]] = {
    "a loop that writes an element a step": (_written, 20_000),
    "a scan that stacks results": (_stacked, 20_000),
    "a scan over elements": (_read, 20_000),
    "a loop that writes a row a step": (_rows_written, 5_000),
    "a loop that writes what it draws": (_drawn, 5_000),
    "the gradient of a scan": (_gradient, 10_000),
    "a loop beside a large array": (_carried, 10_000),
    "elementwise functions": (lambda n: (lambda x: jnp.exp(x) * jnp.sin(x), [_floats(n)]), 300_000),
    "a sum": (lambda n: (jnp.sum, [_floats(n)]), 1_000_000),
    "a maximum along rows": (lambda n: (lambda x: x.max(1), [_floats(n, 16)]), 50_000),
    "a maximum along columns": (lambda n: (lambda x: x.max(0), [_floats(n, 16)]), 50_000),
    "a cumulative sum": (lambda n: (jnp.cumsum, [_floats(n)]), 100_000),
    "a sort": (lambda n: (jnp.sort, [_floats(n)]), 50_000),
    "a gather": (lambda n: (lambda x, i: x[i], [_floats(n), np.arange(n)[::-1].copy()]), 200_000),
    "a scatter": (
        lambda n: (lambda x, i: jnp.zeros(n).at[i].add(x), [_floats(n), np.arange(n)[::-1].copy()]),
        50_000,
    ),
    "a concatenation": (
        lambda n: (lambda x: jnp.concatenate([x, x + 1, x]), [_floats(n)]),
        300_000,
    ),
    "a transposition": (lambda n: (lambda x: x.T + 1, [_floats(n, 64)]), 10_000),
    "a product with a vector": (
        lambda n: (lambda a, b: a @ b, [_floats(n, 64), _floats(64)]),
        20_000,
    ),
    "a batch of small products": (
        lambda n: (lambda a, b: a @ b, [_floats(n, 4, 4), _floats(n, 4, 4)]),
        20_000,
    ),
    "a batch of small factors": (lambda n: (_factors, [_floats(n, 4, 4)]), 2_000),
    "a convolution": (
        lambda n: (lambda x, w: lax.conv(x, w, (1,), "SAME"), [_floats(4, 8, n), _floats(8, 8, 5)]),
        10_000,
    ),
    "a Fourier transform": (lambda n: (jnp.fft.fft, [_floats(n)]), 1 << 16),
    "random normals": (
        lambda n: (lambda k: jax.random.normal(k, (n,)), [jax.random.key(0)]),
        100_000,
    ),
}


def _ten_axes(a: Any) -> Any:
    return jnp.einsum("abcdefghij,jihgfedcba->acegi", a, a) + jnp.transpose(a).sum((1, 3, 5, 7, 9))


def _many_axes(a: Any, b: Any) -> Any:
    for axis in range(10):
        a = jnp.tensordot(b, a, [[1], [axis]])
    return a


def _layers(x: Any, ws: Any) -> Any:
    for w in ws:
        x = jnp.tanh(x @ w)
    return x.sum()


def _slices(x: Any) -> Any:
    return jnp.concatenate([x[i : i + 7] * i for i in range(0, 600, 3)])


def _powers(x: Any) -> Any:
    for _ in range(60):
        x = x * x - jnp.roll(x, 1)
    return x


_COMPILED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "contractions of ten axes": (_ten_axes, (_floats(*(2,) * 10),)),
    "gates on ten axes": (_many_axes, (_floats(*(2,) * 10), _floats(2, 2))),
    "gradients of 40 layers": (jax.grad(_layers), (_floats(8, 16), [_floats(16, 16)] * 40)),
    "200 slices": (_slices, (_floats(700),)),
    "60 steps of squares and rolls": (_powers, (_floats(64),)),
    "a long scan": (lambda xs: lax.scan(lambda c, x: (c + x, c), 0.0, xs), (_floats(100_000),)),
    "a constant of a million": (lambda x: x + _floats(1_000_000), (1.0,)),
    "log of zeros": (lambda: jnp.log(jnp.zeros((6, 2, 2, 294))), ()),
}
_MEMORY = (
    "a loop that writes an element a step",
    "elementwise functions",
    "the gradient of a scan",
    "a cumulative sum",
    "a maximum along columns",
    "a scatter",
    "a convolution",
)

ANSWERS = (
    [
        Answer(f"time of {name}", functools.partial(_linear, program, n))
        for name, (program, n) in _LINEAR_PROGRAMS.items()
    ]
    + [
        Answer(f"memory of {name}", functools.partial(_memory, *_LINEAR_PROGRAMS[name]))
        for name in _MEMORY
    ]
    + [
        Answer(f"compiling {name}", functools.partial(_compiled, f, *args), 100.0)
        for name, (f, args) in _COMPILED.items()
    ]
)
