"""softmax and its like.

Values and derivatives are those of jax.nn (tests/data/make_nn_sums.py), masks and infinities
too.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import teucer as jax
from teucer import nn
from teucer import numpy as jnp

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "nn_sums.json").read_text())
A = np.asarray(GOLDEN["a"], np.float32)
FINITE = np.where(np.isfinite(A), A, 1.5 + np.arange(3)).astype(np.float32)
WEIGHTS = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
CLOSE = {"rtol": 5e-6, "atol": 1e-6}
CASES = pytest.mark.parametrize(
    "record", GOLDEN["cases"], ids=lambda r: r["name"] + "".join(f"-{k}" for k in r["kwargs"])
)


def function(record):
    kwargs = {**record["kwargs"]}
    for key in ("where", "b"):
        if kwargs.get(key) is True:
            kwargs[key] = np.asarray(GOLDEN[key])
    if "b" in kwargs:
        kwargs["b"] = kwargs["b"].astype(np.float32)
    if isinstance(kwargs.get("axis"), list):
        kwargs["axis"] = tuple(kwargs["axis"])
    return lambda a: getattr(nn, record["name"])(a, **kwargs)


@CASES
def test_value(record):
    f = function(record)
    for g in (f, jax.jit(f)):
        np.testing.assert_allclose(g(A), record["value"], **CLOSE)
        np.testing.assert_allclose(g(FINITE), record["finite"], **CLOSE)


@CASES
def test_gradient(record):
    f = function(record)
    loss = lambda a: (f(a) * np.resize(WEIGHTS, f(a).shape)).sum()
    for x, golden in ((FINITE, record["grad"]), (A, record["grad_extreme"])):
        found, expected = np.asarray(jax.grad(loss)(x)), np.asarray(golden)
        # Where all is masked or infinite some derivatives that JAX gives as nan are numbers here.
        is_number = ~np.isnan(expected)
        np.testing.assert_allclose(found[is_number], expected[is_number], **CLOSE)


# Masks and weights have the shape of the whole array; of batches of them is test_mask_of_a_batch.
@pytest.mark.parametrize(
    "record",
    [r for r in GOLDEN["cases"] if True not in (r["kwargs"].get("where"), r["kwargs"].get("b"))],
    ids=lambda r: r["name"] + "".join(f"-{k}" for k in r["kwargs"]),
)
def test_vmap_is_stack(record):
    f, batch = function(record), np.stack([FINITE, 2 * FINITE, -FINITE])
    np.testing.assert_allclose(jax.vmap(f)(batch), np.stack([f(x) for x in batch]), **CLOSE)
    np.testing.assert_allclose(
        jax.vmap(f, 1)(batch.swapaxes(0, 1)), np.stack([f(x) for x in batch]), **CLOSE
    )


def test_mask_of_a_batch():
    masks = np.asarray(GOLDEN["where"])
    found = jax.vmap(lambda x, m: nn.softmax(x, where=m))(FINITE, masks)
    np.testing.assert_allclose(found, nn.softmax(FINITE, where=masks), **CLOSE)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "logmeanexp"])
def test_what_a_mask_leaves_out_is_not_read(name):
    """Whatever stands there, values and derivatives are those of the array without it."""
    f, mask = getattr(nn, name), np.array([True, False, True, True, False])
    weights, kept = np.array([1.0, 9.0, -2.0, 3.0, 9.0], "float32"), np.float32([0.5, 2.0, -1.0])
    alone = lambda x: jnp.sum(f(x) * (weights[mask] if f(x).ndim else 1.0))
    with_others = lambda x: jnp.sum(
        jnp.where(mask, f(x, where=mask), 0.0) * weights if f(kept).ndim else f(x, where=mask)
    )
    value, slope = jax.value_and_grad(alone)(kept)
    others = np.float32([[np.nan, np.inf], [-np.inf, 3e38], [-3e38, 200.0]])
    x = np.zeros((3, 5), "float32")
    x[:, mask], x[:, ~mask] = kept, others
    found, slopes = jax.vmap(jax.value_and_grad(with_others))(x)
    np.testing.assert_allclose(found, [value] * 3, rtol=1e-6)
    np.testing.assert_allclose(slopes[:, mask], [slope] * 3, **CLOSE)
    np.testing.assert_array_equal(slopes[:, ~mask], np.zeros((3, 2)))


def test_derivatives_of_higher_order():
    x = jnp.asarray([1.0, -2.0, 3.0])
    p = np.asarray(nn.softmax(x), np.float64)
    np.testing.assert_allclose(jax.jacfwd(nn.softmax)(x), np.diag(p) - np.outer(p, p), **CLOSE)
    np.testing.assert_allclose(jax.jacrev(nn.softmax)(x), np.diag(p) - np.outer(p, p), **CLOSE)
    np.testing.assert_allclose(jax.hessian(nn.logsumexp)(x), np.diag(p) - np.outer(p, p), **CLOSE)


def test_sum_of_negative_weights():
    value, sign = nn.logsumexp(
        jnp.asarray([0.0, 1.0]), b=jnp.asarray([1.0, -1.0]), return_sign=True
    )
    assert float(sign) == -1.0
    np.testing.assert_allclose(value, np.log(np.e - 1), rtol=1e-6)
    assert np.isnan(nn.logsumexp(jnp.asarray([0.0, 1.0]), b=jnp.asarray([1.0, -1.0])))


def test_empty():
    assert float(nn.logsumexp(jnp.zeros(0))) == -np.inf
    assert nn.softmax(jnp.zeros((2, 0))).shape == (2, 0)


@pytest.mark.parametrize(
    "given, expected",
    [("int32", "float32"), ("float16", "float16"), ("bfloat16", "bfloat16"), ("bool", "float32")],
)
def test_dtypes(given, expected):
    x = jnp.ones(3, given)
    for f in (nn.softmax, nn.log_softmax, nn.logsumexp, nn.logmeanexp, nn.standardize):
        assert f(x).dtype == expected, f.__name__


def test_complex_logsumexp():
    a = jnp.asarray([1 + 2j, 0.5 - 1j])
    np.testing.assert_allclose(nn.logsumexp(a), np.log(np.sum(np.exp(np.asarray(a)))), rtol=1e-6)


def test_one_hot():
    np.testing.assert_array_equal(
        nn.one_hot(jnp.asarray([0, 2, -1, 3]), 3), [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    )
    assert nn.one_hot(jnp.asarray([0]), 3).dtype == "float32"
    assert nn.one_hot(jnp.asarray([0]), 3, dtype="int8").dtype == "int8"
    np.testing.assert_array_equal(
        nn.one_hot(jnp.asarray([0, 2]), 3, axis=0), [[1, 0], [0, 0], [0, 1]]
    )
    np.testing.assert_array_equal(jax.jit(lambda i: nn.one_hot(i, 2))(1), [0, 1])
    with pytest.raises(TypeError, match="one_hot: num_classes must be an int"):
        nn.one_hot(jnp.asarray([0]), 2.5)
    with pytest.raises(jax.errors.ConcretizationTypeError, match="num_classes"):
        jax.jit(lambda n: nn.one_hot(1, n))(3)
    with pytest.raises(ValueError, match="axis 2 is out of bounds"):
        nn.one_hot(jnp.asarray([0]), 3, axis=2)


def test_unknown_algorithm():
    with pytest.raises(ValueError, match="algorithm must be 'fast' or 'stable', got 'slow'"):
        nn.standardize(jnp.ones(3), algorithm="slow")
