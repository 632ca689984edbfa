"""Cosine transforms against SciPy's."""

import numpy as np
import pytest
import scipy.fft

import teucer as jax
from teucer.scipy import fft
from teucer.test_util import check_grads

X = np.random.default_rng(0).standard_normal((3, 5)).astype("float32")


@pytest.mark.parametrize("norm", [None, "backward", "ortho"])
@pytest.mark.parametrize("n", [None, 1, 4, 7])
@pytest.mark.parametrize("axis", [0, -1])
def test_values(norm, n, axis):
    for x in (X, X + 1j * X[::-1], (10 * X).astype("int32")):
        for name in ("dct", "idct"):
            found, expected = (
                getattr(module, name)(x, n=n, axis=axis, norm=norm) for module in (fft, scipy.fft)
            )
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
            assert found.dtype == ("complex64" if np.iscomplexobj(x) else "float32")


@pytest.mark.parametrize(
    "options",
    [{}, {"axes": (0,)}, {"s": (2, 7)}, {"s": (4,)}, {"s": (4,), "axes": (-2,), "norm": "ortho"}],
    ids=str,
)
def test_several_axes(options):
    for name in ("dctn", "idctn"):
        np.testing.assert_allclose(
            getattr(fft, name)(X, **options),
            getattr(scipy.fft, name)(X, **options),
            rtol=1e-4,
            atol=1e-4,
        )


def test_transformations():
    np.testing.assert_allclose(jax.jit(fft.idct)(fft.dct(X)), X, atol=1e-5)
    np.testing.assert_allclose(jax.vmap(fft.dct)(X), fft.dct(X), atol=1e-5)
    check_grads(fft.dct, (X,), 2)
    check_grads(fft.idctn, (X,), 2)


@pytest.mark.parametrize(
    "call, error, match",
    [
        (lambda: fft.dct(X, type=1), NotImplementedError, "Only DCT type 2"),
        (lambda: fft.idctn(X, type=3), NotImplementedError, "Only DCT type 2"),
        (lambda: fft.dct(X, norm="other"), ValueError, "Invalid norm value 'other'"),
        (
            lambda: fft.dct(X, axis=3),
            ValueError,
            "axis 3 is out of bounds for array of dimension 2",
        ),
        (lambda: fft.dct(X, n=0), ValueError, r"invalid number of data points \(0\)"),
        (lambda: fft.dctn(X, axes=(0, -2)), ValueError, r"repeated axis: \(0, 0\)"),
        (
            lambda: fft.dctn(X, s=(2,), axes=(0, 1)),
            ValueError,
            "s and axes must have the same length",
        ),
    ],
)
def test_errors(call, error, match):
    with pytest.raises(error, match=match):
        call()
