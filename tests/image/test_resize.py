"""Resizing: values are those of jax.image (tests/data/make_image.py); derivatives, batches, dtypes,
errors."""

import json
from pathlib import Path

import numpy as np
import pytest

import teucer as jax
from teucer import image
from teucer import numpy as jnp

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "image.json").read_text())
X, IMAGE = (np.asarray(GOLDEN[k], np.float32) for k in ("x", "image"))
METHODS = ("nearest", "linear", "cubic", "lanczos3", "lanczos5", "cubic-pytorch", "area")


@pytest.mark.parametrize("method", METHODS)
def test_resize(method):
    for record in (r for r in GOLDEN["resized"] if r["method"] == method):
        x = X if len(record["shape"]) == 1 else IMAGE
        found = image.resize(x, record["shape"], method, antialias=record["antialias"])
        np.testing.assert_allclose(found, record["out"], rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("method", METHODS[1:])
def test_scale_and_translate(method):
    for record in (r for r in GOLDEN["moved"] if r["method"] == method):
        scale, translation = (np.asarray(record[k], np.float32) for k in ("scale", "translation"))
        found = image.scale_and_translate(
            IMAGE, (5, 7), (0, 1), scale, translation, method, antialias=record["antialias"]
        )
        expected = np.asarray(record["out"])
        # Of an array continued by its edges JAX gives 0 for some elements that are more than two
        # places outside.
        is_compared = (expected != 0) | (method != "cubic-pytorch") | record["antialias"]
        np.testing.assert_allclose(
            np.asarray(found)[is_compared], expected[is_compared], rtol=3e-5, atol=1e-3
        )


@pytest.mark.parametrize("method", METHODS)
def test_resize_is_linear(method):
    f = lambda x: image.resize(x, (3, 9), method)
    t = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    np.testing.assert_allclose(jax.jvp(f, (IMAGE,), (t,))[1], f(t), rtol=1e-4, atol=1e-5)
    ct = np.ones((3, 9), np.float32)
    np.testing.assert_allclose(
        np.sum(jax.vjp(f, IMAGE)[1](ct)[0] * t), np.sum(ct * f(t)), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(
        jax.vmap(f)(np.stack([IMAGE, t])), np.stack([f(IMAGE), f(t)]), rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(jax.jit(f)(IMAGE), f(IMAGE), rtol=1e-5)


def test_derivative_in_translation():
    f = lambda s: image.scale_and_translate(X, (5,), (0,), jnp.ones(1), s[None], "cubic")[2]
    h = 1e-2
    np.testing.assert_allclose(
        jax.grad(f)(0.3), (f(jnp.float32(0.3 + h)) - f(jnp.float32(0.3 - h))) / (2 * h), rtol=1e-2
    )


def test_dtypes():
    assert image.resize(np.arange(4), (6,), "nearest").dtype == "int32"
    assert image.resize(np.arange(4), (6,), "linear").dtype == "float32"
    assert image.resize(jnp.ones(4, "bfloat16"), (6,), "linear").dtype == "bfloat16"
    assert image.resize(X, (0,), "linear").shape == (0,)
    with jax.enable_x64(True):
        assert image.resize(np.ones(4), (6,), "cubic").dtype == "float64"


def test_methods():
    assert (
        image.resize(X, (3,), image.ResizeMethod.CUBIC).tolist()
        == image.resize(X, (3,), "bicubic").tolist()
    )
    assert image.ResizeMethod.from_string("triangle") is image.ResizeMethod.LINEAR
    assert [m.value for m in image.ResizeMethod] == list(range(7))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: image.resize(X, (3,), "quadratic"), 'Unknown resize method "quadratic"'),
        (
            lambda: image.resize(X, (3, 3), "linear"),
            r"shape must have length equal to .*;  \(3, 3\) vs \(5,\)",
        ),
        (
            lambda: image.scale_and_translate(X, (6,), (0,), jnp.ones(1), jnp.ones(1), "nearest"),
            "Nearest neighbor resampling is not",
        ),
        (
            lambda: image.scale_and_translate(X, (6,), (1,), jnp.ones(1), jnp.ones(1), "linear"),
            "axis 1 is out of bounds",
        ),
        (
            lambda: image.scale_and_translate(
                IMAGE, (4, 6), (0, 1), jnp.ones(1), jnp.ones(2), "linear"
            ),
            r"(?s)scale must have.*f32\[1\]",
        ),
        (
            lambda: image.scale_and_translate(
                IMAGE, (5, 6), (1,), jnp.ones(1), jnp.ones(1), "linear"
            ),
            "keep their size",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
