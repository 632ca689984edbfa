"""scipy.{ndimage, interpolate, integrate, cluster.vq, optimize} against SciPy's, and what JAX
documents where that differs."""

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.integrate
import scipy.interpolate
import scipy.ndimage
import scipy.optimize

import teucer as jax
from teucer import numpy as jnp
from teucer.scipy import cluster, integrate, interpolate, ndimage, optimize

R = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


# --- ndimage --------------------------------------------------------------------------------------

SCIPY_MODES = {
    "constant": "grid-constant",
    "nearest": "nearest",
    "wrap": "grid-wrap",
    "mirror": "mirror",
    "reflect": "reflect",
}


@pytest.mark.parametrize("mode", list(SCIPY_MODES))
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("shape", [(7,), (4, 5), (1, 3)])
def test_map_coordinates(mode, order, shape):
    x = R.normal(size=shape)
    places = [R.uniform(-2 * n, 3 * n, (6, 2)) for n in shape]
    found = ndimage.map_coordinates(x, places, order, mode, cval=-1.5)
    # SciPy's names for what its documentation says of "constant" and "wrap" begin with "grid".
    np.testing.assert_allclose(
        found,
        scipy.ndimage.map_coordinates(
            x, places, order=order, mode=SCIPY_MODES[mode], cval=-1.5, prefilter=False
        ),
        rtol=1e-10,
        atol=1e-12,
    )


def test_map_coordinates_of_other_dtypes():
    halves = [np.array([0.5, 1.5, 2.5, -0.5, -0.6, 5.4, 5.5, -3.2, 7.3])]
    values = np.arange(6)
    np.testing.assert_array_equal(
        ndimage.map_coordinates(values, halves, 0, "mirror"), [1, 2, 3, 1, 1, 5, 4, 3, 3]
    )
    np.testing.assert_array_equal(
        ndimage.map_coordinates(values, halves, 1, "wrap"), [1, 2, 3, 3, 3, 3, 3, 3, 1]
    )
    np.testing.assert_array_equal(
        ndimage.map_coordinates(-values, halves, 1, "nearest"), [-1, -2, -3, 0, 0, -5, -5, 0, -5]
    )
    assert ndimage.map_coordinates(values.astype("float16"), halves, 1).dtype == np.float16
    assert ndimage.map_coordinates(values + 1j, halves, 1, cval=1j)[-1] == 1j
    np.testing.assert_array_equal(
        ndimage.map_coordinates(values, [np.array([1, -1])], 1, cval=9), [1, 9]
    )
    np.testing.assert_array_equal(ndimage.map_coordinates(values, [[1, 2.5]], 1), [1, 3])
    slope = jax.grad(lambda p: ndimage.map_coordinates(values * 2.0, [p], 1))(1.25)
    assert slope == 2.0


@pytest.mark.parametrize(
    ("args", "error", "match"),
    [
        (([np.zeros(2)], 2), NotImplementedError, "requires order<=1"),
        (([np.zeros(2)], 1, "other"), NotImplementedError, "does not yet support mode other"),
        (([np.zeros(2)] * 2, 1), ValueError, "2 != 1"),
    ],
)
def test_mistakes_with_map_coordinates(args, error, match):
    with pytest.raises(error, match=match):
        ndimage.map_coordinates(np.zeros(3), *args)


# --- interpolate ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, None, -7.0])
@pytest.mark.parametrize("trailing", [(), (2,)])
def test_grids(method, fill, trailing):
    points = [np.sort(R.uniform(0, 5, 6)), -np.sort(R.uniform(0, 3, 4))]
    values = R.normal(size=(6, 4, *trailing))
    xi = np.stack([R.uniform(-1, 6, (5, 3)), R.uniform(-4, 1, (5, 3))], axis=-1)
    xi[0, 0, 0] = np.nan
    ours, theirs = (
        m.RegularGridInterpolator(points, values, method, bounds_error=False, fill_value=fill)
        for m in (interpolate, scipy.interpolate)
    )
    np.testing.assert_allclose(ours(xi), theirs(xi), rtol=1e-10)
    np.testing.assert_allclose(jax.jit(lambda x: ours(x))(xi), ours(xi), rtol=1e-10)
    np.testing.assert_allclose(ours((xi[..., 0], xi[..., 1])), ours(xi))
    at_nodes = np.array([[points[0][0], points[1][0]], [points[0][-1], points[1][2]]])
    np.testing.assert_allclose(ours(at_nodes), theirs(at_nodes), rtol=1e-10)


def test_grids_of_other_kinds():
    x = np.arange(6)
    of = interpolate.RegularGridInterpolator((x,), x**2)
    assert of(1.5) == 2.5 and of(np.array([1.5, 2.0])).shape == (2,)
    assert of(np.array([[1.4]]), method="nearest") == 1
    assert (
        of.method == "linear"
        and not of.bounds_error
        and np.isnan(of.fill_value)
        and len(of.grid) == 1
    )
    assert of.values.dtype == np.float64
    assert interpolate.RegularGridInterpolator((x,), x * 1j)(np.array([[1.5]]))[0] == 1.5j
    assert jax.grad(lambda p: of(p).sum())(1.5) == 3.0
    assert interpolate.RegularGridInterpolator((np.ones(1),), np.ones(1))(1.0) == 1.0


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (
            lambda x: interpolate.RegularGridInterpolator((x,), x, "cubic"),
            ValueError,
            "method 'cubic' is not defined",
        ),
        (
            lambda x: interpolate.RegularGridInterpolator((x,), x, bounds_error=True),
            NotImplementedError,
            "no effect under JIT",
        ),
        (
            lambda x: interpolate.RegularGridInterpolator((x, x), x),
            ValueError,
            "2 point arrays, but values has 1 dimensions",
        ),
        (
            lambda x: interpolate.RegularGridInterpolator((x[:2],), x),
            ValueError,
            "2 points and 3 values in dimension 0",
        ),
        (
            lambda x: interpolate.RegularGridInterpolator((x[None],), x),
            ValueError,
            "must be 1-dimensional",
        ),
        (
            lambda x: interpolate.RegularGridInterpolator((x,), x)(np.ones((1, 2))),
            ValueError,
            "have dimension 2, but",
        ),
        (
            lambda x: interpolate.RegularGridInterpolator((x,), x, fill_value="a"),
            TypeError,
            "requires ndarray or scalar",
        ),
    ],
)
def test_mistakes_with_grids(make, error, match):
    with pytest.raises(error, match=match):
        make(np.arange(3.0))


# --- integrate, cluster ---------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_trapezoid(axis):
    y, x = R.normal(size=(4, 5)), np.sort(R.normal(size=(4, 5)), axis=axis)
    np.testing.assert_allclose(
        integrate.trapezoid(y, x, axis=axis), scipy.integrate.trapezoid(y, x, axis=axis)
    )
    np.testing.assert_allclose(
        integrate.trapezoid(y, dx=0.5, axis=axis), scipy.integrate.trapezoid(y, dx=0.5, axis=axis)
    )


@pytest.mark.parametrize("shape", [(8,), (8, 1), (8, 3)])
def test_vq(shape):
    obs, codes = R.normal(size=shape), R.normal(size=(4, *shape[1:]))
    for ours, theirs in zip(
        cluster.vq.vq(obs, codes), scipy.cluster.vq.vq(obs, codes), strict=True
    ):
        np.testing.assert_allclose(ours, theirs)
    assert cluster.vq.vq(np.arange(3), np.arange(2))[1].dtype == np.float64


@pytest.mark.parametrize(
    ("shapes", "match"),
    [
        (((3, 2), (2,)), "same rank"),
        (((3, 2, 1), (2, 2, 1)), "ndim different than 1 or 2"),
        (((3, 2), (2, 3)), "differ in length"),
    ],
)
def test_mistakes_with_vq(shapes, match):
    with pytest.raises(ValueError, match=match):
        cluster.vq.vq(*map(np.ones, shapes))


# --- optimize -------------------------------------------------------------------------------------


def rosenbrock(x):
    return jnp.sum(100 * jnp.square(x[1:] - x[:-1] ** 2) + jnp.square(1 - x[:-1]))


def himmelblau(x):
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def matyas(x):
    return 0.26 * (x[0] ** 2 + x[1] ** 2) - 0.48 * x[0] * x[1]


def eggholder(x):
    return -(x[1] + 47) * jnp.sin(jnp.sqrt(jnp.abs(x[0] / 2 + x[1] + 47))) - x[0] * jnp.sin(
        jnp.sqrt(jnp.abs(x[0] - x[1] - 47))
    )


@pytest.mark.parametrize(
    ("f", "x0"),
    [
        (rosenbrock, np.zeros(2)),
        (rosenbrock, np.full(6, -1.2)),
        (himmelblau, np.ones(2)),
        (himmelblau, np.array([-100.0, 50.0])),
        (matyas, np.array([5.0, -3.0])),
        (eggholder, np.array([100.0, 100.0])),
        (lambda x: jnp.sum(jnp.cosh(x)), np.array([30.0])),
        (lambda x: jnp.sum(1e8 * x**2), np.ones(3)),
        (lambda x: jnp.sum(1e-3 * x**4), np.ones(1)),
    ],
)
def test_bfgs(f, x0):
    found = optimize.minimize(f, x0, method="BFGS")
    theirs = scipy.optimize.minimize(
        lambda x: float(f(jnp.asarray(x))),
        x0,
        method="BFGS",
        jac=lambda x: np.asarray(jax.grad(f)(x)),
    )
    assert found.success and found.status == 0
    assert np.abs(jax.grad(f)(found.x)).max() < 1e-5
    np.testing.assert_allclose(found.fun, f(found.x))
    if f is not eggholder:  # of many minima others may be found
        np.testing.assert_allclose(found.fun, theirs.fun, atol=1e-6)
    assert found.nfev <= 3 * theirs.nfev + 10
    compiled = jax.jit(lambda x: optimize.minimize(f, x, method="BFGS"))(x0)
    np.testing.assert_allclose(compiled.x, found.x, rtol=1e-4, atol=1e-4)


LIMITED = "l-bfgs-experimental-do-not-rely-on-this"


@pytest.mark.parametrize(
    ("f", "x0"),
    [
        (rosenbrock, np.zeros(2)),
        (rosenbrock, np.full(6, -1.2)),
        (himmelblau, np.ones(2)),
        (matyas, np.array([5.0, -3.0])),
        (eggholder, np.array([100.0, 100.0])),
        (lambda x: jnp.sum(1e8 * x**2), np.ones(3)),
    ],
)
def test_limited_bfgs(f, x0):
    options = {"gtol": 1e-6, "ftol": 0.0}
    found = optimize.minimize(f, x0, method=LIMITED, options=options)
    assert found.success and found.status == 0 and found.hess_inv is None
    assert np.abs(jax.grad(f)(found.x)).max() < 1e-5
    if f is not eggholder:
        np.testing.assert_allclose(found.fun, 0.0, atol=1e-8)
    compiled = jax.jit(lambda x: optimize.minimize(f, x, method=LIMITED, options=options))(x0)
    np.testing.assert_allclose(compiled.x, found.x, rtol=1e-3, atol=1e-3)


def test_options_of_limited_bfgs():
    def run(**options):
        return optimize.minimize(rosenbrock, np.zeros(4), method=LIMITED, options=options)

    cut = run(maxiter=3)
    assert not cut.success and cut.status == 1 and cut.nit == 3
    for name in ("maxfun", "maxgrad"):
        few = run(**{name: 5})
        assert not few.success and few.status == 1 and 5 <= few.nfev <= 5 + 20
    assert run(ftol=0.1).fun > 1e-3 and run(ftol=0.1).success
    assert run(maxcor=1, gtol=1e-4).success
    one = optimize.minimize(rosenbrock, np.zeros(2), method=LIMITED, tol=1.0)
    assert 1e-5 < np.abs(one.jac).max() < 1.0


@pytest.mark.parametrize("method", ["BFGS", LIMITED])
def test_complex_places(method):
    z0 = np.array([1.0, 2.0 - 3.0j, 4.0, -5.0j])

    def f(z):
        return jnp.sum(jnp.abs(z - z0) ** 2) + jnp.real(z[0]) * 0.1

    found = optimize.minimize(f, jnp.zeros(4, complex), method=method, tol=1e-6)
    np.testing.assert_allclose(found.x, z0 - np.array([0.05, 0, 0, 0]), atol=1e-5)
    cut = optimize.minimize(f, jnp.zeros(4, complex), method=method, options={"maxiter": 1})
    np.testing.assert_allclose(cut.jac, jax.grad(f)(cut.x), rtol=1e-5, atol=1e-6)


def test_options_of_bfgs():
    cut = optimize.minimize(rosenbrock, np.zeros(4), method="BFGS", options={"maxiter": 3})
    assert not cut.success and cut.status == 1 and cut.nit == 3
    loose = optimize.minimize(rosenbrock, np.zeros(4), method="bfgs", tol=1.0)
    assert 1e-5 < np.abs(loose.jac).max() < 1.0
    two = optimize.minimize(
        rosenbrock, np.zeros(4), method="BFGS", options={"norm": 2, "gtol": 1e-3}
    )
    assert np.linalg.norm(two.jac) < 1e-3
    scaled = optimize.minimize(
        lambda x, a, b: jnp.sum((x - a) ** 2) + b, np.ones((2, 2), int), (3.0, 1.0), method="BFGS"
    )
    np.testing.assert_allclose(scaled.x, np.full((2, 2), 3.0), atol=1e-6)
    assert scaled.fun == pytest.approx(1.0) and scaled.hess_inv.shape == (4, 4)
    many = jax.vmap(lambda x: optimize.minimize(rosenbrock, x, method="BFGS").x)(
        R.normal(size=(3, 2))
    )
    np.testing.assert_allclose(many, np.ones((3, 2)), atol=1e-4)
    unbounded = optimize.minimize(
        lambda x: jnp.where(x[0] < 1, jnp.nan, x[0]), np.array([1.0]), method="BFGS"
    )
    assert not unbounded.success and unbounded.status == 3


@pytest.mark.parametrize(
    ("kwargs", "error", "match"),
    [
        ({"method": "CG"}, ValueError, "Method CG not recognized"),
        (
            {"method": "BFGS", "args": 3.0},
            TypeError,
            "args argument to jax.scipy.optimize.minimize must be a tuple, got 3.0",
        ),
        ({"method": "BFGS", "options": {"iters": 3}}, ValueError, "unknown options .'iters'."),
        ({"method": "BFGS", "options": {"maxcor": 3}}, ValueError, "unknown options .'maxcor'."),
        ({"method": LIMITED, "options": {"iters": 3}}, ValueError, "unknown options .'iters'."),
    ],
)
def test_mistakes_with_minimize(kwargs, error, match):
    with pytest.raises(error, match=match):
        optimize.minimize(lambda x: x @ x, np.ones(2), **kwargs)
