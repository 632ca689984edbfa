"""`jax_explicit_x64_dtypes="allow"`: 64-bit dtypes that a program names, with such types off."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
import teucer.scipy.special as special
from teucer import lax
from teucer._base import config

X = np.random.default_rng(0).uniform(0.1, 0.9, (3, 3))
UNARY = (
    "acos acosh asin asinh atan atanh cbrt ceil cos cosh exp exp2 expm1 log log10 log1p log2 "
    "sin sinc sinh sqrt tan tanh mean std var median cumsum cumprod prod sum ptp sort argsort "
    "unwrap histogram nan_to_num rint trapezoid gradient corrcoef cov poly unique "
)


@pytest.fixture
def allowed():
    with config.explicit_x64_dtypes("allow"):
        yield


def wide(x):
    return jnp.asarray(x, x.dtype)


# Values: JAX 0.12.0.1 with jax_explicit_x64_dtypes="allow", 2026-11-29.
NAMED = {
    "zeros": (lambda: jnp.zeros(3, "float64"), "float64"),
    "zeros(float)": (lambda: jnp.zeros(3, float), "float32"),
    "asarray": (lambda: jnp.asarray(X), "float32"),
    "asarray(dtype)": (lambda: jnp.asarray(X, "float64"), "float64"),
    "scalar": (lambda: jnp.asarray(np.float64(1)), "float32"),
    "constructor": (lambda: jnp.float64(1), "float64"),
    "add NumPy": (lambda: jnp.zeros((3, 3)) + X, "float32"),
    "add number": (lambda: jnp.zeros(3, "float64") + 1.0, "float64"),
    "int64 * float": (lambda: jnp.zeros(3, "int64") * 2.0, "float32"),
    "sin of int64": (lambda: jnp.sin(jnp.zeros(3, "int64")), "float64"),
    "sum(dtype)": (lambda: jnp.zeros(3).sum(dtype="float64"), "float64"),
    "astype": (lambda: jnp.zeros(3).astype("float64"), "float64"),
    "astype(float)": (lambda: jnp.zeros(3).astype(float), "float32"),
    "mulhi": (lambda: lax.mulhi(jnp.ones(3, "uint64"), jnp.ones(3, "uint64")), "uint64"),
    "iota": (lambda: lax.iota("int64", 3), "int64"),
    "arange": (lambda: jnp.arange(3, dtype="int64"), "int64"),
    "linspace": (lambda: jnp.linspace(0, 1, 3, dtype="float64"), "float64"),
    "uniform": (lambda: jax.random.uniform(jax.random.key(0), (3,), "float64"), "float64"),
    "randint": (lambda: jax.random.randint(jax.random.key(0), (3,), 0, 5, "int64"), "int64"),
    "jit argument": (lambda: jax.jit(lambda x: x)(X), "float32"),
    "jit": (lambda: jax.jit(lambda: jnp.zeros(3, "uint64"))(), "uint64"),
    "grad": (lambda: jax.grad(lambda x: jnp.sin(x).sum())(wide(X)), "float64"),
    "mixed": (lambda: jnp.ones(3, "float64") * jnp.ones(3, "float32"), "float64"),
    "struct": (
        lambda: jax.eval_shape(lambda x: x + 1, jax.ShapeDtypeStruct((3,), "float64")),
        "float64",
    ),
    "canonicalize_dtype": (lambda: jnp.empty(0, jax.dtypes.canonicalize_dtype("f8")), "float32"),
    "full": (lambda: jnp.full(3, np.float64(1)), "float32"),
    "full_like": (lambda: jnp.full_like(jnp.zeros(3), 1, dtype="float64"), "float64"),
    "one_hot": (lambda: jax.nn.one_hot(jnp.arange(3), 3, dtype="float64"), "float64"),
    "where": (lambda: jnp.where(True, jnp.zeros(3, "float64"), 0.0), "float64"),
    "real": (lambda: jnp.real(jnp.zeros(3, "complex128")), "float64"),
    "scan": (lambda: lax.scan(lambda c, x: (c + x, c), jnp.float64(0), wide(X[0]))[0], "float64"),
    "svd": (lambda: jnp.linalg.svd(jnp.eye(3, dtype="float64"))[0], "float64"),
    "logspace": (lambda: jnp.logspace(jnp.float64(0), jnp.float64(1), 3), "float64"),
    "initializer": (lambda: jax.nn.initializers.ones(jax.random.key(0), (3,), "f8"), "float64"),
}


@pytest.mark.parametrize("case", NAMED)
def test_dtypes(allowed, case):
    make, dtype = NAMED[case]
    assert make().dtype == dtype


def functions():
    yield from ((f"jnp.{n}", getattr(jnp, n)) for n in UNARY.split() if hasattr(jnp, n))
    yield from ((f"special.{n}", getattr(special, n)) for n in ("gammaln", "expi", "erf", "i0e"))
    yield "softplus", jax.nn.softplus
    yield "vmap", jax.vmap(lambda x: x * 2.5 + jnp.sum(x))
    yield "hessian", jax.hessian(lambda x: jnp.sum(jnp.sin(x) * x**3))
    yield "fori_loop", lambda x: lax.fori_loop(0, 3, lambda i, c: c * 0.3 + i, x)
    yield "solve", lambda x: jnp.linalg.solve(x, x.T)
    yield "expm", jax.scipy.linalg.expm
    yield "block_diag", lambda x: jax.scipy.linalg.block_diag(x, x)
    yield "at", lambda x: x.at[0].set(x[1])[:, 1]
    yield "interp", lambda x: jnp.interp(x, x[0], x[1])
    yield "complex", lambda x: jnp.sqrt(lax.complex(x, -x)) / jnp.acos(lax.complex(x, x))


@pytest.mark.parametrize(("name", "function"), [pytest.param(*f, id=f[0]) for f in functions()])
def test_values_are_those_of_64_bits(name, function):
    """What is computed of 64-bit arrays is what it is with 64-bit types on."""
    with jax.enable_x64(True):
        want = [np.asarray(y) for y in jax.tree.leaves(function(wide(X)))]
    with config.explicit_x64_dtypes("allow"):
        got = [np.asarray(y) for y in jax.tree.leaves(function(wide(X)))]
    for g, w in zip(got, want, strict=True):
        if w.dtype.kind in "fc":
            assert g.dtype == w.dtype, name
        np.testing.assert_allclose(g, w, rtol=1e-14, atol=1e-15)


def test_numbers_are_exact(allowed):
    assert np.asarray(jnp.array(0.1, "float64")) == 0.1
    assert np.asarray(jnp.asarray(np.array([0.1]), "float64")) == 0.1
    assert int(jnp.asarray(2**40, "int64")) == 2**40
    assert np.asarray(jax.jit(lambda: jnp.full(1, 0.1, "float64"))()) == 0.1
