"""Kernels as Triton IR: the texts, what they compute when NumPy runs them, and what is refused."""

import importlib.util
import itertools
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from kernels import ways
from optable.primitives import carry_jaxprs

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._pallas.triton.table import TRITON
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import triton as plgpu
from teucer.lax._families import ELEMENTWISE

_spec = importlib.util.spec_from_file_location(
    "kernels_example", Path(__file__).parents[2] / "examples" / "pallas" / "kernels.py"
)
kernels = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(kernels)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def like(shape, dtype=np.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def applied(f, *xs, grid=()):
    """A kernel that writes f of whole arrays, as Triton."""
    shapes = jax.eval_shape(f, *xs)

    def kernel(*refs):
        refs[-1][...] = f(*(r[...] for r in refs[:-1]))

    return np.asarray(ways.triton(pl.pallas_call(kernel, shapes), *xs))


ADD = """module {
  tt.func public @add(%arg0: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %arg1: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 8 : i32
    %c2 = arith.constant dense<20> : tensor<8xi32>
    %c3 = arith.constant dense<0x7FC00000> : tensor<8xf32>
    %c4 = arith.constant 1.0 : f32
    %1 = tt.get_program_id x : i32
    %2 = arith.muli %1, %c1 : i32
    %3 = arith.muli %1, %c1 : i32
    %4 = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %5 = tt.splat %2 : i32 -> tensor<8xi32>
    %6 = arith.addi %4, %5 : tensor<8xi32>
    %7 = arith.cmpi slt, %6, %c2 : tensor<8xi32>
    %8 = tt.addptr %arg0, %2 : !tt.ptr<f32>, i32
    %9 = tt.splat %8 : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %10 = tt.addptr %9, %4 : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
    %11 = tt.load %10, %7, %c3 : tensor<8x!tt.ptr<f32>>
    %12 = tt.splat %c4 : f32 -> tensor<8xf32>
    %13 = arith.addf %11, %12 : tensor<8xf32>
    %14 = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %15 = tt.splat %3 : i32 -> tensor<8xi32>
    %16 = arith.addi %14, %15 : tensor<8xi32>
    %17 = arith.cmpi slt, %16, %c2 : tensor<8xi32>
    %18 = tt.addptr %arg1, %3 : !tt.ptr<f32>, i32
    %19 = tt.splat %18 : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %20 = tt.addptr %19, %14 : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
    tt.store %20, %13, %17 : tensor<8x!tt.ptr<f32>>
    tt.return
  }
}
"""


def add_one(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1


BLOCK = pl.BlockSpec((8,), lambda i: (i,))


def test_the_text_of_a_kernel():
    found = ways.module(
        add_one, like((20,)), numbers(20), grid=3, in_specs=[BLOCK], out_specs=BLOCK, name="add"
    )
    assert found == (ADD, "add", (3, 1, 1))


def test_blocks_that_divide_the_array_have_no_masks():
    found = ways.module(
        add_one, like((24,)), numbers(24), grid=3, in_specs=[BLOCK], out_specs=BLOCK
    )
    assert "cmpi" not in found.text


def test_the_call_of_a_kernel():
    f = pl.pallas_call(
        add_one,
        like((24,)),
        grid=3,
        in_specs=[BLOCK],
        out_specs=BLOCK,
        input_output_aliases={0: 0},
        compiler_params=plgpu.CompilerParams(num_warps=8, num_stages=1),
    )
    text = ways.lowered(f, numbers(24))
    assert "@__gpu$xla.gpu.triton" in text
    assert "grid_x = 3 : i32" in text
    assert "num_warps = 8 : i32" in text
    assert "num_stages = 1 : i32" in text
    assert "output_operand_aliases" in text


EXAMPLES = {
    "add": (kernels.add, (numbers(19, 16), numbers(19, 16))),
    "softmax": (kernels.softmax, (numbers(12, 32),)),
    "matmul": (
        lambda *a: kernels.matmul(*a, 16, 16, 16),
        (numbers(32, 48), numbers(48, 32), numbers(32)),
    ),
    "layer_norm": (kernels._layer_norm_forward, (numbers(16, 32), numbers(32))),
    "layer_norm_backward": (
        lambda *a: kernels._layer_norm_backward(a[:4], a[4]),
        (numbers(16, 32), numbers(32), numbers(16, 1), numbers(16, 1), numbers(16, 32, seed=1)),
    ),
    "attention": (
        kernels.attention,
        (numbers(32, 16), numbers(32, 16, seed=1), numbers(32, 16, seed=2)),
    ),
    "blur": (kernels.blur, (numbers(32),)),
    "grouped_matmul": (
        kernels.grouped_matmul,
        (numbers(32, 16), numbers(3, 16, 8, seed=1), np.int32([2, 0, 0, 1])),
    ),
    "histogram": (lambda x: kernels.histogram(x, 6), (np.arange(64, dtype=np.int32) ** 2 % 6,)),
    "noise": (lambda key: kernels.noise(key, (16, 4)), (jax.random.key(3),)),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name):
    f, args = EXAMPLES[name]
    for mine, theirs in zip(
        jax.tree.leaves(ways.triton(f, *args)), jax.tree.leaves(f(*args)), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


# --- Operations ---------------------------------------------------------------------------------

LACKING = {
    "bessel_i0e",
    "bessel_i1e",
    "complex",
    "conj",
    "digamma",
    "igamma",
    "igamma_grad_a",
    "igammac",
    "imag",
    "polygamma",
    "random_gamma_grad",
    "real",
    "regularized_incomplete_beta",
    "zeta",
}


def test_elementwise_primitives_have_rules():
    assert {name for name, p in ELEMENTWISE.items() if p not in TRITON} - {
        "eq_to",
        "le_to",
        "lt_to",
    } <= LACKING


def test_calls_and_loops_have_rules():
    assert [
        n
        for n in TRITON.lacking(carry_jaxprs())
        if n in ("jit", "cond", "while", "scan", "custom_jvp_call", "custom_vjp_call", "remat2")
    ] == []


@pytest.mark.parametrize("name", sorted(n for n, p in ELEMENTWISE.items() if p in TRITON))
def test_elementwise(name):
    p = ELEMENTWISE[name]
    rng = np.random.default_rng(0)
    n = {"atan2": 2, "clamp": 3, "nextafter": 2}.get(
        name,
        len(p.tangents)
        if p.tangents
        else 2
        if name
        in (
            "and",
            "or",
            "xor",
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "shift_left",
            "shift_right_logical",
            "shift_right_arithmetic",
            "mulhi",
            "rem",
            "max",
            "min",
            "add_any",
        )
        else 1,
    )
    low, high = p.tested.low, p.tested.high
    for dtype in (np.float32, np.int32, np.uint32, np.uint8, np.bool_, ml_dtypes.bfloat16):
        if np.dtype(dtype) not in p.accepts or (
            name in ("nextafter", "mulhi") and np.dtype(dtype).itemsize != 4
        ):
            continue
        if np.dtype(dtype).kind in "iub":
            xs = [
                rng.integers(0, 2 if dtype is np.bool_ else 100, 16).astype(dtype) for _ in range(n)
            ]
            if name in ("div", "rem", "shift_left"):
                xs[1] = np.maximum(xs[1], 1).astype(dtype)
        else:
            xs = [(low + (high - low) * rng.random(16)).astype(dtype) for _ in range(n)]
        params = (
            {"y": 3}
            if name == "integer_pow"
            else {"rounding_method": lax.RoundingMethod.TO_NEAREST_EVEN}
            if (name == "round")
            else {}
        )
        if name in (
            "exp",
            "exp2",
            "log",
            "log1p",
            "expm1",
            "sin",
            "cos",
            "tan",
            "tanh",
            "logistic",
            "sqrt",
            "rsqrt",
            "cbrt",
        ):
            params = {"accuracy": None}
        expected = np.asarray(p.call(*xs, **params)[0])
        found = applied(lambda *a, p=p, params=params: p.call(*a, **params)[0], *xs)
        assert found.dtype == expected.dtype
        if expected.dtype.kind in "iub":
            np.testing.assert_array_equal(found, expected)
        else:
            tolerance = 2e-2 if dtype is ml_dtypes.bfloat16 else 2e-5
            np.testing.assert_allclose(
                found.astype(np.float64),
                expected.astype(np.float64),
                rtol=tolerance,
                atol=tolerance,
            )


SHAPES = {
    "broadcast": lambda x: lax.broadcast_in_dim(x[:, 0], (4, 8), (0,)),
    "reshape": lambda x: x.reshape(2, 16),
    "reshape_to_scalar": lambda x: x[:1, :1].reshape(()),
    "transpose": lambda x: x.T,
    "transpose_of_three": lambda x: x.reshape(2, 2, 8).transpose(2, 0, 1),
    "iota": lambda x: x + lax.broadcasted_iota(np.int32, (4, 8), 1),
    "slice": lambda x: x[1:3, ::2],
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (x[0, 0].astype(np.int32), 3), (2, 4)),
    "dynamic_update_slice": lambda x: lax.dynamic_update_slice(x, x[:2, :4] * 2, (1, 3)),
    "rev": lambda x: lax.rev(x, (0, 1)),
    "pad": lambda x: jnp.pad(x, ((3, 1), (0, 8)), constant_values=5),
    "concatenate": lambda x: jnp.concatenate([x, x + 1], 0),
    "concatenate_of_four": lambda x: jnp.concatenate([x, x + 1, x + 2, x + 3], 1),
    "concatenate_of_unequal": lambda x: jnp.concatenate([x, x[:, :4], x[:, 4:]], 1),
    "stack": lambda x: jnp.stack([x, -x], 1),
    "split": lambda x: jnp.split(x, 2, 1)[1],
    "tile": lambda x: jnp.tile(x, (2, 1)),
    "sum": lambda x: x.sum(),
    "sum_of_an_axis": lambda x: x.sum(0),
    "max": lambda x: x.max((0, 1)),
    "prod": lambda x: x.prod(1),
    "any": lambda x: (x > 1).any(1),
    "reduce": lambda x: lax.reduce(
        (x, x), (np.float32(1), np.float32(0)), lambda a, b: (a[0] * b[0], a[1] + b[1]), (1,)
    )[1],
    "argmax": lambda x: jnp.argmax(x, 1),
    "argmin": lambda x: jnp.argmin(x, 0),
    "cumsum": lambda x: jnp.cumsum(x, 1),
    "cumsum_reverse": lambda x: lax.cumsum(x, 0, reverse=True),
    "cummax": lambda x: lax.cummax(x, 1),
    "where": lambda x: jnp.where(x > 0, x, 3),
    "clip": lambda x: jnp.clip(x, -1, 0.5),
    "select_n": lambda x: lax.select_n((x > 0).astype(np.int32) + (x > 1), x, x * 2, x * 3),
    "convert": lambda x: (
        x.astype(np.int8).astype(np.float16).astype(ml_dtypes.bfloat16).astype(np.uint16)
    ),
    "bool": lambda x: (x > 0) & ~(x > 1),
    "bitcast": lambda x: lax.bitcast_convert_type(x, np.int32),
    "dot_of_vectors": lambda x: x[0] @ x[1],
    "dot_of_matrix_and_vector": lambda x: x @ x[1],
    "small_dot": lambda x: x @ x.T,
    "batched_dot": lambda x: lax.dot_general(
        x.reshape(2, 2, 8), x.reshape(2, 2, 8), (((2,), (2,)), ((0,), (0,)))
    ),
    "float64_like": lambda x: x.astype(np.int32) @ x.T.astype(np.int32),
    "softmax": lambda x: jax.nn.softmax(x),
    "gelu": lambda x: jax.nn.gelu(x),
    "cond": lambda x: lax.cond(x[0, 0] > 0, lambda a: a + 1, lambda a: a * 2, x),
    "switch": lambda x: lax.switch(
        x[0, 0].astype(np.int32) + 5, [lambda a: a, lambda a: a + 1, lambda a: a * 2], x
    ),
    "fori": lambda x: lax.fori_loop(2, 5, lambda i, a: a * 2 + i, x),
    "fori_of_traced_bound": lambda x: lax.fori_loop(
        0, x[0, 0].astype(np.int32) + 3, lambda i, a: a * 2 + i, x
    ),
    "while": lambda x: lax.while_loop(lambda a: (a < 100).all(), lambda a: a * 2 + 30, x),
    "custom_jvp": lambda x: jax.nn.relu(x),
    "remat": lambda x: jax.checkpoint(lambda a: jnp.sin(a) * 2)(x),
    "grad": lambda x: jax.grad(lambda a: (jnp.tanh(a) ** 2).sum())(x),
    "vmap": lambda x: jax.vmap(lambda row: row - row.max())(x),
    "random": lambda x: (
        x
        + jax.random.uniform(
            jax.random.fold_in(jax.random.key(3), x[0, 0].astype(np.int32)), (4, 8)
        )
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_structure(name):
    f, x = SHAPES[name], numbers(4, 8)
    expected, found = np.asarray(f(x)), applied(f, x)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(
        found.astype(np.float64), expected.astype(np.float64), rtol=1e-5, atol=1e-6
    )


# --- Memory -------------------------------------------------------------------------------------

KEYS = {
    "whole": lambda r, i: r[...],
    "row": lambda r, i: r[2],
    "traced_row": lambda r, i: r[i],
    "negative_row": lambda r, i: r[i - 3],
    "row_outside": lambda r, i: r[i + 50],
    "window": lambda r, i: r[pl.ds(i, 4), 1:3],
    "window_outside": lambda r, i: r[pl.ds(i * 9, 4)],
    "steps": lambda r, i: r[::2, pl.ds(0, 2, 3)],
    "new_axis": lambda r, i: r[1:2, None, :4],
    "place": lambda r, i: r[i, 3],
    "array": lambda r, i: r[jnp.arange(4) * 2 - i],
    "arrays": lambda r, i: r[jnp.arange(4), jnp.arange(4) + i],
    "array_and_window": lambda r, i: r[jnp.arange(2), pl.ds(2, 4)],
    "view": lambda r, i: r.at[pl.ds(i, 4)][1:3, 2:4],
    "reshaped": lambda r, i: r.reshape(4, 16)[1:3],
    "transposed": lambda r, i: r.T[2:4],
}


@pytest.mark.parametrize("name", KEYS)
def test_reads(name):
    key, x, i = KEYS[name], numbers(8, 8), np.int32(1)

    def kernel(x_ref, i_ref, o_ref):
        o_ref[...] = key(x_ref, i_ref[()])

    shape = jax.eval_shape(lambda x, i: key(jax.new_ref(x), i), x, i)
    f = pl.pallas_call(kernel, shape)
    np.testing.assert_array_equal(ways.triton(f, x, i), f(x, i))


WRITES = {
    "window": lambda r, i: r.set(jnp.ones((4, 8)), (pl.ds(i, 4),)),
    "window_outside": lambda r, i: r.set(jnp.ones((4, 8)), (pl.ds(i * 9, 4),)),
    "place": lambda r, i: r.set(3.0, (i, 2)),
    "place_outside": lambda r, i: r.set(3.0, (i + 50, 2)),
    "array": lambda r, i: r.set(jnp.ones((4, 8)), (jnp.arange(4) * 3,)),
    "add": lambda r, i: r.addupdate(jnp.ones((4, 8)), (pl.ds(i, 4),)),
    "add_twice": lambda r, i: r.addupdate(jnp.ones(4), (jnp.arange(4) // 2, 3)),
    "swap": lambda r, i: r.set(r.swap(jnp.zeros(8), (0,)), (i,)),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes(name):
    x, i = numbers(8, 8), np.int32(1)

    def kernel(x_ref, i_ref, o_ref):
        WRITES[name](o_ref, i_ref[()])

    f = pl.pallas_call(kernel, like((8, 8)), input_output_aliases={0: 0})
    np.testing.assert_array_equal(ways.triton(f, x, i), f(x, i))


def test_memory_of_run_scoped():
    def kernel(x_ref, o_ref):
        def scoped(a_ref):
            a_ref[...] = x_ref[...]

            @pl.loop(0, 3)
            def _(i):
                a_ref[pl.ds(i, 4)] = a_ref[pl.ds(4, 4)] + i
                o_ref[i] = a_ref[0]

            o_ref[pl.ds(4, 4)] = a_ref[pl.ds(0, 4)]

        pl.run_scoped(scoped, pl.ANY((8,), np.float32))

    f, x = pl.pallas_call(kernel, like((8,)), input_output_aliases={0: 0}), numbers(8)
    np.testing.assert_array_equal(ways.triton(f, x), f(x))


def test_masks_and_atomic_operations():
    def kernel(x_ref, n_ref, o_ref, most_ref, count_ref):
        i = pl.program_id(0)
        part = pl.ds(i * 8, 8)
        inside = i * 8 + jnp.arange(8) < n_ref[()]
        x = plgpu.load(x_ref.at[part], mask=inside, other=7.0, eviction_policy="evict_first")
        plgpu.store(o_ref.at[part], x * 2, mask=inside)
        plgpu.atomic_add(count_ref, jnp.where(x > 0, 1, 0), 1, mask=inside)
        plgpu.atomic_max(most_ref, 0, jnp.max(jnp.where(inside, x, -9).astype(np.int32)))
        plgpu.atomic_cas(count_ref.at[3], 0, 5)

    n, x, zeros = np.int32(20), numbers(20), np.zeros(4, np.int32)
    f = pl.pallas_call(
        lambda x, n, a, b, c, *refs: kernel(x, n, *refs),
        [like((20,)), like((4,), np.int32), like((4,), np.int32)],
        grid=3,
        input_output_aliases={2: 0, 3: 1, 4: 2},
    )
    expected = (
        x * 2,
        [int(x.astype(np.int32).max()), 0, 0, 0],
        [(x <= 0).sum(), (x > 0).sum(), 0, 5],
    )
    for way in (f, lambda *a: ways.triton(f, *a)):
        for found, wanted in zip(way(x, n, np.zeros_like(x), zeros, zeros), expected, strict=True):
            np.testing.assert_allclose(found, wanted)


@pytest.mark.parametrize("name", ["add", "and", "or", "xor", "max", "min", "xchg"])
def test_atomic_operations_on_elements_that_are_named_twice(name):
    def kernel(x_ref, o_ref, old_ref):
        old_ref[...] = getattr(plgpu, f"atomic_{name}")(o_ref, jnp.arange(8) % 3, x_ref[...])

    x = np.int32([3, 9, 14, 1, 5, 2, 8, 30])
    f = pl.pallas_call(
        lambda x, y, *refs: kernel(x, *refs),
        [like((4,), np.int32), like((8,), np.int32)],
        input_output_aliases={1: 0},
    )
    y = np.int32([4, 7, 12, 100])
    for mine, theirs in zip(ways.triton(f, x, y), f(x, y), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_scratch_memory_and_results_go_from_step_to_step():
    def kernel(x_ref, o_ref, last_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            last_ref[...] = jnp.zeros_like(last_ref)
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...] * last_ref[...]
        last_ref[...] = x_ref[...]

    block = pl.BlockSpec((None, 4), lambda i, j: (j, i))
    f = pl.pallas_call(
        kernel,
        like((8,)),
        grid=(2, 4),
        in_specs=[block],
        out_specs=pl.BlockSpec((4,), lambda i, j: (i,)),
        scratch_shapes=[pl.ANY((4,), np.float32)],
    )
    x = numbers(4, 8)
    np.testing.assert_allclose(ways.triton(f, x), (x[1:] * x[:-1]).sum(0), rtol=1e-5)


def test_instructions():
    def kernel(x_ref, o_ref, asm_ref):
        o_ref[...] = plgpu.approx_tanh(x_ref[...])
        plgpu.debug_barrier()
        (asm_ref[...],) = plgpu.elementwise_inline_asm(
            "ex2.approx.f32 $0, $1;",
            args=[x_ref[...]],
            constraints="=f,f",
            pack=1,
            result_shape_dtypes=[like((8,))],
        )

    text = ways.module(kernel, [like((8,)), like((8,))], numbers(8)).text
    assert (
        'tt.elementwise_inline_asm "tanh.approx.f32 $0, $1;" {constraints = "=f,f", packed_element = 1 : i32'
        in text
    )
    assert 'tt.elementwise_inline_asm "ex2.approx.f32 $0, $1;"' in text
    assert '"gpu.barrier"() : () -> ()' in text
    with pytest.raises(NotImplementedError, match="cpu does not know NVIDIA's instructions"):
        pl.pallas_call(kernel, [like((8,)), like((8,))])(numbers(8))


def test_approx_tanh_on_the_cpu():
    x = numbers(8)
    np.testing.assert_allclose(jax.vmap(plgpu.approx_tanh)(x), np.tanh(x), rtol=1e-6)
    np.testing.assert_allclose(
        jax.grad(lambda x: plgpu.approx_tanh(x).sum())(x), 1 - np.tanh(x) ** 2, rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("grid", [(3,), (2, 3), (2, 1, 3), (2, 1, 3, 2)])
def test_places_in_grids(grid):
    def kernel(o_ref):
        o_ref[...] = sum(pl.program_id(i) * 10**i for i in range(len(grid)))

    f = pl.pallas_call(
        kernel,
        like(grid, np.int32),
        grid=grid,
        out_specs=pl.BlockSpec((None,) * len(grid), lambda *place: place),
    )
    expected = [
        sum(p * 10**i for i, p in enumerate(place))
        for place in itertools.product(*map(range, grid))
    ]
    assert np.ravel(ways.triton(f)).tolist() == expected


# --- What is refused ----------------------------------------------------------------------------


def refused(kernel, out, *args, **options):
    with pytest.raises(NotImplementedError) as err:
        ways.lowered(pl.pallas_call(kernel, out, **options), *args)
    return str(err.value)


def test_a_primitive_that_triton_lacks():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.sort(x_ref[...])

    text = refused(kernel, like((8,)), numbers(8))
    assert "pallas_call of kernel: triton cannot compile it: Triton has no rule for sort" in text
    assert "test_pallas_triton.py" in text
    assert "jnp.sort" in text


def test_shapes_that_are_no_powers_of_two():
    text = refused(add_one, like((20,)), numbers(20))
    assert "an array of shape (20,), where Triton takes sizes that are powers of 2" in text
    assert "mask" in text


def test_grids_of_traced_size_are_refused():
    f = jax.jit(
        lambda x, n: pl.pallas_call(
            add_one, like((24,)), grid=n, in_specs=[BLOCK], out_specs=BLOCK
        )(x)
    )
    with pytest.raises(NotImplementedError, match=r"a grid whose size is traced(.|\n)*pl\.when"):
        f.trace(numbers(24), 3).lower(lowering_platforms=("cuda",))


def test_complex_numbers_are_refused():
    assert "Triton has no elements of type complex64" in refused(
        add_one, like((8,), np.complex64), np.zeros(8, np.complex64)
    )


def test_a_platform_without_a_lowering():
    f = pl.pallas_call(add_one, like((8,)))
    with pytest.raises(
        NotImplementedError, match=r"not compiled for rocm(.|\n)*Triton(.|\n)*interpret=True"
    ):
        jax.jit(f).trace(numbers(8)).lower(lowering_platforms=("rocm",))
