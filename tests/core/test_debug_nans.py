"""jax_debug_nans and jax_debug_infs: the operation, its line and its operands, wherever it is."""

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp


def bad(x):
    return jnp.log(x - 5.0)  # NaN below 5


LINE = bad.__code__.co_firstlineno + 1
HERE = rf"invalid value \(nan\) encountered in log at .*test_debug_nans.py:{LINE}"
SUM = lambda f: lambda x: jnp.sum(f(x))

PROGRAMS = {
    "jit": (lambda x: bad(jnp.sin(x)) + 1, HERE),
    "jit in jit": (lambda x: jax.jit(lambda x: bad(x) * 2)(x), HERE),
    "forward and backward": (lambda x: jax.grad(lambda x: bad(x) * 2)(x) + bad(x), HERE),
    "scan": (
        lambda x: lax.scan(lambda c, _: (bad(c) + 5, None), x + 6, None, length=9)[0],
        HERE + r"(?s:.*)in step \d of 9 of a scan",
    ),
    "scan over values": (
        lambda x: lax.scan(lambda c, v: (c, bad(v)), 0, jnp.arange(6.0, 3, -1))[1],
        HERE + r"(?s:.*)in step 2 of 3",
    ),
    "scan in scan": (
        lambda x: lax.scan(
            lambda c, _: (lax.scan(lambda c, _: (bad(c), None), c, None, length=2)[0], None),
            x,
            None,
            length=2,
        )[0],
        HERE + r"(?s:.*)in step 0 of 2(?s:.*)in step 0 of 2",
    ),
    "while": (
        lambda x: lax.while_loop(
            lambda c: c[0] < 9, lambda c: (c[0] + 1, jnp.where(c[0] == 4, bad(c[1]), c[1])), (0, x)
        )[1],
        HERE + r"(?s:.*)in step 4 of a while loop",
    ),
    "cond": (lambda x: lax.cond(x < 3, bad, lambda x: x, x), HERE),
    "vmap": (
        lambda x: jax.vmap(bad)(jnp.array([6.0, 7.0, 1.0])),
        HERE + r"(?s:.*)operand 0: f32\[3\] = \[ 1\.  2\. -4\.\]",
    ),
    "checkpoint": (lambda x: jax.grad(jax.checkpoint(SUM(bad)))(x) + jax.checkpoint(bad)(x), HERE),
    "a backward pass": (
        lambda x: jax.grad(lambda x: jnp.sqrt(x) * 0.0)(x * 0),
        r"invalid value \(nan\) encountered in mul",
    ),
    "custom rule": (lambda x: custom(x), HERE),
}


@jax.custom_vjp
def custom(x):
    return bad(x)


custom.defvjp(lambda x: (bad(x), x), lambda x, ct: (ct,))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_operation_is_named(name):
    f, message = PROGRAMS[name]
    jax.jit(f)(2.0)
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match=message):
        jax.jit(f)(2.0)
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="invalid value"):
        f(2.0)


def test_operands_are_shown():
    with (
        jax.debug_nans(True),
        pytest.raises(
            FloatingPointError, match=r"operand 0: f32\[\] = 0\.\s+operand 1: f32\[\] = 0\."
        ),
    ):
        jax.jit(lambda x, y: x / y)(jnp.float32(0), jnp.float32(0))


def test_infinity():
    f = jax.jit(lambda x: 1 / x + 2)
    assert f(0.0) == np.inf
    with jax.debug_nans(True):
        f(0.0)
    with (
        jax.debug_infs(True),
        pytest.raises(
            FloatingPointError, match=r"\(inf\) encountered in div at .*test_debug_nans.py"
        ),
    ):
        f(0.0)
    with (
        jax.debug_infs(True),
        pytest.raises(FloatingPointError, match=r"\(inf\) encountered in log"),
    ):
        jnp.log(0.0)  # -inf


def test_donated_arguments():
    f = jax.jit(lambda x: jnp.log(x), donate_argnums=0)
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="invalid value"):
        f(jnp.full(3, -1.0))


def test_good_programs_are_as_they_were():
    x = jnp.arange(1.0, 4)
    with jax.debug_nans(True), jax.debug_infs(True):
        np.testing.assert_allclose(jax.jit(jnp.log)(x), np.log(x), rtol=1e-6)


@pytest.mark.parametrize(
    "transform", [jax.vmap, lambda f: jax.grad(lambda x: f(x).sum())], ids=["vmap", "grad"]
)
def test_constants_within_erfinv_are_no_results(transform):
    with jax.debug_infs(True):
        transform(jax.scipy.special.erfinv)(jnp.array([0.1, 0.5]))


def test_says_who_called():
    @jax.jit
    def layer(x):
        return jnp.log(x)

    def network(x):
        return layer(x) * 2.0

    loss = jax.jit(lambda x: network(x).sum())
    first = layer.__wrapped__.__code__.co_firstlineno
    said = rf"""log at .*test_debug_nans.py:{first + 2}:\d+ \(layer\)
    called from .*test_debug_nans.py:{first + 5}:\d+ \(network\)
    called from .*test_debug_nans.py:{first + 7}:\d+ \(<lambda>\)
    result"""
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match=said):
        loss(-1.0)
