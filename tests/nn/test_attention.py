"""Attention: values are those of jax.nn (tests/data/make_nn_attention.py) and of the formula."""

import json
from pathlib import Path

import numpy as np
import pytest

import teucer as jax
from teucer import nn
from teucer import numpy as jnp

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "nn_attention.json").read_text())[
    "attention"
]


def operands(kwargs):
    r = np.random.default_rng(0)
    q, k, v = (
        r.normal(size=s).astype(np.float32) for s in ((2, 5, 4, 8), (2, 6, 2, 8), (2, 6, 2, 8))
    )
    bias, mask = r.normal(size=(2, 4, 5, 6)).astype(np.float32), r.uniform(size=(2, 1, 5, 6)) < 0.7
    mask[..., 0] = True
    given = {**kwargs}
    for name, value in (("bias", bias), ("mask", mask)):
        if given.get(name):
            given[name] = value
    for name in ("query_seq_lengths", "key_value_seq_lengths"):
        if name in given:
            given[name] = np.asarray(given[name], np.int32)
    if isinstance(given.get("local_window_size"), list):
        given["local_window_size"] = tuple(given["local_window_size"])
    return (q, k, v), given


@pytest.mark.parametrize("record", GOLDEN, ids=lambda r: "-".join(r["kwargs"]) or "plain")
def test_value(record):
    args, kwargs = operands(record["kwargs"])
    f = lambda *xs: nn.dot_product_attention(*xs, **kwargs)
    for g in (f, jax.jit(f)):
        for found, expected in zip(jax.tree.leaves(g(*args)), record["out"], strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def test_formula_and_gradient():
    (q, k, v), _ = operands({})
    repeated = [np.repeat(x, 2, axis=2) for x in (k, v)]

    def formula(q, k, v):
        logits = jnp.einsum("btnh,bsnh->bnts", q, k) / np.sqrt(8)
        return jnp.einsum("bnts,bsnh->btnh", nn.softmax(logits), v)

    np.testing.assert_allclose(
        nn.dot_product_attention(q, k, v), formula(q, *repeated), rtol=1e-5, atol=1e-6
    )
    found = jax.grad(lambda q: nn.dot_product_attention(q, k, v).sum())(q)
    np.testing.assert_allclose(
        found, jax.grad(lambda q: formula(q, *repeated).sum())(q), rtol=1e-4, atol=1e-6
    )


def test_without_batch_and_in_short_floats():
    (q, k, v), _ = operands({})
    whole = nn.dot_product_attention(q, k, v)
    np.testing.assert_allclose(
        nn.dot_product_attention(q[0], k[0], v[0]), whole[0], rtol=1e-5, atol=1e-6
    )
    short = nn.dot_product_attention(*(jnp.asarray(x).astype("bfloat16") for x in (q, k, v)))
    assert short.dtype == "bfloat16"
    np.testing.assert_allclose(np.asarray(short.astype("float32")), whole, rtol=0.02, atol=0.02)
    one_by_one = jax.vmap(nn.dot_product_attention)(q[:, None], k[:, None], v[:, None])
    np.testing.assert_allclose(one_by_one[:, 0], whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "shapes, message",
    [
        (((2, 5, 4, 8), (2, 6, 2, 8), (2, 6, 2, 4)), "shapes do not fit"),
        (((2, 5, 4, 8), (2, 6, 3, 8), (2, 6, 3, 8)), "must be a multiple"),
        (((5, 8), (6, 8), (6, 8)), "must have 3 or 4 axes"),
    ],
)
def test_shapes_that_do_not_fit(shapes, message):
    with pytest.raises(ValueError, match=rf"(?s)dot_product_attention.*{message}.*query: f32\["):
        nn.dot_product_attention(*(jnp.ones(s) for s in shapes))


def test_complex_numbers():
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, 1, n, 1, 4)).astype(np.float32) for n in (2, 3, 3))
    q, k, v = (x[0] + 1j * x[1] for x in (q, k, v))
    logits = np.einsum("btnh,bsnh->bnts", q, k) / 2
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(
        nn.dot_product_attention(q, k, v), np.einsum("bnts,bsnh->btnh", weights, v), rtol=1e-5
    )


def test_residuals_are_constants_of_the_dtype_of_the_query():
    def residual(q):
        return nn.dot_product_attention(q, q, q, return_residual=True)[1]

    q = jnp.ones((1, 2, 1, 4), jnp.bfloat16)
    assert residual(q).dtype == jnp.bfloat16
    assert not jax.grad(lambda q: residual(q).sum())(q).any()


def test_implementation_that_is_missing():
    x = jnp.ones((1, 2, 1, 4))
    with pytest.raises(NotImplementedError, match="implementation 'cudnn' is not available"):
        nn.dot_product_attention(x, x, x, implementation="cudnn")


def test_scaled_matmul():
    r = np.random.default_rng(1)
    a, b = r.normal(size=(2, 3, 8)).astype(np.float32), r.normal(size=(2, 5, 8)).astype(np.float32)
    sa, sb = (
        r.uniform(1, 2, (2, 3, 4)).astype(np.float32),
        r.uniform(1, 2, (2, 5, 4)).astype(np.float32),
    )
    expected = np.einsum("bmk,bnk->bmn", a * np.repeat(sa, 2, 2), b * np.repeat(sb, 2, 2))
    np.testing.assert_allclose(nn.scaled_matmul(a, b, sa, sb), expected, rtol=1e-5, atol=1e-5)
    assert nn.scaled_matmul(a, b, sa, sb, "bfloat16").dtype == "bfloat16"
    with pytest.raises(ValueError, match="requires all inputs to be 3-dimensional"):
        nn.scaled_matmul(a[0], b, sa, sb)
    with pytest.raises(ValueError, match="matching batch"):
        nn.scaled_matmul(a, b[:, :, :4], sa, sb)
    with pytest.raises(ValueError, match="do not divide"):
        nn.scaled_matmul(a, b, sa[:, :, :3], sb)
