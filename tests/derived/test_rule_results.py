"""Rules that give something else than the function, and arguments that transformations refuse."""

import functools
import itertools
import types

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.custom_derivatives import SymbolicZero

X = jnp.float32(1.0)


def in_scan(f, x):
    return jax.lax.scan(lambda x, _: (f(x), None), x, None, length=1)[0]


RESULTS = {
    "another tree": (lambda x: (x, x), "structure:\n    (float32[], float32[])\nwhile"),
    "another shape": (lambda x: jnp.zeros(3), "dtypes of:\n    float32[3]\nwhile"),
    "another dtype": (lambda x: x.astype("int32"), "dtypes of:\n    int32[]\nwhile"),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_rules_return_what_the_function_returns(kind):
    result, text = RESULTS[kind]
    f, g = jax.custom_jvp(lambda x: x), jax.custom_vjp(lambda x: x)
    zeros = functools.partial(
        jax.tree.map,
        lambda y: np.zeros(y.shape, jax.dtypes.float0) if y.dtype == "int32" else y * 0,
    )
    f.defjvp(lambda primals, tangents: (result(*primals), zeros(result(*primals))))
    with pytest.raises(
        TypeError, match="Custom JVP rule <lambda> for function <lambda> must produce a pair"
    ) as info:
        jax.jvp(lambda x: in_scan(f, x), (X,), (X,))
    assert text in str(info.value)
    g.defvjp(lambda x: (result(x), None), lambda _, ct: (ct,))
    with pytest.raises(
        TypeError, match="Custom VJP fwd rule <lambda> for function <lambda> must produce a pair"
    ) as info:
        jax.grad(lambda x: in_scan(g, x))(X)
    assert text in str(info.value)


def test_zeros_of_another_type():
    f = jax.custom_vjp(lambda x, y: (x, y))
    f.defvjp(
        lambda x, y: ((x.value, y.value), None),
        lambda _, cts: (cts[1], cts[0]),
        symbolic_zeros=True,
    )
    with pytest.raises(ValueError, match="Consider just returning a None here"):
        jax.grad(lambda x: f(x, jnp.ones(3))[0].sum())(jnp.ones(2))


def test_partials_with_keywords():
    scaled = functools.partial(lambda x, y, a: x + y * a, a=0.5)
    f = jax.custom_jvp(scaled)
    f.defjvp(lambda primals, tangents: jax.jvp(scaled, primals, tangents))
    assert jax.grad(lambda v: f(*v))((1.0, 2.0)) == (1.0, 0.5)


def by_position(a, /, b, *args, **kwargs):
    return a


def deleted():
    x = jnp.ones(3)
    x.delete()
    return x


REFUSED = [
    (lambda: jax.jit(by_position, static_argnames=("a",)), ValueError, "invalid argnames {'a'}"),
    (
        lambda: jax.jit(by_position, donate_argnames=("args",)),
        ValueError,
        "invalid argnames {'args'}",
    ),
    (
        lambda: jax.jit(staticmethod(by_position)),
        TypeError,
        "staticmethod arguments are not supported",
    ),
    (
        lambda: jax.device_put(X, may_alias=True, donate=True),
        ValueError,
        "cannot be True at the same time",
    ),
    (lambda: jax.device_put(deleted(), jax.devices()[0]), RuntimeError, "Array has been deleted"),
    (lambda: jax.pmap(lambda x: x, in_axes=False)(jnp.ones(1)), TypeError, "must be an int"),
    (
        lambda: jax.pmap(by_position, static_broadcasted_argnums=(1,))(jnp.ones(1), b=1),
        ValueError,
        "only 1 positional argument",
    ),
    (
        lambda: jax.vjp(lambda x: (x, x), 1.0)[1](1.0, 1.0),
        TypeError,
        "applied to <lambda> was called with 2 arguments",
    ),
    (lambda: jax.vmap(lambda x: x, in_axes=False)(jnp.ones(1)), TypeError, "must be an int"),
    (
        lambda: jax.vmap(lambda x: x, in_axes=(jnp.ones(2),))(jnp.ones(1)),
        TypeError,
        "vmap in_axes must be an int, None, or",
    ),
    (
        lambda: jax.vmap(lambda x: x, out_axes=jnp.ones(2))(jnp.ones(1)),
        TypeError,
        "vmap out_axes must be an int, None, or",
    ),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_is_refused(case):
    call, error, message = REFUSED[case]
    with pytest.raises(error) as info:
        call()
    assert message in str(info.value)


def test_linear_transpose_of_what_has_a_shape():
    struct = types.SimpleNamespace(shape=(3,), dtype=np.dtype(np.float32))
    np.testing.assert_array_equal(
        jax.linear_transpose(lambda x: 2 * x, struct)(jnp.ones(3))[0], [2, 2, 2]
    )
    transpose = jax.jit(jax.linear_transpose, static_argnums=0)(lambda x: 2.0 * x, 1.0)
    assert jax.jit(lambda f, x: f(x))(transpose, 3.0) == (6.0,)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_each_result_has_its_tangent(order):
    """A rule gives tangents of floats, zeros of integers, and symbolic zeros, in any order."""
    kinds = "float", "integer", "symbolic", "other float"

    def values(x):
        found = {
            "float": 2.0 * x,
            "integer": jnp.int32(3),
            "symbolic": jnp.float32(1.0),
            "other float": jnp.sin(x),
        }
        return [found[kinds[i]] for i in order]

    f = jax.custom_jvp(values)

    @functools.partial(f.defjvp, symbolic_zeros=True)
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        ys = values(x)
        found = {
            "float": 2.0 * t,
            "integer": jnp.int32(0),
            "symbolic": SymbolicZero(jax.typeof(ys[order.index(2)])),
            "other float": jnp.cos(x) * t,
        }
        return ys, [found[kinds[i]] for i in order]

    ys, ts = jax.jvp(f, (0.5 * X,), (X,))
    expected = {0: 2.0, 2: 0.0, 3: np.cos(0.5)}
    for i, y, t in zip(order, ys, ts, strict=True):
        assert y.dtype == (np.int32 if i == 1 else np.float32)
        assert t.dtype == jax.dtypes.float0 if i == 1 else abs(t - expected[i]) < 1e-6
