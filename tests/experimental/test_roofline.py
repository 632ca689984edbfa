"""What a program has to compute, move and send, from its types alone."""

import math

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.experimental import roofline
from teucer.experimental.roofline import RooflineResult
from teucer.experimental.roofline.rooflines import _meetings
from teucer.extend.core import Primitive
from teucer.sharding import PartitionSpec as P

X = jax.ShapeDtypeStruct((4, 8), jnp.float32)
W = jax.ShapeDtypeStruct((8, 16), jnp.float32)
N = 4 * 8

UNFUSED = {
    "sine": (lambda x: jnp.sin(x), N, 2 * 4 * N),
    "a constant": (lambda x: x * 2.0, N, 2 * 4 * N + 4),
    "comparison": (lambda x: x > x, N, 2 * 4 * N + N),
    "sum": (lambda x: x.sum(), N - 1, 4 * (N + 1)),
    "maximum": (lambda x: x.max(1), N - 4, 4 * (N + 4)),
    "transpose": (lambda x: x.T.reshape(-1)[:3], 0, 0),
    "jit": (lambda x: jax.jit(jnp.sin)(x), N, 2 * 4 * N),
    "checkpoint": (lambda x: jax.checkpoint(jnp.sin)(x), N, 2 * 4 * N),
    "scan": (
        lambda x: lax.scan(lambda c, row: (jnp.sin(c), None), x[0], x)[0],
        4 * 8,
        4 * 2 * 4 * 8,
    ),
    "callback": (lambda x: jax.pure_callback(np.sin, X, x), 0, 2 * 4 * N),
    "cumulative": (lambda x: lax.cumsum(x, 1), 8, 2 * 4 * N),
}


@pytest.mark.parametrize("name", UNFUSED)
def test_operations_by_themselves(name):
    f, flops, moved = UNFUSED[name]
    _, found = roofline.roofline(f)(X)
    assert (found.unfused_flops, found.unfused_hbm_bytes, found.flops, found.hbm_bytes) == (
        flops,
        moved,
        0,
        0,
    )


def test_branch_with_most_operations():
    f = lambda x: lax.cond(x[0, 0] > 0, jnp.sin, lambda x: jnp.sin(x) + jnp.cos(x), x)
    assert roofline.roofline(f)(X)[1].unfused_flops == 1 + 3 * N


def test_matrix_products():
    out, found = roofline.roofline(lambda x, w: jnp.sin(x @ w))(X, W)
    moved = 4 * (N + 8 * 16 + 4 * 16)
    assert out == jax.ShapeDtypeStruct((4, 16), jnp.float32)
    assert (found.flops, found.hbm_bytes, found.peak_hbm_bytes) == (
        2 * 4 * 8 * 16,
        moved,
        4 * (N + 8 * 16),
    )
    product = lambda x, w: x @ w
    assert roofline.roofline(product, pin_rhs_in_vmem=True)(X, W)[1].hbm_bytes == moved - 4 * 8 * 16
    _, forward, backward = roofline.roofline_and_grad(product, None, None, None)(X, W)
    assert (
        backward.flops == 2 * forward.flops and backward.hbm_bytes == moved
    )  # twice, in half the bytes
    (dx, dw), found = roofline.roofline(product, vjp=True)(X, W)
    assert (dx, dw) == (X, W) and found.flops == 2 * forward.flops


@pytest.mark.parametrize(
    "numbers",
    [
        (9, 3, 1, 0, 1, 1),
        (9, 3, 2, 2, 1, 2),
        (5, 4, 3, 3, 2, 1),
        (5, 4, 1, 2, 3, 2),
        (6, 3, 2, 1, 4, 6),
    ],
)
def test_products_with_padding_do_not_count(numbers):
    size, window, stride, low, dilation, window_dilation = numbers
    there = {i * dilation for i in range(size)}
    out = ((size - 1) * dilation + 1 + 2 * low - (window - 1) * window_dilation - 1) // stride + 1
    counted = sum(
        o * stride - low + j * window_dilation in there for o in range(out) for j in range(window)
    )
    assert _meetings(size, window, out, stride, low, dilation, window_dilation) == counted


def test_convolution():
    x, w = jnp.ones((2, 6, 9, 9)), jnp.ones((4, 3, 3, 3))
    f = lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "VALID", feature_group_count=2)
    assert roofline.roofline(f)(x, w)[1].unfused_flops == 2 * 2 * 4 * 3 * 7 * 7 * 9


COLLECTIVES = {  # bytes and latency over a ring of 4
    "all_gather": (lambda x: lax.all_gather(x, "x", tiled=True), 3 * 4 * N, 4),
    "psum": (lambda x: lax.psum(x, "x"), 2 * 3 * N, 2 * 4),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True), 3 * N, 4),
    "all_to_all": (lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True), 4 * N, 2),
    "to the next": (lambda x: lax.ppermute(x, "x", [(i, (i + 1) % 4) for i in range(4)]), 4 * N, 1),
    "to the one opposite": (
        lambda x: lax.ppermute(x, "x", [(i, (i + 2) % 4) for i in range(4)]),
        2 * 4 * N,
        2,
    ),
    "pmax": (lambda x: lax.pmax(x, "x"), 3 * 4, 4),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives(name):
    f, sent, latency = COLLECTIVES[name]
    mesh = jax.sharding.AbstractMesh((4,), ("x",), (jax.sharding.AxisType.Auto,))
    run = jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    _, found = roofline.roofline(run)(jax.ShapeDtypeStruct((16, 8), jnp.float32))
    assert (found.ici_bytes, found.ici_latency) == ({"x": sent}, {"x": latency})


def test_on_one_device_of_a_mesh():
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    out, found = roofline.roofline(lambda x: lax.psum(x, "x"), mesh, P("x"), P())(X)
    assert out.sharding == jax.sharding.NamedSharding(mesh, P())
    assert (found.ici_bytes, found.peak_hbm_bytes) == ({"x": 0}, 4 * N)


def test_memory_between_equations():
    _, found = roofline.roofline(lambda x: jnp.sin(jnp.broadcast_to(x, (10, 10))).sum())(
        jnp.ones(10)
    )
    assert found.peak_hbm_bytes == 4 * 100


def test_rules_of_users():
    free, dear = Primitive("free"), Primitive("dear")
    for primitive in (free, dear):
        primitive.def_abstract_eval(lambda x, **params: x)

    @roofline.register_roofline(dear)
    def rule(ctx, x, **params):
        assert ctx.primitive is dear and ctx.avals_in[0].shape == x.shape and params == {"times": 3}
        return RooflineResult(flops=params["times"] * math.prod(x.shape), hbm_bytes=x.bytes)

    assert roofline.roofline(free.bind)(X)[1] == RooflineResult(peak_hbm_bytes=4 * N)
    found = roofline.roofline(lambda x: dear.bind(free.bind(x), times=3))(X)[1]
    assert (found.flops, found.hbm_bytes) == (3 * N, 4 * N)
    roofline.register_standard_roofline(dear)
    assert roofline.roofline(lambda x: dear.bind(x, times=3))(X)[1].flops == 0


def test_results_add_and_multiply():
    one = RooflineResult(flops=1, peak_hbm_bytes=5, ici_bytes={"x": 2})
    assert one + RooflineResult.zeros() == one
    assert one * 3 == RooflineResult(flops=3, peak_hbm_bytes=5, ici_bytes={"x": 6})


def test_program_is_printed(capsys):
    roofline.roofline(jnp.sin, print_jaxpr=True)(X)
    assert "sin a" in capsys.readouterr().out
