"""Kernels: what they compute is what NumPy does on the whole arrays; under transformations; and
what is refused."""

import importlib.util
import random
from pathlib import Path

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import tpu as pltpu
from teucer.experimental.pallas import triton as plgpu

_spec = importlib.util.spec_from_file_location(
    "kernels", Path(__file__).parents[2] / "examples" / "pallas" / "kernels.py"
)
kernels = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(kernels)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(x, y, tolerance=1e-5):
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def plain_softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_add_of_rows_that_do_not_divide():
    x, y = numbers(19, 5), numbers(19, 5, seed=1)
    close(kernels.add(x, y), x + y)


def test_matmul():
    x, y, bias = numbers(64, 96), numbers(96, 32, seed=1), numbers(32, seed=2)
    close(jax.jit(kernels.matmul)(x, y, bias), np.maximum(x @ y + bias, 0), 1e-4)


def test_softmax():
    x = numbers(24, 10)
    close(kernels.softmax(x), plain_softmax(x))
    close(
        jax.vmap(kernels.softmax)(np.stack([x, -x])),
        np.stack([plain_softmax(x), plain_softmax(-x)]),
    )


def test_layer_norm_and_its_gradient():
    def plain(x, scale):
        mean = x.mean(1, keepdims=True)
        return (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(1, keepdims=True) + 1e-6) * scale

    x, scale, w = numbers(16, 12), numbers(12, seed=1), numbers(16, 12, seed=2)
    close(kernels.layer_norm(x, scale), plain(x, scale), 1e-4)
    for mine, theirs in zip(
        jax.grad(lambda *a: (kernels.layer_norm(*a) * w).sum(), (0, 1))(x, scale),
        jax.grad(lambda *a: (plain(*a) * w).sum(), (0, 1))(x, scale),
        strict=True,
    ):
        close(mine, theirs, 1e-3)


def test_attention_and_its_gradient():
    def plain(q, k, v):
        return jax.nn.softmax(q @ k.T / jnp.sqrt(8.0)) @ v

    q, k, v = (numbers(32, 8, seed=i) for i in range(3))
    close(kernels.attention(q, k, v), plain(q, k, v), 1e-4)
    for mine, theirs in zip(
        jax.grad(lambda *a: kernels.attention(*a).sum(), (0, 1, 2))(q, k, v),
        jax.grad(lambda *a: plain(*a).sum(), (0, 1, 2))(q, k, v),
        strict=True,
    ):
        close(mine, theirs, 1e-3)


def test_blur_of_overlapping_blocks():
    x = numbers(32)
    expected = x.copy()
    expected[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3
    close(kernels.blur(x), expected)


def test_histogram():
    x = np.random.default_rng(0).integers(0, 5, 64, dtype=np.int32)
    np.testing.assert_array_equal(kernels.histogram(x, 5), np.bincount(x, minlength=5))


def test_grouped_matmul():
    x, w, group = numbers(32, 6), numbers(3, 6, 4, seed=1), np.int32([2, 0, 0, 1])
    close(
        kernels.grouped_matmul(x, w, group),
        np.concatenate([x[8 * i : 8 * i + 8] @ w[g] for i, g in enumerate(group)]),
        1e-4,
    )


def test_noise():
    found = kernels.noise(jax.random.key(3), (16, 4))
    close(found[8:], jax.random.normal(jax.random.fold_in(jax.random.key(3), 1), (8, 4)))


def test_a_kernel_is_traced_once_for_a_signature():
    traced = []

    def kernel(x_ref, o_ref):
        traced.append(x_ref.shape)
        o_ref[...] = x_ref[...]

    f = pl.pallas_call(kernel, jax.ShapeDtypeStruct((4,), jnp.float32))
    f(jnp.ones(4))
    f(jnp.zeros(4))
    assert traced == [(4,)]


def test_grids_of_traced_size():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * pl.num_programs(0)

    @jax.jit
    def f(x, n):
        block = pl.BlockSpec((2,), lambda i: (i,))
        return pl.pallas_call(
            kernel,
            jax.ShapeDtypeStruct((8,), jnp.float32),
            grid=(n,),
            in_specs=[block],
            out_specs=block,
            input_output_aliases={0: 0},
        )(x)

    np.testing.assert_array_equal(f(jnp.ones(8), 3), [3, 3, 3, 3, 3, 3, 1, 1])


def test_loops_conditions_and_scratch():
    def kernel(x_ref, o_ref, count):
        count[0] = 0

        @pl.loop(0, 8, step=2)
        def _(i):
            @pl.when(x_ref[i] > 0)
            def _():
                count[0] += 1

        def scoped(memory):
            memory[...] = x_ref[...] * 2
            o_ref[...] = memory[...] + count[0]

        pl.run_scoped(scoped, pltpu.VMEM((8,), jnp.float32))

    x = numbers(8)
    found = pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct((8,), jnp.float32),
        scratch_shapes=[pltpu.SMEM((1,), jnp.int32)],
    )(x)
    close(found, 2 * x + (x[::2] > 0).sum())


def test_masks():
    def kernel(x_ref, n_ref, o_ref):
        places = pl.ds(n_ref[()], 4)
        inside = n_ref[()] + jnp.arange(4) < 6
        o_ref[...] = plgpu.load(x_ref.at[places], mask=inside, other=-1.0)

    out = jax.ShapeDtypeStruct((4,), jnp.float32)
    assert pl.pallas_call(kernel, out)(jnp.arange(6.0), 4).tolist() == [4, 5, -1, -1]


OPERATIONS = {"add": np.add, "max": np.maximum, "min": np.minimum, "xchg": lambda old, new: new}


@pytest.mark.parametrize("name", OPERATIONS)
def test_atomics(name):
    def kernel(x_ref, o_ref, old_ref):
        old_ref[...] = getattr(plgpu, f"atomic_{name}")(o_ref, ..., x_ref[...])

    x, y = numbers(4), numbers(4, seed=1)
    out = jax.ShapeDtypeStruct((4,), jnp.float32)
    new, old = pl.pallas_call(
        lambda x, _, o, old: kernel(x, o, old), [out, out], input_output_aliases={1: 0}
    )(x, y)
    close(old, y)
    close(new, OPERATIONS[name](y, x))


def random_kernel(rng):
    """A kernel on blocks of a matrix, and its meaning in NumPy: (kernel, block, function of the
    matrix)."""
    steps = [
        rng.choice(["sin", "scale", "transpose twice", "row", "loop", "when"])
        for _ in range(rng.randrange(1, 5))
    ]
    block = rng.choice([(2, 6), (4, 3), (8, 6), (1, 1), (3, 4)])

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]
        for step in steps:
            if step == "sin":
                o_ref[...] = jnp.sin(o_ref[...])
            elif step == "scale":
                o_ref[...] *= pl.program_id(0) + 1
            elif step == "transpose twice":
                o_ref.T[...] = o_ref[...].T + 1
            elif step == "row":
                o_ref[0] += 0.5
            elif step == "loop":
                jax.lax.fori_loop(
                    0, 3, lambda j, _: o_ref.addupdate(jnp.float32(0.25) * j, (0, 0)), None
                )
            else:

                @pl.when(pl.program_id(1) == 1)
                def _():
                    o_ref[...] = -o_ref[...]

    def meaning(x):
        out = x.copy()
        for i in range(-(-x.shape[0] // block[0])):
            for j in range(-(-x.shape[1] // block[1])):
                part = out[i * block[0] : (i + 1) * block[0], j * block[1] : (j + 1) * block[1]]
                for step in steps:
                    if step == "sin":
                        part[...] = np.sin(part)
                    elif step == "scale":
                        part *= i + 1
                    elif step == "transpose twice":
                        part += 1
                    elif step == "row":
                        part[0] += 0.5
                    elif step == "loop":
                        part[0, 0] += 0.75
                    elif j == 1:
                        part *= -1
        return out

    return kernel, block, meaning


def check_random(seed, interpret):
    rng = random.Random(seed)
    kernel, block, meaning = random_kernel(rng)
    x = numbers(8, 6, seed=seed)
    spec = pl.BlockSpec(block, lambda i, j: (i, j))
    grid = pl.cdiv(8, block[0]), pl.cdiv(6, block[1])
    f = pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct((8, 6), jnp.float32),
        grid=grid,
        in_specs=[spec],
        out_specs=spec,
        interpret=interpret,
    )
    np.testing.assert_allclose(f(x), meaning(x), rtol=1e-5, atol=1e-5, err_msg=f"seed {seed}")


def test_random_kernels():
    for seed in range(12):
        check_random(seed, interpret=seed % 2 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 2000, 200))
def test_two_thousand_random_kernels(first):
    for seed in range(first, first + 200):
        check_random(seed, False)
        check_random(seed, True)


def nothing(*refs):
    return None


OUT = jax.ShapeDtypeStruct((4,), jnp.float32)
REFUSED = [
    (
        "a result",
        lambda: pl.pallas_call(lambda x, o: x[...], OUT)(jnp.ones(4)),
        "should return None",
    ),
    (
        "rank",
        lambda: pl.pallas_call(nothing, OUT, in_specs=[pl.BlockSpec((2, 2), lambda: (0, 0))])(
            jnp.ones(4)
        ),
        "same number of dimensions",
    ),
    (
        "index map",
        lambda: pl.pallas_call(
            nothing, OUT, grid=2, in_specs=[pl.BlockSpec((2,), lambda i: (i, 0))]
        )(jnp.ones(4)),
        "index_map must return 1 values",
    ),
    (
        "float index",
        lambda: pl.pallas_call(
            nothing, OUT, grid=2, in_specs=[pl.BlockSpec((2,), lambda i: (i * 1.0,))]
        )(jnp.ones(4)),
        "integer scalars",
    ),
    (
        "aliases",
        lambda: pl.pallas_call(nothing, OUT, input_output_aliases={0: 0})(jnp.ones(5)),
        "differ in type",
    ),
    (
        "specs",
        lambda: pl.pallas_call(nothing, OUT, in_specs=[pl.BlockSpec()] * 2)(jnp.ones(4)),
        "do not match",
    ),
    ("outside", lambda: pl.program_id(0), "there is no grid here"),
    (
        "axis",
        lambda: pl.pallas_call(lambda o: pl.program_id(1), OUT, grid=2)(),
        "out of bounds for a grid of 1",
    ),
    (
        "dtype",
        lambda: pl.pallas_call(lambda x, o: o.set(x[...].astype(int)), OUT)(jnp.ones(4)),
        "Invalid dtype for `swap`",
    ),
]


@pytest.mark.parametrize(
    "act, text", [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_refused(act, text):
    with pytest.raises((TypeError, ValueError), match=text):
        act()


# --- Steps done together, and batches -------------------------------------------------------------


def ways_of(f, *args):
    """Compiled, with steps done together; interpreted, one by one."""
    return [np.asarray(f(interpret)(*args)) for interpret in (False, True)]


@pytest.mark.parametrize("carried", [False, True])
def test_scratch_memory_that_begins_anew_and_that_goes_on(carried):
    def kernel(x_ref, o_ref, total):
        first = pl.program_id(1) == 0
        first &= (pl.program_id(0) == 0) if carried else True

        @pl.when(first)
        def _():
            total[...] = jnp.zeros_like(total)

        total[...] += x_ref[...]
        o_ref[...] = total[...]

    x = numbers(8, 6)
    rows = pl.BlockSpec((2, 2), lambda i, j: (i, j))
    together, alone = ways_of(
        lambda interpret: pl.pallas_call(
            kernel,
            jax.ShapeDtypeStruct(x.shape, x.dtype),
            grid=(4, 3),
            in_specs=[rows],
            out_specs=rows,
            scratch_shapes=[pl.ANY((2, 2), np.float32)],
            interpret=interpret,
        ),
        x,
    )
    close(together, alone)
    parts = x.reshape(4, 2, 3, 2).transpose(0, 2, 1, 3)
    expected = (
        np.cumsum(parts.reshape(12, 2, 2), 0).reshape(4, 3, 2, 2)
        if carried
        else np.cumsum(parts, 1)
    )
    close(together, expected.transpose(0, 2, 1, 3).reshape(8, 6))


MAPS = {
    "same": lambda i: i,
    "reversed": lambda i: 3 - i,
    "pairs": lambda i: i // 2,
    "constant": lambda i: 1,
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("squeezed", [False, True])
def test_index_maps_of_steps_that_are_done_together(name, squeezed):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    x = numbers(7 if not squeezed else 4, 3)
    block = (None, 3) if squeezed else (2, 3)
    for together in ways_of(
        lambda interpret: pl.pallas_call(
            kernel,
            jax.ShapeDtypeStruct(x.shape, x.dtype),
            grid=4,
            in_specs=[pl.BlockSpec(block, lambda i: (MAPS[name](i), 0))],
            out_specs=pl.BlockSpec(block, lambda i: (i, 0)),
            interpret=interpret,
        ),
        x,
    ):
        size = 1 if squeezed else 2
        wide = np.concatenate([x, np.full((1, 3), np.nan, np.float32)])
        expected = (
            np.concatenate([wide[MAPS[name](i) * size :][:size] for i in range(4)])[: len(x)] + 1
        )
        close(together, expected)


def test_a_batch_is_an_axis_of_the_grid():
    x, y = numbers(3, 8, 6), numbers(6, seed=1)

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] * y_ref[...] + pl.program_id(0)

    rows = pl.BlockSpec((2, 6), lambda i: (i, 0))
    f = pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct((8, 6), np.float32),
        grid=4,
        in_specs=[rows, pl.BlockSpec()],
        out_specs=rows,
    )
    expected = x * y + np.repeat(np.arange(4), 2)[:, None]
    close(jax.vmap(f, (0, None))(x, y), expected)
    close(jax.vmap(f, (2, None), 1)(x.transpose(1, 2, 0), y), expected.transpose(1, 0, 2))
    close(
        jax.vmap(jax.vmap(f, (0, None)), (None, 0))(x, np.stack([y, -y]))[1],
        x * -y + np.repeat(np.arange(4), 2)[:, None],
    )
    (eqn,) = jax.make_jaxpr(jax.vmap(f, (0, None)))(x, y).eqns
    assert eqn.params["kernel"].grid == (3, 4)


def test_kernels_over_devices():
    x = numbers(32, 8)
    mesh = jax.make_mesh((4,), ("rows",), devices=jax.devices()[:4])
    rows = jax.P("rows")
    f = jax.shard_map(kernels.softmax, mesh=mesh, in_specs=rows, out_specs=rows)
    laid_out = jax.device_put(x, jax.NamedSharding(mesh, rows))
    close(f(laid_out), plain_softmax(x))
    close(jax.jit(f)(laid_out), plain_softmax(x))
    close(np.reshape(jax.pmap(kernels.softmax)(x.reshape(4, 8, 8)), (32, 8)), plain_softmax(x))


@pytest.mark.parametrize("blocks", [False, True])
def test_symbolic_shapes(blocks):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    def f(x):
        rows = pl.BlockSpec((8, 4), lambda i: (i, 0))
        options = (
            {"grid": pl.cdiv(x.shape[0], 8), "in_specs": [rows], "out_specs": rows}
            if blocks
            else {}
        )
        return pl.pallas_call(kernel, jax.ShapeDtypeStruct(x.shape, x.dtype), **options)(x)

    (n,) = jax.export.symbolic_shape("n")
    exported = jax.export.export(jax.jit(f))(jax.ShapeDtypeStruct((n, 4), np.float32))
    for size in (8, 19):
        x = numbers(size, 4)
        close(exported.call(x), x * 2)


def test_bits_of_another_width_along_an_axis():
    """As JAX 0.12.0.1: the axis `dim` changes its size."""
    x = np.arange(32, dtype="int32").reshape(8, 4)
    for dim in (-2, -1, 0, 1):
        turned = np.moveaxis(x, dim, -1)
        want = np.moveaxis(np.ascontiguousarray(turned).view("int16"), -1, dim)
        np.testing.assert_array_equal(pltpu.bitcast(jnp.asarray(x), jnp.int16, dim=dim), want)
        back = pltpu.bitcast(jnp.asarray(want), jnp.int32, dim=dim)
        np.testing.assert_array_equal(back, x)


def test_a_copy_with_a_semaphore_for_its_source():
    def kernel(x_ref, o_ref, sem, src_sem):
        copy = pltpu.make_async_copy(x_ref, o_ref, sem, src_sem=src_sem)
        copy.start()
        copy.wait_send()
        copy.wait_recv()
        pltpu.async_copy(x_ref, o_ref, src_sem=src_sem, add=True).wait()
        o_ref[0] += pltpu.semaphore_read(sem) + pltpu.semaphore_read(src_sem)

    scratch = [pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA]
    call = pl.pallas_call(
        kernel, jax.ShapeDtypeStruct((3,), jnp.int32), scratch_shapes=scratch, interpret=True
    )
    assert call(jnp.arange(3)).tolist() == [0, 2, 4]


@pytest.mark.parametrize("reversal", [None, (False,), (True,)])
def test_convolutions_in_kernels(reversal):
    x, k = numbers(2, 9, 4), numbers(3, 4, 5, seed=1)

    def kernel(x_ref, k_ref, acc_ref, o_ref):
        o_ref[...] = pltpu.conv(
            x_ref[...],
            k_ref[...],
            acc_ref[...],
            dimension_numbers=("NWC", "WIO", "NWC"),
            window_strides=(2,),
            window_reversal=reversal,
        )

    acc = numbers(2, 4, 5, seed=2)
    out = jax.ShapeDtypeStruct((2, 4, 5), jnp.float32)
    found = pl.pallas_call(kernel, out, interpret=True)(x, k, acc)
    turned = k[::-1] if reversal == (True,) else k
    windows = np.stack([x[:, i : i + 3] for i in range(0, 7, 2)], 1)
    close(found, acc + np.einsum("nwjc,jco->nwo", windows, turned))
