"""Kernels for laptops.

Each is a function of arrays made by pallas_call, and runs compiled on the CPU
(docs/guide/pallas.md).
"""

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import tpu as pltpu
from teucer.experimental.pallas import triton as plgpu


def like(x, shape=None):
    return jax.ShapeDtypeStruct(x.shape if shape is None else shape, x.dtype)


def add(x, y, rows=8):
    """x + y, some rows at a time."""

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    block = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, like(x), grid=pl.cdiv(x.shape[0], rows), in_specs=[block, block], out_specs=block
    )(x, y)


def matmul(x, y, bias, m=32, n=32, k=32):
    """relu(x @ y + bias): products of blocks are added up in scratch memory, and the last one
    writes."""
    steps = x.shape[1] // k

    def kernel(x_ref, y_ref, bias_ref, o_ref, total):
        @pl.when(pl.program_id(2) == 0)
        def _():
            total[...] = jnp.zeros_like(total)

        total[...] += pl.dot(x_ref[...], y_ref[...])

        @pl.when(pl.program_id(2) == steps - 1)
        def _():
            o_ref[...] = jnp.maximum(total[...] + bias_ref[...], 0).astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        like(x, (x.shape[0], y.shape[1])),
        grid=(x.shape[0] // m, y.shape[1] // n, steps),
        in_specs=[
            pl.BlockSpec((m, k), lambda i, j, s: (i, s)),
            pl.BlockSpec((k, n), lambda i, j, s: (s, j)),
            pl.BlockSpec((n,), lambda i, j, s: (j,)),
        ],
        out_specs=pl.BlockSpec((m, n), lambda i, j, s: (i, j)),
        scratch_shapes=[pltpu.VMEM((m, n), jnp.float32)],
    )(x, y, bias)


def softmax(x, rows=8):
    def kernel(x_ref, o_ref):
        e = jnp.exp(x_ref[...] - jnp.max(x_ref[...], axis=1, keepdims=True))
        o_ref[...] = e / jnp.sum(e, axis=1, keepdims=True)

    block = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, like(x), grid=pl.cdiv(x.shape[0], rows), in_specs=[block], out_specs=block
    )(x)


@jax.custom_vjp
def layer_norm(x, scale):
    """Rows of mean 0 and variance 1, times scale; its backward pass is a kernel too."""
    return _layer_norm_forward(x, scale)[0]


def _layer_norm_forward(x, scale, rows=8):
    def kernel(x_ref, scale_ref, o_ref, mean_ref, inverse_ref):
        mean = jnp.mean(x_ref[...], axis=1, keepdims=True)
        inverse = jax.lax.rsqrt(jnp.mean((x_ref[...] - mean) ** 2, axis=1, keepdims=True) + 1e-6)
        o_ref[...] = (x_ref[...] - mean) * inverse * scale_ref[...]
        mean_ref[...], inverse_ref[...] = mean, inverse

    block, column = (
        pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0)),
        pl.BlockSpec((rows, 1), lambda i: (i, 0)),
    )
    y, mean, inverse = pl.pallas_call(
        kernel,
        [like(x), like(x, (x.shape[0], 1)), like(x, (x.shape[0], 1))],
        grid=x.shape[0] // rows,
        in_specs=[block, pl.BlockSpec()],
        out_specs=[block, column, column],
    )(x, scale)
    return y, (x, scale, mean, inverse)


def _layer_norm_backward(saved, ct, rows=8):
    x, scale, mean, inverse = saved

    def kernel(x_ref, scale_ref, mean_ref, inverse_ref, ct_ref, dx_ref, dscale_ref):
        normal = (x_ref[...] - mean_ref[...]) * inverse_ref[...]
        scaled = ct_ref[...] * scale_ref[...]
        centred = scaled - jnp.mean(scaled, axis=1, keepdims=True)
        dx_ref[...] = inverse_ref[...] * (
            centred - normal * jnp.mean(scaled * normal, axis=1, keepdims=True)
        )

        @pl.when(pl.program_id(0) == 0)
        def _():
            dscale_ref[...] = jnp.zeros_like(dscale_ref)

        dscale_ref[...] += jnp.sum(ct_ref[...] * normal, axis=0)

    block, column = (
        pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0)),
        pl.BlockSpec((rows, 1), lambda i: (i, 0)),
    )
    return tuple(
        pl.pallas_call(
            kernel,
            [like(x), like(scale)],
            grid=x.shape[0] // rows,
            in_specs=[block, pl.BlockSpec(), column, column, block],
            out_specs=[block, pl.BlockSpec()],
        )(x, scale, mean, inverse, ct)
    )


layer_norm.defvjp(_layer_norm_forward, _layer_norm_backward)


def attention(q, k, v, queries=16, keys=16):
    """softmax(q k^T / sqrt(d)) v without the matrix of all weights: [length, d] each. jax.grad goes
    through it."""
    length, d = q.shape

    def kernel(q_ref, k_ref, v_ref, o_ref):
        scaled = q_ref[...] / jnp.sqrt(jnp.float32(d))

        def body(j, carry):
            out, total, largest = carry
            part = pl.ds(j * keys, keys)
            scores = pl.dot(scaled, k_ref[part, :], trans_b=True)
            now = jnp.maximum(largest, jnp.max(scores, axis=1))
            weights, old = jnp.exp(scores - now[:, None]), jnp.exp(largest - now)
            return (
                out * old[:, None] + pl.dot(weights, v_ref[part, :]),
                total * old + jnp.sum(weights, axis=1),
                now,
            )

        begin = jnp.zeros((queries, d)), jnp.zeros(queries), jnp.full(queries, -1e30)
        out, total, _ = jax.lax.fori_loop(0, length // keys, body, begin)
        o_ref[...] = (out / total[:, None]).astype(o_ref.dtype)

    block = pl.BlockSpec((queries, d), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        like(q),
        grid=length // queries,
        in_specs=[block, pl.BlockSpec(), pl.BlockSpec()],
        out_specs=block,
    )(q, k, v)


def blur(x, block=8):
    """The mean of each element and its neighbours: blocks overlap by an element on each side."""

    def kernel(x_ref, o_ref):
        o_ref[...] = (x_ref[:-2] + x_ref[1:-1] + x_ref[2:]) / 3

    window = pl.BlockSpec((pl.Element(block + 2, (1, 1)),), lambda i: (i * block,))
    out = pl.BlockSpec((block,), lambda i: (i,))
    y = pl.pallas_call(kernel, like(x), grid=x.shape[0] // block, in_specs=[window], out_specs=out)(
        x
    )
    return y.at[jnp.array([0, -1])].set(x[jnp.array([0, -1])])


def histogram(x, bins, block=16):
    """How often each of 0 .. bins - 1 occurs. Steps add to the counts by atomic operations, so they
    may run at the same time."""

    def kernel(x_ref, zeros_ref, o_ref):
        plgpu.atomic_add(o_ref, x_ref[...], 1)

    return pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct((bins,), jnp.int32),
        grid=x.shape[0] // block,
        in_specs=[pl.BlockSpec((block,), lambda i: (i,)), pl.BlockSpec()],
        out_specs=pl.BlockSpec(),
        input_output_aliases={1: 0},
    )(x, jnp.zeros(bins, jnp.int32))


def grouped_matmul(x, weights, group, rows=8):
    """x[i] @ weights[group[i // rows]]: which matrix a block of rows meets is known before the grid
    begins."""

    def kernel(group_ref, x_ref, w_ref, o_ref):
        o_ref[...] = pl.dot(x_ref[...], w_ref[...])

    n = weights.shape[2]
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=x.shape[0] // rows,
        in_specs=[
            pl.BlockSpec((rows, x.shape[1]), lambda i, group: (i, 0)),
            pl.BlockSpec((None, x.shape[1], n), lambda i, group: (group[i], 0, 0)),
        ],
        out_specs=pl.BlockSpec((rows, n), lambda i, group: (i, 0)),
    )
    return pl.pallas_call(kernel, like(x, (x.shape[0], n)), grid_spec=spec)(group, x, weights)


def noise(key, shape, rows=8):
    """Normal numbers, each block of rows of a key of its own."""

    def kernel(key_ref, o_ref):
        own = jax.random.fold_in(jax.random.wrap_key_data(key_ref[...]), pl.program_id(0))
        o_ref[...] = jax.random.normal(own, o_ref.shape)

    return pl.pallas_call(
        kernel,
        jax.ShapeDtypeStruct(shape, jnp.float32),
        grid=shape[0] // rows,
        out_specs=pl.BlockSpec((rows, shape[1]), lambda i: (i, 0)),
    )(jax.random.key_data(key))
