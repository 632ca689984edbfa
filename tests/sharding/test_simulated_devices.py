"""Random programs of collectives give what a simulation of the devices in NumPy does; derivatives
are differences of it."""

import zlib

import numpy as np
import pytest
from sharding import simulated

import teucer as jax
import teucer.numpy as jnp

P = jax.P
SIZES = ({"x": 4, "y": 2}, {"x": 2, "y": 2, "z": 2}, {"x": 8})
MODES = ("mesh", "mesh, unchecked", "vmap", "vmap in mesh", "vmap in pmap", "mesh in vmap")
TOGETHER = 10  # programs in one compilation
STEP = 1e-7  # of the differences: sines of large numbers bend within a longer one


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def mapped(steps, sizes, mode):
    """A program of one device on the arrays of all, whose first axes are those of the devices."""
    one, rest = list(sizes)[:1], list(sizes)[1:]
    outer, inner = {
        "mesh": (one + rest, []),
        "mesh, unchecked": (one + rest, []),
        "vmap": ([], one + rest),
        "vmap in mesh": (one, rest),
        "vmap in pmap": (one, rest),
        "mesh in vmap": (rest, one),
    }[mode]
    program = simulated.traced(steps, () if mode in ("mesh, unchecked", "vmap in pmap") else outer)

    def over_vmap(f, names):
        for name in reversed(names):
            f = jax.vmap(f, axis_name=name)
        return f

    def over_mesh(f):
        if not outer:
            return f
        shape = tuple(sizes[name] for name in outer)
        mesh = jax.make_mesh(
            shape,
            tuple(outer),
            axis_types=(jax.sharding.AxisType.Auto,) * len(outer),
            devices=jax.devices()[: int(np.prod(shape))],
        )
        part = lambda x: f(x.reshape(x.shape[len(outer) :]))[(None,) * len(outer)]
        return jax.shard_map(
            part,
            mesh=mesh,
            in_specs=P(*outer),
            out_specs=P(*outer),
            check_vma=mode != "mesh, unchecked",
        )

    if mode == "mesh in vmap":
        return over_vmap(over_mesh(program), inner)
    if mode == "vmap in pmap":
        return jax.pmap(over_vmap(program, inner), axis_name=one[0])
    return over_mesh(over_vmap(program, inner))


def check_programs(seed):
    """Draw programs, run them in one compilation with their derivatives, and compare with the
    simulation."""
    r = np.random.default_rng(seed)
    sizes, mode = SIZES[r.integers(len(SIZES))], MODES[r.integers(len(MODES))]
    differentiable = bool(r.random() < 0.7)
    dtype = (
        "float64"
        if differentiable
        else str(r.choice(["float64", "float32", "complex128", "int32"]))
    )
    lead = tuple(sizes.values())
    drawn = [simulated.draw_program(r, sizes, dtype, differentiable) for _ in range(TOGETHER)]
    whole = r.standard_normal((len(drawn), *lead, *simulated.SHAPE)) * (
        3 if dtype == "int32" else 1
    )
    inputs = [x.astype(dtype) for x in whole]
    expected = [simulated.run(steps, sizes, x) for steps, x in zip(drawn, inputs, strict=True)]
    functions = [mapped(steps, sizes, mode) for steps in drawn]
    about = f"seed {seed}, {mode}, {sizes}, {dtype}"
    if not differentiable:
        close = 1e-2 if dtype == "float32" else 1e-6  # sines of large numbers enlarge rounding
        found = jax.jit(lambda xs: [f(x) for f, x in zip(functions, xs, strict=True)])(inputs)
        for steps, y, e in zip(drawn, found, expected, strict=True):
            np.testing.assert_allclose(y, e, rtol=close, atol=close, err_msg=f"{about}\n{steps}")
        return
    weights = [r.standard_normal(y.shape) for y in expected]
    directions = [r.standard_normal(x.shape) for x in inputs]

    def losses(xs):
        ys = [f(x) for f, x in zip(functions, xs, strict=True)]
        return sum(jnp.sum(y * w) for y, w in zip(ys, weights, strict=True)), ys

    if r.random() < 0.5:
        (_, found), grads = jax.jit(jax.value_and_grad(losses, has_aux=True))(inputs)
        slopes = [np.sum(np.asarray(g) * d) for g, d in zip(grads, directions, strict=True)]
    else:
        found, tangents = jax.jit(lambda xs, ts: jax.jvp(lambda xs: losses(xs)[1], (xs,), (ts,)))(
            inputs, directions
        )
        slopes = [np.sum(np.asarray(t) * w) for t, w in zip(tangents, weights, strict=True)]
    for steps, x, y, e, w, d, slope in zip(
        drawn, inputs, found, expected, weights, directions, slopes, strict=True
    ):
        np.testing.assert_allclose(y, e, rtol=1e-9, atol=1e-9, err_msg=f"{about}\n{steps}")
        ahead, behind = (simulated.run(steps, sizes, x + s * STEP * d) for s in (1, -1))
        difference, scale = (
            np.sum((ahead - behind) * w) / (2 * STEP),
            1 + np.sum(np.abs((ahead - behind) * w)) / (2 * STEP),
        )
        assert abs(slope - difference) < 1e-6 * scale, (
            f"{about}\n{steps}\n{slope} is not {difference}"
        )


@pytest.mark.parametrize("mode", MODES)
def test_random_programs(mode):
    """The first compilation that a mode has."""
    seed = next(s for s in range(zlib.crc32(mode.encode()) % 1000, 10**6) if mode == mode_of(s))
    check_programs(seed)


def mode_of(seed):
    r = np.random.default_rng(seed)
    r.integers(len(SIZES))
    return MODES[r.integers(len(MODES))]


@pytest.mark.slow  # 10 000 programs
@pytest.mark.parametrize("hundred", range(100))
def test_many_random_programs(hundred):
    for seed in range(10 * hundred, 10 * hundred + 10):
        check_programs(seed)
