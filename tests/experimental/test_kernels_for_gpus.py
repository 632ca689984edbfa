"""Kernels for GPUs that users import: against jnp, with gradients, and as Triton IR."""

import itertools

import numpy as np
import pytest
from kernels import ways

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental.pallas.ops.gpu import attention, decode_attention, layer_norm, rms_norm
from teucer.experimental.pallas.ops.gpu import paged_attention as paged
from teucer.experimental.pallas.ops.gpu.softmax import softmax

NORMS = {
    "layer_norm": (layer_norm.layer_norm, layer_norm.layer_norm_reference),
    "rms_norm": (rms_norm.rms_norm, rms_norm.rms_norm_reference),
}
TOLERANCE = {"float32": 2e-5, "bfloat16": 2e-2}


def numbers(*shape, dtype="float32", seed=0):
    return jnp.asarray(np.random.default_rng([seed, *shape]).standard_normal(shape), dtype)


def assert_close(found, expected, tolerance):
    """The greatest distance, beside the greatest number, which is 1 or more."""
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        assert abs(x - y).max(initial=0) <= tolerance * max(1, abs(y).max(initial=0))


def weighted(f):
    """A scalar of f's results, by which to differentiate."""

    def total(*args):
        outs = jax.tree.leaves(f(*args))
        return sum(
            (out * numbers(*out.shape, seed=1 + i)).sum().astype("float32")
            for i, out in enumerate(outs)
        )

    return total


def assert_agrees(f, expected, args, dtype, *, triton=True):
    """f and its gradient, compiled for the CPU, and f as Triton IR."""
    tolerance = TOLERANCE[dtype]
    assert_close(f(*args), expected(*args), tolerance)
    every = tuple(range(len(args)))
    found = jax.grad(weighted(f), every)(*args)
    assert_close(found, jax.grad(weighted(expected), every)(*args), 4 * tolerance)
    if triton:
        with jax.disable_jit():
            assert_close(ways.triton(f, *args), jax.jit(expected)(*args), tolerance)


def check_softmax(shape, axis, dtype):
    x = numbers(*shape, dtype=dtype)
    f, expected = (lambda x: softmax(x, axis=axis)), (lambda x: jax.nn.softmax(x, axis))
    assert_agrees(f, expected, (x,), dtype)


def test_softmax():
    check_softmax((3, 20), -1, "float32")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape, axis", [((2, 3, 48), 1), ((5, 7), 0), ((8,), 0), ((0, 3), 1)])
def test_softmax_of_shapes(shape, axis, dtype):
    check_softmax(shape, axis, dtype)


def check_norm(name, shape, dtype, impl):
    f, reference = NORMS[name]
    x, weight, bias = numbers(*shape, dtype=dtype), numbers(shape[-1]), numbers(shape[-1], seed=1)
    assert_agrees(
        lambda *args: f(*args, None, 3, 1e-5, impl),
        lambda *args: reference(*args).astype(dtype),
        (x, weight, bias),
        dtype,
    )


def test_norms():
    check_norm("layer_norm", (3, 20), "float32", "triton")


@pytest.mark.slow
@pytest.mark.parametrize("impl", ["triton", "xla"])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(2, 3, 48), (7,), (3, 5000), (70, 130)])
@pytest.mark.parametrize("name", NORMS)
def test_norms_of_shapes(name, shape, dtype, impl):
    check_norm(name, shape, dtype, impl)


@pytest.mark.slow
@pytest.mark.parametrize("name", NORMS)
def test_gradients_of_norms_as_triton(name):
    """Rows longer than a part, whose size is no power of 2."""
    module = {"layer_norm": layer_norm, "rms_norm": rms_norm}[name]
    f, reference = NORMS[name]
    x, weight, bias = numbers(40, 4100), numbers(4100), numbers(4100, seed=1)
    options = (None, 3, 1e-5, "triton", False)
    _, saved = getattr(module, f"{name}_forward")(x, weight, bias, *options)
    backward, ct = getattr(module, f"{name}_backward"), numbers(40, 4100, seed=2)
    with jax.disable_jit():
        found = ways.triton(lambda ct: backward(*options, saved, ct), ct)
    assert_close(found, jax.vjp(reference, x, weight, bias)[1](ct), 2e-5)


Sizes = attention.BlockSizes
# queries, keys, heads, groups, size, dtype, blocks
MHA = {
    "small": (32, 32, 2, 1, 16, "float32", Sizes(16, 16, 16, 16, 16, 16)),
    "even": (64, 64, 2, 2, 16, "float32", Sizes(32, 16, 32, 16, 16, 32)),
    "ragged": (50, 70, 4, 2, 24, "float32", Sizes(16, 32, 16, 16, 16, 16)),
    "multi query": (32, 64, 2, 1, 32, "bfloat16", Sizes(16, 16, 16, 16, 16, 16)),
    "default blocks": (100, 100, 1, 1, 16, "float32", Sizes.get_default()),
}


def check_mha(name, segmented, causal, impl, triton=True):
    length, keys, heads, groups, size, dtype, sizes = MHA[name]
    args = (
        numbers(2, length, heads, size, dtype=dtype),
        *(numbers(2, keys, groups, size, dtype=dtype, seed=i) for i in (1, 2)),
    )
    segments = (jnp.arange(keys) // 21 + jnp.zeros((2, 1), int)) if segmented else None

    def f(*args):
        return attention.mha(
            *args, segments, 0.3, causal, sizes, backward_pass_impl=impl, return_residuals=True
        )

    def expected(q, k, v):
        """By the definition."""
        k, v = (jnp.repeat(x, heads // groups, 2) for x in (k, v))
        logits = 0.3 * jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type="float32")
        seen = jnp.tril(jnp.ones((length, keys), bool)) if causal else True
        if segmented:
            seen = seen & (segments[:, :length, None] == segments[:, None])[:, None]
        logits = jnp.where(seen, logits, -jnp.inf)
        out = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(logits), v.astype("float32"))
        return out.astype(dtype), jax.nn.logsumexp(logits, -1)

    assert_agrees(f, expected, args, dtype, triton=triton)


def test_mha():
    check_mha("small", True, True, "triton", triton=False)


@pytest.mark.slow
@pytest.mark.parametrize("impl", ["triton", "xla"])
@pytest.mark.parametrize("segmented, causal", list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("name", MHA)
def test_mha_of_shapes(name, segmented, causal, impl):
    check_mha(name, segmented, causal, impl)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["even", "ragged", "multi query"])
def test_gradients_of_mha_as_triton(name):
    length, keys, heads, groups, size, dtype, sizes = MHA[name]
    q, ct = (numbers(2, length, heads, size, dtype=dtype, seed=i) for i in (0, 3))
    k, v = (numbers(2, keys, groups, size, dtype=dtype, seed=i) for i in (1, 2))
    options = attention._Options(0.3, True, sizes, "triton", None, 2, None, False, False)
    out, summed = attention._forward(q, k, v, None, options)
    saved = (q, k, v, None, out, summed, ct, None)
    with jax.disable_jit():
        found = ways.triton(lambda *args: attention._backward(*args, None, options), *saved[:-1])
    assert_close(found, attention._backward(*saved, options), TOLERANCE[dtype])


# batch, heads, groups, keys, size, options
GQA = {
    "small": (1, 4, 2, 32, 16, {"k_splits": 2, "block_k": 16}),
    "even": (2, 8, 2, 128, 32, {}),
    "own keys": (1, 4, 4, 100, 24, {"k_splits": 4, "block_k": 16}),
    "one group": (3, 20, 1, 64, 16, {"block_h": 8, "k_splits": 3, "block_k": 32}),
}


def check_gqa(name, dtype, bounds):
    batch, heads, groups, keys, size, options = GQA[name]
    q = numbers(batch, heads, size, dtype=dtype)
    k, v = (numbers(batch, keys, groups, size, dtype=dtype, seed=i) for i in (1, 2))
    start, end = bounds
    whole = {"return_residuals": True, "normalize_output": False}
    for residuals in ({}, whole):

        def f(q, k, v, residuals=residuals):
            return decode_attention.gqa(q, k, v, start, end, **residuals, **options)

        def expected(q, k, v, residuals=residuals):
            return decode_attention.gqa_reference(q, k, v, start, end, **residuals)

        assert_close(f(q, k, v), expected(q, k, v), TOLERANCE[dtype])
        with jax.disable_jit():
            assert_close(ways.triton(f, q, k, v), jax.jit(expected)(q, k, v), TOLERANCE[dtype])


def test_gqa():
    check_gqa("small", "float32", (3, jnp.array([20])))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("bounds", [(None, None), (3, 57)])
@pytest.mark.parametrize("name", GQA)
def test_gqa_of_shapes(name, bounds, dtype):
    check_gqa(name, dtype, bounds)


@pytest.mark.slow
def test_multi_query_and_one_sequence():
    q, k, v = numbers(2, 8, 16), numbers(2, 48, 16), numbers(2, 48, 16, seed=1)
    expected = decode_attention.mqa_reference(q, k, v, 1, 40)
    assert_close(decode_attention.mqa(q, k, v, 1, 40), expected, 2e-5)
    one = decode_attention.decode_attn_unbatched(
        q[1], k[1], v[1], 1, 40, 0.25, 16, 16, 2, None, 2, None, False, False, False, True
    )
    assert_close(one, expected[1], 2e-5)
    assert not decode_attention.mqa(q, k, v, 4, 4).any()


def gathered(pages, table):
    """Keys of sequences in one piece: [batch, keys, groups, size]."""
    found = jnp.moveaxis(jnp.take(pages, table, axis=1), 0, 3)
    return found.reshape(found.shape[0], -1, *found.shape[3:])


def check_paged(cap, quantised, options):
    q, table = numbers(2, 8, 32), jnp.array([[5, 1, 0, 3], [2, 2, 7, 6]])
    k, v = (numbers(2, 8, 16, 32, seed=i) for i in (1, 2))
    lengths, scales = jnp.array([61, 17]), ()
    wide = [k, v]
    if quantised:
        k, v = ((30 * x).astype("int8") for x in (k, v))
        scales = tuple(abs(numbers(2, 8, 16, seed=i)) / 30 for i in (3, 4))
        wide = [x.astype("float32") * s[..., None] for x, s in zip((k, v), scales, strict=True)]
    expected = paged.paged_attention_reference(
        q, *(gathered(x, table) for x in wide), lengths, attn_logits_soft_cap=cap
    )

    def f(q, k, v, table):
        return paged.paged_attention(
            q, k, v, table, lengths, *scales, attn_logits_soft_cap=cap, **options
        )

    assert_close(f(q, k, v, table), expected, 2e-5)
    with jax.disable_jit():
        assert_close(ways.triton(f, q, k, v, table), expected, 2e-5)


def test_paged_attention():
    check_paged(3.0, True, {"k_splits": 2, "pages_per_compute_block": 1})


@pytest.mark.slow
@pytest.mark.parametrize("cap", [None, 3.0])
@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("options", [{}, {"k_splits": 3, "pages_per_compute_block": 3}])
def test_paged_attention_of_options(cap, quantised, options):
    check_paged(cap, quantised, options)


def test_programs_for_gpus_have_kernels():
    x, w = numbers(4, 16), numbers(16)
    q, k = numbers(1, 32, 2, 16), numbers(1, 32, 2, 16)
    programs = {
        "softmax": (lambda x: softmax(x, num_warps=2), (x,), 1),
        "norm": (jax.grad(lambda x, w: layer_norm.layer_norm(x, w, w).sum()), (x, w), 2),
        "mha": (jax.grad(lambda q, k: attention.mha(q, k, k, None).sum()), (q, k), 2),
        "gqa": (lambda q, k: decode_attention.gqa(q[:, 0], k, k), (q, k), 1),
    }
    for f, args, count in programs.values():
        assert ways.lowered(f, *args).count("@__gpu$xla.gpu.triton") == count


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: softmax(jnp.arange(3)), TypeError, r"a floating type, got int32\[3\]"),
        (lambda: softmax(jnp.ones(3), axis=1), ValueError, "axis 1 is out of bounds"),
        (
            lambda: rms_norm.rms_norm(jnp.ones((2, 3)), jnp.ones(2), jnp.ones(3)),
            ValueError,
            r"(?s)rms_norm: weight.*x: float32\[2, 3\].*weight: float32\[2\]",
        ),
        (
            lambda: attention.mha(numbers(1, 2, 2, 4), *[numbers(1, 2, 3, 4)] * 2, None),
            ValueError,
            r"(?s)the heads of k must divide those of q.*k: float32\[1, 2, 3, 4\]",
        ),
        (lambda: Sizes(128, 96), ValueError, "block_k must be a power of 2, got 96"),
        (
            lambda: jax.grad(
                lambda q: attention.mha(q, q, q, None, block_sizes=Sizes(16, 16)).sum()
            )(numbers(1, 16, 1, 16)),
            ValueError,
            "Backward block sizes must all be set",
        ),
        (
            lambda: decode_attention.gqa(numbers(1, 3, 4), *[numbers(1, 8, 2, 4)] * 2),
            ValueError,
            r"(?s)gqa: q must be.*k: float32\[1, 8, 2, 4\]",
        ),
        (
            lambda: paged.paged_attention(
                numbers(1, 2, 4), *[numbers(1, 2, 4, 4)] * 2, jnp.zeros((2, 1), int), None
            ),
            ValueError,
            r"(?s)block_tables \[batch, pages\].*block_tables: int32\[2, 1\]",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
