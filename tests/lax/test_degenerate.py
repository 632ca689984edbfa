"""Derivatives where eigenvalues or singular values are equal, or zero.

Functions of matrices written by `eigh`, `eig` and `svd` against SciPy's, by differences in
float64, where the decomposition is not smooth but the function is.
"""

import numpy as np
import pytest
import scipy.linalg

import teucer as jax
import teucer.numpy as jnp

SPECTRA = {
    "double": [1.0, 1.0, 2.0, 3.0],
    "triple": [2.0, 2.0, 2.0, 0.5],
    "all": [1.0, 1.0, 1.0, 1.0],
    "pairs": [2.0, 2.0, 3.0, 3.0],
    "simple": [0.5, 1.0, 2.0, 3.0],
}
# Where the function is smooth at zero.
SINGULAR = {
    "rank 2": [0.0, 0.0, 1.0, 2.0],
    "rank 1": [0.0, 0.0, 0.0, 2.0],
    "rank 3": [0.0, 1.0, 1.0, 2.0],
    "zero": [0.0, 0.0, 0.0, 0.0],
}


def orthogonal(rng, n, dtype, identity=False):
    if identity:
        return np.eye(n, dtype=dtype)
    return np.linalg.qr(complex_normal(rng, (n, n), dtype))[0]


def by_eigh(g):
    def function(a):
        w, v = jnp.linalg.eigh(a)
        return (v * g(w)) @ v.conj().T

    return function


def by_eigh_nested(g):
    def function(a):
        w, v = jnp.linalg.eigh(a)
        return v @ (jnp.diag(g(w)).astype(v.dtype) @ v.conj().T)

    return function


def by_eig(g):
    def function(a):
        w, v = jax.lax.linalg.eig(a, compute_left_eigenvectors=False, enable_eigvec_derivs=True)
        return (v * g(w)) @ jnp.linalg.inv(v)

    return function


def by_svd(g):
    def function(a):
        u, s, vh = jnp.linalg.svd(a, full_matrices=False)
        return (u * g(s)) @ vh

    return function


def gram_by_svd(g):
    def function(a):
        u, s, _ = jnp.linalg.svd(a, full_matrices=False)
        return (u * g(s)) @ u.conj().T

    return function


def slope(f, x, t, h=1e-3):
    """The derivative by differences of fourth and, extrapolated, sixth order."""

    def of(h):
        return (8 * (f(x + h * t) - f(x - h * t)) - (f(x + 2 * h * t) - f(x - 2 * h * t))) / (
            12 * h
        )

    return (16 * of(h / 2) - of(h)) / 15


def hermitian(x):
    return (x + x.conj().T) / 2


def of_matrix(name):
    return lambda x: getattr(scipy.linalg, name)(x)


def gram(function):
    return lambda a: function(a @ a.conj().T)


# name: what is computed, SciPy's function, whether of Hermitian matrices, whether smooth at zero.
FUNCTIONS = {
    "exp": (by_eigh(jnp.exp), of_matrix("expm"), True, True),
    "exp, nested": (by_eigh_nested(jnp.exp), of_matrix("expm"), True, True),
    "sqrt": (by_eigh(jnp.sqrt), of_matrix("sqrtm"), True, False),
    "log": (by_eigh(jnp.log), of_matrix("logm"), True, False),
    "inverse": (by_eigh(lambda w: 1 / w), np.linalg.inv, True, False),
    "itself": (by_eigh(lambda w: w), lambda x: x, True, True),
    "cube": (by_eigh(lambda w: w**3), lambda x: x @ x @ x, True, True),
    "whitening": (
        by_eigh(lambda w: 1 / jnp.sqrt(w)),
        lambda x: np.linalg.inv(scipy.linalg.sqrtm(x)),
        True,
        False,
    ),
    "ridge": (
        by_eigh(lambda w: 1 / (w + 0.5)),
        lambda x: np.linalg.inv(x + 0.5 * np.eye(len(x))),
        True,
        True,
    ),
    "exp, eig": (by_eig(jnp.exp), of_matrix("expm"), False, False),
    "exp, Hermitian eig": (by_eig(jnp.exp), of_matrix("expm"), True, True),
    "itself, svd": (by_svd(lambda s: s), lambda x: x, False, True),
    "cube, svd": (by_svd(lambda s: s**3), lambda x: x @ x.conj().T @ x, False, True),
    "ridge, svd": (
        by_svd(lambda s: s / (s**2 + 0.5)),
        lambda x: np.linalg.inv(x.conj().T @ x + 0.5 * np.eye(x.shape[1])) @ x.conj().T,
        False,
        True,
    ),
    "polar": (by_svd(jnp.ones_like), lambda x: scipy.linalg.polar(x)[0], False, False),
    "gram, svd": (gram_by_svd(lambda s: s**2), gram(lambda x: x), False, True),
    "exp of gram, svd": (
        gram_by_svd(lambda s: jnp.exp(s**2)),
        gram(of_matrix("expm")),
        False,
        None,
    ),
    "whitening, svd": (
        gram_by_svd(lambda s: 1 / s),
        gram(lambda x: np.linalg.inv(scipy.linalg.sqrtm(x))),
        False,
        False,
    ),
}
# SciPy gives its adjoint.
FUNCTIONS["ridge, svd"] = (
    FUNCTIONS["ridge, svd"][0],
    lambda x: np.linalg.inv(x.conj().T @ x + 0.5 * np.eye(x.shape[1])).dot(x.conj().T).conj().T,
    False,
    True,
)


def cases():
    for name, (_, _, is_hermitian, _) in FUNCTIONS.items():
        for dtype in (float, complex):
            square = is_hermitian or "eig" in name or "whitening" in name
            shapes = ("square",) if square else ("square", "tall", "wide")
            for shape in shapes[: 1 if "exp of" in name else 2] if "gram" in name else shapes:
                yield name, dtype, shape


def spectra(name):
    return (*SPECTRA, *(SINGULAR if FUNCTIONS[name][3] else ()))


def matrix(spectrum, dtype, shape, basis, is_hermitian, general=False):
    rng = np.random.default_rng(len(spectrum))
    values = np.array({**SPECTRA, **SINGULAR}[spectrum])
    u = orthogonal(rng, 4, dtype, basis == "identity")
    if general and not is_hermitian:
        v = u + 0.3 * rng.normal(size=(4, 4)) * (basis != "identity")
        return (v * values) @ np.linalg.inv(v)
    if is_hermitian:
        return hermitian((u * values) @ u.conj().T)
    v = orthogonal(rng, 4, dtype, basis == "identity")
    x = (u * values) @ v.conj().T
    full = orthogonal(rng, 6, dtype, basis == "identity")[:, :4]
    return {"square": x, "tall": full @ x, "wide": x @ full.conj().T}[shape]


def stack_of(name, dtype, shape):
    """All spectra, in the standard basis and in another, and directions for each."""
    is_hermitian, general = FUNCTIONS[name][2], name == "exp, eig"
    xs = np.array(
        [
            matrix(spectrum, dtype, shape, basis, is_hermitian, general)
            for spectrum in spectra(name)
            for basis in ("identity", "turned")
        ]
    )
    rng = np.random.default_rng(1)
    ts = complex_normal(rng, xs.shape, dtype)
    return xs, np.array([hermitian(t) for t in ts]) if is_hermitian else ts


def complex_normal(rng, shape, dtype):
    x = rng.normal(size=shape)
    return x + 1j * rng.normal(size=shape) if dtype is complex else x


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype", "shape"), list(cases()))
def test_derivatives_of_matrix_functions(name, dtype, shape):
    """Forward and reverse, mapped and compiled."""
    check(name, dtype, shape, *stack_of(name, dtype, shape))


@pytest.mark.parametrize(("name", "dtype", "shape"), list(cases())[::12])
def test_derivatives_of_some_matrix_functions(name, dtype, shape):
    check(name, dtype, shape, *stack_of(name, dtype, shape))


def check(name, dtype, shape, xs, ts):
    function, reference, *_ = FUNCTIONS[name]
    want = np.array([slope(reference, x, t) for x, t in zip(xs, ts, strict=True)])
    c = complex_normal(np.random.default_rng(2), want.shape[1:], dtype)

    def total(x):
        return jnp.sum(c * function(x)).real

    @jax.jit
    @jax.vmap
    def both(x, t):
        return *jax.jvp(function, (x,), (t,)), jax.grad(total)(x)

    with jax.enable_x64(True):
        values, slopes, gradients = map(np.asarray, both(xs, ts))
    for i, x in enumerate(xs):
        said = f"{name} of {x}, spectrum {spectra(name)[i // 2]}"
        np.testing.assert_allclose(values[i], reference(x), rtol=1e-9, atol=1e-9, err_msg=said)
        np.testing.assert_allclose(slopes[i], want[i], rtol=1e-6, atol=1e-6, err_msg=said)
        got, real = np.sum(gradients[i] * ts[i]).real, np.sum(c * want[i]).real
        np.testing.assert_allclose(got, real, rtol=1e-6, atol=1e-6, err_msg=said)


@pytest.mark.parametrize("name", ["exp", "polar", "itself, svd"])
def test_eager_derivatives_are_the_same(name):
    function, reference, *_ = FUNCTIONS[name]
    x, t = np.diag([1.0, 1.0, 2.0]), hermitian(np.arange(9.0).reshape(3, 3))
    with jax.enable_x64(True):
        got = jax.jvp(function, (jnp.asarray(x),), (jnp.asarray(t),))[1]
        gradient = jax.grad(lambda a: jnp.sum(t * function(a)))(jnp.asarray(x))
    np.testing.assert_allclose(got, slope(reference, x, t), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(np.sum(t * gradient), np.sum(t * got), rtol=1e-9)
