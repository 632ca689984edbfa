"""Primitives of libraries that are calls of jaxprs."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.extend import core

SINE = jax.make_jaxpr(lambda x: jnp.sin(x) * 2)(1.0)
X = np.float32(0.5)
marked = core.create_call_primitive("marked")
apart = core.create_call_primitive("apart", inline_jax_late=False)


@pytest.mark.parametrize("primitive", [marked, apart], ids=str)
def test_a_call_is_its_jaxpr_under_every_transformation(primitive):
    def f(x):
        return primitive.bind(x, call_jaxpr=SINE, note="here")[0]

    y, slope = 2 * np.sin(X), 2 * np.cos(X)
    np.testing.assert_allclose(
        [f(X), jax.jit(f)(X), primitive.bind(X, call_jaxpr=SINE.jaxpr)[0]], y, rtol=1e-6
    )
    np.testing.assert_allclose(
        [jax.grad(f)(X), jax.jit(jax.grad(f))(X), jax.grad(jax.jit(f))(X)], slope, rtol=1e-6
    )
    np.testing.assert_allclose(jax.vmap(f)(jnp.array([X, X])), y, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(jax.grad(f))(X), -y, rtol=1e-6)


def test_calls_stand_in_jaxprs_and_derivatives():
    text = str(
        jax.make_jaxpr(jax.grad(lambda x: marked.bind(x, call_jaxpr=SINE, note="here")[0]))(X)
    )
    assert text.count("marked[") == text.count("call_jaxpr=") == text.count("note=here") == 2


def test_where_calls_are_lowered():
    def text(primitive):
        return jax.jit(lambda x: primitive.bind(x, call_jaxpr=SINE)).lower(X).as_text()

    assert "call @apart" in text(apart) and "call @" not in text(marked)


def test_constants_become_operands():
    closed = jax.make_jaxpr(lambda x: x + jnp.arange(3.0) * np.ones(3, np.float32))(1.0)
    np.testing.assert_array_equal(
        jax.jit(lambda x: apart.bind(x, call_jaxpr=closed))(1.0)[0], [1, 2, 3]
    )


def test_rules_of_the_library():
    own = core.create_call_primitive("own")
    seen = []

    def transpose(primitive, cts, *args, call_jaxpr, **params):
        seen.append(params)
        return core.eval_jaxpr_transpose(primitive, cts, *args, call_jaxpr=call_jaxpr, **params)

    core.register_call_primitive_rules(own, "renamed", transpose, inline_jax_late=False)
    double = jax.make_jaxpr(lambda x: x * 2)(X)
    assert jax.grad(lambda x: own.bind(x, call_jaxpr=double, a=1)[0])(X) == 2
    assert seen == [{"a": 1}] and str(own) == "renamed"
    with pytest.raises(TypeError, match="is no call primitive"):
        core.register_call_primitive_rules(core.Primitive("p"))
    with pytest.raises(TypeError, match="call_jaxpr is a jaxpr"):
        own.bind(X, call_jaxpr=None)
    assert core.call_impl(lambda x: [x], 3) == [3]


def test_lowerings_are_for_platforms_that_there_are():
    with pytest.raises(
        NotImplementedError, match=r"unknown platform abacus. Known platforms are: cpu"
    ):
        jax.interpreters.mlir.register_lowering(core.Primitive("p"), None, platform="abacus")
