"""Arrays from data, filled arrays, ranges, scalar types: values, dtypes, weak types, errors."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.dlpack import is_supported_dtype


class AsArray:
    def __jax_array__(self):
        return jnp.ones(2)


@pytest.mark.parametrize(
    "data, dtype, weak",
    [
        (1, "int32", True),
        (1.0, "float32", True),
        (1j, "complex64", True),
        (True, "bool", False),
        ([1, 2], "int32", False),
        ([1, 2.0], "float32", False),
        ([], "float32", False),
        (np.float64(3), "float32", False),
        ([np.float16(1), 2.0], "float16", False),
        ([[1], [True]], "int32", False),
        (np.arange(3), "int32", False),
        (range(3), "int32", False),
        (bytearray(b"ab"), "uint8", False),
        (AsArray(), "float32", False),
        ([AsArray(), AsArray()], "float32", False),
    ],
)
def test_array_dtype(data, dtype, weak):
    out = jnp.array(data)
    assert (out.dtype, out.weak_type) == (np.dtype(dtype), weak)
    traced = jax.jit(lambda: jnp.array(data))()
    assert (traced.dtype, traced.weak_type) == (np.dtype(dtype), weak)
    np.testing.assert_array_equal(traced, out)


def test_array_of_tracers_and_options():
    np.testing.assert_array_equal(
        jax.jit(lambda x: jnp.array([[x, 1], [2, x * 3]]))(2.0), [[2, 1], [2, 6]]
    )
    assert jnp.array([1, 2], ndmin=3).shape == (1, 1, 2)
    x = jnp.ones(2)
    assert jnp.asarray(x) is x and jnp.array(x) is not x
    assert jnp.array(300.7, "int32") == 300
    assert jnp.array(np.array([300]), dtype="uint8").tolist() == [44]


@pytest.mark.parametrize(
    "call, error, match",
    [
        (lambda: jnp.array(None), ValueError, "None is not a valid value for jnp.array"),
        (lambda: jnp.array([1, None]), ValueError, "None is not"),
        (lambda: jnp.array("a"), TypeError, "not a valid JAX array type"),
        (lambda: jnp.array({1: 2}), TypeError, "not a valid JAX array type"),
        (lambda: jnp.array([[1, 2], [3]]), ValueError, "inhomogeneous"),
        (lambda: jnp.array(2**40), OverflowError, "too large to convert"),
        (lambda: jnp.array(300, "uint8"), OverflowError, "out of bounds for uint8"),
        (lambda: jnp.array([1], order="F"), NotImplementedError, "order='K'"),
        (lambda: jnp.zeros((2, 2.5)), TypeError, "Shapes must be 1D"),
        (lambda: jax.jit(lambda n: jnp.zeros(n))(3), TypeError, "static_argnums"),
        (lambda: jnp.arange(0, 1, 0), ZeroDivisionError, "division"),
        (
            lambda: jax.jit(jnp.arange)(3),
            jax.errors.ConcretizationTypeError,
            "jnp.arange argument 'stop'",
        ),
        (lambda: jnp.arange(jnp.ones(2)), ValueError, "arguments must be scalars"),
        (lambda: jnp.linspace(0, 1, -1), ValueError, "non-negative"),
        (lambda: jnp.eye(2.5), TypeError, "argument of 'N'"),
        (lambda: jnp.tril(jnp.ones(2)), ValueError, "at least 2D"),
        (lambda: jnp.diag(jnp.ones((1, 1, 1))), ValueError, "1d or 2d"),
        (lambda: jnp.fromiter([1], int), NotImplementedError, "non-pure"),
        (lambda: jnp.meshgrid(jnp.ones((2, 2))), ValueError, "must be 1D"),
        (lambda: jnp.zeros_like([1]), TypeError, "requires ndarray"),
    ],
)
def test_errors(call, error, match):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize(
    "args",
    [
        (3,),
        (3.0,),
        (1, 3),
        (1, 3.5),
        (0, 1, 0.25),
        (5, 0, -2),
        (0,),
        (-3,),
        (0, -3, -1.0),
        (2, 2**31 - 1, 2**29),
    ],
)
def test_arange(args):
    want = np.arange(*args)
    out = jnp.arange(*args)
    np.testing.assert_allclose(out, want, rtol=1e-6)
    assert out.dtype == (np.float32 if want.dtype.kind == "f" else np.int32)


def test_filled():
    assert (
        jnp.zeros(3).dtype == np.float32
        and jnp.ones((2, 2), int).sum() == 4
        and jnp.full(2, 3).weak_type
    )
    assert jnp.full((2, 2), jnp.float16(3)).dtype == np.float16 and jnp.full_like(
        jnp.ones(2, "int8"), 2.5
    ).tolist() == [2, 2]
    assert (
        jnp.ones_like(1.0).weak_type
        and jnp.zeros_like(jnp.ones(3), shape=(2,)).shape == (2,)
        and jnp.empty((2,)).shape == (2,)
    )


@pytest.mark.parametrize(
    "name, args, kwargs",
    [
        ("linspace", (0, 1, 5), {}),
        ("linspace", (0, 1, 5), {"endpoint": False}),
        ("linspace", (-5, 5, 4), {"dtype": int}),
        ("linspace", (np.zeros(2), np.ones(2), 3), {"axis": 1}),
        ("linspace", (0, 1j, 3), {}),
        ("linspace", (3, 4, 1), {}),
        ("logspace", (0, 2, 5), {}),
        ("logspace", (0, 3, 4), {"base": 2.0}),
        ("geomspace", (1, 1000, 4), {}),
        ("geomspace", (-1, -8, 4), {}),
        ("eye", (3, 4, 1), {}),
        ("identity", (3,), {}),
        ("tri", (3, 4, -1), {}),
        ("tril", (np.ones((2, 3, 4)), 1), {}),
        ("triu", (np.ones((3, 3)), -1), {}),
        ("diag", (np.arange(3), 1), {}),
        ("diag", (np.arange(12).reshape(3, 4), -1), {}),
        ("diagflat", (np.ones((2, 2)), 1), {}),
        ("vander", (np.arange(4), 3), {}),
        ("vander", (np.arange(3),), {"increasing": True}),
        ("indices", ((2, 3),), {}),
        ("trace", (np.arange(24).reshape(2, 3, 4), 1), {}),
        ("trace", (np.arange(24).reshape(2, 3, 4), 0, 1, 2), {}),
        ("fromfunction", (lambda i, j: i * 10 + j, (2, 3)), {"dtype": int}),
    ],
)
def test_forms_agree_with_numpy(name, args, kwargs):
    np.testing.assert_allclose(
        getattr(jnp, name)(*args, **kwargs),
        getattr(np, name)(*args, **kwargs),
        rtol=2e-6,
        atol=1e-6,
    )


@pytest.mark.parametrize("kwargs", [{}, {"indexing": "ij"}, {"sparse": True}])
def test_meshgrid(kwargs):
    xs = np.arange(3), np.arange(2), np.arange(4)
    for got, want in zip(jnp.meshgrid(*xs, **kwargs), np.meshgrid(*xs, **kwargs), strict=True):
        np.testing.assert_array_equal(got, want)


def test_scalar_types():
    assert jnp.float32(1.5).dtype == np.float32 and not jnp.float32(1.5).weak_type
    assert (
        jnp.float32 == np.float32
        and jnp.float32 == np.dtype("float32")
        and hash(jnp.float32) == hash(np.float32)
    )
    assert np.dtype(jnp.bfloat16).name == "bfloat16" and np.zeros(2, jnp.int8).dtype == np.int8
    assert jnp.issubdtype(jnp.bfloat16, jnp.floating) and isinstance(np.float32(1), jnp.float32)
    assert jnp.isdtype(jnp.int8, "integral") and not jnp.isdtype(
        jnp.int8, ("bool", "real floating")
    )
    with pytest.raises(ValueError, match="Unrecognized kind"):
        jnp.isdtype(jnp.int8, "foo")


def test_conversions():
    assert jnp.astype(jnp.array([1.7, -1.7]), int).tolist() == [1, -1] and jnp.astype(
        jnp.array([0.0, 2.0]), bool
    ).tolist() == [
        False,
        True,
    ]
    assert jnp.frombuffer(b"ab", "uint8").tolist() == [97, 98] and jnp.fromstring(
        "1 2", int, sep=" "
    ).tolist() == [1, 2]
    assert jnp.from_dlpack(np.float32([1, 2])).tolist() == [1, 2]

    class OnGPU:
        def __dlpack__(self, **options):
            raise AssertionError("is not asked for")

        def __dlpack_device__(self):
            return 2, 1

    with pytest.raises(
        BufferError, match=r"GPU 1 of cuda, which is not among the devices here: \['cpu'\]"
    ):
        jnp.from_dlpack(OnGPU())
    info = jnp.__array_namespace_info__()
    assert info.default_dtypes()["integral"] == np.int32 and "float32" in info.dtypes(
        kind="real floating"
    )


def test_constants_of_a_traced_program_are_values_of_it():
    with pytest.raises(jax.errors.TracerBoolConversionError):
        jax.jit(lambda: 1 if jnp.array(True) else 0)()


def test_keys_and_float0():
    key = jax.random.key(0)
    for made in (
        jnp.zeros_like(key),
        jnp.zeros((), key.dtype),
        jnp.empty_like(key),
        jax.jit(lambda: jnp.zeros((), key.dtype))(),
    ):
        assert (made.shape, made.dtype) == ((), key.dtype)
        assert not jax.random.key_data(made).any()
    assert jnp.empty((2, 3), key.dtype).shape == (2, 3)
    for made in (
        jnp.zeros(3, jax.float0),
        jnp.ones(3, jax.float0),
        jnp.zeros_like(np.zeros(3, jax.float0)),
    ):
        assert (made.shape, made.dtype) == ((3,), jax.float0)


def test_dtypes_that_other_libraries_know():
    known = [
        d
        for d in ("bool", "int4", "int8", "uint64", "float8_e4m3fn", "bfloat16", "complex128")
        if is_supported_dtype(d)
    ]
    assert known == ["bool", "int8", "uint64", "bfloat16", "complex128"]
    with pytest.raises(TypeError, match="not understood"):
        is_supported_dtype("int7")


def test_diagonals_of_traced_places():
    for k in (-2, 0, 1, 4):
        np.testing.assert_array_equal(jax.jit(lambda k: jnp.tri(3, 4, k))(k), np.tri(3, 4, k))
        np.testing.assert_array_equal(jax.jit(lambda k: jnp.eye(3, 4, k))(k), np.eye(3, 4, k))
    for f, error in ((jnp.tri, TypeError), (jnp.eye, ValueError)):
        for k in (1.5, np.array([1])):
            with pytest.raises(error, match=f"{f.__name__}: .* integer"):
                jax.jit(lambda k, f=f: f(3, 3, k))(k)
    for k in (1.5, np.array([1]), "1"):
        with pytest.raises(ValueError, match="eye: k must be a scalar integer"):
            jnp.eye(3, 3, k)
