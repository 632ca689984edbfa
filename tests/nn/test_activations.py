"""Activation functions.

Values, derivatives and dtypes are those of jax.nn (tests/data/make_nn.py), at kinks and extremes
too.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import teucer as jax
from teucer import nn
from teucer import numpy as jnp

pytestmark = pytest.mark.usefixtures("optimised")
GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "nn.json").read_text())
IDS = [r["name"] + "".join(f"-{k}={v}" for k, v in r["kwargs"].items()) for r in GOLDEN]
# The last digits of float32 of a composition of several operations.
CLOSE = {"rtol": 4e-6, "atol": 3e-7}


def function(record):
    return lambda x: getattr(nn, record["name"])(x, **record["kwargs"])


@pytest.mark.parametrize("record", GOLDEN, ids=IDS)
def test_value(record):
    f, x = function(record), np.asarray(record["x"], np.float32)
    np.testing.assert_allclose(f(x), record["value"], **CLOSE)
    np.testing.assert_allclose(jax.jit(f)(x), record["value"], **CLOSE)
    np.testing.assert_allclose(jax.vmap(f)(x), record["value"], **CLOSE)


@pytest.mark.parametrize("record", GOLDEN, ids=IDS)
def test_derivative(record):
    f, x = function(record), np.asarray(record["x"], np.float32)
    back = jax.vmap(jax.grad(f))(x)
    forward = jax.vmap(lambda v: jax.jvp(f, (v,), (np.float32(1),))[1])(x)
    # JAX's slope of soft_sign is nan at infinities; 0 is right.
    kept = ~(np.isinf(x) & (record["name"] == "soft_sign"))
    assert not back[~kept].any()
    np.testing.assert_allclose(back[kept], np.asarray(record["grad"])[kept], **CLOSE)
    np.testing.assert_allclose(forward[kept], np.asarray(record["forward"])[kept], **CLOSE)


@pytest.mark.parametrize("record", GOLDEN, ids=IDS)
def test_dtypes(record):
    f = function(record)
    for given, expected in record["dtypes"].items():
        x = (
            {"python int": 1, "python float": 1.0}[given]
            if given.startswith("python")
            else jnp.ones(2, given)
        )
        try:
            y = f(x)
        except (TypeError, ValueError) as err:
            found = type(err).__name__
        else:
            found = f"{y.dtype}{'*' if y.weak_type else ''}"
        assert found == expected, given


@pytest.mark.parametrize("record", GOLDEN, ids=IDS)
def test_lists_are_refused(record):
    with pytest.raises(
        TypeError, match=r"requires ndarray or scalar arguments, got <class 'list'>"
    ):
        function(record)([1.0, 2.0])


def test_second_derivative_of_relu_is_zero():
    assert float(jax.grad(jax.grad(nn.relu))(1.0)) == 0.0


def test_swish_is_silu():
    assert nn.swish is nn.silu and nn.hard_swish is nn.hard_silu


def test_glu():
    x = jnp.arange(8.0).reshape(2, 4)
    expected = np.asarray(x[:, :2]) / (1 + np.exp(-np.asarray(x[:, 2:])))
    np.testing.assert_allclose(nn.glu(x), expected, rtol=1e-6)
    np.testing.assert_allclose(nn.glu(x.T, axis=0), expected.T, rtol=1e-6)
    with pytest.raises(
        ValueError, match=r"(?s)axis size must be divisible by 2.*x: f32\[3\].*size 3"
    ):
        nn.glu(jnp.ones(3))
