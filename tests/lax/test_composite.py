"""composite: the operation in the module, its attributes, what it computes and refuses."""

import numpy as np
import pytest

import teucer as jax
from teucer import lax

X = np.float32([1, 2])


def text_of(**attributes):
    f = lax.composite(lambda x, **_: (x, x), "my.op", version=3)
    return jax.jit(lambda x: f(x, **attributes)).lower(X).as_text()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (2.0, "2.000000e+00 : f64"),
        ('a "b"', r'"a \22b\22"'),
        (True, "true"),
        (3, "3 : i64"),
        (np.float32(2), "2.000000e+00 : f32"),
        ((1, 2), "[1, 2]"),
        ({"a": [1.5]}, "{a = [1.500000e+00]}"),
        (np.float32([1, 1]), "dense<1.000000e+00> : tensor<2xf32>"),
        (np.arange(3), "dense<[0, 1, 2]> : tensor<3xi64>"),
        (np.bool_(False), "false"),
    ],
)
def test_attributes(value, written):
    assert f"composite_attributes = {{s = {written}}}" in text_of(s=value)


def test_the_module_has_the_operation():
    found = text_of(s=None)
    assert 'stablehlo.composite "my.op" %arg0' in found
    assert "version = 3 : i32" in found
    assert "composite_attributes" not in found
    assert "decomposition = @my.op" in found and "func.func private @my.op(" in found


@pytest.mark.parametrize("run", [lambda f: f, jax.jit])
def test_computes_the_decomposition(run):
    f = lax.composite(lambda x, y, *, by: {"sum": lax.add(x, y["a"]), "scaled": x * by}, "my.op")
    out = run(lambda x: f(x, {"a": X}, by=3))(X)
    assert (out["sum"].tolist(), out["scaled"].tolist()) == ([2, 4], [3, 6])


def test_closed_over_arrays_are_operands():
    f = lax.composite(lambda x: lax.mul(x, X), "my.op")
    assert jax.jit(f)(X).tolist() == [1, 4]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: lax.composite(lambda x: x, "op"), ValueError, "valid namespaced op name"),
        (lambda: text_of(s=1j), TypeError, r"no attribute.*complex.*s: 1j"),
        (
            lambda: jax.grad(lambda x: lax.composite(lax.sin, "my.sin")(x))(1.0),
            ValueError,
            "JVP rule for composite.*my.sin",
        ),
        (
            lambda: jax.jit(lambda c: lax.composite(lambda x: x + c, "my.op")(X))(X),
            jax.errors.UnexpectedTracerError,
            "explicitly passed",
        ),
        (
            lambda: jax.jit(lambda x: lax.composite(lambda x, *, by: x, "my.op")(x, by=x))(X),
            jax.errors.UnexpectedTracerError,
            (
                r"the attribute 'by' is a traced value.\n    by: f32\[2\].*If you are passing jax "
                r"arrays as attributes, use numpy arrays"
            ),
        ),
        (lambda: lax.composite(lambda x: "a", "my.op")(X), TypeError, "not a valid JAX type"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match="(?s)" + message):
        call()
