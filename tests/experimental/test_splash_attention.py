"""Attention with masks as JAX's kernel for TPUs is called: against its definition in NumPy."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernels
from teucer.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

HEADS, ROWS, KEYS, SIZE = 4, 6, 8, 3
RNG = np.random.default_rng(0)
Q = RNG.normal(size=(HEADS, ROWS, SIZE)).astype(np.float32)
K, V = (RNG.normal(size=(2, KEYS, SIZE)).astype(np.float32) for _ in range(2))
SHAPE = (ROWS, KEYS)
SOME = masks.MultiHeadMask(
    [
        masks.CausalMask(SHAPE),
        masks.LocalMask(SHAPE, (1, 2), 0),
        masks.FullMask(SHAPE),
        masks.NumpyMask(RNG.random(SHAPE) < 0.7) | masks.CausalMask(SHAPE, offset=1),
    ]
)
SEGMENTS = kernels.SegmentIds(np.arange(ROWS) // 4, np.arange(KEYS) // 4)
SINKS = np.float32([0.5, -1, 2, 0])


def attention(q, k, v, seen, cap=None, sinks=None):
    """By the definition, in double precision: (results, logarithms of the sums of weights)."""
    k, v = (np.repeat(x.astype(np.float64), len(q) // len(x), 0) for x in (k, v))
    logits = q.astype(np.float64) @ k.swapaxes(1, 2)
    if cap is not None:
        logits = cap * np.tanh(logits / cap)
    weights = np.where(seen, np.exp(logits), 0)
    total = weights.sum(-1, keepdims=True) + (0 if sinks is None else np.exp(sinks)[:, None, None])
    return (weights / total) @ v, np.log(total[..., 0])


@pytest.mark.parametrize("cap", [None, 0.8])
@pytest.mark.parametrize("sinks", [None, SINKS], ids=["", "sinks"])
@pytest.mark.parametrize("segments", [None, SEGMENTS], ids=["", "segments"])
def test_values(cap, sinks, segments):
    seen = SOME[:, :, :] & (True if segments is None else segments.q[:, None] == segments.kv)
    attend = kernels.make_splash_mha(
        SOME, head_shards=2, q_seq_shards=1, attn_logits_soft_cap=cap, save_residuals=True
    )
    out, (summed,) = jax.jit(attend)(Q, K, V, segments, sinks)
    expected, logs = attention(Q, K, V, seen, cap, sinks)
    np.testing.assert_allclose(out, expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(summed, logs, rtol=2e-5, atol=2e-6)


def test_masks():
    assert masks.CausalMask((3, 4), offset=1)[:, :].astype(int).tolist() == [
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [1, 1, 1, 1],
    ]
    assert masks.LocalMask((3, 4), (None, 0), 1)[1:, 2:].astype(int).tolist() == [[1, 0], [1, 1]]
    assert masks.ChunkedCausalMask((4, 4), 2)[:, :].astype(int).tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 1, 1],
    ]
    both = masks.CausalMask((2, 2)) & masks.NumpyMask(np.array([[False, True], [True, True]]))
    assert both[:, :].astype(int).tolist() == [[0, 0], [1, 1]]
    assert masks.CausalMask((2, 2)) == masks.CausalMask((2, 2)) != masks.CausalMask((2, 2), 1)
    assert SOME.shape == (HEADS, ROWS, KEYS) and SOME[2:, :2, :3].shape == (2, 2, 3)
    assert (masks.make_chunk_attention_mask((2, 2), 2) == masks.make_causal_mask((2, 2))).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bool(masks.FullMask((2, 2))), "neither true nor false"),
        (lambda: masks.FullMask((2, 2)) | masks.FullMask((2, 3)), "same shape"),
        (lambda: masks.NumpyMask(np.ones((2, 2))), "matrix of bool"),
        (lambda: masks.ChunkedCausalMask((2, 2), 0), "must be positive"),
        (
            lambda: masks.MultiHeadMask([masks.FullMask((2, 2)), masks.FullMask((2, 3))]),
            "Unexpected mask shape",
        ),
        (
            lambda: kernels.make_splash_mha(masks.FullMask(SHAPE), head_shards=1, q_seq_shards=1),
            "heads, queries, keys",
        ),
        (lambda: kernels.make_splash_mha(SOME, head_shards=3, q_seq_shards=1), "not 3 equal parts"),
        (
            lambda: kernels.make_splash_mha_single_device(SOME)(Q, K[..., :2], V),
            "Expected 'key' head dimension",
        ),
        (
            lambda: kernels.make_splash_mha_single_device(SOME)(Q, K[:, :3], V[:, :3]),
            "another shape",
        ),
        (lambda: kernels.make_splash_mha_single_device(SOME)(Q, K, V[:1]), "differ in heads"),
        (lambda: kernels.make_splash_mha_single_device(SOME)(Q[:3], K, V), "do not divide"),
    ],
)
def test_errors(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_other_ways_to_call_it():
    attend = kernels.make_splash_mha_single_device(SOME)
    expected = jax.jit(attend)(Q, K, V)
    batch = lambda x: np.stack([x, x])
    both = jax.jit(jax.vmap(attend))(batch(Q), batch(K), batch(V), segment_ids=None)
    np.testing.assert_allclose(both[1], expected, rtol=1e-5, atol=1e-6)
    given = kernels.make_splash_mha_single_device(jnp.asarray(SOME[:, :, :]))
    np.testing.assert_allclose(jax.jit(given)(Q, K, V), expected, rtol=1e-5, atol=1e-6)
    one = jax.jit(kernels.make_splash_mqa_single_device(SOME))(Q, K[0], V[0])
    np.testing.assert_allclose(
        one, attention(Q, K[:1], V[:1], SOME[:, :, :])[0], rtol=2e-5, atol=2e-6
    )
    single = kernels.make_attention_reference(SOME.masks[1], False)(Q[1], K[0], V[0])
    np.testing.assert_allclose(single, expected[1], rtol=1e-5, atol=1e-6)
    assert (
        jax.eval_shape(attend, *(x.astype(jnp.bfloat16) for x in (Q, K, V))).dtype == jnp.bfloat16
    )


def test_derivatives():
    attend = kernels.make_splash_mha_single_device(SOME, residual_checkpoint_name="attention")
    f = jax.jit(lambda q, k, v, s: attend(q, k, v, SEGMENTS, s))
    jax.test_util.check_grads(f, (Q, K, V, SINKS), 1, ["rev"], atol=1e-2, rtol=1e-2)
    policy = jax.checkpoint_policies.save_only_these_names("attention")
    saved = jax.ad_checkpoint.saved_residuals(
        jax.checkpoint(lambda *x: attend(*x) ** 2, policy=policy), Q, K, V
    )
    assert any("attention" in why for _, why in saved)


def test_over_a_mesh():
    mesh = jax.make_mesh((2, 2), ("heads", "rows"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    for mask in (SOME, jnp.asarray(SOME[:, :, :])):
        attend = kernels.make_splash_mha(mask, head_shards=2, q_seq_shards=2)
        spec = attend.manual_sharding_spec(jax.NamedSharding(mesh, jax.P("heads", "rows")))
        spread = jax.shard_map(
            lambda attend, q, k, v: attend(q, k, v),
            mesh=mesh,
            in_specs=(spec, jax.P("heads", "rows"), jax.P("heads"), jax.P("heads")),
            out_specs=jax.P("heads", "rows"),
        )
        np.testing.assert_allclose(
            jax.jit(spread)(attend, Q, K, V), jax.jit(attend)(Q, K, V), rtol=1e-5, atol=1e-6
        )
