"""Laws across functions of the library.

What NumPy refuses is refused, axes come in any sequence, compositions agree to the bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teucer as jax
from teucer import lax, nn
from teucer import numpy as jnp
from teucer._base import config
from teucer.scipy import special

X = np.arange(6, dtype=np.float32).reshape(2, 3)

# Functions that reduce over, or move, several axes, on an array of two.
ALONG = {
    **{
        name: getattr(jnp, name)
        for name in (
            "sum",
            "prod",
            "max",
            "min",
            "mean",
            "var",
            "std",
            "all",
            "any",
            "ptp",
            "median",
            "nansum",
            "nanprod",
            "nanmax",
            "nanmin",
            "nanmean",
            "nanvar",
            "nanstd",
            "nanmedian",
            "count_nonzero",
            "average",
            "flip",
            "amax",
            "amin",
            "gradient",
        )
    },
    "quantile": lambda x, axis: jnp.quantile(x, 0.5, axis=axis),
    "nanquantile": lambda x, axis: jnp.nanquantile(x, 0.5, axis=axis),
    "percentile": lambda x, axis: jnp.percentile(x, 50, axis=axis),
    "norm": lambda x, axis: jnp.linalg.norm(x, axis=axis),
    "squeeze": lambda x, axis: jnp.squeeze(x[:1, :1], axis),
    "expand_dims": lambda x, axis: jnp.expand_dims(x, axis),
    "roll": lambda x, axis: jnp.roll(x, 1, axis),
    "fft2": lambda x, axis: jnp.fft.fft2(x, axes=axis),
    "fftn": lambda x, axis: jnp.fft.fftn(x, axes=axis),
    "fftshift": lambda x, axis: jnp.fft.fftshift(x, axes=axis),
    "ifftshift": lambda x, axis: jnp.fft.ifftshift(x, axes=axis),
    "add.reduce": lambda x, axis: jnp.add.reduce(x, axis=axis),
    "logaddexp.reduce": lambda x, axis: jnp.logaddexp.reduce(x, axis=axis),
    "method": lambda x, axis: jnp.asarray(x).sum(axis=axis),
    "transpose": lambda x, axis: jnp.transpose(x, axis),
    "moveaxis": lambda x, axis: jnp.moveaxis(x, axis, axis),
    "apply_over_axes": lambda x, axis: jnp.apply_over_axes(jnp.sum, x, axis),
    "rot90": lambda x, axis: jnp.rot90(x, axes=axis),
    "logsumexp": lambda x, axis: special.logsumexp(x, axis=axis),
    "softmax": lambda x, axis: nn.softmax(x, axis=axis),
    "log_softmax": lambda x, axis: nn.log_softmax(x, axis=axis),
    "standardize": lambda x, axis: nn.standardize(x, axis=axis),
    "nn.logsumexp": lambda x, axis: nn.logsumexp(x, axis=axis),
    "lax.reduce_sum": lax.reduce_sum,
    "lax.rev": lax.rev,
    "lax.expand_dims": lax.expand_dims,
    "lax.reduce": lambda x, axis: lax.reduce(x, 0.0, lax.add, axis),
}


@pytest.mark.parametrize("name", ALONG)
def test_axes_in_any_sequence(name: str) -> None:
    f = ALONG[name]
    expected = jax.tree.leaves(f(X, axis=(0, 1)) if name in vars(jnp) else f(X, (0, 1)))
    for axes in ([0, 1], range(2), np.array([0, 1]), (np.int64(0), jnp.array(1))):
        if name in ("softmax", "standardize", "log_softmax") and isinstance(axes, np.ndarray):
            axes = list(axes)
        found = jax.tree.leaves(f(X, axis=axes) if name in vars(jnp) else f(X, axes))
        for y, z in zip(found, expected, strict=True):
            np.testing.assert_array_equal(y, z, err_msg=f"{name} along {axes!r}")


# What NumPy refuses, and a function that would have to make something up.
REFUSED = {
    "delete one": (lambda np, x: np.delete(x, 5), (ValueError, IndexError)),
    "delete one from the end": (lambda np, x: np.delete(x, -5), (ValueError, IndexError)),
    "delete several": (lambda np, x: np.delete(x, np.array([1, 7])), IndexError),
    "delete several from the end": (lambda np, x: np.delete(x, np.array([1, -5])), IndexError),
    "insert": (lambda np, x: np.insert(x, 7, 0), IndexError),
    "insert several": (lambda np, x: np.insert(x, np.array([0, 9]), 0), IndexError),
    "sum along an axis": (lambda np, x: np.sum(x, axis=1), ValueError),
    "sort along an axis": (lambda np, x: np.sort(x, axis=-2), ValueError),
    "cumsum along an axis": (lambda np, x: np.cumsum(x, axis=1), ValueError),
    "axes twice": (lambda np, x: np.sum(x, axis=(0, 0)), ValueError),
    "axis that is no number": (lambda np, x: np.sum(x, axis="a"), TypeError),
    "axis in halves": (lambda np, x: np.sum(x, axis=0.5), TypeError),
    "expand_dims": (lambda np, x: np.expand_dims(x, 3), ValueError),
    "squeeze": (lambda np, x: np.squeeze(x, 0), ValueError),
    "moveaxis": (lambda np, x: np.moveaxis(x, 1, 0), ValueError),
    "swapaxes": (lambda np, x: np.swapaxes(x, 0, 1), ValueError),
    "flip": (lambda np, x: np.flip(x, 1), ValueError),
    "roll": (lambda np, x: np.roll(x, 1, 1), ValueError),
    "stack": (lambda np, x: np.stack([x, x], 3), ValueError),
    "concatenate": (lambda np, x: np.concatenate([x, x], 1), ValueError),
    "split": (lambda np, x: np.split(x, 3), ValueError),
    "take along an axis": (lambda np, x: np.take(x, 0, axis=1), ValueError),
    "greatest of none": (lambda np, x: np.max(x[:0]), ValueError),
    "argmin of none": (lambda np, x: np.argmin(x[:0]), ValueError),
    "greatest of none of none": (lambda np, x: np.max(x[:0].reshape(0, 0), axis=0), ValueError),
    "least of none of none": (lambda np, x: np.min(x[:0].reshape(0, 0), axis=1), ValueError),
    "range of none of none": (lambda np, x: np.ptp(x[:0].reshape(0, 0), axis=1), ValueError),
    "argmax of none of none": (lambda np, x: np.argmax(x[:0].reshape(0, 0), axis=0), ValueError),
    "eye with a broken diagonal": (lambda np, x: np.eye(2, k=1.5), (TypeError, ValueError)),
    "mask of another size": (lambda np, x: x[np.array([True, False])], IndexError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_refuses_is_refused(name: str) -> None:
    f, error = REFUSED[name]
    x = np.arange(4.0)
    with pytest.raises((ValueError, IndexError, TypeError)):
        f(np, x)
    with pytest.raises(error):
        f(jnp, jnp.asarray(x))


@pytest.mark.parametrize("ends", [(0, 25), (0, 1), (-5, 5), (0, 7), (0, 100)])
@pytest.mark.parametrize("bins", [1, 5, 7, 10, 49, 100])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_edges_of_a_histogram_are_those_of_linspace(
    bins: int, ends: tuple[int, int], dtype: str
) -> None:
    with config.enable_x64(dtype == "float64"):
        x = jnp.asarray(np.linspace(*ends, 17), dtype)
        np.testing.assert_array_equal(
            jnp.histogram_bin_edges(x, bins, ends), jnp.linspace(*ends, bins + 1, dtype=dtype)
        )
        # Where the ends are computed too, XLA may round the other one of two products.
        np.testing.assert_allclose(
            jnp.histogram(x, bins)[1],
            jnp.linspace(*ends, bins + 1, dtype=dtype),
            rtol=0,
            atol=np.spacing(np.asarray(ends, dtype)).max(),
        )


@pytest.mark.parametrize("bins", [1, 2, 5])
def test_histograms_of_integers_are_numpys(bins: int) -> None:
    """Integers on edges that are integers fall where they fall in NumPy."""
    x = np.array([1, 2, 3, 10, 11, 15, 19, 25, 0, 5, 20])
    found, edges = jnp.histogram(x, bins * 5, (0, 25 * bins))
    expected, _ = np.histogram(x, bins * 5, (0, 25 * bins))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        np.bincount(np.maximum([-3, 1, 1], 0)), jnp.bincount(jnp.array([-3, 1, 1]))
    )


SAME = {
    "eye": (lambda np, x: np.eye(3, k=True)),
    "take": (lambda np, x: np.take(x, np.array(True))),
    "take several": (lambda np, x: np.take(x, np.array([True, False]))),
    "tile": (lambda np, x: np.tile(x, np.array(2))),
    "tile by a row": (lambda np, x: np.tile(x, np.array([2, 1]))),
    "roll": (lambda np, x: np.roll(x, True)),
    "roll by an array": (lambda np, x: np.roll(x, np.array(True))),
    "trapezoid": (lambda np, x: np.trapezoid(x, dx=1j)),
    "trapezoid, whole numbers": (lambda np, x: np.trapezoid(x.astype(int), dx=1j)),
    "piecewise by one condition": (lambda np, x: np.piecewise(x, x > 1, [1.0, 2.0])),
    "piecewise by conditions": (lambda np, x: np.piecewise(x, [x > 1, x > 2], [1.0, 2.0, 3.0])),
    "cov of no observations": (lambda np, x: np.cov(x[:0])),
    "cov of one": (lambda np, x: np.cov(x[:1])),
    "cov of two without observations": (lambda np, x: np.cov(x[:0].reshape(2, 0))),
    "hypot": (lambda np, x: np.hypot(x, 2)),
    "heaviside": (lambda np, x: np.heaviside(x, 0.5)),
}


@pytest.mark.parametrize("name", SAME)
@pytest.mark.filterwarnings("ignore")
def test_forms_of_arguments_are_numpys(name: str) -> None:
    x = np.arange(4, dtype=np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(SAME[name](jnp, jnp.asarray(x)), SAME[name](np, x), rtol=1e-6)


def test_piecewise_takes_rows_of_a_table_as_conditions() -> None:
    """As many functions as the table has rows: a condition for each."""
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(
        jnp.piecewise(x, x > 1, [1.0, 2.0, 3.0]), [3, 3, 3]
    )  # three conditions, each a truth value
    np.testing.assert_array_equal(
        jnp.piecewise(x, jnp.stack([x > 1, x > 0]), [1.0, 2.0, 3.0]), [3, 2, 2]
    )


@pytest.mark.parametrize("f", [jnp.polyadd, jnp.polysub])
def test_polynomials_with_arrays_as_coefficients(f: Any) -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.ones((1, 3))
    padded = np.concatenate([np.zeros((1, 3)), b])
    np.testing.assert_array_equal(f(a, b), a + padded if f is jnp.polyadd else a - padded)
    last = np.array([[0.0], [2.0]])
    np.testing.assert_array_equal(f(a, last[1]), f(a, last + 0 * a))
    with pytest.raises(ValueError, match=r"different shapes: \(3,\), \(\)\."):
        f(a, np.ones(3))


@pytest.mark.parametrize("behind", [0, 2])
@pytest.mark.parametrize("before", [0, 1, 3])
def test_roots_with_zeros_before_and_behind(before: int, behind: int) -> None:
    """Within a program each zero before is a root that is NaN, the last ones; known, it is none."""
    p = np.float32([0] * before + [2, -3, 5, 1] + [0] * behind)
    expected = np.sort_complex(np.roots(p))
    known, traced = jnp.roots(p), jax.jit(lambda p: jnp.roots(p, strip_zeros=False))(p)
    n = len(expected)
    assert known.shape == (n,) and traced.shape == (n + before,)
    assert np.isnan(traced[n:]).all()
    for found in (known, traced[:n]):
        np.testing.assert_allclose(np.sort_complex(found), expected, atol=1e-4)


@pytest.mark.parametrize("fill", [2.5, 7, 1 + 2j, np.float16(2.5), True])
def test_fill_values_are_not_cut(fill: Any) -> None:
    x = jnp.array([[0, 1], [1, 0]])
    for places in (
        *jnp.nonzero(x, size=3, fill_value=fill),
        *jnp.where(x, size=3, fill_value=fill),
        jnp.flatnonzero(x, size=3, fill_value=fill),
        *jnp.argwhere(x, size=3, fill_value=fill).T,
    ):
        assert places[-1] == fill
    rows, columns = jnp.nonzero(x, size=3, fill_value=(2.5, 3))
    assert rows[-1] == 2.5 and columns[-1] == 3 and columns.dtype == np.int32
    for f in (jnp.nonzero, jnp.argwhere):
        with pytest.raises(
            ValueError, match="fill_value must be a number, or one for each of 2 axes"
        ):
            f(x, size=3, fill_value=np.array([1, 2]))


@pytest.mark.parametrize("f", [special.xlogy, special.xlog1py])
def test_nothing_times_nan(f: Any) -> None:
    """Zero times a logarithm is zero, but nan where that is nan."""
    np.testing.assert_array_equal(f(0.0, np.float32([np.nan, np.inf, 0, 2])), [np.nan, 0, 0, 0])
    assert np.isnan(f(np.complex64(0), np.nan))


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 2), (0, 0)])
@pytest.mark.parametrize(
    "name", ["fft", "ifft", "irfft", "fft2", "ifft2", "irfft2", "fftn", "hfft"]
)
def test_transforms_of_nothing(name: str, shape: tuple[int, ...]) -> None:
    if name.endswith("2") and len(shape) < 2:
        shape = (1, *shape)
    y = getattr(jnp.fft, name)(jnp.zeros(shape))
    last = max(2 * (shape[-1] - 1), 0) if "irfft" in name or name == "hfft" else shape[-1]
    assert y.shape == (*shape[:-1], last)
    assert y.dtype == (np.float32 if "irfft" in name or name == "hfft" else np.complex64)
    with pytest.raises(ValueError, match="Shape should be positive"):
        jnp.fft.fft(jnp.zeros(3), n=0)


@pytest.mark.parametrize("kind", ["numpy mask", "mask", "list", "numpy integers"])
def test_an_empty_list_of_places(kind: str) -> None:
    """Of truth values as of integers names nothing, whatever the size of the axis."""
    key: Any = {
        "numpy mask": np.array([], bool),
        "mask": jnp.array([], bool),
        "list": [],
        "numpy integers": np.array([], int),
    }[kind]
    for shape in ((0, 0, 1), (2, 1), (3,)):
        x = jnp.zeros(shape)
        np.testing.assert_array_equal(
            x.at[..., key].set(1) if len(key) == 0 and not isinstance(key, list) else x, x
        )
        assert x[..., key if not isinstance(key, list) else np.array([], int)].shape == (
            *shape[:-1],
            0,
        )


def test_widths_under_64_bits() -> None:
    """Places in a sorted array and powers of truth values are of 32 bits, permutations of Python's
    width."""
    with config.enable_x64(True):
        assert jnp.searchsorted(jnp.arange(3.0), 1.0).dtype == np.int32
        assert jnp.digitize(jnp.arange(3.0), jnp.arange(2.0)).dtype == np.int32
        assert (jnp.array([True]) ** 2).dtype == np.int32
        assert jax.random.permutation(jax.random.key(0), np.int8(3)).dtype == np.int64


def test_messages_of_wrong_arguments() -> None:
    """No AttributeError of ours comes out."""
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        lax.reduce_precision(jnp.ones(3), (2, 3), 7)
    with pytest.raises(ValueError, match="reshard: out_shardings says None"):
        jax.sharding.reshard(3, None)
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        lax.dot_general(jnp.ones((2, 2)), jnp.ones((2, 2)), (((0.5,), (0,)), ((), ())))
    assert (
        lax.dtype(np.float32)
        == lax.dtype("float32")
        == lax.dtype(float)
        == lax.dtype(np.dtype("float32"))
        == np.float32
    )
    with pytest.raises(ValueError, match="Invalid argument to dtype: None"):
        lax.dtype(None)


@pytest.mark.parametrize("init", [0.0, 1.5, True])
@pytest.mark.parametrize(
    "reduce",
    [
        lambda x, init: lax.reduce(x, init, lambda a, b: a + b, (0,)),
        lambda x, init: lax.reduce_window(x, init, lambda a, b: a + b, (2,), (1,), "VALID"),
        lambda x, init: lax.reduce((x,), (init,), lambda a, b: (a[0] + b[0],), (0,)),
    ],
)
def test_initial_values_are_not_cast(reduce: Any, init: Any) -> None:
    with pytest.raises(TypeError, match="an initial value has not the dtype of its operand"):
        reduce(jnp.arange(3), init)


def test_numbers_are_converted_as_python_would() -> None:
    for x, dtype in ((1j, np.float32), (1j, np.int32)):
        with pytest.raises(TypeError, match="not 'complex'"):
            lax.convert_element_type(x, dtype)
    assert (
        lax.convert_element_type(1j, bool)
        and lax.convert_element_type(2**40, np.float32) == 2.0**40
    )
    assert (
        lax.convert_element_type(300, np.int8) == 44
        and lax.convert_element_type(-1, np.uint8) == 255
    )
