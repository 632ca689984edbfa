"""No false alarms on the functions of the library itself, nor on their derivatives."""

import warnings

import pytest

import teucer as jax
import teucer.numpy as jnp

MODULES = {
    "numpy": jnp,
    "nn": jax.nn,
    "special": jax.scipy.special,
    "linalg": jnp.linalg,
    "lax": jax.lax,
}
X, V = (jax.ShapeDtypeStruct(s, "float32") for s in ((4, 4), (4,)))
NOT_CALLED_SO = {"T101", "T103"}  # the arguments are not those that the function takes


def functions(module):
    names = [n for n in dir(module) if not n.startswith("_")]
    found = {n: getattr(module, n) for n in names}
    return {n: f for n, f in found.items() if callable(f) and not isinstance(f, type)}


def numbers(f, args):
    """What is found in a function, and in its gradient; None if it takes other arguments."""

    def called(*xs):
        return f(*xs)

    def total(*xs):
        return sum(jnp.sum(y) for y in jax.tree.leaves(f(*xs)) if jnp.isrealobj(y))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            report = jax.debug.check(called, *args)
        except Exception:
            return None
        if NOT_CALLED_SO & set(report.numbers):
            return None
        try:
            gradient = jax.debug.check(jax.grad(total), *args).numbers
        except Exception:
            gradient = ()
    # A gradient that is zero is said to be so: floor, sign, ones_like.
    return set(report.numbers) | (set(gradient) - NOT_CALLED_SO - {"T701"})


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_no_alarm_on_the_library(name):
    checked, alarms = 0, {}
    for function, f in functions(MODULES[name]).items():
        for args in ((X,), (X, X), (V,)):
            found = numbers(f, args)
            checked += found is not None
            if found:
                alarms[function] = found
    assert not alarms and checked > 15


def test_no_alarm_on_activations():
    names = ("softmax", "log_softmax", "gelu", "elu", "softplus", "log_sigmoid", "logsumexp")
    assert [numbers(getattr(jax.nn, name), (X,)) for name in names] == [set()] * len(names)
