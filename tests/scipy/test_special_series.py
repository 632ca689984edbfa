"""Special functions of several arguments against SciPy's.

Hypergeometric functions, spherical harmonics, Owen's T.
"""

import numpy as np
import pytest
from scipy import special as reference

import teucer as jax
from teucer import numpy as jnp
from teucer.scipy import special

R = np.random.default_rng(0)


def uniform(low, high, n=2000):
    return R.uniform(low, high, n)


def integers(low, high, n=2000):
    return R.integers(low, high, n).astype(float)


SAMPLES = {
    "owens_t": [
        (
            np.meshgrid(
                [0, 1e-3, 0.3, 0.66, 0.68, 1, 2, 5, 9, 20, -3, np.inf, np.nan],
                [0, 1e-5, 0.1, 0.5, 0.99, 1, 1.01, 2, 10, 1e4, np.inf, -0.7, -3],
            ),
            1e-12,
            1e-6,
        )
    ],
    "erfcinv": [
        ((np.array([1e-30, 1e-10, 0.1, 0.5, 1, 1.5, 1.99, 2, 0, -1, 2.1, np.nan]),), 1e-14, 1e-6)
    ],
    "hyp1f1": [
        ((uniform(0.1, 10), uniform(0.1, 10), uniform(-5, 30)), 1e-11, 2e-4),
        ((uniform(0.1, 3), uniform(3, 5), uniform(-300, 60)), 1e-11, 2e-3),
        ((integers(-4, 3), uniform(0.1, 4), uniform(-10, 10)), 1e-9, 5e-2),
        (
            (
                np.array([1.0, -1.0, 0.0, np.nan]),
                np.array([-2.0, -2.0, 3.0, 1.0]),
                np.array([0.5, 0.5, 0.5, 1.0]),
            ),
            1e-14,
            1e-6,
        ),
    ],
    "hyp2f1": [
        ((uniform(0.1, 5), uniform(0.1, 5), uniform(0.5, 5), uniform(-1, 1)), 1e-10, 2e-2),
        ((uniform(0.1, 2), uniform(0.1, 2), uniform(4, 6), uniform(-10, 0.99)), 1e-10, 1e-4),
        ((integers(1, 5), integers(1, 5), integers(1, 8), uniform(0.9, 0.9999)), 1e-8, 2e-2),
        ((integers(-4, 1), uniform(0.1, 2), uniform(1, 3), uniform(-3, 3)), 1e-8, 2e-2),
        (
            (
                np.array([1.0, 0.5, 2.0]),
                np.array([0.5, 0.5, 1.0]),
                np.array([3.0, 1.0, -2.0]),
                np.ones(3),
            ),
            1e-13,
            1e-5,
        ),
    ],
    "sph_harm_y": [
        (
            (
                R.integers(0, 20, 1000),
                R.integers(-20, 21, 1000),
                uniform(0, np.pi, 1000),
                uniform(0, 6, 1000),
            ),
            1e-11,
            1e-3,
        )
    ],
}


def as_single(x):
    return x.astype("float32") if x.dtype.kind == "f" else x


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "case"), [(name, i) for name, cases in SAMPLES.items() for i in range(len(cases))]
)
def test_values(name, case):
    args, double, single = SAMPLES[name][case]
    expected = getattr(reference, name)(*args)
    with jax.enable_x64(True):
        np.testing.assert_allclose(
            getattr(special, name)(*args), expected, rtol=double, atol=1e-300
        )
    args = [as_single(np.asarray(x)) for x in args]
    expected = getattr(reference, name)(
        *(x.astype(float) if x.dtype.kind == "f" else x for x in args)
    )
    found = np.asarray(getattr(special, name)(*args))
    is_normal = (np.abs(expected) > 1e-30) & (np.abs(expected) < 1e30)  # what float32 holds
    np.testing.assert_allclose(found[is_normal], expected[is_normal], rtol=single, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("owens_t", (0.7, 0.4)),
        ("owens_t", (-1.2, 3.0)),
        ("erfcinv", (0.3,)),
        ("hyp1f1", (1.3, 2.2, 1.7)),
        ("hyp1f1", (1.3, 2.2, -4.0)),
        ("hyp1f1", (0.8, 1.6, 90.0)),
        ("hyp2f1", (0.7, 1.4, 2.6, 0.4)),
        pytest.param("hyp2f1", (0.7, 1.4, 2.6, 0.95), marks=pytest.mark.slow),
        pytest.param("hyp2f1", (0.7, 1.4, 2.6, -3.0), marks=pytest.mark.slow),
    ],
)
def test_derivatives(name, args):
    f = getattr(special, name)
    with jax.enable_x64(True):
        found = jax.grad(f, argnums=tuple(range(len(args))))(*args)
        for i, slope in enumerate(found):
            at = lambda h: float(f(*(x + h * (i == j) for j, x in enumerate(args))))
            h = 1e-5
            np.testing.assert_allclose(slope, (at(h) - at(-h)) / (2 * h), rtol=2e-7, atol=1e-9)
        np.testing.assert_allclose(
            jax.vmap(f)(*(np.array([x, x]) for x in args)), f(*args), rtol=1e-14
        )
        last = len(args) - 1
        curve = jax.grad(jax.grad(f, argnums=last), argnums=last)(*args)
        at = lambda h: float(jax.grad(f, argnums=last)(*args[:-1], args[-1] + h))
        np.testing.assert_allclose(curve, (at(1e-5) - at(-1e-5)) / 2e-5, rtol=1e-6)


def test_harmonics_of_traced_degrees():
    n, m, theta, phi = np.array([3, 5]), np.array([-2, 1]), 0.7, 0.3
    expected = reference.sph_harm_y(n, m, theta, phi)
    for f, known in ((special.sph_harm_y, {}), (special.sph_harm_y, {"n_max": 5})):
        found = jax.jit(f, static_argnames="n_max")(n, m, theta, phi, **known)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    cut = special.sph_harm_y(np.array([10]), np.array([2]), theta, phi, n_max=6)
    np.testing.assert_allclose(cut, reference.sph_harm_y(6, 2, theta, phi)[None], rtol=1e-5)
    slope = jax.grad(lambda t: special.sph_harm_y(4, 2, t, 0.3).real)(0.7)
    at = lambda t: reference.sph_harm_y(4, 2, t, 0.3).real
    np.testing.assert_allclose(slope, (at(0.7 + 1e-6) - at(0.7 - 1e-6)) / 2e-6, rtol=1e-4)
    with pytest.raises(NotImplementedError, match="Use jax.grad"):
        special.sph_harm_y(1, 0, 0.0, 0.0, diff_n=1)
    with pytest.raises(ValueError, match="n must be integers"):
        special.sph_harm_y(1.0, 0, 0.0, 0.0)


def test_complex_numbers_are_refused():
    for name, count in (("hyp1f1", 3), ("hyp2f1", 4)):
        with pytest.raises(TypeError, match="must be real-valued"):
            getattr(special, name)(*[jnp.ones(2, complex)] * count)


@pytest.mark.filterwarnings("ignore:.*lpmn.* is deprecated")
def test_legendre_functions_of_all_orders_and_degrees():
    z = np.concatenate([R.uniform(-0.99, 0.99, 30), [0.0]])
    with pytest.warns(DeprecationWarning, match="lpmn is deprecated"):
        special.lpmn(1, 1, np.ones(1, np.float32))
    with jax.enable_x64(True):
        values, slopes = special.lpmn(9, 9, z)
        normalized = special.lpmn_values(9, 9, z, is_normalized=True)
        ends = special.lpmn(4, 4, np.array([1.0, -1.0]))[1]
    expected = np.moveaxis(reference.assoc_legendre_p_all(9, 9, z, diff_n=1)[:, :, :10], 1, 2)
    np.testing.assert_allclose(values, expected[0], rtol=1e-12, atol=1e-12 * abs(expected[0]).max())
    np.testing.assert_allclose(slopes, expected[1], rtol=1e-11, atol=1e-12 * abs(expected[1]).max())
    unit = np.moveaxis(
        reference.assoc_legendre_p_all(9, 9, z, norm=True)[0, :, :10], 0, 1
    ) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(normalized, unit, atol=1e-13)
    # Values that JAX 0.10.2 gives, by order and degree.
    np.testing.assert_allclose(ends[:3, 1:, 0], [[1, 3, 6, 10], [np.inf] * 4, [0, -6, -30, -90]])
    np.testing.assert_allclose(
        ends[:3, 1:, 1], [[1, -3, 6, -10], [-np.inf, np.inf, -np.inf, np.inf], [0, 6, -30, 90]]
    )


@pytest.mark.filterwarnings("ignore:.*lpmn.* is deprecated")
def test_legendre_functions_under_transformations():
    z = np.linspace(-0.9, 0.9, 5, dtype=np.float32)
    values, slopes = jax.jit(lambda z: special.lpmn(3, 3, z))(z)
    tangents = jax.jvp(lambda z: special.lpmn_values(3, 3, z, False), (z,), (np.ones_like(z),))[1]
    np.testing.assert_allclose(tangents, slopes, rtol=1e-5, atol=1e-5)
    assert np.isfinite(jax.grad(lambda z: special.lpmn(3, 3, z)[1].sum())(z)).all()
    np.testing.assert_allclose(
        jax.vmap(lambda z: special.lpmn_values(3, 3, z, False))(z[None])[0], values, rtol=1e-6
    )
    assert special.lpmn_values(0, 0, z, False).shape == (1, 1, 5)
    for args, error, text in [
        ((1, 2, z), NotImplementedError, "order m must be the greatest degree n"),
        ((1, 1, z[None]), ValueError, "z must be a 1D array"),
        ((-1, -1, z), ValueError, "not be negative"),
        ((1, 1, np.arange(3)), TypeError, "z must be float32 or float64"),
    ]:
        with pytest.raises(error, match=text):
            special.lpmn(*args)
