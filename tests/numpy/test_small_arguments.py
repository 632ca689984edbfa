"""Functions with places, axes, counts or widths among their arguments: for all small arguments, in
and out of range, they give what NumPy gives, and refuse what NumPy refuses."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import teucer as jax
from teucer import numpy as jnp

# Of different sizes, so that no axis is taken for another.
X = np.arange(6, dtype=np.float32).reshape(2, 3)
V = np.array([4, -2, 7], np.float32)
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
AXES = (None, *range(-3, 3))
AROUND = range(-5, 6)
SLICES = [
    slice(*ends) for ends in itertools.product((None, -2, 1, 5), (None, -1, 2), (None, 2, -1))
]
PAIRS = [np.array(pair) for pair in itertools.product(range(-4, 4), (-2, 0, 1))]
INSIDE = [pair for pair in PAIRS if pair.min() > -3]
MASKS = [np.array(mask) for mask in itertools.product((False, True), repeat=3)]
MODES = ("clip", "wrap")
# Calls whose first argument may be traced.
TRACED = (
    "delete", "insert", "insert row", "insert column", "insert pairs", "insert rows", "take",
    "take pairs", "put", "put one", "take_along_axis", "put_along_axis", "roll", "searchsorted",
    "quantile",
)  # fmt: skip

# name: what is called with (np or jnp, *arguments), and the values of each argument.
CALLS: dict[str, tuple[Callable[..., Any], tuple[Iterable[Any], ...]]] = {
    "delete": (lambda np, i, axis: np.delete(X, i, axis), (AROUND, AXES)),
    "delete pairs": (lambda np, i, axis: np.delete(X, i, axis), (PAIRS, (None, 0, 1))),
    "delete slices": (lambda np, i, axis: np.delete(X, i, axis), (SLICES, (None, 0, -1))),
    "delete masks": (lambda np, i: np.delete(V, i), (MASKS,)),
    "insert": (lambda np, i, axis: np.insert(X, i, 9, axis), (AROUND, AXES)),
    "insert row": (lambda np, i: np.insert(X, i, V, 0), (AROUND,)),
    "insert column": (lambda np, i: np.insert(X, i, V[:2], 1), (AROUND,)),
    "insert pairs": (lambda np, i: np.insert(V, i, np.array([8, 9])), (INSIDE,)),
    "insert rows": (lambda np, i: np.insert(X, i, X + 10, 0), (INSIDE,)),
    "insert slices": (lambda np, i: np.insert(V, i, 9), (SLICES,)),
    "insert masks": (lambda np, i: np.insert(V, i, 9), (MASKS,)),
    "append": (lambda np, y, axis: np.append(X, y, axis), ((X, X[:1], X[:, :2], V), AXES)),
    "take": (lambda np, i, axis, mode: np.take(X, i, axis, mode=mode), (AROUND, AXES, MODES)),
    "take pairs": (lambda np, i, mode: np.take(X, i, 1, mode=mode), (PAIRS, MODES)),
    "put": (
        lambda np, i, mode: changed(np, "put", X, i, np.array([8, 9]), mode=mode),
        (PAIRS, MODES),
    ),
    "put one": (lambda np, i, mode: changed(np, "put", X, i, 9, mode=mode), (AROUND, MODES)),
    "place": (lambda np, mask: changed(np, "place", V, mask, V[:2] + 9), (MASKS,)),
    "take_along_axis": (
        lambda np, i, axis: np.take_along_axis(X, i, axis),
        ([np.array([pair]) % 2 for pair in PAIRS[:6]] + [X.astype(int) % 2], (0, 1, -1, 2)),
    ),
    "put_along_axis": (
        lambda np, i, axis: changed(np, "put_along_axis", X, i, 9, axis),
        ([X.astype(int) % 2, X[:, :1].astype(int) % 2], (0, 1, -1)),
    ),
    "repeat": (lambda np, n, axis: np.repeat(X, n, axis), (range(4), AXES)),
    "repeat each": (
        lambda np, n: np.repeat(V, np.array(n)),
        (itertools.product(range(3), repeat=3),),
    ),
    "tile": (lambda np, n: np.tile(X, n), ((0, 1, 2, (2, 1), (1, 2), (2, 1, 2), (0, 1), ()),)),
    "resize": (lambda np, n: np.resize(X, n), ((0, 1, 4, 7, (2, 2), (4, 3)),)),
    "roll": (lambda np, n, axis: np.roll(X, n, axis), (AROUND, AXES)),
    "roll both": (lambda np, n, axes: np.roll(X, n, axes), (((1, 2), (-1, 4)), ((0, 1), (1, 1)))),
    "rot90": (
        lambda np, n, axes: np.rot90(CUBE, n, axes),
        (AROUND, ((0, 1), (2, 1), (0, -1), (1, 1))),
    ),
    "flip": (lambda np, axis: np.flip(CUBE, axis), ((*AXES, 3, (0, 2), (1, -1)),)),
    "moveaxis": (lambda np, i, j: np.moveaxis(CUBE, i, j), (range(-4, 4), range(-4, 4))),
    "rollaxis": (lambda np, i, j: np.rollaxis(CUBE, i, j), (range(-4, 4), range(-4, 5))),
    "swapaxes": (lambda np, i, j: np.swapaxes(CUBE, i, j), (range(-4, 4), range(-4, 4))),
    "expand_dims": (lambda np, axis: np.expand_dims(X, axis), ((*range(-5, 5), (0, 3), (1, 1)),)),
    "squeeze": (lambda np, axis: np.squeeze(X[:1, None], axis), ((*AXES, (0, 1), (0, 2)),)),
    "diag": (lambda np, k: np.diag(X, k), (AROUND,)),
    "diag of a row": (lambda np, k: np.diag(V, k), (AROUND,)),
    "diagflat": (lambda np, k: np.diagflat(X, k), ((-2, 0, 1),)),
    "diagonal": (
        lambda np, k, i, j: np.diagonal(CUBE, k, i, j),
        ((-2, 0, 1, 4), range(-3, 3), (0, 1, 2)),
    ),
    "trace": (lambda np, k, i: np.trace(CUBE, k, i, 2), (range(-3, 4), (-3, -2, 0, 1))),
    "tri": (lambda np, n, m, k: np.tri(n, m, k), ((0, 2, 3), (None, 0, 2, 4), range(-3, 4))),
    "tril": (lambda np, k: np.tril(X, k), (AROUND,)),
    "triu": (lambda np, k: np.triu(X, k), (AROUND,)),
    "eye": (lambda np, n, m, k: np.eye(n, m, k), ((0, 2, 3), (None, 2, 4), range(-3, 4))),
    "tril_indices": (lambda np, k, m: np.tril_indices(3, k, m), (range(-3, 4), (None, 2, 4))),
    "triu_indices": (lambda np, k, m: np.triu_indices(3, k, m), (range(-3, 4), (None, 2, 4))),
    "vander": (lambda np, n, up: np.vander(V, n, up), ((None, 0, 1, 4), (False, True))),
    "diff": (lambda np, n, axis: np.diff(X, n, axis), ((0, 1, 2, 3, -1), (-1, 0, 1, 2))),
    "diff with ends": (
        lambda np, n, first, last: np.diff(V, n, prepend=first, append=last),
        ((1, 2), (5, V), (6, V[:2])),
    ),
    "split": (
        lambda np, n, axis: np.split(CUBE, n, axis),
        ((1, 2, 3, [1], [1, 2], [5]), (0, 1, 2, 3)),
    ),
    "array_split": (lambda np, n, axis: np.array_split(CUBE, n, axis), ((1, 2, 3, 5), (0, 1, -1))),
    "pad": (
        lambda np, before, after, mode: np.pad(X, (before, after), mode),
        (
            ((0, 0), (1, 2), (4, 7)),
            ((0, 0), (3, 1)),
            ("constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "mean", "maximum"),
        ),
    ),
    "searchsorted": (
        lambda np, v, side: np.searchsorted(np.array([1.0, 1, 2, 4]), v, side),
        ((0, 1, 1.5, 2, 4, 5), ("left", "right")),
    ),
    "digitize": (
        lambda np, bins, right: np.digitize(V, np.array(bins), right),
        (([-2, 4, 7], [7, 4, -2], [0], [4, 4], []), (False, True)),
    ),
    "unravel_index": (lambda np, i: np.unravel_index(np.array([i]), (2, 3)), (range(6),)),
    "ravel_multi_index": (
        lambda np, i, j, mode: np.ravel_multi_index((np.array([i]), np.array([j])), (2, 3), mode),
        (range(-2, 4), range(-2, 5), MODES),
    ),
    "ravel_multi_index by columns": (
        lambda np, i, j: np.ravel_multi_index((np.array([i]), np.array([j])), (2, 3), "clip", "F"),
        (range(2), range(3)),
    ),
    "concatenate": (lambda np, axis: np.concatenate([X, X + 9], axis), (AXES,)),
    "stack": (lambda np, axis: np.stack([X, X + 9], axis), (range(-4, 4),)),
    "cumsum": (lambda np, axis: np.cumsum(X, axis), (AXES,)),
    "cumprod": (lambda np, axis: np.cumprod(X, axis), (AXES,)),
    "argmax": (lambda np, axis: np.argmax(X % 3, axis), (AXES,)),
    "argsort": (lambda np, axis: np.argsort(X % 4, axis, stable=True), (AXES,)),
    "sort": (lambda np, axis: np.sort(-X % 4, axis), (AXES,)),
    "partition": (lambda np, k, axis: np.sort(np.partition(-X, k, axis)), (range(-4, 4), (0, 1))),
    "bincount": (lambda np, n: np.bincount(np.array([1, 3, 1]), minlength=n), (range(7),)),
    "convolve": (
        lambda np, n, mode: np.convolve(V, V[:n], mode),
        ((1, 2, 3), ("full", "same", "valid")),
    ),
    "correlate": (
        lambda np, n, mode: np.correlate(V[:n], V, mode),
        ((1, 2, 3), ("full", "same", "valid")),
    ),
    "linspace": (lambda np, n, end: np.linspace(2, 5, n, end), ((0, 1, 2, 7), (False, True))),
    "arange": (lambda np, *ends: np.arange(*ends), ((-2, 0, 3), (-3, 0, 4), (-2, 1, 3))),
    "unwrap": (lambda np, axis: np.unwrap(3 * X, axis=axis), ((-1, 0, 1),)),
    "gradient": (lambda np, axis: np.gradient(CUBE**2, axis=axis), ((None, 0, 1, 2, -1),)),
    "trapezoid": (lambda np, axis: np.trapezoid(X, dx=2.0, axis=axis), ((0, 1, -1, 2),)),
    "quantile": (
        lambda np, q, method: np.quantile(V, q, method=method),
        ((0.0, 0.2, 0.25, 0.5, 0.75, 1.0), ("linear", "lower", "higher", "midpoint")),
    ),
    "isin": (
        lambda np, x, invert: np.isin(V, x, invert=invert),
        ((4, V[1:], V[:0]), (False, True)),
    ),
    "cross": (lambda np, n, m: np.cross(V[:n], V[::-1][:m]), ((3,), (3,))),
    "kron": (lambda np, x, y: np.kron(x, y), ((V, X), (V, X))),
}


def changed(np: Any, name: str, x: Any, *args: Any, **kwargs: Any) -> Any:
    """What a function that writes in place makes of an array."""
    if np is jnp:
        return getattr(np, name)(x, *args, inplace=False, **kwargs)
    x = x.copy()
    getattr(np, name)(x, *args, **kwargs)
    return x


def outcome(f: Callable[..., Any], *args: Any) -> list[Any] | None:
    """The arrays that a call gives, or None if it is refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = f(*args)
    except (ValueError, IndexError, TypeError):
        return None
    return list(found) if isinstance(found, list | tuple) else [found]


def assert_same(found: list[Any], expected: list[Any], what: str) -> None:
    for y, z in zip(found, expected, strict=True):
        assert np.shape(y) == np.shape(z), what
        np.testing.assert_allclose(y, z, rtol=1e-6, atol=1e-6, err_msg=what)


@pytest.mark.parametrize("name", CALLS)
def test_small_arguments(name: str) -> None:
    f, domains = CALLS[name]
    refused = 0
    calls = list(itertools.product(*domains))
    for args in calls:
        expected, found = outcome(f, np, *args), outcome(f, jnp, *args)
        assert (expected is None) == (found is None), f"{name}{args}: {found}, NumPy {expected}"
        if expected is None or found is None:
            refused += 1
        else:
            assert_same(found, expected, f"{name}{args}")
    assert refused < len(calls), name


@pytest.mark.parametrize("name", TRACED)
def test_small_arguments_that_are_traced(name: str) -> None:
    """What is not refused while the argument is known is the same while it is traced."""
    f, (firsts, *rest) = CALLS[name]
    for others in itertools.product(*rest):
        compiled = jax.jit(lambda i, others=others: f(jnp, i, *others))
        for i in firsts:
            expected = outcome(f, jnp, i, *others)
            if expected is not None:
                found = jax.tree.leaves(compiled(i))
                assert_same(found, expected, f"{name}{(i, *others)}, traced")


@pytest.mark.parametrize("wrap", [None, True, False])
@pytest.mark.parametrize("mode", ["fill", "clip", "promise_in_bounds", "one_hot"])
def test_places_outside(mode: str, wrap: bool | None) -> None:
    """Negative places count from the end if they are to; then the mode says what those outside
    give, or change."""
    counts = mode != "promise_in_bounds" if wrap is None else wrap
    outside = {"fill": np.nan, "one_hot": 0.0}
    for i in AROUND:
        at = i + 3 if counts and i < 0 else i
        inside = 0 <= at < 3
        if mode == "promise_in_bounds" and not inside:
            continue
        nearest = min(max(at, 0), 2)
        expected = V[nearest] if inside or mode == "clip" else outside[mode]
        what = f"{i}, {mode}, wrap_negative_indices={wrap}"
        along = jnp.take_along_axis(V, np.array([i]), 0, mode=mode, wrap_negative_indices=wrap)
        assert_same([along], [np.array([expected])], what)
        if mode != "one_hot" and wrap is not None:
            place = jnp.asarray(V).at[i]
            assert_same([place.get(mode=mode, wrap_negative_indices=wrap)], [expected], what)
            changed = V.copy()
            if inside or mode == "clip":
                changed[nearest] = 9
            found = place.set(9, mode=mode, wrap_negative_indices=wrap)
            assert_same([found], [changed], f"{what}, set")
