"""Functions on shapes, axes and sequences.

Values against NumPy, eagerly and under jit; gradients and vmap; errors.
"""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)
V = np.array([3.0, -1.0, 2.0, 0.5, 4.0], np.float32)
K = np.array([1.0, 2.0, -1.0], np.float32)

# (function of NumPy's or our module and of an array, the array); each also has a gradient.
SMOOTH = {
    "reshape": (lambda m, x: m.reshape(x, (2, -1)), X),
    "reshape F": (lambda m, x: m.reshape(x, (4, 3), order="F"), X),
    "ravel": (lambda m, x: m.ravel(x), X),
    "ravel F": (lambda m, x: m.ravel(x, order="F"), Y),
    "transpose": (lambda m, x: m.transpose(x, (1, 0, 2)), Y),
    "matrix_transpose": (lambda m, x: m.matrix_transpose(x), Y),
    "swapaxes": (lambda m, x: m.swapaxes(x, 0, -1), Y),
    "moveaxis": (lambda m, x: m.moveaxis(x, (0, 1), (-1, 0)), Y),
    "rollaxis": (lambda m, x: m.rollaxis(x, 2, 1), Y),
    "expand_dims": (lambda m, x: m.expand_dims(x, (0, -1)), X),
    "squeeze": (lambda m, x: m.squeeze(m.expand_dims(x, (1, 2))), X),
    "broadcast_to": (lambda m, x: m.broadcast_to(x, (2, 3, 4)), X),
    "flip": (lambda m, x: m.flip(x), X),
    "flipud": (lambda m, x: m.flipud(x), X),
    "fliplr": (lambda m, x: m.fliplr(x), X),
    **{f"rot90 {k}": (lambda m, x, k=k: m.rot90(x, k, (1, 2)), Y) for k in range(-1, 4)},
    "roll": (lambda m, x: m.roll(x, 5), X),
    "roll axes": (lambda m, x: m.roll(x, (1, -2), (0, 1)), X),
    "tile": (lambda m, x: m.tile(x, (2, 1, 2)), X),
    "repeat": (lambda m, x: m.repeat(x, 2, axis=1), X),
    "repeat each": (lambda m, x: m.repeat(x, np.array([2, 0, 1]), axis=0), X),
    "resize": (lambda m, x: m.resize(x, (3, 7)), X),
    "atleast_3d": (lambda m, x: m.atleast_3d(x), X),
    "concatenate": (lambda m, x: m.concatenate([x, 2 * x], axis=1), X),
    "concatenate flat": (lambda m, x: m.concatenate([x, 2 * x], axis=None), X),
    "concatenate array": (lambda m, x: m.concatenate(x, axis=1), Y),
    "stack": (lambda m, x: m.stack([x, x], axis=-1), X),
    "vstack": (lambda m, x: m.vstack([x[0], x]), X),
    "hstack": (lambda m, x: m.hstack([x, x]), X),
    "dstack": (lambda m, x: m.dstack([x, x]), X),
    "column_stack": (lambda m, x: m.column_stack([x[:, 0], x]), X),
    "block": (lambda m, x: m.block([[x, x[:, :1]], [m.ones((1, 5), np.float32)]]), X),
    "append": (lambda m, x: m.append(x, x[:1], axis=0), X),
    "delete": (lambda m, x: m.delete(x, 1, axis=1), X),
    "delete many": (lambda m, x: m.delete(x, np.array([0, 2, 2]), axis=0), X),
    "delete slice": (lambda m, x: m.delete(x, slice(None, None, 2)), X),
    "insert": (lambda m, x: m.insert(x, 1, x[:, 0], axis=1), X),
    "insert many": (lambda m, x: m.insert(x, np.array([2, 0]), 9.0, axis=0), X),
    "diagonal": (lambda m, x: m.diagonal(x, -1), X),
    "diagonal of planes": (lambda m, x: m.diagonal(x, 1, 2, 0), Y),
    **{
        f"pad {mode}": (lambda m, x, mode=mode: m.pad(x, ((1, 2), (5, 4)), mode=mode), X)
        for mode in (
            "constant",
            "edge",
            "reflect",
            "symmetric",
            "wrap",
            "linear_ramp",
            "mean",
            "median",
        )
    },
    **{
        f"pad {mode} odd": (
            lambda m, x, mode=mode: m.pad(x, ((4, 5), (9, 7)), mode=mode, reflect_type="odd"),
            X,
        )
        for mode in ("reflect", "symmetric")
    },
    **{
        f"pad by {widths}": (lambda m, x, widths=widths: m.pad(x, widths), X)
        for widths in (2, (2,), (1, 2), ((1, 2),), ((1, 2), (0, 3)))
    },
    "pad values": (lambda m, x: m.pad(x, 1, constant_values=((1, 2), (3, 4))), X),
    "pad part": (lambda m, x: m.pad(x, 2, mode="mean", stat_length=((1, 2), (3, 2))), X),
    **{
        f"convolve {mode}": (lambda m, x, mode=mode: m.convolve(x, K, mode=mode), V)
        for mode in ("full", "same", "valid")
    },
    **{
        f"correlate {mode}": (lambda m, x, mode=mode: m.correlate(K, x, mode=mode), V)
        for mode in ("full", "same", "valid")
    },
    "diff": (lambda m, x: m.diff(x, 2, axis=0), Y[0].T),
    "ediff1d": (lambda m, x: m.ediff1d(x, to_end=9), X),
    "gradient": (lambda m, x: m.gradient(x, 0.5, axis=1), X),
    "gradient at": (lambda m, x: m.gradient(x, np.array([0, 1, 3], np.float32), axis=0), X),
    "trapezoid": (lambda m, x: m.trapezoid(x, dx=0.5, axis=0), X),
    "trapezoid at": (lambda m, x: m.trapezoid(x, np.array([0, 1, 3, 4.5], np.float32)), X),
    "interp": (
        lambda m, x: m.interp(x, np.array([-1, 0, 2], np.float32), np.array([1, 4, 2], np.float32)),
        X,
    ),
    "interp periodic": (
        lambda m, x: m.interp(x, np.array([0.1, 2, 1], np.float32), K, period=3.0),
        X,
    ),
    "unwrap": (lambda m, x: m.unwrap(4 * x), V),
    "cov": (lambda m, x: m.cov(x), X),
    "cov weighted": (
        lambda m, x: m.cov(x, aweights=np.array([1, 2, 0.5, 1]), fweights=np.array([1, 2, 1, 3])),
        X,
    ),
    "corrcoef": (lambda m, x: m.corrcoef(x), X),
    "polyval": (lambda m, x: m.polyval(K, x), X),
    "poly": (lambda m, x: m.poly(x), V),
    "polyder": (lambda m, x: m.polyder(x, 2), V),
    "polyint": (lambda m, x: m.polyint(x, 2), V),
    "polyadd": (lambda m, x: m.polyadd(x, K), V),
    "polysub": (lambda m, x: m.polysub(K, x), V),
    "polymul": (lambda m, x: m.polymul(x, K), V),
    "polydiv": (lambda m, x: m.polydiv(x, K)[0], V),
    "polyfit": (lambda m, x: m.polyfit(np.array([0, 1, 2, 3, 4.5], np.float32), x, 2), V),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_values_are_numpys(name):
    f, x = SMOOTH[name]
    want = np.asarray(f(np, x.astype(np.float64)))
    got = f(jnp, jnp.asarray(x))
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(jax.jit(lambda x: f(jnp, x))(x), want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_are_differences(name):
    f, x = SMOOTH[name]
    direction = np.random.default_rng(2).normal(size=x.shape)
    step = 1e-5
    upper, lower = (np.asarray(f(np, x.astype(np.float64) + s * step * direction)) for s in (1, -1))
    want = (upper - lower) / (2 * step)
    _, tangent = jax.jvp(lambda x: f(jnp, x), (x,), (direction.astype(np.float32),))
    np.testing.assert_allclose(tangent, want, rtol=2e-3, atol=2e-3)
    weights = np.random.default_rng(3).normal(size=want.shape).astype(np.float32)
    gradient = jax.grad(lambda x: jnp.sum(f(jnp, x) * weights))(x)
    np.testing.assert_allclose(
        np.sum(np.asarray(gradient) * direction), np.sum(want * weights), rtol=5e-3, atol=5e-3
    )


@pytest.mark.parametrize("name", [n for n in SMOOTH if n not in ("polyfit",)])
def test_vmap_is_a_stack(name):
    f, x = SMOOTH[name]
    xs = np.stack([x, 0.5 * x - 1], -1)
    got = jax.vmap(lambda x: f(jnp, x), in_axes=-1)(xs)
    want = np.stack([f(jnp, jnp.asarray(xs[..., i])) for i in range(2)])
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "f",
    [
        lambda m: m.unravel_index(np.array([3, 5]), (2, 3)),
        lambda m: m.ravel_multi_index((np.array([1, 0]), np.array([2, 1])), (2, 3)),
        lambda m: m.ravel_multi_index(
            (np.array([5]), np.array([-1])), (2, 3), mode=("clip", "wrap")
        ),
        lambda m: m.tril_indices(3, 1, 4),
        lambda m: m.triu_indices(3, -1),
        lambda m: m.diag_indices(3),
        lambda m: m.ix_(np.array([0, 2]), np.array([True, False, True])),
        lambda m: m.mgrid[0:3, 1:2:0.5],
        lambda m: m.ogrid[0:2, 0:3],
        lambda m: m.mgrid[0:1:5j],
        lambda m: m.r_[0:3, 7, np.array([8, 9])],
        lambda m: m.c_[np.arange(2), np.arange(2)],
        lambda m: m.r_["0,3,1", np.arange(2), np.arange(2)],
        lambda m: m.r_["-1", X, X],
        lambda m: m.packbits(np.arange(20).reshape(2, 10) % 3 == 0, axis=1),
        lambda m: m.unpackbits(np.uint8([[3, 200]]), axis=1, count=11),
        lambda m: m.unpackbits(np.uint8([3, 200]), bitorder="little", count=-3),
        lambda m: m.split(np.arange(9), 3),
        lambda m: m.array_split(np.arange(8), 3),
        lambda m: m.split(X, [1, 3], axis=1),
        lambda m: m.hsplit(X, 2),
        lambda m: m.vsplit(X, 3),
        lambda m: m.dsplit(Y, [1]),
        lambda m: m.unstack(X, axis=1),
        lambda m: m.trim_zeros(np.array([0, 1, 0, 2, 0]), "f"),
        lambda m: m.broadcast_arrays(np.arange(3), np.zeros((2, 1))),
        lambda m: m.blackman(7),
        lambda m: m.bartlett(6),
        lambda m: m.hamming(5),
        lambda m: m.hanning(8),
        lambda m: m.kaiser(9, 4.5),
        lambda m: m.diff(np.array([True, False, False])),
        lambda m: m.insert(np.arange(5), slice(1, 4), 9),
        lambda m: m.insert(np.arange(5), 1, np.array([7, 8])),
        lambda m: m.pad(np.arange(4), 3, mode="mean"),
        lambda m: m.pad(np.arange(4), 3, mode="linear_ramp", end_values=7),
        lambda m: m.pad(X, 1, mode="maximum"),
        lambda m: m.pad(X, {1: (2, 0)}),
        lambda m: m.tril_indices_from(X),
        lambda m: m.size(X, 1),
    ],
)
def test_other_values_are_numpys(f):
    want, got = f(np), f(jnp)
    if not isinstance(want, list | tuple):
        want, got = [want], [got]
    assert len(want) == len(got)
    for w, g in zip(want, got, strict=True):
        assert np.shape(w) == np.shape(g)
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (
            lambda: jnp.reshape(X, 5),
            TypeError,
            r"cannot reshape array of shape \(3, 4\) \(size 12\) into shape 5 \(size 5\)",
        ),
        (lambda: jnp.reshape(X, (-1, -1)), TypeError, "can only specify one unknown axis size"),
        (
            lambda: jnp.reshape([1], 1),
            TypeError,
            "reshape requires ndarray or scalar arguments, got <class 'list'> at position 0",
        ),
        (
            lambda: jnp.ravel(X, order="K"),
            NotImplementedError,
            "Ravel not implemented for order='K'",
        ),
        (lambda: jnp.transpose(X, (0, 0)), TypeError, "transpose permutation isn't a permutation"),
        (
            lambda: jnp.moveaxis(X, 0, 2),
            ValueError,
            "axis 2 is out of bounds for array of dimension 2",
        ),
        (
            lambda: jnp.squeeze(X, 0),
            ValueError,
            "cannot select an axis to squeeze out which has size not equal to one",
        ),
        (
            lambda: jnp.broadcast_to(X, (3, 3)),
            ValueError,
            r"Incompatible types for broadcasting: input type=float32\[3,4\]",
        ),
        (
            lambda: jnp.broadcast_arrays(X, np.ones(3)),
            ValueError,
            "Incompatible shapes for broadcasting",
        ),
        (lambda: jnp.concatenate([]), ValueError, "Need at least one array to concatenate"),
        (
            lambda: jnp.concatenate([1.0, 2.0]),
            ValueError,
            "Zero-dimensional arrays cannot be concatenated",
        ),
        (lambda: jnp.stack([]), ValueError, "Need at least one array to stack"),
        (lambda: jnp.stack([X, X[0]]), ValueError, "All input arrays must have the same shape"),
        (
            lambda: jnp.split(V, [1.5]),
            TypeError,
            "Only integer scalar arrays can be converted to a scalar index",
        ),
        (lambda: jnp.array_split(V, jnp.ones(1)), TypeError, "Only integer scalar arrays"),
        (lambda: jnp.delete(V, 1.0), ValueError, r"got obj.dtype=float64; must be integer or bool"),
        (lambda: jnp.delete(V, "a"), TypeError, "got <class 'str'> at position 1"),
        (lambda: jnp.insert(V, 1.0, 2.0), ValueError, "index array must be integer typed"),
        (
            lambda: jnp.broadcast_shapes("a"),
            TypeError,
            "Shapes must be 1D sequences of concrete values of integer type",
        ),
        (lambda: jnp.broadcast_shapes((2.0,)), TypeError, "Shapes must be 1D sequences"),
        (lambda: jnp.broadcast_shapes((-1,)), TypeError, "every element be nonnegative"),
        (lambda: jnp.split(X, 2), ValueError, "array split does not result in an equal division"),
        (lambda: jnp.repeat(X, -1), ValueError, "repeats may not be negative"),
        (
            lambda: jax.jit(lambda r: jnp.repeat(X, r, axis=0))(np.array([1, 2, 3])),
            jax.errors.ConcretizationTypeError,
            "the total number of repeats must be static",
        ),
        (
            lambda: jnp.rot90(V),
            ValueError,
            "rot90 requires its first argument to have ndim at least two",
        ),
        (lambda: jnp.pad(X, 1, "foo"), NotImplementedError, "Unimplemented padding mode 'foo'"),
        (lambda: jnp.pad(X, -1), ValueError, "index can't contain negative values"),
        (
            lambda: jnp.pad(X, (1, 2, 3)),
            ValueError,
            r"pad_width with nd=2 has unsupported shape \(3,\)",
        ),
        (lambda: jnp.fill_diagonal(X, 1), NotImplementedError, "must use inplace=False"),
        (
            lambda: jnp.diagonal(V),
            ValueError,
            "diagonal requires an array of at least two dimensions",
        ),
        (
            lambda: jnp.packbits(X),
            TypeError,
            "Expected an input array of integer or boolean data type",
        ),
        (lambda: jnp.convolve(X, X), ValueError, "only support 1-dimensional inputs"),
        (lambda: jnp.diff(X, -1), ValueError, "order must be non-negative"),
        (lambda: jnp.gradient(V[:1]), ValueError, "at least 2 elements are required"),
        (
            lambda: jnp.interp(X, X, X),
            ValueError,
            "xp and fp must be one-dimensional arrays of equal size",
        ),
        (lambda: jax.jit(jnp.roots)(K), jax.errors.ConcretizationTypeError, "strip_zeros=False"),
        (lambda: jnp.polyfit(V, V, -1), ValueError, "expected deg >= 0"),
    ],
)
def test_errors(f, error, text):
    with pytest.raises(error, match=text):
        f()


def test_repeats_may_be_traced():
    f = jax.jit(lambda x, r: jnp.repeat(x, r, total_repeat_length=5))
    assert f(np.arange(3), np.array([1, 0, 2])).tolist() == [0, 2, 2, 2, 2]
    assert f(np.arange(3), np.array([0, 4, 4])).tolist() == [1, 1, 1, 1, 2]


def test_shifts_may_be_traced():
    np.testing.assert_array_equal(
        jax.jit(jnp.roll, static_argnames="axis")(X, -3, axis=1), np.roll(X, -3, 1)
    )


def test_places_to_delete_may_be_traced():
    f = jax.jit(lambda x, i: jnp.delete(x, i, assume_unique_indices=True))
    assert f(np.arange(6), np.array([4, -6])).tolist() == [1, 2, 3, 5]


@pytest.mark.parametrize("places", [0, -1, 3, [0], [2, 0], [1, 1, -1], [3, 0, 3]])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_places_to_insert_at_may_be_traced(places, axis):
    x, places = np.arange(12.0, dtype=np.float32).reshape(3, 4), np.array(places)
    expected = np.insert(x, places, 9, axis)
    np.testing.assert_array_equal(jnp.insert(x, places, 9, axis), expected)
    np.testing.assert_array_equal(
        jax.jit(lambda x, p: jnp.insert(x, p, 9, axis))(x, places), expected
    )


def test_roots_solve():
    found = np.sort_complex(np.asarray(jnp.roots(jnp.array([0.0, 1.0, -3.0, 2.0, 0.0]))))
    np.testing.assert_allclose(found, [0, 1, 2], atol=1e-5)
    late = np.asarray(jax.jit(lambda p: jnp.roots(p, strip_zeros=False))(np.float32([0, 1, -3, 2])))
    assert np.isnan(late[-1]) and sorted(late[:2].real.round(4).tolist()) == [1.0, 2.0]


def test_polyfit_says_how_well():
    t, y = np.arange(6.0, dtype=np.float32), np.float32([1, 0, 2, 5, 9, 17])
    want = np.polyfit(t, y, 2, cov=True)
    for g, w in zip(jnp.polyfit(t, y, 2, cov=True), want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-3)
    c, residuals, rank, singular, _ = jnp.polyfit(t, y, 2, full=True)
    want = np.polyfit(t, y, 2, full=True)
    np.testing.assert_allclose(residuals, want[1], rtol=1e-3)
    np.testing.assert_allclose(singular, want[3], rtol=1e-4)
    assert int(rank) == 3 and c.shape == (3,)


def test_remainders_have_full_length():
    quotient, rest = jnp.polydiv(V, K)
    np.testing.assert_allclose(rest, V - np.convolve(np.asarray(quotient), K), atol=1e-5)
    np.testing.assert_allclose(
        jnp.polydiv(V, K, trim_leading_zeros=True)[1], np.polydiv(V, K)[1], atol=1e-5
    )


def test_weak_types_are_kept():
    assert (
        jnp.reshape(1.0, (1,)).weak_type
        and jnp.stack([1, 2.0]).weak_type
        and not jnp.concatenate([X, X.astype(int)]).weak_type
    )


def test_saved_arrays_are_loaded(tmp_path):
    for x in (jnp.asarray(X), jnp.asarray(X, "bfloat16")):
        jnp.save(tmp_path / "x.npy", x)
        y = jnp.load(tmp_path / "x.npy")
        assert y.dtype == x.dtype and bool((x == y).all())


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32", "int64"])
@pytest.mark.parametrize("n", [5, 300])
def test_roll_by_integers_of_any_kind(dtype, n):
    x, shift = np.arange(n), np.array(3, dtype)
    for call in (
        jnp.roll,
        jax.jit(jnp.roll),
        lambda x, s: jax.jit(lambda x: jnp.roll(x, shift[()]))(x),
    ):
        np.testing.assert_array_equal(call(x, shift), np.roll(x, 3))


@pytest.mark.parametrize(
    "f",
    [
        lambda m: m.atleast_2d(V),
        lambda m: m.atleast_2d(3.0),
        lambda m: m.concat([X, X], axis=1),
        lambda m: m.permute_dims(Y, (2, 0, 1)),
        lambda m: m.triu_indices_from(X[:, :3], 1),
        lambda m: m.mask_indices(3, m.triu, 1),
        lambda m: m.isrealobj(V * 1j),
        lambda m: m.isrealobj(V),
        lambda m: [m.isscalar(x) for x in (3, 2.5, "a", None)],
        lambda m: m.ldexp(V, np.array([0, 1, 2, -1, 3])),
        lambda m: m.asarray(m.frompyfunc(lambda a, b: a + 2 * b, 2, 1)(V, K[0]), dtype=np.float32),
    ],
    ids=range(11),
)
def test_small_functions_are_numpys(f):
    for got, want in zip(jax.tree.leaves(f(jnp)), jax.tree.leaves(f(np)), strict=True):
        np.testing.assert_array_equal(got, want)


def test_segment_prod():
    np.testing.assert_array_equal(
        jax.ops.segment_prod(V, np.array([0, 2, 0, 0, 2]), 4), [3, 1, -4, 1]
    )


def test_fits_and_correlations_broadcast_nothing_unasked():
    x = Y.reshape(3, 8)
    calls = [
        lambda: jnp.corrcoef(x),
        lambda: jnp.polyfit(x[0], x[1], 2, w=abs(x[2]), cov=True),
        lambda: jnp.polyfit(x[0], x.T, 2),
    ]
    expected = [f() for f in calls]
    with jax.numpy_rank_promotion("raise"):
        for f, want in zip(calls, expected, strict=True):
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), f(), want)


def test_delete_by_mask_and_by_traced_places():
    x = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    mask = np.array([True, False, True, False])
    np.testing.assert_array_equal(jnp.delete(x, mask, axis=0), np.delete(x, mask, axis=0))
    with pytest.raises(
        ValueError, match="boolean array argument obj to delete must be one dimensional"
    ):
        jnp.delete(x, mask, axis=1)
    for i in range(-6, 7):  # outside is the nearest place, as in JAX with assume_unique_indices
        inside = np.clip(i + 4 if i < 0 else i, 0, 3)
        np.testing.assert_array_equal(
            jax.jit(lambda i: jnp.delete(x, i, axis=0))(i), np.delete(x, inside, axis=0)
        )


def test_insert_takes_a_place_or_a_list_of_them():
    with pytest.raises(ValueError, match="must be one dimensional or scalar"):
        jnp.insert(jnp.arange(4), np.array([[1, 2]]), 5)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 4), (2, 1, 3, 2)])
def test_padding_by_a_function_is_numpys(shape):
    def fill(line, widths, axis, kwargs):
        out = jnp.asarray(line).at[: widths[0]].set(kwargs["by"] + axis)
        return out.at[len(line) - widths[1] :].set(axis)

    def fill_in_place(line, widths, axis, kwargs):
        line[:] = fill(line, widths, axis, kwargs)

    x = np.arange(float(np.prod(shape)), dtype=np.float32).reshape(shape)
    widths = [(i, 2) for i in range(len(shape))]
    np.testing.assert_array_equal(
        jnp.pad(x, widths, fill, by=100), np.pad(x, widths, fill_in_place, by=100)
    )
