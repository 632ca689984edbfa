"""Elementwise operations: edges, and errors. The laws of their rows are those of tests/optable."""

import mpmath
import numpy as np
import pytest
import scipy.special
from optable.table import numpy_dtype

import teucer as jax
from teucer import lax
from teucer._base import config
from teucer._core.trace import typeof


def assert_same(got, want, tolerance=1e-5):
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
    else:
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(
            got.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "max", "pow", "atan2"])
def test_cotangent_of_a_scalar_is_summed(name):
    f = getattr(lax, name)
    x, s = np.array([1.5, 2.0, 3.0], np.float32), np.float32(1.25)
    gx, gs = jax.vjp(f, x, s)[1](np.ones(3, np.float32))
    want = [jax.grad(f, (0, 1))(v, s) for v in x]
    np.testing.assert_allclose(gx, [w[0] for w in want], rtol=1e-6)
    np.testing.assert_allclose(gs, sum(np.asarray(w[1]) for w in want), rtol=1e-6)


@pytest.mark.parametrize(
    ("f", "x", "want"),
    [
        (lax.abs, 0.0, 1.0),
        (lax.sqrt, 0.0, np.inf),
        (lax.sign, 3.0, 0.0),
        (lambda x: lax.max(x, np.float32(2.0)), 2.0, 0.5),
        (lambda x: lax.min(x, np.float32(2.0)), 2.0, 0.5),
        (lambda x: lax.pow(x, 2), 0.0, 0.0),
        (lambda x: lax.pow(x, 0), 0.0, 0.0),
        (lambda x: lax.pow(x, 2.0), 0.0, 0.0),
        (lambda y: lax.pow(np.float32(0.0), y), 2.0, 0.0),
        (lambda x: lax.integer_pow(x, 0), 0.0, 0.0),
        (lambda x: lax.clamp(np.float32(0), x, np.float32(1)), 0.0, 0.0),
        (lax.stop_gradient, 2.0, 0.0),
        (lax.bessel_i1e, 0.0, 0.5),
        (lambda x: lax.select(np.True_, x, x), 0.0, 1.0),
    ],
    ids=lambda v: "" if callable(v) else None,
)
def test_derivative_at_edges(f, x, want):
    assert float(jax.grad(f)(np.float32(x))) == want


@pytest.mark.parametrize(
    ("name", "args", "want"),
    [
        ("div", (np.int32(5), np.int32(0)), -1),
        ("div", (np.uint8(5), np.uint8(0)), 255),
        ("div", (np.int32(-7), np.int32(2)), -3),
        ("rem", (np.int32(-7), np.int32(2)), -1),
        ("rem", (np.int32(5), np.int32(0)), 5),
        ("rem", (np.float32(-7), np.float32(2)), -1.0),
        ("sign", (np.uint8(7),), 1),
        ("clz", (np.int8(1),), 7),
        ("mulhi", (np.int32(2**30), np.int32(8)), 2),
        ("shift_left", (np.int32(1), np.int32(40)), 0),
        ("shift_right_logical", (np.int8(-1), np.int8(4)), 15),
        ("max", (np.complex64(1 + 2j), np.complex64(1 + 3j)), 1 + 3j),
        ("exp2", (np.float32(10),), 1024.0),
        ("exp2", (np.float32(-np.inf),), 0.0),
        ("exp2", (np.float32(128),), np.inf),
        ("igamma", (np.float32(2), np.float32(np.inf)), 1.0),
        ("igammac", (np.float32(2), np.float32(0)), 1.0),
        ("betainc", (np.float32(2), np.float32(3), np.float32(1)), 1.0),
        ("lgamma", (np.float32(-1),), np.inf),
        ("nextafter", (np.float32(0), np.float32(1)), 1e-45),
        ("bessel_i0e", (np.float32(np.inf),), 0.0),
        ("reciprocal", (np.float32(4),), 0.25),
        ("is_finite", (np.float32(np.nan),), False),
    ],
)
def test_value_at_edges(name, args, want):
    got = np.asarray(getattr(lax, name)(*args))
    np.testing.assert_array_equal(got, np.asarray(want, got.dtype))


def test_cosh_and_sinh_do_not_overflow_early():
    x = np.array([88.9, 89.4], np.float32)
    want = np.cosh(x.astype(np.float64))
    np.testing.assert_allclose(lax.cosh(x), want, rtol=1e-6)
    np.testing.assert_allclose(lax.sinh(-x), -want, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gamma_functions_keep_relative_accuracy(dtype):
    """Near the zeros of lgamma and digamma, and where igammac is small: there the plain formulas
    cancel."""
    with jax.enable_x64(True), mpmath.workprec(120):
        eps = float(np.finfo(dtype).eps)
        for x in np.array([0.01, 0.99, 1.001, 1.999, 2.01, 3.2], dtype):
            want = mpmath.loggamma(mpmath.mpf(float(x)))
            assert abs(mpmath.mpf(float(lax.lgamma(x))) - want) <= 6 * eps * abs(want)
        for x in np.array([1.1, 1.46, 1.4616, 1.4617, 1.9], dtype):
            want = mpmath.digamma(mpmath.mpf(float(x)))
            assert abs(mpmath.mpf(float(lax.digamma(x))) - want) <= 6 * eps * abs(want)
        for a in np.array([1e-3, 0.1, 0.7], dtype):
            for x in np.array([1e-3, 0.3, 1.0], dtype):
                want = mpmath.gammainc(mpmath.mpf(float(a)), mpmath.mpf(float(x)), regularized=True)
                assert abs(mpmath.mpf(float(lax.igammac(a, x))) - want) <= 12 * eps * want


@pytest.mark.parametrize("f", [lax.igamma, lax.igammac])
@pytest.mark.parametrize("a", [1e2, 1e4, 1e6])
def test_igamma_of_large_operands(f, a):
    x = (a + np.sqrt(a) * np.array([-3, -1, 0, 1, 3])).astype(np.float32)
    reference = {lax.igamma: scipy.special.gammainc, lax.igammac: scipy.special.gammaincc}[f]
    np.testing.assert_allclose(f(np.float32(a), x), reference(a, x.astype(np.float64)), rtol=3e-5)


def test_round():
    x = np.array([-2.5, -0.5, 0.5, 1.5, 2.4], np.float32)
    np.testing.assert_array_equal(lax.round(x), [-3, -1, 1, 2, 2])
    np.testing.assert_array_equal(
        lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), [-2, 0, 0, 2, 2]
    )


@pytest.mark.parametrize("y", range(-4, 6))
def test_integer_pow(y):
    x = np.array([-2.0, 0.5, 3.0], np.float32)
    np.testing.assert_allclose(lax.integer_pow(x, y), x.astype(float) ** y, rtol=1e-6)
    assert_same(lax.integer_pow(np.array([2, -3], np.int32), 3), np.array([8, -27], np.int32))


def test_total_order():
    x = np.array([-np.nan, -np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan], np.float32)
    a, b = (v.ravel() for v in np.meshgrid(x, x, indexing="ij"))
    i, j = (v.ravel() for v in np.meshgrid(np.arange(8), np.arange(8), indexing="ij"))
    np.testing.assert_array_equal(lax.lt_to_p.call(a, b)[0], i < j)
    np.testing.assert_array_equal(lax.le_to_p.call(a, b)[0], i <= j)
    np.testing.assert_array_equal(lax.eq_to_p.call(a, b)[0], i == j)


def test_conj_and_parts():
    z = np.array([1 + 2j, -3j], np.complex64)
    assert_same(lax.conj(z), z.conj())
    assert_same(lax.conj(z.real), z.real.astype(np.complex64))
    assert_same(jax.linear_transpose(lax.conj, z.real)(z)[0], z.real)
    assert_same(jax.linear_transpose(lax.imag, z)(z.real)[0], -1j * z.real)
    assert_same(jax.grad(lax.abs)(np.complex64(3 + 4j)), np.complex64(0.6 - 0.8j))
    assert_same(jax.grad(lax.abs)(np.complex64(0)), np.complex64(0))


def test_pow():
    x = np.array([0.5, 2.0, 3.0], np.float32)
    assert_same(lax.pow(x, np.array([2, -1, 0], np.int32)), np.array([0.25, 0.5, 1], np.float32))
    assert_same(lax.pow(x, 2.5), x ** np.float32(2.5))
    want = jax.vmap(lax.pow, in_axes=(0, None))(x, np.array([1.0, 2.0], np.float32))
    assert_same(want, x[:, None] ** np.array([1.0, 2.0], np.float32))
    with jax.enable_x64(True):
        y, t = np.array([1.5, -2.0]), np.array([0.3, 0.7])
        dy = jax.jvp(lax.pow, (y + 3, y), (t, t))[1]
        h = 1e-6
        above, below = ((y + 3 + s * t) ** (y + s * t) for s in (h, -h))
        np.testing.assert_allclose(dy, (above - below) / (2 * h), rtol=1e-7)


@pytest.mark.parametrize("which", [np.bool_, np.int32])
@pytest.mark.parametrize("scalar", [False, True])
def test_select_n(which, scalar):
    rng = np.random.default_rng(0)
    n = 2 if which is np.bool_ else 5
    cases = [rng.normal(size=(3, 4)).astype(np.float32) for _ in range(n)]
    index = rng.integers(0, n, () if scalar else (3, 4)).astype(which)
    want = np.choose(index.astype(int), cases)
    assert_same(lax.select_n(index, *cases), want)
    dims = (None if scalar else 1, *[1] * n)
    assert_same(jax.vmap(lax.select_n, in_axes=dims, out_axes=1)(index, *cases), want)
    indices = rng.integers(0, n, 3).astype(which)
    mapped = jax.vmap(lax.select_n, in_axes=(0, *[None] * n))(indices, *cases)
    assert_same(mapped, np.stack([cases[int(i)] for i in indices]))
    back = jax.vjp(lambda *c: lax.select_n(index, *c), *cases)[1](np.ones((3, 4), np.float32))
    for i, b in enumerate(back):
        assert_same(b, np.broadcast_to(index.astype(int) == i, (3, 4)).astype(np.float32))


def test_clamp():
    x = np.array([-1.0, 0.5, 2.0, np.nan], np.float32)
    assert_same(lax.clamp(0.0, x, 1.0), np.array([0, 0.5, 1, np.nan], np.float32))
    assert_same(
        jax.vmap(lambda x: lax.clamp(0.0, x, 1.0))(x), np.array([0, 0.5, 1, np.nan], np.float32)
    )
    assert_same(
        jax.vmap(lax.clamp, in_axes=(0, None, None))(x[:2], np.float32(0), np.float32(1)),
        np.array([0, 0.5], np.float32),
    )
    tangents = jax.vjp(lax.clamp, np.float32(0), x[:3], np.float32(1))[1](np.ones(3, np.float32))
    for got, want in zip(tangents, (1, [0, 1, 0], 1), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("float32", "int32"),
        ("float32", "int8"),
        ("uint8", "uint32"),
        ("bfloat16", "uint16"),
        ("int16", "float16"),
        ("float32", "float16"),
    ],
)
def test_bitcast_is_a_view(old, new):
    old, new = map(numpy_dtype, (old, new))
    x = np.arange(16, dtype=np.int32).reshape(4, 4).astype(old)
    got = np.asarray(lax.bitcast_convert_type(x, new))
    assert got.shape == (
        (4, 4, old.itemsize // new.itemsize)
        if new.itemsize < old.itemsize
        else (4,)
        if new.itemsize > old.itemsize
        else (4, 4)
    )
    assert got.tobytes() == x.tobytes()
    assert (
        np.asarray(jax.vmap(lambda v: lax.bitcast_convert_type(v, new))(x)).tobytes() == x.tobytes()
    )


def test_convert_element_type():
    x = np.array([-2.7, 0.0, 2.7], np.float32)
    assert_same(lax.convert_element_type(x, "int32"), np.array([-2, 0, 2], np.int32))
    assert_same(lax.convert_element_type(x, bool), np.array([True, False, True]))
    assert not typeof(lax.convert_element_type(1, float)).weak_type
    with pytest.warns(np.exceptions.ComplexWarning):
        assert_same(lax.convert_element_type(x + 1j, "float32"), x)
    assert_same(
        jax.grad(lambda v: lax.convert_element_type(v, "float16"))(np.float32(1)), np.float32(1)
    )


def test_reduce_precision_copy_and_stop_gradient():
    x = np.array([1.01, 300.7], np.float32)
    assert_same(lax.reduce_precision(x, 8, 7), x.astype(numpy_dtype("bfloat16")).astype(np.float32))
    assert_same(lax.copy_p.call(x)[0], x)
    tree = lax.stop_gradient({"a": x, "n": np.int32(3)})
    assert_same(tree["a"], x)
    assert float(jax.grad(lambda v: lax.mul(lax.stop_gradient(v), v))(np.float32(3))) == 3.0


def test_accuracy():
    x = np.linspace(0.1, 1, 4, dtype=np.float32)
    for accuracy in (
        lax.AccuracyMode.HIGHEST,
        lax.AccuracyMode.DEFAULT,
        lax.Tolerance(1e-6, 1e-6, 2),
    ):
        for f in (
            lax.exp,
            lax.log,
            lax.sin,
            lax.cos,
            lax.tan,
            lax.tanh,
            lax.rsqrt,
            lax.sqrt,
            lax.cbrt,
            lax.exp2,
            lax.expm1,
            lax.log1p,
            lax.logistic,
        ):
            np.testing.assert_allclose(f(x, accuracy=accuracy), f(x), rtol=1e-6)
    with pytest.raises(ValueError, match=r"non-negative"):
        lax.Tolerance(-1.0)
    with pytest.raises(ValueError, match=r"At least one"):
        lax.Tolerance()
    with pytest.raises(TypeError, match=r"AccuracyMode"):
        lax.exp(x, accuracy="best")


F3, F4, I3, B3 = (
    np.ones(3, np.float32),
    np.ones(4, np.float32),
    np.ones(3, np.int32),
    np.ones(3, bool),
)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: lax.add(F3, F4),
            TypeError,
            r"add got incompatible shapes for broadcasting: \(3,\), \(4,\)",
        ),
        (
            lambda: lax.add(F3, I3),
            TypeError,
            r"lax.add requires arguments to have the same dtypes, got float32, int32",
        ),
        (
            lambda: lax.add(F3, 1),
            TypeError,
            r"lax.add requires arguments to have the same dtypes.*jnp.add",
        ),
        (lambda: lax.sin([1.0]), TypeError, r"argument to sin .*list.* at position 0"),
        (lambda: lax.add(F3, None), TypeError, r"argument to add .*NoneType.* at position 1"),
        (lambda: lax.add(B3, B3), TypeError, r"add does not accept dtype bool at position 0"),
        (
            lambda: lax.exp(I3),
            TypeError,
            r"exp does not accept dtype int32. Accepted dtypes are subtypes of floating",
        ),
        (
            lambda: lax.integer_pow(I3, -1),
            TypeError,
            r"Integers cannot be raised to negative powers",
        ),
        (lambda: lax.pow(I3, I3), TypeError, r"pow does not accept dtype int32 at position 0"),
        (lambda: lax.pow(F3, F3.astype(np.float16)), TypeError, r"two inexact dtypes must match"),
        (lambda: lax.round(F3, 7), ValueError, r"RoundingMethod"),
        (lambda: lax.select(B3, F3, F4), TypeError, r"select cases must have the same shapes"),
        (
            lambda: lax.select(B3, F3, I3),
            TypeError,
            r"lax.select requires arguments to have the same dtypes",
        ),
        (lambda: lax.select(B3[:2], F3, F3), TypeError, r"\(2,\).*\(3,\)"),
        (lambda: lax.select_n(F3, F3), TypeError, r"must be boolean or integer"),
        (lambda: lax.select_n(B3, F3, F3, F3), TypeError, r"cannot have > 2 cases"),
        (lambda: lax.clamp(F3, F4, F4), TypeError, r"clamp"),
        (lambda: lax.clamp(F3, np.float32(1), np.float32(2)), TypeError, r"min.shape"),
        (lambda: lax.bitcast_convert_type(B3, "int8"), TypeError, r"bool or complex"),
        (
            lambda: lax.bitcast_convert_type(np.ones(3, np.int8), "int32"),
            ValueError,
            r"3 \* 8 != 32",
        ),
        (lambda: lax.reduce_precision(F3, 0, 3), ValueError, r"exponent_bits must be positive"),
        (
            lambda: lax.reduce_precision(F3, 3, -1),
            ValueError,
            r"mantissa_bits must be non-negative",
        ),
        (lambda: lax.convert_element_type(F3, None), ValueError, r"dtype must be specified"),
        (
            lambda: jax.grad(lambda m: lax.polygamma(m, np.float32(2)))(np.float32(1)),
            ValueError,
            r"polygamma gradient",
        ),
        (
            lambda: jax.grad(lambda a: lax.betainc(a, np.float32(2), np.float32(0.5)))(
                np.float32(1)
            ),
            ValueError,
            r"Betainc",
        ),
    ],
)
def test_errors(call, kind, message):
    with pytest.raises(kind, match="(?s)" + message):
        call()


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [(((2, 3), (1, 3)), (2, 3)), (((2, 1), (1, 3)), (2, 3)), (((0, 2), (1, 1)), (0, 2))],
)
def test_axes_of_size_1_go_with_any_size(shapes, expected):
    x, y = (np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape) for shape in shapes)
    for op, reference in ((lax.sub, np.subtract), (lax.pow, np.power), (lax.lt, np.less)):
        assert op(x, y).shape == expected
        assert (np.asarray(op(x, y)) == reference(x, y)).all()
    assert lax.betainc(x, y, np.full_like(x, 0.5)).shape == expected
    assert jax.grad(lambda y: lax.mul(x, y).sum())(y).shape == y.shape
    with pytest.raises(TypeError, match="same number of dimensions|incompatible shapes"):
        lax.add(x, y[0])


def test_integers_of_any_width_choose():
    cases = [np.float32([i, i]) for i in (0, 10, 20)]
    for dtype in ("int8", "uint8", "int16", "uint32", "int32"):
        assert lax.select_n(np.array([2, 1]).astype(dtype), *cases).tolist() == [20, 10]
    with pytest.raises(TypeError, match="boolean or integer"):
        lax.select_n(np.float32([0, 1]), *cases)


def test_clamp_of_booleans():
    with config.disable_most_optimizations(True):
        assert lax.clamp(False, np.array([True, False]), True).tolist() == [True, False]


@pytest.mark.parametrize("f", [lax.exp2, lax.log1p, lax.logistic, lax.exp])
def test_accuracy_is_checked(f):
    with pytest.raises(TypeError, match="accuracy must be"):
        f(np.float32(1), accuracy="HIGHEST")


@pytest.mark.parametrize(
    "f",
    [
        lax.exp,
        lax.exp2,
        lax.expm1,
        lax.log,
        lax.log1p,
        lax.logistic,
        lax.sqrt,
        lax.rsqrt,
        lax.cbrt,
        lax.sin,
        lax.cos,
        lax.tan,
        lax.tanh,
    ],
)
def test_derivative_of_given_accuracy(f):
    x = np.float32(0.7)
    asked = jax.grad(lambda x: f(x, accuracy=lax.AccuracyMode.HIGHEST))
    assert np.isclose(asked(x), jax.grad(f)(x), rtol=1e-6)
    assert np.isclose(jax.vmap(jax.jit(asked))(x[None])[0], asked(x), rtol=1e-6)
