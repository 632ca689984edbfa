"""Rules of a primitive of a library that follow from others that it states."""

from __future__ import annotations

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental import hijax
from teucer.experimental.hijax import HiPrim, Zero, instantiate_zeros

seen = []


class Cubed(HiPrim):
    """x ** 3 * y"""

    def __init__(self, x, y):
        self.in_avals, self.out_aval, self.params = (x, y), x, {}
        super().__init__()

    def expand(self, x, y):
        return x**3 * y


class ByJvp(Cubed):
    def jvp(self, primals, tangents):
        (x, y), (tx, ty) = primals, tangents
        seen.append([type(t) is Zero for t in tangents])
        return self(x, y), 3 * x**2 * y * instantiate_zeros(tx) + x**3 * instantiate_zeros(ty)


class Linearized(ByJvp):
    lin, linearized = hijax.linearize_from_jvp


class Reverse(ByJvp):
    vjp_fwd, vjp_bwd_retval = hijax.vjp_from_jvp


class ByLin(Cubed):
    def lin(self, nzs, x, y):
        return self(x, y), (x, y)

    def linearized(self, residuals, tx, ty):
        x, y = residuals
        return 3 * x**2 * y * instantiate_zeros(tx) + x**3 * instantiate_zeros(ty)


class Forward(ByLin):
    jvp = hijax.jvp_from_lin


class ReverseOfLin(ByLin):
    vjp_fwd, vjp_bwd_retval = hijax.vjp_from_lin


def called(cls):
    return lambda x, y: cls(jax.typeof(x), jax.typeof(y))(x, y)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("cls", [Linearized, Reverse, Forward, ReverseOfLin, ByLin])
def test_derivatives_follow(cls, jit):
    f = jax.jit(called(cls)) if jit else called(cls)
    assert jax.tree.map(float, jax.grad(f, (0, 1))(2.0, 3.0)) == (36, 8)
    assert float(jax.grad(f)(2.0, 3.0)) == 36
    if cls is not Reverse:
        assert float(jax.linearize(f, 2.0, 3.0)[1](1.0, 1.0)) == 44
    if cls in (Linearized, Forward):
        assert float(jax.jvp(f, (2.0, 3.0), (1.0, 1.0))[1]) == 44


def test_arguments_that_do_not_move_have_zeros():
    seen.clear()
    jax.grad(called(Reverse))(2.0, 3.0)
    assert seen == [[False, True]]


class Batched(Cubed):
    def batch(self, axis_data, args, dims):
        assert hijax.unmap_avals(axis_data, self.in_avals, dims)[0].shape == args[0].shape
        assert [x.shape for x in hijax.bdims_at_front(axis_data, args, dims)] == [(3, 2), (3, 2)]
        return hijax.vmap_rule(axis_data, self.expand, dims, 1)(*args), 1


def test_batches_follow():
    x, y = jnp.arange(6.0).reshape(2, 3), jnp.arange(1.0, 3.0)
    np.testing.assert_array_equal(jax.vmap(called(Batched), in_axes=(1, None))(x, y), x.T**3 * y)


class Sums(HiPrim):
    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (aval,), aval, {}
        super().__init__()

    def batch(self, axis_data, args, dims):
        zero = Zero(jax.core.ShapedArray((3, 2), "float32"))

        def f(x, t):
            assert t.aval.shape == (2,)
            return x, t, 1.0

        with pytest.raises(ValueError, match="sum_match=True for cotangents"):
            hijax.vmap_rule(axis_data, f, (0, 0), None)(*args, zero)
        total, t, one = hijax.vmap_rule(axis_data, f, (0, 0), (None, 0, None), sum_match=True)(
            *args, zero
        )
        assert t.aval.shape == (3, 2) and one == 1
        return total, None


def test_cotangents_of_what_is_not_mapped_are_summed():
    total = jax.vmap(lambda x: Sums(jax.typeof(x))(x), out_axes=None)(jnp.ones((3, 2)))
    np.testing.assert_array_equal(total, [3, 3])
