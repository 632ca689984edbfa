"""Random kernels compute what NumPy does block by block.

Interpreted, compiled for the CPU, and as Triton IR in NumPy.
"""

import itertools

import numpy as np
import pytest
from kernels import ways

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import triton as plgpu

# Functions of a module, jnp or np, and of arrays of one shape and dtype, which they keep.
FLOATS = [
    lambda xp, a, b: a + b,
    lambda xp, a, b: a - b * 0.5,
    lambda xp, a, b: a * b,
    lambda xp, a, b: xp.maximum(a, b),
    lambda xp, a, b: xp.where(a > b, a, b * 0.25),
    lambda xp, a, b: xp.tanh(a) + b,
    lambda xp, a, b: xp.exp(-xp.abs(a)) - b,
    lambda xp, a, b: xp.sqrt(xp.abs(a) + 1) * b,
    lambda xp, a, b: a - xp.max(a, -1, keepdims=True) + b,
    lambda xp, a, b: a / (xp.sum(xp.abs(b), -1, keepdims=True) + 1),
    lambda xp, a, b: xp.cumsum(a, -1) * 0.1 + b,
    lambda xp, a, b: xp.floor(a * 3) + b,
    lambda xp, a, b: xp.clip(a, -1, 1) - b,
    lambda xp, a, b: xp.where(xp.isfinite(a), a, 0) + xp.min(b, 0, keepdims=True),
]
INTS = [
    lambda xp, a, b: a + b,
    lambda xp, a, b: a - b,
    lambda xp, a, b: a * b,
    lambda xp, a, b: xp.minimum(a, b),
    lambda xp, a, b: a & b,
    lambda xp, a, b: a ^ ~b,
    lambda xp, a, b: xp.where(a < b, b, a),
    lambda xp, a, b: xp.abs(a) | b,
    lambda xp, a, b: (a >> 2) + b,
    lambda xp, a, b: a + xp.sum(b, -1, keepdims=True, dtype=b.dtype),
    lambda xp, a, b: a - xp.argmax(b, -1, keepdims=True).astype(b.dtype),
    lambda xp, a, b: xp.cumsum(a, -1, dtype=a.dtype) + b,
]


def program(rng, table):
    """A function of a module and two arrays: a few operations on what has been computed."""
    steps = [
        (table[rng.integers(len(table))], *rng.integers(0, 2 + k, 2))
        for k in range(rng.integers(1, 6))
    ]

    def f(xp, x, y):
        known = [x, y]
        for operation, i, j in steps:
            known.append(operation(xp, known[i], known[j]))
        return known[-1]

    return f


def made(seed):
    """A kernel as a function of two arrays, given how it is interpreted; what it means in NumPy;
    the arrays."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype([np.float32, np.int32][rng.integers(2)])
    f = program(rng, FLOATS if dtype.kind == "f" else INTS)
    block = tuple(int(2 ** rng.integers(0, 4)) for _ in range(2))
    grid = tuple(int(rng.integers(1, 4)) for _ in range(2))
    shape = tuple(max(1, n * g - int(rng.integers(0, n))) for n, g in zip(block, grid, strict=True))
    adds, masked, transposed = rng.random() < 0.35, rng.random() < 0.3, rng.random() < 0.3
    x, y = ((rng.standard_normal(shape) * 3).astype(dtype) for _ in range(2))
    fill = np.array(np.nan if dtype.kind == "f" else 0, dtype)
    out_shape = (shape[0], block[1]) if adds else shape

    def kernel(x_ref, y_ref, o_ref):
        a = x_ref[...]
        if masked:
            a = plgpu.load(x_ref, mask=y_ref[...] > 0, other=1)
        value = f(jnp, a, y_ref[...])
        if not adds:
            o_ref[...] = value
            return

        @pl.when(pl.program_id(1) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.where(jnp.isfinite(value), value, 0).astype(dtype)

    def y_place(i, j):
        return (grid[0] - 1 - i, j) if transposed else (i, j)

    def call(interpret):
        return pl.pallas_call(
            kernel,
            jax.ShapeDtypeStruct(out_shape, dtype),
            grid=grid,
            interpret=interpret,
            in_specs=[pl.BlockSpec(block, lambda i, j: (i, j)), pl.BlockSpec(block, y_place)],
            out_specs=pl.BlockSpec(block, lambda i, j: (i, 0 if adds else j)),
        )

    def meaning():
        pads = [(0, n * g - s) for n, g, s in zip(block, grid, shape, strict=True)]
        wide_x, wide_y = (np.pad(a, pads, constant_values=fill) for a in (x, y))
        out = np.zeros(
            [n * g for n, g in zip(block, (grid[0], 1) if adds else grid, strict=True)], dtype
        )
        for i, j in itertools.product(*map(range, grid)):

            def part(a, i, j):
                return a[i * block[0] : (i + 1) * block[0], j * block[1] : (j + 1) * block[1]]

            a, b = part(wide_x, i, j), part(wide_y, *y_place(i, j))
            with np.errstate(all="ignore"):
                value = f(np, np.where(b > 0, a, np.array(1, dtype)) if masked else a, b).astype(
                    dtype
                )
            if adds:
                part(out, i, 0)[...] += np.where(np.isfinite(value), value, 0).astype(dtype)
            else:
                part(out, i, j)[...] = value
        return out[: out_shape[0], : out_shape[1]]

    return call, meaning, (x, y)


def check(seed):
    call, meaning, args = made(seed)
    expected = meaning()
    for found in (call(False)(*args), call(True)(*args), ways.triton(call(False), *args)):
        if expected.dtype.kind == "i":
            np.testing.assert_array_equal(found, expected)
        else:
            np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_random_kernels(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(20))
def test_two_thousand_random_kernels(hundred):
    for seed in range(100 * hundred, 100 * hundred + 100):
        check(seed)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-4)


def check_within(seed):
    """A kernel batched, as the step of a loop, on each device of a mesh, and differentiated."""
    call, _, args = made(seed)
    one = call(seed % 2 == 1)
    batch = [np.stack([a, a[::-1], -a]) for a in args]
    expected = np.stack([one(*each) for each in zip(*batch, strict=True)])
    close(jax.jit(jax.vmap(one))(*batch), expected)
    close(
        jax.vmap(one, in_axes=(0, None))(batch[0], args[1]),
        jax.vmap(lambda x: one(x, args[1]))(batch[0]),
    )
    close(jax.lax.scan(lambda c, xs: (c + 1, one(*xs)), 0, tuple(batch))[1], expected)
    mesh = jax.make_mesh((3,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    over = jax.shard_map(
        lambda x, y: one(x[0], y[0])[None], mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x")
    )
    close(jax.jit(over)(*batch), expected)
    if expected.dtype.kind == "f":
        moved = [np.cos(a) for a in args]
        primal, tangent = jax.jit(lambda *a: jax.jvp(one, args, a))(*moved)
        close(primal, expected[0])
        (by_batch,) = jax.vmap(lambda *t: jax.jvp(one, args, t)[1])(*(m[None] for m in moved))
        close(by_batch, tangent)


@pytest.mark.parametrize("seed", [1, 4])
def test_random_kernels_within_transformations(seed):
    check_within(seed)


@pytest.mark.slow
@pytest.mark.parametrize("fifty", range(40))
def test_two_thousand_random_kernels_within_transformations(fifty):
    for seed in range(50 * fifty, 50 * fifty + 50):
        check_within(seed)
