"""Special functions: values are SciPy's, derivatives agree with differences, edges."""

import mpmath
import numpy as np
import pytest
from scipy import special as reference

import teucer as jax
from teucer import numpy as jnp
from teucer.scipy import special

RANDOM = np.random.default_rng(0)


def spread(low, high, n=300):
    return np.sort(RANDOM.uniform(low, high, n))


def logarithmic(low, high, n=300):
    return np.exp(spread(np.log(low), np.log(high), n))


# name: (operands, relative tolerance in float32 and in float64 in units of their eps)
# Tolerances beyond 20: functions whose condition number is large within the range (an exponential
# of a large logarithm, a zero of the function), and erfc and ndtr, of which SciPy's lose digits in
# the tail.
CASES = {
    "erf": ([spread(-4, 4)], 4),
    "erfc": ([spread(-4, 9)], 64),
    "erfinv": ([spread(-0.999, 0.999)], 8),
    "expit": ([spread(-30, 30)], 8),
    "logit": ([spread(0.001, 0.999)], 4),
    "entr": ([spread(0.01, 5)], 8),
    "xlogy": ([spread(-3, 3), spread(1.1, 9)], 8),
    "xlog1py": ([spread(-3, 3), spread(-0.9, 9)], 8),
    "rel_entr": ([spread(0.1, 1), spread(2, 5)], 16),
    "kl_div": ([spread(0.1, 1), spread(2, 5)], 32),
    "boxcox": ([spread(1.1, 5), RANDOM.uniform(-2, 2, 300)], 32),
    "boxcox1p": ([spread(0.1, 5), RANDOM.uniform(-2, 2, 300)], 32),
    "ndtr": ([spread(-9, 9)], 64),
    "log_ndtr": ([spread(-9, 3)], 16),
    "ndtri": ([spread(1e-6, 0.49)], 16),
    "gamma": ([spread(-33.9, 34)], 16),
    "gammaln": ([spread(0.1, 50)], 8),
    "gammasgn": ([spread(-5, 5)], 1),
    "factorial": ([np.arange(30.0)], 8),
    "digamma": ([spread(1.5, 50)], 8),
    "polygamma": ([RANDOM.integers(1, 4, 300), spread(1, 9)], 256),
    "zeta": ([spread(1.5, 9), spread(1, 9)], 128),
    "gammainc": ([spread(0.1, 9), RANDOM.uniform(0.1, 9, 300)], 256),
    "gammaincc": ([spread(0.1, 9), RANDOM.uniform(0.1, 9, 300)], 256),
    "betainc": ([spread(0.5, 9), RANDOM.uniform(0.5, 9, 300), RANDOM.uniform(0.1, 0.9, 300)], 512),
    "beta": ([spread(0.5, 9), RANDOM.uniform(0.5, 9, 300)], 256),
    "betaln": ([spread(0.5, 300), RANDOM.uniform(2, 300, 300)], 256),
    "poch": ([spread(0.5, 9), RANDOM.uniform(0, 5, 300)], 256),
    "comb": ([RANDOM.integers(10, 30, 300), RANDOM.integers(0, 10, 300)], 512),
    "i0": ([spread(-9, 9)], 32),
    "i0e": ([spread(-30, 30)], 8),
    "i1": ([spread(-9, 9)], 32),
    "i1e": ([spread(-30, 30)], 8),
    "exp1": ([logarithmic(1e-3, 50)], 128),
    "expi": ([logarithmic(0.5, 80)], 128),
    "expn": ([RANDOM.integers(0, 8, 300), logarithmic(1e-2, 50)], 512),
    "spence": ([logarithmic(1.2, 1e4)], 32),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_value(name, dtype):
    operands, eps = CASES[name]
    args = [x if x.dtype.kind == "i" else x.astype(dtype) for x in operands]
    expected = getattr(reference, name)(
        *(x.astype(np.float64) if x.dtype.kind == "f" else x for x in args)
    )
    with jax.enable_x64(dtype == np.float64):
        args = [x.astype(np.int32) if x.dtype.kind == "i" else x for x in args]
        found = getattr(special, name)(*args)
        assert found.dtype == (dtype if any(x.dtype.kind == "f" for x in operands) else np.float32)
        eps = eps * (np.finfo(found.dtype).eps / np.finfo(dtype).eps)
        np.testing.assert_allclose(found, expected, rtol=eps * np.finfo(dtype).eps)
        np.testing.assert_allclose(
            jax.jit(getattr(special, name))(*args), expected, rtol=eps * np.finfo(dtype).eps
        )


def precise(f):
    """A function of mpmath on arrays, in 40 digits."""

    def on_elements(xs):
        with mpmath.workdps(40):
            return np.array([np.longdouble(mpmath.nstr(f(mpmath.mpf(x)), 25)) for x in xs.tolist()])

    return on_elements


def normal(x):
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def log_normal(x):
    if x < -1e3:
        return (
            -x * x / 2
            - mpmath.log(-x * mpmath.sqrt(2 * mpmath.pi))
            + mpmath.log1p(-1 / x**2 + 3 / x**4)
        )
    return mpmath.log1p(-normal(-x)) if x > 0 else mpmath.log(normal(x))


# name: (reference, operands, errors in ulp allowed in float32 and float64). Where other methods
# lose digits: tails, zeros.
HARD = {
    "erfc": (mpmath.erfc, [-2, 0.3, 0.5, 1.1, 3.7, 8.57, 9.1], 6, 5),
    "erfinv": (mpmath.erfinv, [-0.9998, 1e-3, 0.3, 0.9, 0.99999], 4, 4),
    "ndtr": (normal, [-12.9, -7.3, -0.8, -0.5, 0.6, 3.3], 6, 5),
    "log_ndtr": (log_normal, [-1e19, -1e4, -12.9, -3, -0.005, 0.4, 5.1], 8, 8),
    "logit": (
        lambda x: mpmath.log(x / (1 - x)),
        [1e-20, 0.2, 0.3, 0.49999997, 0.50000006, 0.8, 0.99999],
        3,
        3,
    ),
    "gamma": (mpmath.gamma, [-34.102, -31.111, -2.0001, -0.5, 1e-30, 0.7, 5, 9.9, 34.9], 8, 8),
    "gammaln": (
        lambda x: mpmath.re(mpmath.loggamma(x)),
        [1e-30, 0.71, 0.99, 1.0001, 2.01, 3.2877, 9.9, 1e6, 1e30],
        6,
        6,
    ),
    "digamma": (mpmath.digamma, [-9.3, -0.4, 1e-30, 0.7, 1.4616, 2.11, 9.9, 1e10], 6, 6),
    "i0": (lambda x: mpmath.besseli(0, x), [-90.06, 0.1, 7.9, 90.06], 8, 8),
    "i1": (lambda x: mpmath.besseli(1, x), [-90.06, 0.1, 7.9, 90.06], 12, 12),
    "expi": (mpmath.ei, [90.06], 8, 8),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", HARD)
def test_errors_in_units_of_the_last_place(name, dtype):
    f, points, *bounds = HARD[name]
    x = np.array(points, dtype)
    exact = precise(f)(x)
    with jax.enable_x64(dtype == np.float64):
        found = np.asarray(getattr(special, name)(x))
    ulp = np.spacing(np.abs(exact).astype(dtype)).astype(np.longdouble)
    errors = np.abs(found.astype(np.longdouble) - exact) / ulp
    assert errors.max() <= bounds[dtype == np.float64], dict(
        zip(points, errors.tolist(), strict=True)
    )


def test_gamma_of_natural_numbers_is_exact():
    x = np.arange(1, 10, dtype=np.float32)
    np.testing.assert_array_equal(special.gamma(x), reference.gamma(x))


def test_gamma_at_edges():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -3, -1e20, 36, -43.5], np.float32)
    np.testing.assert_array_equal(
        special.gamma(x), [np.inf, -np.inf, np.inf, np.nan, np.nan, np.nan, np.nan, np.inf, 0]
    )


def test_digamma_at_poles():
    x = np.array([0.0, -0.0, -1, -7, np.inf, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(
        special.digamma(x), [-np.inf, np.inf, np.nan, np.nan, np.inf, np.nan, np.nan]
    )


@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_of_log_ndtr_in_the_tail(order):
    with jax.enable_x64(True), mpmath.workdps(60):
        f = special.log_ndtr
        for _ in range(order):
            f = jax.grad(f)
        for x in (-150.0, -20.0, -3.0, -1e-3, 2.0):
            exact = mpmath.diff(log_normal, mpmath.mpf(x), order, h=mpmath.mpf(10) ** -12)
            np.testing.assert_allclose(float(f(x)), float(exact), rtol=1e-9)


@pytest.mark.parametrize(
    "name", [n for n in CASES if n not in ("gammasgn", "factorial", "polygamma", "comb", "betainc")]
)
def test_derivative(name):
    operands, _ = CASES[name]
    f = getattr(special, name)
    with jax.enable_x64(True):
        args = [x[5::60].astype(np.float64) for x in operands]
        at = len(args) - 1  # the operand in which all are differentiable
        grad = jax.vmap(jax.grad(f, at))(*args)
        step = 1e-6 * np.maximum(1, np.abs(args[at]))
        if name == "expn":
            step = 1e-6 * args[at]
        shifted = lambda h: f(*args[:at], args[at] + h)
        np.testing.assert_allclose(
            grad, (shifted(step) - shifted(-step)) / (2 * step), rtol=2e-5, atol=1e-8
        )


EDGES = [
    (
        "gamma",
        [0.0, -0.0, -1.0, 40.0, np.inf, np.nan, -0.5, 0.3, 35.0],
        [np.inf, -np.inf, np.nan, np.inf, np.inf, np.nan, -3.5449077, 2.9915689, 2.952328e38],
    ),
    ("gammasgn", [-0.5, 0.0, -0.0, -1.0, 1.0, -1.5, np.inf], [-1, 1, -1, np.nan, 1, 1, 1]),
    ("factorial", [-1.0, 0.0, 1.0, 3.0, 10.0], [0, 1, 1, 6, 3628800]),
    ("entr", [0.0, -1.0, 1.0], [0, -np.inf, 0]),
    ("logit", [0.0, 1.0, 2.0, 0.5], [-np.inf, np.inf, np.nan, 0]),
    ("ndtri", [0.0, 1.0, 2.0, -1.0, 0.5, 1e-30], [-np.inf, np.inf, np.nan, np.nan, 0, -11.464024]),
    (
        "log_ndtr",
        [-1e4, -100.0, 0.0, 10.0, -np.inf, np.inf],
        [-50000010.1, -5005.524, -0.6931472, -7.619853e-24, -np.inf, 0],
    ),
    (
        "expi",
        [0.0, -1.0, 50.0, -200.0, np.inf, np.nan],
        [-np.inf, -0.21938393, 1.0585636e20, 0, np.inf, np.nan],
    ),
    ("exp1", [0.0, -1.0, np.inf, np.nan, 200.0], [np.inf, np.nan, 0, np.nan, 0]),
    (
        "spence",
        [0.0, 1.0, -1.0, np.inf, 0.25, 2.0],
        [1.6449341, 0, np.nan, -np.inf, 0.97846939, -0.82246703],
    ),
    ("i1", [0.0, np.nan], [0, np.nan]),
    ("erfinv", [-1.0, 1.0, 2.0], [-np.inf, np.inf, np.nan]),
]


@pytest.mark.parametrize("name, x, expected", EDGES, ids=[e[0] for e in EDGES])
def test_edges(name, x, expected):
    np.testing.assert_allclose(
        getattr(special, name)(np.asarray(x, np.float32)), expected, rtol=1e-5, atol=1e-12
    )


PAIRS = [
    ("xlogy", (0.0, 0.0), 0.0),
    ("xlogy", (0.0, -1.0), 0.0),
    ("xlogy", (1.0, 0.0), -np.inf),
    ("xlog1py", (0.0, -1.0), 0.0),
    ("kl_div", (0.0, 0.0), 0.0),
    ("kl_div", (1.0, 0.0), np.inf),
    ("kl_div", (0.0, 1.0), 1.0),
    ("kl_div", (-1.0, 1.0), np.inf),
    ("kl_div", (np.inf, 1.0), np.nan),
    ("kl_div", (-1.0, np.nan), np.nan),
    ("kl_div", (np.inf, -np.inf), np.inf),
    ("rel_entr", (0.0, 0.0), 0.0),
    ("rel_entr", (1.0, 0.0), np.inf),
    ("rel_entr", (0.0, 1.0), 0.0),
    ("expn", (1.0, 0.0), np.inf),
    ("expn", (0.0, 1.0), 0.36787944),
    ("expn", (3.0, 0.0), 0.5),
    ("poch", (0.0, 0.0), 1.0),
    ("boxcox", (2.0, 0.0), 0.6931472),
    ("comb", (5.0, 6.0), 0.0),
    ("comb", (5.0, -1.0), 0.0),
    ("comb", (-2.0, 1.0), 0.0),
]


@pytest.mark.parametrize("name, args, expected", PAIRS)
def test_edges_of_two_operands(name, args, expected):
    np.testing.assert_allclose(getattr(special, name)(*map(np.float32, args)), expected, rtol=1e-6)


# What JAX 0.12 gives.
GRADIENTS = [
    ("xlogy", (0.0, 2.0), (np.log(2), 0.0)),
    ("xlogy", (1.0, 2.0), (np.log(2), 0.5)),
    ("entr", (0.0,), (np.inf,)),
    ("entr", (1.0,), (-1.0,)),
    ("logit", (0.0,), (np.inf,)),
    ("logit", (2.0,), (-0.5,)),
    ("rel_entr", (0.0, 0.0), (0.0, 0.0)),
    ("kl_div", (0.0, 1.0), (0.0, 1.0)),
    ("boxcox", (2.0, 1.0), (1.0, 0.3862944)),
    ("i1", (0.0,), (0.5,)),
    ("exp1", (0.0,), (-np.inf,)),
    ("expi", (0.0,), (np.inf,)),
    ("log_ndtr", (-100.0,), (100.01,)),
    ("xlogy", (1.0, 0.0), (-np.inf, np.inf)),
    ("xlog1py", (1.0, -1.0), (-np.inf, np.inf)),
    ("spence", (1.0,), (-1.0,)),
    ("log_ndtr", (0.0,), (0.79788458,)),
]


@pytest.mark.parametrize("name, args, expected", GRADIENTS)
def test_gradients_at_edges(name, args, expected):
    found = jax.grad(getattr(special, name), tuple(range(len(args))))(*args)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_small_probabilities():
    x = spread(-37, -9)
    with jax.enable_x64(True):
        np.testing.assert_allclose(special.ndtr(x), reference.ndtr(x), rtol=1e-12)
        np.testing.assert_allclose(special.log_ndtr(x, 20), reference.log_ndtr(x), rtol=1e-14)
        p = logarithmic(1e-300, 1e-3)
        np.testing.assert_allclose(special.ndtri(p), reference.ndtri(p), rtol=1e-14)


def test_spence_near_one_and_zero():
    with jax.enable_x64(True):
        x = np.concatenate([logarithmic(1e-9, 1), 1 + logarithmic(1e-9, 1)])
        np.testing.assert_allclose(special.spence(x), reference.spence(x), rtol=1e-9, atol=2e-16)


def test_betaln_of_unlike_operands():
    with jax.enable_x64(True):
        a, b = np.meshgrid(logarithmic(1e-3, 1e8, 20), logarithmic(1e-3, 1e8, 20))
        with mpmath.workdps(60):
            expected = [
                [float(mpmath.log(mpmath.beta(x, y))) for x, y in zip(p, q, strict=True)]
                for p, q in zip(a, b, strict=True)
            ]
        np.testing.assert_allclose(special.betaln(a, b), expected, rtol=2e-14, atol=2e-14)
        b = np.asarray([12.0, 3.2])
        np.testing.assert_allclose(special.betaln(-2.5, b), reference.betaln(-2.5, b), rtol=1e-12)


def test_choices():
    assert [round(float(special.comb(5, k)), 4) for k in range(7)] == [1, 5, 10, 10, 5, 1, 0]
    np.testing.assert_allclose(
        [special.comb(n, k, repetition=True) for n, k in ((5, 2), (3, 4), (0, 0))],
        [15, 15, 1],
        rtol=1e-5,
    )


def test_bessel_functions():
    z = np.concatenate([np.linspace(-20, 20, 81), [1e-3, 0.0]])
    with jax.enable_x64(True):
        found = special.bessel_jn(z, v=6)
        for k in range(7):
            np.testing.assert_allclose(found[k], reference.jv(k, z), rtol=1e-11, atol=1e-13)
        slope = jax.jacfwd(lambda z: special.bessel_jn(z, v=2))(1.5)
        np.testing.assert_allclose(slope, reference.jvp(np.arange(3), 1.5), rtol=1e-12)
    np.testing.assert_allclose(
        special.bessel_jn(np.float32(1), v=3), reference.jv(np.arange(4), 1.0), rtol=1e-5
    )
    with pytest.raises(ValueError, match=r"(?s)bessel_jn: v must be.*v: 60.*n_iter: 50"):
        special.bessel_jn(1.0, v=60)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_loggamma(dtype):
    z = (RANDOM.uniform(-8, 8, 300) + 1j * RANDOM.uniform(-8, 8, 300)).astype(dtype)
    with jax.enable_x64(dtype == np.complex128):
        found = special.loggamma(z)
        assert found.dtype == dtype
        expected = reference.loggamma(z.astype(np.complex128))
        np.testing.assert_allclose(
            found, expected, rtol=64 * np.finfo(dtype).eps, atol=512 * np.finfo(dtype).eps
        )
    np.testing.assert_allclose(
        special.loggamma(np.asarray([2.5, -1.5, 0.0], np.float32)),
        [0.2846829, np.nan, np.inf],
        rtol=1e-6,
    )
    for at in (1j, -2.5 - 0.5j, 3 + 2j):
        slope = jax.grad(special.loggamma, holomorphic=True)(jnp.asarray(at, "complex64"))
        np.testing.assert_allclose(slope, reference.digamma(at), rtol=2e-5)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_gamma_of_complex_numbers(dtype):
    z = (RANDOM.uniform(-6, 6, 300) + 1j * RANDOM.uniform(-6, 6, 300)).astype(dtype)
    poles = np.asarray([0, -1, -7, np.inf, np.nan], dtype)
    with jax.enable_x64(dtype == np.complex128):
        found = special.gamma(z)
        assert found.dtype == dtype
        # The logarithm is exact to some ulp of its magnitude, about 20.
        np.testing.assert_allclose(
            found, reference.gamma(z.astype(np.complex128)), rtol=128 * np.finfo(dtype).eps
        )
        assert np.isnan(special.gamma(poles)).all()
    for at in (1j, -2.5 - 0.5j, 3 + 2j):
        slope = jax.grad(special.gamma, holomorphic=True)(jnp.asarray(at, "complex64"))
        np.testing.assert_allclose(slope, reference.gamma(at) * reference.digamma(at), rtol=1e-4)


@pytest.mark.parametrize("name", ["ndtr", "log_ndtr", "ndtri", "spence"])
@pytest.mark.parametrize("dtype", ["int32", "complex64", "bool"])
def test_floats_only(name, dtype):
    with pytest.raises(TypeError, match=f"{name}: x.dtype={dtype} is not supported"):
        getattr(special, name)(jnp.ones(2, dtype))


@pytest.mark.parametrize("name", ["gammasgn", "expi", "exp1"])
def test_real_only(name):
    with pytest.raises(ValueError, match=f"{name} does not support complex-valued inputs"):
        getattr(special, name)(1j)


def test_multigammaln():
    for d in (1, 2, 5):
        np.testing.assert_allclose(
            special.multigammaln(4.5, d), reference.multigammaln(4.5, d), rtol=1e-6
        )


def test_bernoulli():
    for n in (0, 1, 2, 20):
        np.testing.assert_allclose(
            special.bernoulli(n), reference.bernoulli(max(n, 2))[: n + 1], rtol=1e-6
        )
    with pytest.raises(ValueError, match="n must be a non-negative integer"):
        special.bernoulli(-1)


def test_softmax_over_all():
    x = jnp.arange(4.0).reshape(2, 2)
    np.testing.assert_allclose(special.softmax(x), reference.softmax(x), rtol=1e-6)
    np.testing.assert_allclose(special.log_softmax(x), reference.log_softmax(x), rtol=1e-6)
    np.testing.assert_allclose(special.softmax(x, axis=0), reference.softmax(x, axis=0), rtol=1e-6)
    np.testing.assert_allclose(special.logsumexp(x), reference.logsumexp(x), rtol=1e-6)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda: special.factorial(3, exact=True),
            NotImplementedError,
            "factorial with exact=True",
        ),
        (
            lambda: special.zeta(2.0),
            NotImplementedError,
            "pass q != None to compute the Hurwitz Zeta function",
        ),
        (lambda: special.log_ndtr(1.0, -1), ValueError, "series_order must be non-negative"),
        (lambda: special.log_ndtr(1.0, 31), ValueError, "series_order must be <= 30"),
        (lambda: special.log_ndtr(1.0, 2.0), TypeError, "series_order must be a Python integer"),
        (
            lambda: special.erf([1.0]),
            TypeError,
            r"erf requires ndarray or scalar arguments, got <class 'list'> at position 0",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


SHORT = [
    "erf",
    "erfinv",
    "expit",
    "gamma",
    "i0",
    "ndtr",
    "log_ndtr",
    "ndtri",
    "spence",
    "expi",
    "factorial",
]


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_floats(name, dtype):
    x = jnp.asarray([0.25, 0.5, 0.75]).astype(dtype)
    found = getattr(special, name)(x)
    assert found.dtype == dtype
    eps = float(jnp.finfo(dtype).eps)
    expected = getattr(reference, name)(np.asarray(x.astype("float32"), np.float64))
    np.testing.assert_allclose(
        np.asarray(found.astype("float32")), expected, rtol=8 * eps, atol=eps
    )


@pytest.mark.parametrize("name", CASES)
def test_python_numbers_in_a_trace(name):
    f = getattr(special, name)
    args = [2 if x.dtype.kind == "i" else 1.5 for x in CASES[name][0]]
    np.testing.assert_allclose(jax.jit(lambda: f(*args))(), f(*args), rtol=1e-6)


def test_dtypes():
    for f in (
        special.gamma,
        special.gammasgn,
        special.ndtr,
        special.log_ndtr,
        special.ndtri,
        special.spence,
        special.expi,
        special.exp1,
    ):
        assert not f(0.5).weak_type
    with pytest.raises(
        ValueError, match="Argument `n` to polygamma must be of integer type. Got dtype float32"
    ):
        special.polygamma(1.5, 2.0)
    assert special.multigammaln(3.0, 2.0) == special.multigammaln(3.0, 2)
    assert special.erf(1).weak_type and special.gamma(jnp.arange(3)).dtype == "float32"
    assert special.xlogy(jnp.ones(2, "float16"), 2).dtype == "float16"


def test_tanh_of_complex_numbers_near_the_least_normal_result():
    z = np.complex64(-43.6720924 - 2j)
    np.testing.assert_allclose(
        np.asarray(jnp.tanh(z)).imag, np.tanh(np.complex128(z)).imag, rtol=1e-5
    )


def test_log1p_of_least_normal_numbers():
    with jax.enable_x64(True):
        x = np.array([2.3e-308, 4.5e-308, -4.5e-308, 1e-300])
        np.testing.assert_array_equal(jnp.log1p(x), x)
        np.testing.assert_array_equal(jnp.arctanh(x), x)


@pytest.mark.parametrize("name", ["rel_entr", "kl_div"])
@pytest.mark.parametrize("mode", [jax.grad, jax.jacfwd], ids=["grad", "jacfwd"])
def test_derivatives_of_divergences_show_nan(name, mode):
    f = mode(getattr(special, name), (0, 1))
    for p, q in (np.nan, 1.0), (1.0, np.nan), (np.nan, np.nan), (np.nan, 0.0):
        assert np.isnan(f(p, q)).all(), (p, q)


def test_derivatives_of_divergences_outside_are_zero_in_both_modes():
    for mode in jax.grad, jax.jacfwd:
        assert mode(special.kl_div, (0, 1))(1.0, 0.0) == (0.0, 0.0)


@pytest.mark.parametrize("name", ["entr", "rel_entr", "kl_div"])
def test_entropies_are_of_real_numbers(name):
    with pytest.raises(ValueError, match=f"{name} does not support complex-valued inputs"):
        getattr(special, name)(*[1j] * (1 if name == "entr" else 2))


def test_what_is_infinite_has_no_slope():
    assert jax.grad(special.kl_div, (0, 1))(1.0, -1.0) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("name", "at", "wanted"),
    [
        # That of p at 0 is 0, as in JAX; the limit is -inf.
        ("kl_div", (0.0, 0.5), (0.0, 1.0)),
        ("kl_div", (np.inf, 1.0), (np.inf, -np.inf)),
        ("kl_div", (1.0, np.inf), (-np.inf, 1.0)),
        ("rel_entr", (np.inf, 1.0), (np.inf, -np.inf)),
        ("rel_entr", (1.0, np.inf), (-np.inf, 0.0)),
    ],
)
def test_gradients_of_entropies_at_edges(name, at, wanted):
    assert jax.grad(getattr(special, name), (0, 1))(*at) == wanted


def test_further_derivatives_of_exp1():
    """-exp(-x) / x and exp(-x) (1 + 1 / x) / x; outside the domain each is nan."""
    second = jax.grad(jax.grad(special.exp1))
    assert second(0.0) == np.inf
    assert np.isclose(second(1.0), 2 / np.e)
    assert np.isnan(second(-1.0)) and np.isnan(jax.grad(second)(-1.0))
