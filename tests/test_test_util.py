"""test_util: right derivatives pass, wrong ones do not, to every order and in both modes."""

from functools import partial

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.test_util import check_grads, check_jvp, check_vjp

RIGHT = {
    "exp": (jnp.exp, (jnp.linspace(-3, 3, 20),)),
    "tanh": (lambda x: jnp.tanh(x @ x.T).sum(), (jnp.arange(12.0).reshape(3, 4) / 10,)),
    "complex": (jnp.sin, (jnp.ones(3) * 1j,)),
    "not holomorphic": (jnp.abs, (jnp.ones(3) * (1 + 1j),)),
    "tree": (
        lambda d, *xs: {"y": d["a"] * xs[0], "z": (xs[0] ** 2,)},
        ({"a": jnp.ones(3)}, jnp.arange(3.0)),
    ),
    "an integer result": (lambda x: (x, jnp.arange(2)), (1.0,)),
    "inverse": (jnp.linalg.inv, (jnp.eye(3) * 2 + 1,)),
    "an integer argument": (lambda x, n: x**n, (2.0, 3)),
    "bfloat16": (jnp.sin, (jnp.ones(3, jnp.bfloat16),)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_derivatives(name):
    f, args = RIGHT[name]
    check_grads(f, args, order=2)
    check_grads(jax.jit(f), args, order=1, eps=1e-2)
    with jax.enable_x64(True):
        wide = {"f": np.float64, "c": np.complex128}
        check_grads(
            f,
            jax.tree.map(lambda x: np.asarray(x, wide.get(np.asarray(x).dtype.kind)), args),
            order=1,
        )


def wrong(order):
    """The sine, with a rule that is wrong from its derivative of an order on."""
    f = jax.custom_jvp(jnp.sin)
    f.defjvp(lambda p, t: (f(*p), (2 * jnp.cos(p[0]) if order == 1 else wrong_cos(p[0])) * t[0]))
    wrong_cos = jax.custom_jvp(jnp.cos)
    wrong_cos.defjvp(lambda p, t: (jnp.cos(*p), jnp.sin(p[0]) * t[0]))
    return f


@pytest.mark.parametrize(
    ("mode", "message"), [("fwd", "JVP tangent"), ("rev", "VJP cotangent projection")]
)
def test_wrong_derivatives(mode, message):
    with pytest.raises(AssertionError, match=message):
        check_grads(wrong(1), (1.0,), order=1, modes=[mode])
    check_grads(wrong(2), (1.0,), order=1, modes=[mode])
    with pytest.raises(AssertionError, match=message):
        check_grads(wrong(2), (1.0,), order=2, modes=[mode])
    check_grads(wrong(1), (1.0,), order=1, modes=[mode], atol=10.0, rtol=10.0)


def test_rules_by_themselves():
    check_jvp(jnp.sin, partial(jax.jvp, jnp.sin), (1.0,))
    check_vjp(jnp.sin, partial(jax.vjp, jnp.sin), (1.0,))
    with pytest.raises(AssertionError, match="of mine primal"):
        check_jvp(jnp.sin, partial(jax.jvp, jnp.cos), (1.0,), err_msg="of mine")
    with pytest.raises(AssertionError, match="VJP primal"):
        check_vjp(jnp.sin, partial(jax.vjp, jnp.cos), (1.0,))


def test_tolerances_by_dtype():
    wrong = lambda f: (
        lambda primals, tangents: (f(*primals), jax.jvp(f, primals, tangents)[1] * 1.05)
    )
    check = lambda x, **tolerances: check_jvp(jnp.sin, wrong(jnp.sin), (x,), **tolerances)
    with pytest.raises(AssertionError, match="tangent"):
        check(np.float32(1))
    check(np.float32(1), rtol={np.float32: 0.1, np.float64: 1e-9})
    with pytest.raises(AssertionError, match="tangent"):
        check(np.float32(1), rtol={np.dtype("float64"): 0.1})


def test_a_function_that_bends_is_checked_with_a_small_step():
    check_jvp(
        lambda x: jnp.sin(300 * x),
        partial(jax.jvp, lambda x: jnp.sin(300 * x)),
        (np.float32(0.1),),
        rtol=0.05,
    )
    with pytest.raises(AssertionError, match="tangent"):
        check_jvp(
            lambda x: jnp.sin(300 * x),
            partial(jax.jvp, lambda x: jnp.sin(300 * x)),
            (np.float32(0.1),),
            rtol=0.05,
            eps=5e-3,
        )
