"""Bad calls are refused with JAX's class of error, and say what is wrong; found by calling everything with everything."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import nn
from teucer.scipy import special

F, M = np.ones(3, np.float32), np.ones((2, 3), np.float32)
Z = np.array([1 + 2j, 3], np.complex64)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: jnp.ones(2, dtype=jnp.ones(2)), ValueError, "instead of dtype=arr use dtype=arr.dtype"),
    (lambda: jnp.asarray(F, jnp.asarray(F)), ValueError, "instead of dtype=arr use dtype=arr.dtype"),
    (lambda: jnp.from_dlpack(3), TypeError, "must have __dlpack__"),
    (lambda: jnp.sort(F, "a"), TypeError, "cannot be interpreted as an integer"),
    (lambda: jnp.round(F, "a"), TypeError, "cannot be interpreted as an integer"),
    (lambda: jnp.reshape(F, 1.5), TypeError, "Shapes must be 1D sequences of concrete values"),
    (lambda: nn.one_hot(1, "a"), TypeError, "num_classes must be an int"),
    (lambda: jax.linearize(jnp.sin, 1.0)[1](1.0, 2.0), TypeError, "another tree"),
    (lambda: jnp.trapezoid(F, 2), ValueError, "out of bounds for array of dimension 0"),
    (lambda: special.sici(Z), ValueError, "must be real-valued"),
    (lambda: special.entr(Z), ValueError, "does not support complex-valued inputs"),
    (lambda: special.spence(Z), TypeError, "complex64"),
])
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_what_takes_arrays_in_place_of_dtypes_still_does():
    assert jnp.can_cast(jnp.asarray(F), "float64")
    assert jnp.issubdtype(jnp.asarray(F), np.floating)
    assert jnp.promote_types(jnp.asarray(F), "int8") == np.float32


def test_results_that_were_wrong():
    np.testing.assert_allclose(special.erfcx(Z), [0.1402396 - 0.22221344j, 0.17900115], rtol=1e-5)
    np.testing.assert_allclose(special.expn(F, 2), np.full(3, 0.04890051), rtol=1e-5)
    x = np.array([[0.0, 1, 3], [0, 2, 4]], np.float32)
    np.testing.assert_allclose(jnp.trapezoid(F, x), np.trapezoid(F, x))
    assert jnp.setdiff1d(np.arange(3), F).dtype == np.int32


def test_weak_types_of_predicates_and_powers():
    assert (jnp.asarray(1) == 1.0).weak_type and jnp.isnan(1.0).weak_type and jnp.logical_not(3).weak_type
    assert not (jnp.float32(1) == 1.0).weak_type
    for y in (jnp.isinf(1.0), jnp.isinf(1j), jnp.isposinf(1.0), jnp.isneginf(1.0), jnp.signbit(3), jnp.rint(3), jnp.angle(2.0)):
        assert not y.weak_type
    assert jnp.rint(2.5).weak_type and jnp.iscomplex(2.0).weak_type and jnp.isreal(3).weak_type and jnp.angle(1j).weak_type
    assert jnp.rint(np.int8(3)).dtype == np.float32 and not jnp.iscomplex(jnp.float32(1)).weak_type
    assert (2 ** jnp.asarray(3)).weak_type


def test_linspace_of_numbers_while_tracing():
    assert jax.grad(lambda a: a * jnp.linspace(0.0, 2.0, 5).sum())(3.0) == 5
