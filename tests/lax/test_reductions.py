"""Reductions: NaN and ties, empty arrays, monoids, and errors."""

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp
from teucer._base import config
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray

X = np.arange(6, dtype=np.float32).reshape(2, 3)
NAN = np.nan


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_nan():
    x = np.float32([1, NAN, 3, NAN])
    assert np.isnan(lax.reduce_max(x, (0,)))
    assert np.isnan(lax.reduce_min(x, (0,)))
    assert int(lax.argmax(x, 0, np.int32)) == int(lax.argmin(x, 0, np.int32)) == 1
    assert np.isnan(lax.cummax(x)).tolist() == [False, True, True, True]


def test_first_of_equal_elements():
    assert int(lax.argmax(np.float32([1, 3, 3]), 0, np.int32)) == 1
    assert int(lax.argmin(np.float32([0.0, -0.0]), 0, np.int32)) == 0
    assert int(lax.argmax(np.full(3, -np.inf, np.float32), 0, np.int32)) == 0
    assert int(lax.argmin(np.full(3, 127, np.int8), 0, np.int32)) == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_in_long_rows(name, dtype):
    """Ties, NaNs, infinities and signed zeros, in rows and columns."""
    with config.enable_x64(True):
        x = np.random.default_rng(0).integers(-9, 9, (8, 100)).astype(dtype)
        x[1], x[2] = 7, 0
        if dtype != "int32":
            x[2, 30:40] = -0.0
            x[3, 50:60], x[4], x[5, 3:] = np.nan, np.nan, np.inf
            x[6], x[6, 5], x[7, 99] = -np.inf, np.inf, -np.inf
        for y in (x, x.T, x[:, :20], x[:, None]):
            expected = getattr(np, name)(np.asarray(y, "float64"), -1)
            for index in ("int8", "uint8", "int64"):
                for call in (
                    getattr(lax, name),
                    jax.jit(getattr(lax, name), static_argnums=(1, 2)),
                ):
                    got = call(y, y.ndim - 1, np.dtype(index))
                    assert got.dtype == index
                    np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(
            jax.vmap(lambda row: getattr(lax, name)(row, 0, np.int32), 1)(x.T),
            getattr(np, name)(np.asarray(x, "float64"), 1),
        )


@pytest.mark.parametrize(
    ("f", "dtype", "want"),
    [
        ("reduce_sum", "float32", 0),
        ("reduce_prod", "int32", 1),
        ("reduce_max", "float32", -np.inf),
        ("reduce_max", "int8", -128),
        ("reduce_max", "bool", False),
        ("reduce_min", "uint8", 255),
        ("reduce_min", "bool", True),
        ("reduce_and", "uint8", 255),
        ("reduce_and", "int8", -1),
        ("reduce_or", "int32", 0),
        ("reduce_xor", "bool", False),
    ],
)
def test_nothing_gives_the_identity(f, dtype, want):
    got = getattr(lax, f)(np.zeros((0, 2), dtype), (0,))
    assert got.dtype == np.dtype(dtype)
    assert np.asarray(got).tolist() == [want] * 2


def test_empty_scans():
    for f in (lax.cumsum, lax.cumprod, lax.cummax, lax.cumlogsumexp):
        assert f(np.zeros((0, 2), np.float32)).shape == (0, 2)


def test_equal_elements_share_the_gradient_of_an_extreme():
    x = np.float32([1, 3, 3])
    assert np.asarray(jax.grad(lambda x: lax.reduce_max(x, (0,)))(x)).tolist() == [0.0, 0.5, 0.5]
    assert np.asarray(jax.jacfwd(lax.cummax)(x)).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0.5, 0.5]]


def test_the_gradient_of_a_product_with_zeros():
    gradient = jax.grad(lambda x: lax.reduce_prod(x, (0,)))
    assert np.asarray(gradient(np.float32([0, 2, 3]))).tolist() == [6.0, 0.0, 0.0]
    assert np.asarray(gradient(np.float32([0, 2, 0]))).tolist() == [0.0, 0.0, 0.0]
    assert np.asarray(jax.jacrev(lax.cumprod)(np.float32([2, 0, 3]))).tolist() == [
        [1, 0, 0],
        [0, 2, 0],
        [0, 6, 0],
    ]


def test_infinities_in_cumlogsumexp():
    inf = np.inf
    assert np.asarray(lax.cumlogsumexp(np.float32([-inf, -inf, 1]))).tolist() == [-inf, -inf, 1.0]
    assert np.asarray(lax.cumlogsumexp(np.float32([inf, 1, -inf]))).tolist() == [inf, inf, inf]
    assert np.isfinite(jax.jacrev(lax.cumlogsumexp)(np.float32([-inf, 1, 2]))).all()


@pytest.mark.parametrize("f", [lax.cumlogsumexp, lax.cumprod, lax.cummax], ids=lambda f: f.__name__)
@pytest.mark.parametrize("reverse", [False, True])
def test_values_beside_gradients_are_their_prefixes(f, reverse):
    """The running value is computed once, not once more by windows."""

    def loss(x):
        return jnp.sum(f(x, reverse=reverse) * jnp.arange(9.0))

    x = np.linspace(0.5, 1.5, 9, dtype=np.float32)
    names = [eqn.primitive.name for eqn in jax.make_jaxpr(jax.value_and_grad(loss))(x).eqns]
    assert f.__name__ not in names
    np.testing.assert_allclose(jax.value_and_grad(loss)(x)[0], loss(x), rtol=1e-6)


def test_long_scans_are_accurate(rng):
    x = rng.standard_normal(100_000).astype(np.float32)
    np.testing.assert_allclose(lax.cumsum(x), np.cumsum(x, dtype=np.float64), atol=2e-3)


@pytest.mark.parametrize(
    ("f", "init", "name"),
    [
        (lax.add, 0.0, "reduce_sum"),
        (lax.mul, 1.0, "reduce_prod"),
        (lax.max, -np.inf, "reduce_max"),
        (lax.min, np.inf, "reduce_min"),
        (lax.add, 1.0, "reduce"),
        (lax.max, 0.0, "reduce"),
    ],
)
def test_reductions_with_a_name_are_found(f, init, name):
    jaxpr = stage_jaxpr(
        lambda x: (lax.reduce(x, init, f, (0,)),), [ShapedArray((2, 3), np.float32)]
    ).jaxpr
    assert [str(eqn.primitive) for eqn in jaxpr.eqns] == [name]


def test_weak_types():
    assert typeof(lax.reduce_sum(1.0, ())).weak_type
    assert not typeof(lax.argmax(lax.broadcast(1.0, (3,)), 0, np.int32)).weak_type


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda: lax.reduce_sum(X, (2,)),
            ValueError,
            "contains out-of-bounds indices for float32\\[2,3\\]",
        ),
        (lambda: lax.reduce_max(X, (-1,)), ValueError, "contains out-of-bounds indices"),
        (lambda: lax.reduce_sum(X, (0, 0)), ValueError, "duplicate value in 'axes' of reduction"),
        (lambda: lax.reduce_sum(X > 1, (0,)), TypeError, "reduce_sum does not accept dtype bool"),
        (lambda: lax.reduce_prod(X > 1, (0,)), TypeError, "reduce_prod does not accept dtype bool"),
        (
            lambda: lax.reduce_and(X, (0,)),
            TypeError,
            "logical reduction requires operand dtype bool or int",
        ),
        (lambda: lax.argmax(X, 0, float), TypeError, "index_dtype must be an integer type"),
        (lambda: lax.argmax(X, 3, int), ValueError, "Invalid axis 3 for operand shape"),
        (lambda: lax.argmax(X[:0], 0, int), ValueError, "require non-empty reduced dimension"),
        (
            lambda: lax.argmin(X.astype(np.complex64), 0, int),
            TypeError,
            "does not accept dtype complex64",
        ),
        (lambda: lax.cumsum(X, axis=-1), ValueError, "negative axes"),
        (lambda: lax.cumsum(X, axis=2), ValueError, "axis 2 is out of bounds for array of shape"),
        (lambda: lax.cumprod(X > 1), TypeError, "cumprod does not accept dtype bool"),
        (
            lambda: lax.cumlogsumexp(X.astype(np.int32)),
            TypeError,
            "cumlogsumexp does not accept dtype int32",
        ),
        (
            lambda: lax.reduce((X, X), (0.0,), lax.add, (0,)),
            ValueError,
            "same tree structure as init_values",
        ),
        (lambda: lax.reduce(X, X[0], lax.add, (0,)), ValueError, "non-scalar initial value"),
        (lambda: lax.reduce(X, np.int32(1), lax.add, (0,)), TypeError, "dtype of its operand"),
        (
            lambda: lax.reduce((X, X[0]), (0.0, 0.0), lambda a, b: a, (0,)),
            ValueError,
            "differ in shape",
        ),
        (
            lambda: lax.reduce((X, X), (0.0, 0.0), lambda a, b: a[0], (0,)),
            ValueError,
            "returns 1 values for 2",
        ),
        (
            lambda: lax.reduce(X, 0.0, lambda a, b: lax.gt(a, b), (0,)),
            TypeError,
            "scalar of its operand's dtype",
        ),
        (
            lambda: jax.jit(
                lambda x, c: lax.reduce(x, 0.0, lambda a, b: lax.add(a, lax.mul(b, c)), (0,))
            )(X, X[0, 0]),
            NotImplementedError,
            "can't close over Tracers",
        ),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize(
    ("operands", "inits", "computation"),
    [
        (np.float32([1, 2]), 0.0, lambda a, b: [a + b]),
        (
            (np.float32([1, 2]), np.float32([3, 4])),
            (0.0, 0.0),
            lambda a, b: {"x": a[0] + b[0], "y": a[1] + b[1]},
        ),
    ],
)
def test_reduce_gives_the_tree_of_the_computation(operands, inits, computation):
    found = lax.reduce(operands, inits, computation, (0,))
    assert jax.tree.structure(found) == jax.tree.structure(computation(operands, operands))
    assert jax.tree.leaves(found) == [np.sum(x) for x in jax.tree.leaves(operands)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_reduce_sum_C3(dtype):
    x = jnp.ones((3, 2), dtype)
    with config.allow_f16_reductions(False):
        for f in (
            lambda x: lax.reduce_sum(x, (0,)),
            lambda x: jax.grad(lambda s: jnp.sum(s * x).astype("float32"))(x[0, 0]),
        ):
            with pytest.raises(
                ValueError,
                match=r"reduce_sum on operand b?f16\[3,2\] is not allowed when jax_allow_f16_red",
            ):
                jax.jit(f)(x)
        assert lax.reduce_sum(x[:1], (0,)).dtype == dtype  # nothing is added
        assert jnp.sum(x) == 6 and lax.reduce_max(x, (0,)).dtype == dtype
    assert lax.reduce_sum(x, (0,)).dtype == dtype


@pytest.mark.parametrize(
    "dtype",
    ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz", "float8_e5m2"],
)
def test_extremes_of_floats_without_infinities(dtype):
    x = jnp.array([1, -3, 2], dtype)
    assert (float(lax.reduce_max(x, (0,))), float(lax.reduce_min(x, (0,)))) == (2, -3)
    assert (int(lax.argmax(x, 0, int)), int(lax.argmin(x, 0, int))) == (2, 1)
    assert lax.cummax(x, reverse=True).tolist() == [2, 2, 2]
    assert lax.cummin(x).tolist() == [1, -3, -3]
    assert lax.reduce_window(x, -np.inf, lax.max, (2,), (1,), "SAME").tolist() == [1, 2, 2]


@pytest.mark.parametrize("f", [lax.argmax, lax.argmin])
def test_places_of_extremes_do_not_move(f):
    x = np.float32([1, 3, 2])
    place, moved = jax.jvp(lambda x: f(x, 0, np.int32), (x,), (x,))
    assert place == f(x, 0, np.int32) and moved.dtype == jax.dtypes.float0
    assert np.asarray(jax.grad(lambda x: lax.mul(x[f(x, 0, np.int32)], 2.0))(x)).tolist() == [
        2.0 * (i == place) for i in range(3)
    ]


@pytest.mark.parametrize(("extreme", "place"), [("max", "argmax"), ("min", "argmin")])
def test_an_extreme_and_its_place_are_found_by_one_loop(extreme, place):
    """As in the steps of Viterbi's algorithm: XLA knows the form of the reduction."""

    def both(x):
        return getattr(jnp, extreme)(x, 0), getattr(jnp, place)(x, 0)

    text = jax.jit(both).lower(np.zeros((12, 12), np.float32)).compile().as_text()
    assert text.count(" reduce(") == 1
