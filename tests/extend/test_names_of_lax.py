"""The law of names: a primitive of a library is its own, though one of lax has its name.

Interpreters and compilers' passes know primitives of lax as objects or by what they say of
themselves.
"""

from __future__ import annotations

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp
from teucer.experimental import checkify, sparse
from teucer.experimental.jet import jet
from teucer.extend.core import Primitive
from teucer.interpreters import ad, batching, mlir
from teucer.lax._families import ELEMENTWISE

QUICK = ("add", "div", "eq", "max", "min", "mul", "neg", "select_n", "sign", "sub", "argmax")
OTHERS = ("dot_general", "concatenate", "pad", "gather", "broadcast_in_dim", "argmin", "sort")
REST = sorted({*ELEMENTWISE, *OTHERS} - set(QUICK))
X = np.linspace(0.5, 2, 5000, dtype=np.float32)


def own(x, y):
    return x * x + 3 * y


def primitive(name):
    p = Primitive(name)
    p.def_impl(own)
    p.def_abstract_eval(lambda x, y: x)
    mlir.register_lowering(p, mlir.lower_fun(own, multiple_results=False))
    ad.primitive_jvps[p] = lambda xs, ts: jax.jvp(own, xs, tuple(map(ad.instantiate_zeros, ts)))
    batching.defbroadcasting(p)
    return p


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in REST)]
)
def test_primitives_of_libraries_are_their_own(name):
    p = primitive(name)
    expected = own(X, X)
    np.testing.assert_allclose(jax.jit(p.bind)(X, X), expected, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(p.bind)(X, X), expected, rtol=1e-6)
    np.testing.assert_allclose(
        jax.grad(lambda x: p.bind(x, x).sum())(jnp.asarray(X)), 2 * X + 3, rtol=1e-6
    )
    error, found = checkify.checkify(jax.jit(p.bind), errors=checkify.all_checks)(X, X)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert error.get() is None
    y, terms = jet(lambda x: p.bind(x, x), (2.0,), ((1.0, 0.0),))
    assert (float(y), [float(t) for t in terms]) == (10.0, [7.0, 2.0])
    reduced = jax.jit(
        lambda x: lax.reduce(x, np.float32(0), lambda x, y: p.bind(jnp.sqrt(x), y) * 0 + x + y, [0])
    )(X)
    np.testing.assert_allclose(reduced, X.sum(), rtol=1e-5)


@pytest.mark.parametrize("name", ["max", "min", "add", "mul"])
def test_reductions_by_primitives_of_libraries(name):
    p = Primitive(name)
    p.def_abstract_eval(lambda x, y: x)
    mlir.register_lowering(p, mlir.lower_fun(lambda x, y: x + y, multiple_results=False))
    found = jax.jit(lambda x: lax.reduce(x, np.float32(0), lambda x, y: p.bind(x, y), [0]))(X)
    np.testing.assert_allclose(found, X.sum(), rtol=1e-5)


@pytest.mark.parametrize("name", ["add", "mul", "neg", "sin"])
def test_sparse_arrays_know_primitives_of_lax_alone(name):
    p = primitive(name)
    mat = sparse.BCOO.fromdense(jnp.eye(2))
    with pytest.raises(NotImplementedError, match=f"sparse rule for {name} is not implemented"):
        sparse.sparsify(p.bind)(mat, mat)
