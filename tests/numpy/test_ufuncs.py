"""Laws of elementwise functions: values against NumPy, jit, vmap, derivatives, dtypes, errors."""

import pickle

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.scipy import special

F, I, B, C = (
    np.array([0.5, -1.5, 2.0, 3.25], "float32"),
    np.array([4, -5, 6, 1], "int32"),
    np.array([True, False, True, False]),
    np.array([0.5 + 1j, -1.5, 2 - 2j, 1j], "complex64"),
)
P = np.array([0.5, 0.25, 0.75, 0.9], "float32")
UNARY = {
    "abs": (F, I, C),
    "acos": (P,),
    "acosh": (P + 1,),
    "angle": (C, F),
    "asin": (P, C),
    "asinh": (F, C),
    "atan": (F,),
    "atanh": (P,),
    "bitwise_count": (I,),
    "bitwise_not": (I, B),
    "cbrt": (F, I),
    "ceil": (F, I),
    "conj": (C, F),
    "cos": (F, I, C),
    "cosh": (F, C),
    "deg2rad": (F,),
    "exp": (F, C),
    "exp2": (F,),
    "expm1": (F,),
    "fabs": (F,),
    "floor": (F, I),
    "frexp": (F,),
    "i0": (F,),
    "imag": (C, F),
    "isfinite": (F, I, C),
    "isinf": (F, C),
    "isnan": (F, I, C),
    "isneginf": (F,),
    "isposinf": (F,),
    "log": (P, C),
    "log10": (P, C),
    "log1p": (P,),
    "log2": (P,),
    "logical_not": (F, I, B),
    "modf": (F,),
    "nan_to_num": (F, C),
    "negative": (F, I, C),
    "positive": (F, I),
    "rad2deg": (F,),
    "real": (C, F),
    "reciprocal": (F, C),
    "rint": (F,),
    "round": (F, C),
    "sign": (F, I),
    "signbit": (F, I),
    "sin": (F, I, C),
    "sinc": (F,),
    "sinh": (F, C),
    "spacing": (P,),
    "sqrt": (P, C),
    "square": (F, I, C),
    "tan": (F,),
    "tanh": (F, C),
    "trunc": (F, I),
}
BINARY = {
    "add": (F, I, C),
    "atan2": (F,),
    "bitwise_and": (I, B),
    "bitwise_or": (I, B),
    "bitwise_xor": (I, B),
    "copysign": (F,),
    "divide": (F, I, C),
    "divmod": (F, I),
    "equal": (F, I, C, B),
    "float_power": (P,),
    "floor_divide": (F, I),
    "fmax": (F, I),
    "fmin": (F, I),
    "fmod": (F, I),
    "gcd": (I,),
    "greater": (F, I, C),
    "greater_equal": (F, I, C),
    "heaviside": (F,),
    "hypot": (F,),
    "lcm": (I,),
    "less": (F, I, C),
    "less_equal": (F, I, C),
    "logaddexp": (F,),
    "logaddexp2": (F,),
    "logical_and": (F, B),
    "logical_or": (F, B),
    "logical_xor": (F, B),
    "maximum": (F, I),
    "minimum": (F, I),
    "multiply": (F, I, C),
    "nextafter": (F,),
    "not_equal": (F, I, C),
    "power": (P,),
    "remainder": (F, I),
    "subtract": (F, I, C),
    "isclose": (F,),
}
CASES = [(n, (x,)) for n, xs in UNARY.items() for x in xs] + [
    (n, (x, x[::-1].copy())) for n, xs in BINARY.items() for x in xs
]
SMOOTH = [
    "sin",
    "cos",
    "tan",
    "exp",
    "expm1",
    "tanh",
    "sinh",
    "square",
    "asinh",
    "atan",
    "sinc",
    "deg2rad",
    "reciprocal",
    "cbrt",
    "log",
    "sqrt",
    "log2",
    "log10",
    "abs",
]
SMOOTH2 = [
    "add",
    "multiply",
    "divide",
    "atan2",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "maximum",
    "power",
    "remainder",
    "float_power",
]


def _ids(case):
    return f"{case[0]}-{case[1][0].dtype}"


def _close(got, want, tol=3e-6):
    gots, wants = (got, want) if isinstance(want, tuple) else ((got,), (want,))
    for g, w in zip(gots, wants, strict=True):
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=tol, atol=tol)


@pytest.mark.parametrize("case", CASES, ids=_ids)
def test_value_is_numpys(case):
    name, xs = case
    with np.errstate(all="ignore"):
        want = getattr(np, name)(*xs)
    _close(getattr(jnp, name)(*xs), want)


@pytest.mark.parametrize("case", CASES, ids=_ids)
def test_jit_and_vmap_agree(case):
    name, xs = case
    f = getattr(jnp, name)
    want = f(*xs)
    _close(jax.jit(lambda *v: f(*v))(*xs), want)
    _close(jax.vmap(lambda *v: f(*v))(*xs), want)


@pytest.mark.parametrize("name", SMOOTH + SMOOTH2)
def test_gradient_is_the_difference_quotient(name):
    xs = (P + 0.3,) if name in SMOOTH else (P + 0.3, P[::-1].copy() + 1.1)
    f = getattr(jnp, name)
    for i in range(len(xs)):
        got = jax.grad(lambda *v: f(*v).sum(), argnums=i)(*xs)
        h = np.float64(1e-3)
        up, down = (
            [v.astype(np.float64) + h * s * (k == i) for k, v in enumerate(xs)] for s in (1, -1)
        )
        g = getattr(np, name)
        _close(got, (g(*up) - g(*down)) / (2 * h), 2e-3)


@pytest.mark.parametrize(
    "text",
    [
        "x + 1",
        "1 - x",
        "x * 2.5",
        "2 / x",
        "x // 2",
        "x % 3",
        "divmod(x, 2)",
        "x ** 2",
        "2.0 ** x",
        "-x",
        "+x",
        "abs(x)",
        "x < 2",
        "x == x",
        "3 >= x",
        "x != 1",
        "x @ x",
        "round(x)",
    ],
)
@pytest.mark.parametrize("kind", ["float32", "int32"])
def test_operators_agree_with_numpy_eagerly_and_traced(text, kind):
    x = np.array([1, 2, 3], kind)
    want = np.rint(x) if text == "round(x)" else eval(text, {"x": x})
    _close(eval(text, {"x": jnp.asarray(x)}), want)
    _close(jax.jit(lambda v: eval(text, {"x": v}))(x), want)


def test_dtypes_and_weak_types_of_operators():
    f, i, b, h = jnp.ones(2), jnp.arange(2), jnp.array([True, False]), jnp.ones(2, "bfloat16")
    rows = [
        (f + 1, "float32", False),
        (i + 1, "int32", False),
        (i + 1.0, "float32", True),
        (b + 1, "int32", True),
        (h * 2.0, "bfloat16", False),
        (i / 2, "float32", False),
        (f < 1, "bool", False),
        (jnp.add(1, 2), "int32", True),
        (i**2, "int32", False),
        (b + b, "bool", False),
        (h + f, "float32", False),
        (f * 1j, "complex64", False),
    ]
    for out, dtype, weak in rows:
        assert (out.dtype, out.weak_type) == (
            np.dtype(dtype) if dtype != "bfloat16" else h.dtype,
            weak,
        )


def test_unknown_operands_have_their_turn():
    class Other:
        def __radd__(self, x):
            return "mine"

    assert jnp.ones(2) + Other() == "mine"
    assert (jnp.ones(2) == "a") is False
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+"):
        jnp.ones(2) + [1, 2]
    with pytest.raises(TypeError, match="unsupported operand"):
        jnp.ones(2) + None


@pytest.mark.parametrize(
    "call, error, match",
    [
        (
            lambda: jnp.sin([1]),
            TypeError,
            "sin requires ndarray or scalar arguments, got <class 'list'> at position 0",
        ),
        (
            lambda: jnp.add(jnp.ones((3, 2)), jnp.ones(3)),
            ValueError,
            r"broadcasting: shapes=\[\(3, 2\), \(3,\)\]",
        ),
        (
            lambda: jnp.add(jnp.ones(2), jnp.ones(3)),
            TypeError,
            r"add got incompatible shapes for broadcasting: \(2,\), \(3,\)",
        ),
        (lambda: -jnp.array([True]), TypeError, "neg does not accept dtype bool"),
        (lambda: jnp.arange(3) ** -1, TypeError, "Integers cannot be raised to negative powers"),
        (lambda: jnp.gcd(1.5, 2), ValueError, "must be integers"),
        (lambda: jnp.clip(1j, 0, 1), ValueError, "Clip received a complex value"),
        (
            lambda: jnp.where(jnp.ones(3) > 1, jnp.ones(2), 0),
            ValueError,
            "Incompatible shapes for broadcasting",
        ),
        (lambda: jnp.add(1, 2, out=3), NotImplementedError, "out argument"),
        (
            lambda: jnp.subtract.reduce(jnp.ones(2), where=True),
            ValueError,
            "does not have an identity",
        ),
        (lambda: jnp.add.at(jnp.ones(2), 0, 1), NotImplementedError, "inplace=False"),
    ],
)
def test_errors(call, error, match):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "multiply",
        "maximum",
        "minimum",
        "logical_and",
        "logical_or",
        "bitwise_or",
        "subtract",
    ],
)
def test_ufunc_methods(name):
    x = np.array([[3, 1, 2], [5, 4, 6]], "int32")
    ours, theirs = getattr(jnp, name), getattr(np, name)
    _close(ours.reduce(x), theirs.reduce(x))
    _close(ours.outer(x[0], x[1]), theirs.outer(x[0], x[1]))
    _close(ours.accumulate(x, axis=1), theirs.accumulate(x, axis=1))
    expected = x.copy()
    theirs.at(expected, (0, [1, 1]), 2)
    _close(ours.at(x, (0, jnp.array([1, 1])), 2, inplace=False), expected)


REDUCED_AT = {
    "float32": "add multiply maximum minimum subtract logaddexp logaddexp2 logical_or logical_and",
    "int32": "add multiply maximum minimum subtract bitwise_and bitwise_or bitwise_xor logical_xor",
}


@pytest.mark.parametrize(
    ("dtype", "name"), [(dtype, name) for dtype in REDUCED_AT for name in REDUCED_AT[dtype].split()]
)
def test_reduceat(dtype, name):
    ours, theirs = getattr(jnp, name).reduceat, getattr(np, name).reduceat
    x = np.array([3, 1, 0, 2, 5, 4, 0, 6], dtype)
    y = np.stack([x, x[::-1], 2 * x])
    for indices in ([0, 4, 1, 5], [3, 1], [7], []):
        places = np.array(indices, np.int32)
        _close(ours(x, places), theirs(x, places))
        _close(ours(y, places, 1), theirs(y, places, 1))
    _close(jax.jit(ours)(x, np.array([0, 0, 7])), theirs(x, [0, 0, 7]))


def test_reduceat_of_functions_of_users():
    f = jnp.frompyfunc(lambda x, y: 2 * x + y, 2, 1)
    x = jnp.arange(1.0, 6.0)
    assert f.reduceat(x, jnp.array([0, 3, 1])).tolist() == [11.0, 4.0, 41.0]
    g = jax.grad(lambda x: f.reduceat(x, jnp.array([0, 3, 1])).sum())(x)
    assert g.tolist() == [4.0, 10.0, 5.0, 3.0, 1.0]


def test_reduceat_out_of_bounds_is_no_number():
    for name in ("add", "subtract"):
        found = getattr(jnp, name).reduceat(np.ones(3, np.float32), np.array([1, 3, -1]))
        assert np.isnan(found).tolist() == [False, True, True]
    with pytest.raises(ValueError, match="indices must have an integer type"):
        jnp.add.reduceat(np.ones(3), np.ones(1))
    with pytest.raises(ValueError, match=r"indices must be one-dimensional, got indices.shape=\("):
        jnp.subtract.reduceat(np.ones(3), np.ones((1, 1), int))
    with pytest.raises(NotImplementedError, match=r"out argument of add.reduceat\(\)"):
        jnp.add.reduceat(np.ones(3), np.ones(1, int), out=np.ones(3))


def test_choice_and_tolerance():
    x = jnp.array([1.0, np.nan, np.inf])
    assert (
        jnp.isclose(x, x).tolist() == [True, False, True]
        and jnp.isclose(x, x, equal_nan=True).all()
    )
    assert bool(jnp.allclose(1.0, 1.0 + 1e-7)) and not bool(jnp.allclose(1.0, 1.1))
    assert (
        bool(jnp.array_equal([1, 2], [1, 2]))
        and not bool(jnp.array_equal([1], [1, 1]))
        and bool(jnp.array_equiv([1, 1], 1))
    )
    assert jnp.where(jnp.array([True, False]), 1, 2.5).tolist() == [1.0, 2.5]
    assert jnp.clip(jnp.arange(4), 1, 2).tolist() == [1, 1, 2, 2]
    assert jnp.where(jnp.array([0, 3]))[0].tolist() == [1]


def test_gradients_at_special_points():
    assert jax.grad(jnp.sinc)(0.0) == 0.0
    assert float(jax.grad(jax.grad(jnp.sinc))(0.0)) == pytest.approx(-(np.pi**2) / 3, rel=1e-5)
    x = np.linspace(0.4, 30.2, 97, dtype=np.float32)
    np.testing.assert_allclose(jnp.sinc(x), np.sinc(x.astype(np.float64)), rtol=5e-7)
    whole = np.array([1, -1, 2, -2, 7, -8, np.inf, -np.inf], np.float32)
    assert not np.signbit(jnp.sinc(whole)).any() and (jnp.sinc(whole) == 0).all()
    # The sine is bounded along a line parallel to the real axis.
    z = np.array([np.inf, -np.inf, np.inf + 1.5j, -np.inf - 2j], np.complex64)
    assert (jnp.sinc(z) == 0).all() and (jax.jit(jnp.sinc)(z) == 0).all()
    slopes = (np.cos(np.pi * x.astype(np.float64)) - np.sinc(x.astype(np.float64))) / x
    np.testing.assert_allclose(jax.vmap(jax.grad(jnp.sinc))(x), slopes, rtol=1e-5, atol=1e-8)
    assert jax.grad(lambda x: jnp.logaddexp(x, -jnp.inf))(1.0) == 1.0
    assert jax.grad(lambda x: x**0)(0.0) == 0.0
    assert jax.grad(lambda x: jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0))(0.0) == 0.0


@pytest.mark.parametrize(
    "name",
    [
        "abs",
        "ceil",
        "conj",
        "floor",
        "imag",
        "iscomplex",
        "isfinite",
        "isinf",
        "isnan",
        "isneginf",
        "isposinf",
        "isreal",
        "nan_to_num",
        "negative",
        "positive",
        "real",
        "round",
        "sign",
        "signbit",
        "square",
        "trunc",
    ],
)
def test_numbers_become_arrays_while_tracing_too(name):
    f, results = getattr(jnp, name), []
    jax.make_jaxpr(
        lambda: results.extend(f(x) for x in (2, np.int8(2), 2.5, np.ones((2, 3), np.float32)))
    )()
    for x, y in zip((2, np.int8(2), 2.5, np.ones((2, 3), np.float32)), results, strict=True):
        eager = f(x)
        assert isinstance(y, jax.Array) and (y.shape, y.dtype, y.weak_type) == (
            eager.shape,
            eager.dtype,
            eager.weak_type,
        )


def test_gradients_of_parts_and_of_bessel_functions():
    for f in (jnp.i0, special.i0):
        assert jax.grad(f)(0.0) == 0 and jax.grad(jax.grad(f))(0.0) == 0.5
        np.testing.assert_allclose(jax.grad(f)(-1.0), -0.565159, rtol=1e-5)
    x = jnp.array([6.0, -0.3, 0.0, 0.75])
    np.testing.assert_array_equal(
        jax.vmap(jax.grad(lambda x: jnp.frexp(x)[0]))(x), [0.125, 2.0, 1.0, 1.0]
    )
    assert not jax.vmap(jax.grad(lambda x: jnp.round(x, 1)))(
        jnp.array([1.0, jnp.inf, jnp.nan, 3e38])
    ).any()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64"])
def test_rounded_integers_and_their_angles_have_the_default_float(dtype):
    for x64 in (False, True):
        with jax.enable_x64(x64):
            x = np.array([0, 1], dtype)
            for f in (jnp.rint, jnp.angle):
                assert f(x).dtype == (np.float64 if x64 else np.float32) and not f(x).weak_type
            assert jnp.tri(2).dtype == np.float32


def test_angles_of_reals_are_those_of_complex_numbers():
    for dtype in ("float16", "bfloat16", "float32"):
        angles = jnp.angle(jnp.array([2, -2, 0.0, -0.0, jnp.nan], dtype))
        assert angles.dtype == dtype
        info = jnp.finfo(dtype)
        np.testing.assert_allclose(
            angles.astype(np.float32),
            np.float32([0, np.pi, 0, np.pi, np.nan]),
            rtol=float(info.eps),
        )
    with jax.enable_x64(True):
        assert jnp.angle(jnp.float64(-2)).dtype == np.float64


@pytest.mark.parametrize(
    "name",
    [
        "acos",
        "arccos",
        "absolute",
        "acosh",
        "arcsinh",
        "arctan",
        "arctan2",
        "arctanh",
        "bitwise_invert",
        "bitwise_left_shift",
        "bitwise_right_shift",
        "conjugate",
        "degrees",
        "radians",
        "true_divide",
        "around",
        "amin",
        "amax",
        "mod",
        "pow",
        "invert",
        "bool",
        "bool_",
    ],
)
def test_functions_say_the_name_by_which_they_are_asked_for(name):
    found = getattr(jnp, name)
    assert found.__name__ == name.rstrip("_")
    assert pickle.loads(pickle.dumps(found)) is found


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_ldexp_by_a_constant_in_a_program(dtype):
    """XLA must not make one factor of several, which would be infinite or zero."""
    most = int(jnp.finfo(dtype).maxexp)
    x = jnp.array([0.0, 2.0 ** (4 - most), 3.0], dtype)
    got = jax.jit(lambda x: jnp.ldexp(x, most + 4))(x)
    np.testing.assert_array_equal(got.astype("float32"), [0, 256, np.inf])
    low = jax.jit(lambda x: jnp.ldexp(x, -most - 4))(jnp.array(2.0 ** (most - 1), dtype))
    assert low == 2.0**-5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_spacing_of_any_number_is_numpys(dtype):
    info = np.finfo(dtype)
    few = info.smallest_subnormal
    beyond = info.tiny * 2.0**info.nmant  # spacings are normal numbers from here on
    parts = [0, few, 5 * few, info.tiny, 2 * info.tiny, 7.5 * info.tiny, 1e-3, 1, info.max, np.inf]
    parts += [0.75 * beyond, beyond, 2 * beyond, np.nan]
    with jax.enable_x64(True), np.errstate(all="ignore"):
        x = np.array([*parts, *(-p for p in parts)], dtype)
        np.testing.assert_array_equal(jnp.spacing(x), np.spacing(x))
        np.testing.assert_array_equal(jax.jit(jnp.spacing)(x), np.spacing(x))


def test_spacing_of_narrow_floats():
    least = jnp.finfo("bfloat16").smallest_subnormal
    x = jnp.array([0, 1e-40, 1, -3], "bfloat16")
    assert jnp.spacing(x).tolist() == [float(least), float(least), 2**-7, -(2**-6)]
    assert jnp.spacing(jnp.array([0, 1, -3], "float16")).tolist() == [2**-24, 2**-10, -(2**-9)]
