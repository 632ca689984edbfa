"""Fusible kernels.

What comes before and behind them is computed block by block, with the results of the plain
program.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import fuser
from teucer.experimental.pallas import tpu as pltpu

BLOCKS = (8, 16, 32)


def product_kernel(
    x_scalars, y_scalars, z_scalars, x_refs, y_refs, z_refs, o_ref, acc_ref, *, fns, n_k
):
    place = tuple(pl.program_id(i) for i in range(3))
    x_fn, y_fn, z_fn = fns

    @pl.when(place[2] == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    x = x_fn(place, x_scalars, jax.tree.map(lambda r: r[...], x_refs))
    y = y_fn(place, y_scalars, jax.tree.map(lambda r: r[...], y_refs))
    acc_ref[...] += jnp.dot(x, y)

    @pl.when(place[2] == n_k - 1)
    def _():
        out = z_fn(place, z_scalars, jax.tree.map(lambda r: r[...], z_refs), acc_ref[...])
        o_ref[...] = out[0] if isinstance(out, tuple) else out


@fuser.fusible
def product(x, y, z):
    """x @ y by blocks, as kernels with fusions are written."""
    (m, k), (_, n), (bm, bn, bk) = x.shape, y.shape, BLOCKS
    z = (lambda x: x) if z is None else z
    z_type = jax.ShapeDtypeStruct((m, n), jnp.float32)
    x_fn, x_values, x_scalars = fuser.get_fusion_values(x)
    y_fn, y_values, y_scalars = fuser.get_fusion_values(y)
    z_fn, z_values, z_scalars = fuser.get_fusion_values(z, z_type)

    def pull(i, fn, spec, *args):
        handler = fuser.make_scalar_prefetch_handler(i)
        fn, specs, _ = fuser.pull_block_spec(fn, spec, scalar_prefetch_handler=handler, grid_len=3)(
            *args
        )
        return fn, specs[0]

    out = pl.BlockSpec((bm, bn), lambda i, j, k: (i, j))
    x_fn, x_specs = pull(0, x_fn, pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), x_values)
    y_fn, y_specs = pull(1, y_fn, pl.BlockSpec((bk, bn), lambda i, j, k: (k, j)), y_values)
    z_spec = fuser.push_block_spec(z, out)(z_type)
    z_fn, z_specs = pull(2, z_fn, z_spec, z_values, z_type)
    spec, shape = (s[0] if isinstance(s, tuple) else s for s in (z_spec, jax.eval_shape(z, z_type)))
    scalars = jax.tree.map(lambda s: s[None], (x_scalars, y_scalars, z_scalars))

    def with_scalars(spec):
        return (
            spec
            if spec is pl.no_block_spec
            else spec.replace(index_map=lambda i, j, k, *_: spec.index_map(i, j, k))
        )

    kernel = functools.partial(product_kernel, fns=(x_fn, y_fn, z_fn), n_k=k // bk)
    found = pl.pallas_call(
        kernel,
        shape,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(m // bm, n // bn, k // bk),
            in_specs=[x_specs, y_specs, z_specs],
            out_specs=with_scalars(spec),
            scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        ),
    )(*scalars, x_values, y_values, z_values)
    return (found,) if isinstance(z_spec, tuple) else found


def some(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), "float32")


X, Y, B, S = some(16, 64), some(64, 32, seed=1), some(32, seed=2), some(3, 16, 64, seed=3)
PROGRAMS = {
    "alone": lambda dot: dot(X, Y),
    "before": lambda dot: dot(jnp.sin(X) * 2, (Y + B).astype("bfloat16").astype("float32")),
    "behind": lambda dot: jax.nn.relu(dot(X, Y) * 2 + B),
    "transposed": lambda dot: dot(some(64, 16).T, Y).T,
    "reduced before": lambda dot: dot(jnp.max(S, 0), Y),
    "cosine of a constant": lambda dot: dot(X, Y) - jnp.cos(jnp.ones((16, 32))),
    "reshaped": lambda dot: dot(some(4, 4, 64).reshape(16, 64), some(64, 2, 16).reshape(64, 32)),
    "part": lambda dot: dot(some(16, 128)[:, 64:], Y),
    "where": lambda dot: dot(
        jnp.where(X > 0, X, lax.broadcasted_iota("float32", (16, 64), 1) / 64), Y
    ),
    "squeezed": lambda dot: dot(S[1], Y[None][0]) + B[None],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_fused_products_are_the_plain_program(name):
    program = PROGRAMS[name]
    found = jax.jit(fuser.fuse(lambda: program(product)))()
    np.testing.assert_allclose(found, program(jnp.dot), rtol=1e-5, atol=1e-5)


def test_scalars_say_where_blocks_begin():
    def program(dot, i):
        return dot(S[i], Y) + lax.dynamic_index_in_dim(some(4, 32), 2 * i, 0, keepdims=False)

    for i in (0, 1, -1, 7):
        found = jax.jit(fuser.fuse(functools.partial(program, product)))(i)
        np.testing.assert_allclose(
            found, jax.jit(functools.partial(program, jnp.dot))(i), rtol=1e-5, atol=1e-5
        )


def test_results_apart_from_the_kernel_and_effects():
    def f(x):
        y = product(x, Y)
        jax.debug.callback(lambda _: seen.append(1), y)
        return {"a": jnp.cos(x), "b": 3}, y + 1, x

    seen = []
    a, y, x = jax.jit(fuser.fuse(f))(X)
    jax.effects_barrier()
    assert seen == [1] and a["b"] == 3 and x is not None
    np.testing.assert_allclose(y, X @ Y + 1, rtol=1e-5, atol=1e-5)


def test_outside_of_fuse_a_fusible_function_is_an_ordinary_one():
    @fuser.fusible
    def double(x, out):
        assert out is None
        return 2 * x()

    assert float(jax.grad(lambda x: double(x) * x)(3.0)) == 12
    np.testing.assert_array_equal(jax.vmap(double)(jnp.arange(3.0)), [0, 2, 4])
    np.testing.assert_array_equal(jax.jit(jax.vmap(jax.grad(double)))(jnp.arange(3.0)), [2, 2, 2])
    assert float(fuser.fuse(jax.jit(lambda x: double(x + 1)))(1.0)) == 4  # within a call


def test_output_fusions():
    seen = {}

    @functools.partial(fuser.fusible, output_fusion_prefix=(True, True))
    def both(x, y, outs):
        seen["outs"] = outs
        one, other = [(lambda v: v) if f is None else f for f in outs]
        return one(x()), other(y())

    x, y = jnp.arange(3.0), jnp.ones(2)
    found = fuser.fuse(lambda x, y: (lambda r: ((r[1], r[1] * 2), r[0]))(both(x, y)))(x, y)
    np.testing.assert_array_equal(found[0][1], 2 * y)
    assert seen["outs"][0] is None and seen["outs"][1].in_shape == ((2,), {})
    assert [t.shape for t in seen["outs"][1].type] == [(2,), (2,)]
    with pytest.raises(
        ValueError, match="Outputs must be disjoint in order to use separate output fusions"
    ):
        fuser.fuse(lambda x: (lambda r: r[0] + r[1])(both(x, x)))(x)
    with pytest.raises(ValueError, match="No fusible eqn found"):
        fuser.fuse(jnp.sin)(x)


def test_custom_fusions_have_rules_of_their_own():
    @fuser.custom_fusion
    def twice(x):
        return 2 * x

    twice.def_pull_block_spec(lambda blocks: (blocks[0],))
    twice.def_push_block_spec(lambda blocks: (blocks[0],))
    twice.def_eval_rule(lambda _, x: (twice(x),))
    twice.def_pallas_impl(lambda x: x + x)

    def program(dot, x):
        return twice(dot(twice(x), Y))

    np.testing.assert_allclose(
        jax.jit(fuser.fuse(functools.partial(program, product)))(X),
        4 * (X @ Y),
        rtol=1e-5,
        atol=1e-5,
    )
    assert float(jax.grad(twice)(1.0)) == 2


@pytest.mark.parametrize(
    "f, match",
    [
        (
            lambda x: jax.nn.softmax(x, 1),
            r"needed in different blocks[\s\S]*\[\(2, 4\), \(2, 16\)\]",
        ),
        (
            lambda x: jnp.cumsum(x, 1),
            r"blocks of a result of cumsum[\s\S]*test_pallas_fuser\.py:\d+[\s\S]*custom_fusion",
        ),
        (lambda x: jnp.pad(x, 1)[:8, :16], "blocks of a result of pad"),
    ],
    ids=["softmax", "cumsum", "pad"],
)
def test_what_blocks_do_not_say_is_refused(f, match):
    spec = pl.BlockSpec((2, 4), lambda i, j: (i, j))
    with pytest.raises(NotImplementedError, match=match):
        fuser.pull_block_spec(f, spec)(jax.ShapeDtypeStruct((8, 16), jnp.float32))


def test_closed_over_arrays_are_refused():
    with pytest.raises(ValueError, match="get_fusion_values"):
        fuser.pull_block_spec(lambda x: x + B, pl.BlockSpec((2, 32), lambda i: (i, 0)))(
            jax.ShapeDtypeStruct((8, 32), "float32")
        )


ROWS = pl.BlockSpec((2, 4), lambda i: (i, 0))


@pytest.mark.parametrize(
    "behind",
    [
        lambda y, b: y * b + 1,
        lambda y, b: jnp.tanh(y) - b.sum(),
        lambda y, b: y * b[:, :1],
        lambda y, b: (y * b, y.sum(1)),
    ],
    ids=["product", "whole", "column", "two"],
)
def test_blocks_of_an_output_fusion(behind):
    """A kernel that asks for the blocks of its results and of what the fusion behind it reads."""
    rng = np.random.default_rng(0)
    x, b = (jnp.asarray(rng.normal(size=(8, 4)), "float32") for _ in range(2))
    function, values, scalars = fuser.get_fusion_values(lambda y: behind(y, b), x)
    assert scalars == ()
    kernel, specs, named, out_type, out_specs = fuser.push_pull_block_spec(
        function, ROWS, grid_len=1
    )(values, x)
    assert named == {}

    def body(x_ref, *refs):
        value_refs, out_refs = refs[: len(values)], refs[len(values) :]
        blocks = tuple([r[...] for r in value_refs])
        outs = kernel((pl.program_id(0),), (), blocks, 2 * x_ref[...])
        for ref, y in zip(out_refs, jax.tree.leaves(outs), strict=True):
            ref[...] = y

    call = pl.pallas_call(
        body, out_type, grid=(4,), in_specs=[ROWS, *specs], out_specs=out_specs, interpret=True
    )
    for got, want in zip(
        jax.tree.leaves(call(x, *values)), jax.tree.leaves(behind(2 * x, b)), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_specs_of_axes_of_size_one():
    """As JAX 0.12.0.1: an axis that is broadcast is seen, if that of the result is."""
    column = jnp.arange(8.0)[:, None]
    for shape, want in [((2, 4), (2, 1)), ((2, None), (2, None)), ((None, 4), (None, 1))]:
        spec = pl.BlockSpec(shape, lambda i, j: (i, j))
        kernel, (found,), _ = fuser.pull_block_spec(
            lambda v: lax.broadcast_in_dim(v, (8, 8), (0, 1)), spec, grid_len=2
        )(column)
        assert found.block_shape == want and found.index_map(1, 2) == (1, 0)
        block = jnp.ones([n for n in want if n is not None])
        assert kernel((1, 2), (), block).shape == tuple([n for n in shape if n is not None])


def test_one_argument_in_two_blocks_is_refused_where_it_is_strict():
    specs = pl.BlockSpec((2, 4), lambda i: (i, 0)), pl.BlockSpec((2,), lambda i: (i,))
    pull = fuser.pull_block_spec(lambda b: (2 * b, b[:, 0]), specs, grid_len=1)
    with pytest.raises(NotImplementedError, match="different blocks by one step"):
        pull(jnp.ones((8, 4)))


def test_scalars_behind_the_place_in_the_grid():
    specs = {
        "a": pl.BlockSpec((2,), lambda i, s, t: (i + s[0] * t[0],)),
        "b": None,
        "c": pl.no_block_spec,
        "d": pl.BlockSpec(),
    }
    found = fuser.block_spec_with_prefetch(specs, ([7], [8]))
    assert found["a"].index_map(3) == (59,) and found["a"].block_shape == (2,)
    assert found["b"] is None and found["c"] is pl.no_block_spec and found["d"] == specs["d"]
    values, left = fuser.filter_no_block_specs(
        {"a": 1, "b": (2, 3)}, {"a": specs["c"], "b": (ROWS, ROWS)}
    )
    assert values == {"a": None, "b": (2, 3)} and left == {"a": None, "b": (ROWS, ROWS)}


def test_evaluate_refuses_loops():
    for f, name in [
        (lambda x: jax.lax.fori_loop(0, x, lambda i, c: c + i, x), "while"),
        (lambda x: jax.lax.cond(x > 0, lambda: x, lambda: -x), "cond"),
        (lambda x: jax.lax.scan(lambda c, _: (c + 1, None), x, length=3)[0], "scan"),
    ]:
        with pytest.raises(NotImplementedError, match=f"(?s){name} not supported. at .*test_pall"):
            fuser.evaluate(f)(3)
    with pytest.raises(ValueError, match="Transpose not allowed"):
        fuser.evaluate(lambda x: x.T, allow_transpose=False)(jnp.ones((2, 3)))
    out = fuser.evaluate(lambda x: {"a": x.T + 1})(jnp.ones((2, 3)))
    assert out["a"].shape == (3, 2)
    with pytest.raises(TypeError, match="keyword"):
        fuser.evaluate(lambda x: x)(x=1)


def test_fusions_of_references():
    """As JAX 0.12.0.1: aliases are places among all results, and among values and arguments."""
    y, ref = jnp.ones(3), jax.new_ref(jnp.arange(3.0))
    function, values, scalars = fuser.get_stateful_input_fusion_values(lambda: y + 2 * ref[...])
    assert any(v is ref for v in values) and scalars == ()
    arrays = tuple([v[...] if v is ref else v for v in values])
    assert function(arrays).tolist() == [1, 3, 5]

    def write(v):
        ref[...] += v
        return v * y, {"k": ref[...]}

    function, values, _, aliases = fuser.get_stateful_output_fusion_values(write, y)
    ((place, alias),) = aliases.items()
    assert place == 2 and values[alias] is ref
    (first, others), (last,) = function(arrays, y)
    assert first.tolist() == [1, 1, 1] and others["k"].tolist() == last.tolist() == [1, 2, 3]
    assert ref[...].tolist() == [0, 1, 2]

    def given(v, r):
        r[...] = v
        return v

    function, values, _, aliases = fuser.get_stateful_output_fusion_values(given, y, ref)
    assert values == () and aliases == {1: 1}
    assert [x.tolist() for x in jax.tree.leaves(function((), y, ref[...]))] == [[1, 1, 1]] * 2
    function, values, _ = fuser.get_stateful_input_fusion_values(lambda: given(y, ref))
    assert function(tuple([v[...] if v is ref else v for v in values])).tolist() == [1, 1, 1]
