"""Comparison of results with what they should be, in units in the last place."""

from __future__ import annotations

from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer._trees.pytrees import tree_leaves, tree_structure


def assert_ulp(got: Any, expected: Any, ulp: float, what: str, *, each: bool) -> None:
    """`got` differs from `expected` by at most `ulp` units in the last place: of each element, or
    of the greatest one."""
    got = np.asarray(got)
    expected = np.asarray(expected)
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, expected {expected.shape}"
    if not dtypes.issubdtype(got.dtype, np.inexact):
        np.testing.assert_array_equal(got, expected.astype(got.dtype), err_msg=what)
        return
    is_complex = dtypes.issubdtype(got.dtype, np.complexfloating)
    wide = np.clongdouble if is_complex else np.longdouble
    actual, right = (
        got.astype(wide if is_complex else np.float64).astype(wide),
        expected.astype(wide),
    )
    special = ~np.isfinite(right)
    np.testing.assert_array_equal(
        actual[special], right[special], err_msg=f"{what}: where not finite"
    )
    actual, right = actual[~special], right[~special]
    if not right.size:
        return
    info = dtypes.finfo(got.dtype)
    size = np.abs(right) if each else np.max(np.abs(right))
    # A unit in the last place: eps times the power of two below.
    unit = np.float64(info.eps) * 2.0 ** np.floor(
        np.log2(np.maximum(size.astype(np.float64), float(info.tiny)))
    )
    # References are themselves rounded; a part of a complex number is as exact as the number.
    allowed = (ulp + 0.01) * (2 if is_complex else 1)
    error = np.abs(actual - right) / unit
    worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
    assert np.all(error <= allowed), (
        f"{what}: {float(error[worst]):.4g} ulp, allowed {allowed:.4g}, at {actual[worst]!r} for "
        f"{right[worst]!r}"
    )


def assert_close(got: Any, expected: Any, rtol: float, what: str) -> None:
    """`got` differs from `expected` by at most rtol times the greatest element, or rtol if all are
    less than 1."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, expected {expected.shape}"
    if not got.size:
        return
    assert np.all(np.isfinite(got) == np.isfinite(expected)), f"{what}: {got} for {expected}"
    if got.dtype.kind in "bu" or expected.dtype.kind in "bu":  # They have no difference below 0.
        got, expected = got.astype(np.float64), expected.astype(np.float64)
    scale = max(1.0, float(np.max(np.abs(expected))))
    error = float(np.max(np.abs(got - expected))) / scale
    assert error <= rtol, (
        f"{what}: error {error:.3g} of the greatest element, allowed {rtol:.3g}\n got {got}\n"
        f" for {expected}"
    )


def assert_trees_close(got: Any, expected: Any, rtol: float = 1e-6, atol: float = 1e-6) -> None:
    """Trees of arrays are equal but for rounding, each element, and so are their structures."""
    assert tree_structure(got) == tree_structure(expected)
    for y, z in zip(tree_leaves(got), tree_leaves(expected), strict=True):
        y, z = np.asarray(y), np.asarray(z)
        assert y.shape == z.shape
        np.testing.assert_allclose(y, z, rtol=rtol, atol=atol)
