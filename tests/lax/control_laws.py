"""Laws that the tests of control flow state.

Gradients against differences, vmap against a loop, jit against eager.
"""

import numpy as np

import teucer as jax
from teucer import tree_util


def leaves(tree):
    return [np.asarray(x) for x in tree_util.tree_leaves(tree)]


def assert_close(got, expected, rtol=1e-6, atol=1e-6):
    """Trees of arrays are equal but for rounding, and so are their structures."""
    assert tree_util.tree_structure(got) == tree_util.tree_structure(expected)
    for a, b in zip(leaves(got), leaves(expected), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def check_gradients(f, *args, order=2):
    """Forward and reverse derivatives of f, a function of float64 arrays, agree with differences
    and with each other.

    Second order: the derivative of the gradient along a direction.
    """
    rng = np.random.default_rng(0)
    args = [np.asarray(x, np.float64) for x in args]
    directions = [rng.standard_normal(x.shape) for x in args]
    step = 1e-6
    ahead = f(*(x + step * d for x, d in zip(args, directions, strict=True)))
    behind = f(*(x - step * d for x, d in zip(args, directions, strict=True)))
    slope = [(a - b) / (2 * step) for a, b in zip(leaves(ahead), leaves(behind), strict=True)]
    out, moved = jax.jvp(f, tuple(args), tuple(directions))
    assert_close(leaves(moved), slope, 1e-5, 1e-6)
    weights = tree_util.tree_map(lambda y: rng.standard_normal(np.shape(y)), out)
    _, pullback = jax.vjp(f, *args)
    cts = pullback(weights)
    forward = sum(np.vdot(w, m) for w, m in zip(leaves(weights), leaves(moved), strict=True))
    backward = sum(np.vdot(c, d) for c, d in zip(leaves(cts), directions, strict=True))
    np.testing.assert_allclose(backward, forward, rtol=1e-9, atol=1e-9)
    if order > 1:

        def gradient(*xs):
            return jax.vjp(f, *xs)[1](weights)

        check_gradients(gradient, *args, order=order - 1)


def check_vmap(f, *args, in_axes=0):
    """vmap(f) is f of each element, stacked."""
    axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
    size = next(
        np.shape(tree_util.tree_leaves(x)[0])[a]
        for x, a in zip(args, axes, strict=True)
        if a is not None
    )
    rows = []
    for i in range(size):
        rows.append(
            f(
                *(
                    x if a is None else tree_util.tree_map(lambda v, a=a: np.take(v, i, a), x)
                    for x, a in zip(args, axes, strict=True)
                )
            )
        )
    stacked = tree_util.tree_map(lambda *ys: np.stack([np.asarray(y) for y in ys]), *rows)
    assert_close(jax.vmap(f, axes)(*args), stacked)


def check_jit(f, *args):
    """jit(f) is f."""
    assert_close(jax.jit(f)(*args), f(*args))
