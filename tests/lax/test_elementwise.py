"""Laws of the elementwise operations, for every row of their tables; edges; errors."""

import lax.samples_elementwise as samples
import mpmath
import numpy as np
import pytest
from lax.samples_elementwise import DTYPES, PUBLIC, REFERENCES, operands

import teucer as jax
from teucer import lax
from teucer._base import config, dtypes
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray
from teucer.lax._families import ELEMENTWISE

ROWS = sorted(ELEMENTWISE)
PARAMS = {"integer_pow": {"y": 3}, "round": {"rounding_method": 0}}


def params_of(op, x):
    return {"input_dtype": np.dtype(x.dtype)} if op.name == "conj" else PARAMS.get(op.name, {})


def bind(name):
    op = ELEMENTWISE[name]
    return op, lambda *xs: op.call(*xs, **params_of(op, xs[0]))[0]


def rng_of(*names):
    return np.random.default_rng([*"/".join(names).encode()])


def ulps(got, want, dtype):
    """The greatest error in units in the last place of `dtype`, of values whose reference is more precise."""
    info = dtypes.finfo(dtype)
    wide = np.complex128 if np.iscomplexobj(want) else np.float64
    got, want = np.asarray(got).astype(wide), np.asarray(want, wide)
    size = np.maximum(np.abs(want), float(info.tiny))
    return np.max(np.abs(got - want) / (2.0 ** np.floor(np.log2(size)) * float(info.eps)), initial=0)


def assert_same(got, want, tolerance=1e-5):
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
    else:
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance)


CASES = [(name, dtype) for name in ROWS for dtype in DTYPES[name]]


@pytest.mark.parametrize(("name", "dtype"), [case for case in CASES if REFERENCES.get(PUBLIC.get(case[0], case[0]))])
def test_value_is_the_reference(name, dtype):
    op, f = bind(name)
    reference = REFERENCES[PUBLIC.get(name, name)]
    xs = operands(op, rng_of(name, dtype), dtype)
    got = np.asarray(f(*xs))
    if got.dtype.kind in "biu":
        with np.errstate(all="ignore"):
            want = reference(*(x.astype(np.float32) if x.dtype.kind == "V" else x for x in xs))
        if name == "div":
            want = np.trunc(xs[0] / xs[1])
        np.testing.assert_array_equal(got, want.astype(got.dtype))
        return
    wide = np.complex128 if xs[0].dtype.kind == "c" else np.float64
    bound = max(op.tested.ulp, 16 if wide is np.complex128 else 1)
    error = ulps(got, reference(*(x.astype(wide) for x in xs)), dtype)
    assert error <= bound


MP = {name: getattr(mpmath, name) for name in (
    "exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
    "acosh", "atanh", "erf", "erfc", "digamma", "zeta", "atan2")}
MP |= {"erf_inv": mpmath.erfinv, "lgamma": mpmath.loggamma, "exp2": lambda x: mpmath.mpf(2) ** x,
       "logistic": lambda x: 1 / (1 + mpmath.exp(-x)),
       "rsqrt": lambda x: 1 / mpmath.sqrt(x), "polygamma": lambda m, x: mpmath.psi(int(m), x),
       "bessel_i0e": lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)),
       "bessel_i1e": lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)),
       "igamma": lambda a, x: mpmath.gammainc(a, 0, x, regularized=True),
       "igammac": lambda a, x: mpmath.gammainc(a, x, regularized=True),
       "igamma_grad_a": lambda a, x: mpmath.diff(lambda a: mpmath.gammainc(a, 0, x, regularized=True), a),
       "random_gamma_grad": lambda a, x: -mpmath.diff(lambda a: mpmath.gammainc(a, 0, x, regularized=True), a) / (
           x ** (a - 1) * mpmath.exp(-x) / mpmath.gamma(a)),
       "regularized_incomplete_beta": lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(MP))
def test_value_is_within_the_ulps_of_the_row(name, dtype):
    with jax.enable_x64(True), mpmath.workprec(140):
        op, f = bind(name)
        xs = operands(op, rng_of(name), dtype, (25,))
        got = np.asarray(f(*xs))
        want = [MP[name](*(mpmath.mpf(float(x)) for x in row)) for row in zip(*xs, strict=True)]
        eps = float(np.finfo(dtype).eps)
        error = max(abs(mpmath.mpf(float(g)) - w) / (abs(w) * eps) for g, w in zip(got, want, strict=True))
    assert error <= max(op.tested.ulp, 1), float(error)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_types_are_those_of_the_values(name, dtype):
    op, f = bind(name)
    xs = operands(op, rng_of(name), dtype, (2, 3))
    staged = stage_jaxpr(lambda *ys: (f(*ys),), [typeof(x) for x in xs])
    out = f(*xs)
    assert staged.out_avals[0] is typeof(out)
    weak = [ShapedArray((), x.dtype, True) for x in xs]
    (aval,) = stage_jaxpr(lambda *ys: (f(*ys),), weak).out_avals
    assert aval.weak_type
    (mixed,) = stage_jaxpr(lambda *ys: (f(*ys),), [typeof(xs[0]), *weak[1:]]).out_avals
    assert mixed.shape == (2, 3)
    assert not mixed.weak_type


@pytest.mark.parametrize("name", ROWS)
def test_vmap_is_a_loop(name):
    op, f = bind(name)
    xs = operands(op, rng_of(name), DTYPES[name][0], (2, 3))
    want = np.stack([f(*(x[:, i] for x in xs)) for i in range(3)], 1)
    assert_same(jax.vmap(f, in_axes=1, out_axes=1)(*xs), want)
    if len(xs) > 1:
        want = np.stack([f(xs[0][i], *(x[1] for x in xs[1:])) for i in range(2)])
        assert_same(jax.vmap(f, in_axes=(0, *[None] * (len(xs) - 1)))(xs[0], *(x[1] for x in xs[1:])), want)
        # A scalar that is mapped, beside an array that is not, and beside one that is.
        want = np.stack([f(xs[0][0, i], *xs[1:]) for i in range(3)])
        assert_same(jax.vmap(f, in_axes=(0, *[None] * (len(xs) - 1)))(xs[0][0], *xs[1:]), want)
        want = np.stack([f(xs[0][0, i], *(x[:, i] for x in xs[1:])) for i in range(3)])
        assert_same(jax.vmap(f, in_axes=(0, *[1] * (len(xs) - 1)))(xs[0][0], *xs[1:]), want)


NOT_IN = {"polygamma": (0,), "zeta": (0,), "regularized_incomplete_beta": (0, 1)}
# The derivative of a complex sign is zero by convention, JAX's, though the sign turns with its operand.
DIFFERENTIABLE = [(name, dtype) for name in ROWS for dtype in ("float64", "complex128")
                  if ELEMENTWISE[name].tangents is not None and np.dtype(dtype) in ELEMENTWISE[name].accepts
                  and ELEMENTWISE[name].result is None and (name, dtype) != ("sign", "complex128")]


@pytest.mark.parametrize(("name", "dtype"), DIFFERENTIABLE)
def test_tangent_is_the_limit_of_differences(name, dtype):
    with jax.enable_x64(True):
        op, f = bind(name)
        rng = rng_of(name)
        xs = operands(op, rng, dtype, (9,))
        ts = [np.zeros(9, dtype) if i in NOT_IN.get(name, ()) else operands(op, rng, dtype, (9,))[-1] / 4
              for i, x in enumerate(xs)]
        free = [i for i in range(len(xs)) if i not in NOT_IN.get(name, ())]

        def g(*part):
            full = list(xs)
            for i, x in zip(free, part, strict=True):
                full[i] = x
            return f(*full)

        primals, tangents = tuple(xs[i] for i in free), tuple(ts[i] for i in free)
        y, dy = jax.jvp(g, primals, tangents)
        h = 1e-6
        above, below = (np.asarray(g(*(x + s * t for x, t in zip(primals, tangents, strict=True)))) for s in (h, -h))
        scale = 1 + np.abs(y) + np.abs(dy)
        assert np.max(np.abs(np.asarray(dy) - (above - below) / (2 * h)) / scale) < 1e-6
        # Reverse mode is the transpose of forward mode.
        ct = rng.normal(size=9).astype(dtype)
        back = jax.vjp(g, *primals)[1](ct)
        pulled = sum(np.sum(np.asarray(b) * t) for b, t in zip(back, tangents, strict=True))
        np.testing.assert_allclose(np.sum(ct * np.asarray(dy)), pulled, rtol=1e-9)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "max", "pow", "atan2"])
def test_cotangent_of_a_scalar_is_summed(name):
    f = getattr(lax, name)
    x, s = np.array([1.5, 2.0, 3.0], np.float32), np.float32(1.25)
    gx, gs = jax.vjp(f, x, s)[1](np.ones(3, np.float32))
    want = [jax.grad(f, (0, 1))(v, s) for v in x]
    np.testing.assert_allclose(gx, [w[0] for w in want], rtol=1e-6)
    np.testing.assert_allclose(gs, sum(np.asarray(w[1]) for w in want), rtol=1e-6)


@pytest.mark.parametrize(("f", "x", "want"), [
    (lax.abs, 0.0, 1.0), (lax.sqrt, 0.0, np.inf), (lax.sign, 3.0, 0.0),
    (lambda x: lax.max(x, np.float32(2.0)), 2.0, 0.5), (lambda x: lax.min(x, np.float32(2.0)), 2.0, 0.5),
    (lambda x: lax.pow(x, 2), 0.0, 0.0), (lambda x: lax.pow(x, 0), 0.0, 0.0), (lambda x: lax.pow(x, 2.0), 0.0, 0.0),
    (lambda y: lax.pow(np.float32(0.0), y), 2.0, 0.0), (lambda x: lax.integer_pow(x, 0), 0.0, 0.0),
    (lambda x: lax.clamp(np.float32(0), x, np.float32(1)), 0.0, 0.0), (lax.stop_gradient, 2.0, 0.0),
    (lax.bessel_i1e, 0.0, 0.5), (lambda x: lax.select(np.True_, x, x), 0.0, 1.0),
], ids=lambda v: "" if callable(v) else None)
def test_derivative_at_edges(f, x, want):
    assert float(jax.grad(f)(np.float32(x))) == want


@pytest.mark.parametrize(("name", "args", "want"), [
    ("div", (np.int32(5), np.int32(0)), -1), ("div", (np.uint8(5), np.uint8(0)), 255),
    ("div", (np.int32(-7), np.int32(2)), -3), ("rem", (np.int32(-7), np.int32(2)), -1),
    ("rem", (np.int32(5), np.int32(0)), 5), ("rem", (np.float32(-7), np.float32(2)), -1.0),
    ("sign", (np.uint8(7),), 1), ("clz", (np.int8(1),), 7), ("mulhi", (np.int32(2**30), np.int32(8)), 2),
    ("shift_left", (np.int32(1), np.int32(40)), 0), ("shift_right_logical", (np.int8(-1), np.int8(4)), 15),
    ("max", (np.complex64(1 + 2j), np.complex64(1 + 3j)), 1 + 3j), ("exp2", (np.float32(10),), 1024.0),
    ("exp2", (np.float32(-np.inf),), 0.0), ("exp2", (np.float32(128),), np.inf),
    ("igamma", (np.float32(2), np.float32(np.inf)), 1.0), ("igammac", (np.float32(2), np.float32(0)), 1.0),
    ("betainc", (np.float32(2), np.float32(3), np.float32(1)), 1.0), ("lgamma", (np.float32(-1),), np.inf),
    ("nextafter", (np.float32(0), np.float32(1)), 1e-45), ("bessel_i0e", (np.float32(np.inf),), 0.0),
    ("reciprocal", (np.float32(4),), 0.25), ("is_finite", (np.float32(np.nan),), False),
])
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
    """Near the zeros of lgamma and digamma, and where igammac is small: there the plain formulas cancel."""
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
    reference = REFERENCES[f.__name__]
    np.testing.assert_allclose(f(np.float32(a), x), reference(a, x.astype(np.float64)), rtol=3e-5)


def test_round():
    x = np.array([-2.5, -0.5, 0.5, 1.5, 2.4], np.float32)
    np.testing.assert_array_equal(lax.round(x), [-3, -1, 1, 2, 2])
    np.testing.assert_array_equal(lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), [-2, 0, 0, 2, 2])


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
    assert_same(jax.vmap(lambda x: lax.clamp(0.0, x, 1.0))(x), np.array([0, 0.5, 1, np.nan], np.float32))
    assert_same(jax.vmap(lax.clamp, in_axes=(0, None, None))(x[:2], np.float32(0), np.float32(1)),
                np.array([0, 0.5], np.float32))
    tangents = jax.vjp(lax.clamp, np.float32(0), x[:3], np.float32(1))[1](
        np.ones(3, np.float32))
    for got, want in zip(tangents, (1, [0, 1, 0], 1), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("old", "new"), [("float32", "int32"), ("float32", "int8"), ("uint8", "uint32"),
                                          ("bfloat16", "uint16"), ("int16", "float16"), ("float32", "float16")])
def test_bitcast_is_a_view(old, new):
    old, new = (samples.BFLOAT16 if d == "bfloat16" else np.dtype(d) for d in (old, new))
    x = np.arange(16, dtype=np.int32).reshape(4, 4).astype(old)
    got = np.asarray(lax.bitcast_convert_type(x, new))
    assert got.shape == ((4, 4, old.itemsize // new.itemsize) if new.itemsize < old.itemsize else
                         (4,) if new.itemsize > old.itemsize else (4, 4))
    assert got.tobytes() == x.tobytes()
    assert np.asarray(jax.vmap(lambda v: lax.bitcast_convert_type(v, new))(x)).tobytes() == x.tobytes()


def test_convert_element_type():
    x = np.array([-2.7, 0.0, 2.7], np.float32)
    assert_same(lax.convert_element_type(x, "int32"), np.array([-2, 0, 2], np.int32))
    assert_same(lax.convert_element_type(x, bool), np.array([True, False, True]))
    assert not typeof(lax.convert_element_type(1, float)).weak_type
    with pytest.warns(np.exceptions.ComplexWarning):
        assert_same(lax.convert_element_type(x + 1j, "float32"), x)
    assert_same(jax.grad(lambda v: lax.convert_element_type(v, "float16"))(np.float32(1)), np.float32(1))


def test_reduce_precision_copy_and_stop_gradient():
    x = np.array([1.01, 300.7], np.float32)
    assert_same(lax.reduce_precision(x, 8, 7), x.astype(samples.BFLOAT16).astype(np.float32))
    assert_same(lax.copy_p.call(x)[0], x)
    tree = lax.stop_gradient({"a": x, "n": np.int32(3)})
    assert_same(tree["a"], x)
    assert float(jax.grad(lambda v: lax.mul(lax.stop_gradient(v), v))(np.float32(3))) == 3.0


def test_accuracy():
    x = np.linspace(0.1, 1, 4, dtype=np.float32)
    for accuracy in (lax.AccuracyMode.HIGHEST, lax.AccuracyMode.DEFAULT, lax.Tolerance(1e-6, 1e-6, 2)):
        for f in (lax.exp, lax.log, lax.sin, lax.cos, lax.tan, lax.tanh, lax.rsqrt, lax.sqrt, lax.cbrt, lax.exp2,
                  lax.expm1, lax.log1p, lax.logistic):
            np.testing.assert_allclose(f(x, accuracy=accuracy), f(x), rtol=1e-6)
    with pytest.raises(ValueError, match=r"non-negative"):
        lax.Tolerance(-1.0)
    with pytest.raises(ValueError, match=r"At least one"):
        lax.Tolerance()
    with pytest.raises(TypeError, match=r"AccuracyMode"):
        lax.exp(x, accuracy="best")


F3, F4, I3, B3 = np.ones(3, np.float32), np.ones(4, np.float32), np.ones(3, np.int32), np.ones(3, bool)


@pytest.mark.parametrize(("call", "kind", "message"), [
    (lambda: lax.add(F3, F4), TypeError, r"add got incompatible shapes for broadcasting: \(3,\), \(4,\)"),
    (lambda: lax.add(F3, I3), TypeError, r"lax.add requires arguments to have the same dtypes, got float32, int32"),
    (lambda: lax.add(F3, 1), TypeError, r"lax.add requires arguments to have the same dtypes.*jnp.add"),
    (lambda: lax.sin([1.0]), TypeError, r"argument to sin .*list.* at position 0"),
    (lambda: lax.add(F3, None), TypeError, r"argument to add .*NoneType.* at position 1"),
    (lambda: lax.add(B3, B3), TypeError, r"add does not accept dtype bool at position 0"),
    (lambda: lax.exp(I3), TypeError, r"exp does not accept dtype int32. Accepted dtypes are subtypes of floating"),
    (lambda: lax.integer_pow(I3, -1), TypeError, r"Integers cannot be raised to negative powers"),
    (lambda: lax.pow(I3, I3), TypeError, r"pow does not accept dtype int32 at position 0"),
    (lambda: lax.pow(F3, F3.astype(np.float16)), TypeError, r"two inexact dtypes must match"),
    (lambda: lax.round(F3, 7), ValueError, r"RoundingMethod"),
    (lambda: lax.select(B3, F3, F4), TypeError, r"select cases must have the same shapes"),
    (lambda: lax.select(B3, F3, I3), TypeError, r"lax.select requires arguments to have the same dtypes"),
    (lambda: lax.select(B3[:2], F3, F3), TypeError, r"\(2,\).*\(3,\)"),
    (lambda: lax.select_n(F3, F3), TypeError, r"must be boolean or integer"),
    (lambda: lax.select_n(B3, F3, F3, F3), TypeError, r"cannot have > 2 cases"),
    (lambda: lax.clamp(F3, F4, F4), TypeError, r"clamp"),
    (lambda: lax.clamp(F3, np.float32(1), np.float32(2)), TypeError, r"min.shape"),
    (lambda: lax.bitcast_convert_type(B3, "int8"), TypeError, r"bool or complex"),
    (lambda: lax.bitcast_convert_type(np.ones(3, np.int8), "int32"), ValueError, r"3 \* 8 != 32"),
    (lambda: lax.reduce_precision(F3, 0, 3), ValueError, r"exponent_bits must be positive"),
    (lambda: lax.reduce_precision(F3, 3, -1), ValueError, r"mantissa_bits must be non-negative"),
    (lambda: lax.convert_element_type(F3, None), ValueError, r"dtype must be specified"),
    (lambda: jax.grad(lambda m: lax.polygamma(m, np.float32(2)))(np.float32(1)), ValueError, r"polygamma gradient"),
    (lambda: jax.grad(lambda a: lax.betainc(a, np.float32(2), np.float32(0.5)))(np.float32(1)), ValueError, r"Betainc"),
    (lambda: jax.grad(lambda a: lax.nextafter(a, np.float32(2)))(np.float32(1)), NotImplementedError, r"nextafter"),
])
def test_errors(call, kind, message):
    with pytest.raises(kind, match="(?s)" + message):
        call()


@pytest.mark.parametrize("name", ROWS)
def test_empty_and_scalar(name):
    op, f = bind(name)
    for shape in ((0, 3), ()):
        xs = [np.asarray(x) for x in operands(op, rng_of(name), DTYPES[name][0], shape)]
        assert np.asarray(f(*xs)).shape == shape


@pytest.mark.parametrize(("shapes", "expected"), [(((2, 3), (1, 3)), (2, 3)), (((2, 1), (1, 3)), (2, 3)),
                                                  (((0, 2), (1, 1)), (0, 2))])
def test_axes_of_size_1_go_with_any_size(shapes, expected):
    x, y = (np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape) for shape in shapes)
    for op, reference in ((lax.sub, np.subtract), (lax.pow, np.power), (lax.lt, np.less)):
        assert op(x, y).shape == expected
        assert (np.asarray(op(x, y)) == reference(x, y)).all()
    assert lax.betainc(x, y, np.full_like(x, 0.5)).shape == expected
    assert jax.grad(lambda y: lax.mul(x, y).sum())(y).shape == y.shape
    with pytest.raises(TypeError, match="incompatible shapes for broadcasting"):
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


@pytest.mark.parametrize("f", [lax.exp, lax.exp2, lax.expm1, lax.log, lax.log1p, lax.logistic, lax.sqrt, lax.rsqrt, lax.cbrt,
                               lax.sin, lax.cos, lax.tan, lax.tanh])
def test_derivative_of_given_accuracy(f):
    x = np.float32(0.7)
    asked = jax.grad(lambda x: f(x, accuracy=lax.AccuracyMode.HIGHEST))
    assert np.isclose(asked(x), jax.grad(f)(x), rtol=1e-6)
    assert np.isclose(jax.vmap(jax.jit(asked))(x[None])[0], asked(x), rtol=1e-6)
