"""Which results of weakly typed operands are weakly typed, as in JAX."""

import numpy as np
import pytest

import teucer.numpy as jnp

SCALAR = jnp.asarray(1.5)
LINE, PLANE = SCALAR[None], jnp.broadcast_to(SCALAR, (2, 2))
STRONG = {"bool": jnp.array([True]), "int32": jnp.array([3], "int32")}


ONE = ["deg2rad", "rad2deg", "iscomplex", "isreal", "logical_not"]
TWO = ["hypot", "heaviside", "logaddexp2", "logical_and"]


@pytest.mark.parametrize("name", ONE + TWO)
def test_weak_of_scalars_and_not_of_arrays(name):
    f = getattr(jnp, name)
    others = (2.0,) if name in TWO else ()
    assert f(SCALAR, *others).weak_type
    assert not f(LINE, *others).weak_type
    assert not f(PLANE, *others).weak_type


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
@pytest.mark.parametrize("number", [1, 2.0, 1j, True])
@pytest.mark.parametrize("dtype", STRONG)
def test_truth_of_arrays_is_strong_beside_numbers(name, number, dtype):
    f = getattr(jnp, name)
    for x, y in ((STRONG[dtype], number), (number, STRONG[dtype])):
        found = f(x, y)
        assert found.dtype == bool and not found.weak_type
        assert found[0] == getattr(np, name)(np.asarray(x), np.asarray(y))[0]


def test_a_diagonal_matrix_keeps_a_weak_type_and_a_diagonal_does_not():
    for k in (-1, 0, 2):
        assert jnp.diag(LINE, k).weak_type
        assert not jnp.diag(STRONG["int32"], k).weak_type
    assert not jnp.diag(PLANE).weak_type
    assert not jnp.diagflat(LINE).weak_type


def test_areas_and_distinct_complex_numbers_are_strong():
    for y in (LINE, PLANE):
        assert not jnp.trapezoid(y).weak_type
        assert not jnp.trapezoid(y, dx=2).weak_type
        assert not jnp.trapezoid(y, y).weak_type
    assert not jnp.unique(jnp.asarray(1j)).weak_type
    assert jnp.unique(SCALAR).weak_type


def test_distinct_elements_of_none():
    found = jnp.unique_all(jnp.zeros((2, 0), "int32"))
    assert [x.shape for x in found] == [x.shape for x in np.unique_all(np.zeros((2, 0), "int32"))]
    assert jnp.unique_inverse(jnp.zeros((0, 3))).inverse_indices.shape == (0, 3)


def test_a_number_has_no_borders_to_trim():
    assert jnp.trim_zeros(0.0).shape == ()
    assert jnp.trim_zeros(np.float32(2)) == 2
