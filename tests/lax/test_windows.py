"""Windows: ties, shapes, padding by name, primitives of the derivatives, and errors."""

import numpy as np
import pytest

import teucer as jax
from teucer import lax

X = np.arange(6, dtype=np.float32).reshape(2, 3)
WINDOWS = {"window_dimensions": (2,), "window_strides": (1,), "padding": ((1, 0),)}
ONES = {"base_dilation": (1,), "window_dilation": (1,)}


def test_mapped_initial_values():
    f = jax.vmap(
        lambda x, init: lax.reduce_window(x, init, lambda a, b: lax.add(a, b), (2,)),
        in_axes=(None, 0),
    )
    got = f(np.float32([1, 2, 3]), np.float32([0, 10]))
    assert np.asarray(got).tolist() == [[3.0, 5.0], [13.0, 15.0]]


def test_several_operands():
    got = lax.reduce_window(
        (X, X), (0.0, 1.0), lambda a, b: (lax.add(a[0], b[0]), lax.mul(a[1], b[1])), (2, 2)
    )
    assert [np.asarray(y).tolist() for y in got] == [[[8.0, 12.0]], [[0.0, 40.0]]]


def test_the_first_of_equal_elements_has_the_gradient():
    for f, init in ((lax.max, -np.inf), (lax.min, np.inf)):
        g = jax.grad(
            lambda x, f=f, init=init: lax.reduce_sum(
                lax.reduce_window(x, init, f, (2,), (2,)), (0,)
            )
        )
        assert np.asarray(g(np.float32([1, 1, 2, 2]))).tolist() == [1.0, 0.0, 1.0, 0.0]
        dilated = jax.grad(
            lambda x, f=f, init=init: lax.reduce_sum(
                lax.reduce_window(x, init, f, (2,), (1,), "VALID", None, (2,)), (0,)
            )
        )
        assert np.asarray(dilated(np.float32([1, 5, 1]))).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("combine", "windows"),
    [
        (lambda a, b: a - b, ((2, 1), (1, 1), "VALID")),
        (lambda a, b: a - b, ((3, 2), (2, 1), "SAME", (2, 3), (1, 2))),
        (lambda a, b: a - b, ((2, 3), (1, 2), ((0, 3), (1, 2)), (1, 1), (2, 1))),
        (lambda a, b: 0.5 * a + b, ((2, 2), (1, 1), "VALID")),
        (lambda a, b: 0.5 * a + b, ((2, 3), (2, 1), ((1, 0), (1, 2)))),
        (lambda a, b: 0.5 * a + b, ((9, 9), (1, 1), "VALID")),  # where no window fits
        (lambda a, b: a * b + lax.sin(b), ((1, 4), (1, 1), "VALID")),
    ],
)
@jax.enable_x64(True)
def test_derivatives_of_windows_whose_function_is_not_associative(combine, windows):
    def f(x):
        return lax.reduce_window(x, np.float64(0.3), combine, *windows)

    x, t = np.random.default_rng(0).standard_normal((2, 5, 6))
    h = 1e-6
    _, dy = jax.jvp(f, (x,), (t,))
    np.testing.assert_allclose(dy, (f(x + h * t) - f(x - h * t)) / (2 * h), rtol=1e-7, atol=1e-8)
    y, pull = jax.vjp(f, x)
    ct = np.random.default_rng(1).standard_normal(y.shape)
    np.testing.assert_allclose((pull(ct)[0] * t).sum(), (ct * dy).sum(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f", [lax.add, lax.max])
def test_gradient_is_zero_where_no_window_fits(f):
    g = jax.grad(lambda x: lax.reduce_sum(lax.reduce_window(x, 0.0, f, (4,), (1,), "VALID"), (0,)))
    assert np.asarray(g(np.float32([1, 2, 3]))).tolist() == [0.0, 0.0, 0.0]


def test_padding_is_never_selected():
    (got,) = lax.select_and_scatter_add_p.call(
        np.float32([1, 10, 100]), np.float32([-3, -2, -5]), select_prim=lax.ge_p, **WINDOWS
    )
    assert np.asarray(got).tolist() == [1.0, 110.0, 0.0]
    (back,) = lax.select_and_gather_add_p.call(
        np.float32([1, 10, 100]), np.float32([-3, -2, -5]), select_prim=lax.ge_p, **WINDOWS, **ONES
    )
    assert np.asarray(back).tolist() == [1.0, 10.0, 10.0]


def test_shapes():
    assert lax.reduce_window_shape_tuple((4, 5), (2, 2), (1, 2), [(0, 0), (1, 1)]) == (3, 3)
    assert lax.reduce_window_shape_tuple(
        (4, 5), (2, 2), (1, 2), [(0, 0), (1, 1)], (2, 2), (1, 2)
    ) == (6, 5)
    assert lax.reduce_window(X, 0.0, lax.add, (5, 2)).shape == (0, 2)


@pytest.mark.parametrize(
    ("padding", "want"),
    [("SAME", [(0, 1), (0, 1)]), ("same_lower", [(1, 0), (1, 0)]), ("VALID", [(0, 0), (0, 0)])],
)
def test_padding_by_name(padding, want):
    assert lax.padtype_to_pads((4, 5), (2, 2), (1, 2), padding) == want
    sizes = (np.array(v) for v in ((4, 5), (2, 2), (1, 2)))
    assert all(type(n) is int for pair in lax.padtype_to_pads(*sizes, padding) for n in pair)
    with_pads = lax.reduce_window(np.ones((4, 5), np.float32), 0.0, lax.add, (2, 2), (1, 2), want)
    by_name = lax.reduce_window(np.ones((4, 5), np.float32), 0.0, lax.add, (2, 2), (1, 2), padding)
    np.testing.assert_array_equal(by_name, with_pads)


def window(*args, f=lax.add, init=0.0, **kwargs):
    return lambda: lax.reduce_window(X, init, f, *args, **kwargs)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (window((2,)), TypeError, "wrong number of window_dimensions"),
        (window((2, 2), (1,)), TypeError, "inconsistent window_strides and window_dimensions"),
        (
            window((2, 2), base_dilation=(2,)),
            TypeError,
            "inconsistent base_dilation and window_dimensions",
        ),
        (window((2, 2), padding=((1, 1),)), ValueError, "inconsistent padding"),
        (
            window((0, 2)),
            TypeError,
            "window_dimensions must have every element be strictly positive",
        ),
        (
            window((2, 2), (0, 1)),
            TypeError,
            "window_strides must have every element be strictly positive",
        ),
        (window((2, 2), padding="FULL"), RuntimeError, "Unrecognized padding type"),
        (window((2, 2), init=X[0]), TypeError, "expected init_values to be scalars"),
        (window((2, 2), init=(0.0,)), ValueError, "same tree structure"),
        (
            lambda: lax.reduce_window(np.ones(3), 0.0, lambda a, b: [a + b], (1,)),
            ValueError,
            (
                r"output must have the same tree structure as the operands: PyTreeDef\(\*\) vs. "
                r"PyTreeDef\(\[\*\]\)"
            ),
        ),
        (window((2, 2), init=np.int32(1)), TypeError, "dtype of its operand"),
        (window((2, 2), f=lambda a, b: lax.gt(a, b)), TypeError, "scalar of its operand's dtype"),
        (lambda: lax.padtype_to_pads((4,), (2,), (1,), 3), TypeError, "Unknown padding type"),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
