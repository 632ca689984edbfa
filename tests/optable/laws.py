"""The laws of derivatives, of vmap and of jit, for any function of arrays.

The laws of the table are these, of each entry. Tests of other functions state them by
`assert_derivatives`, `assert_vmap`, `assert_vmap_is_loop` and `assert_jit`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from optable.compare import assert_close, assert_trees_close
from optable.trees import is_inexact

from teucer import lax
from teucer._derived.forward import jvp
from teucer._derived.staging import eval_shape
from teucer._derived.vjp import vjp
from teucer._transform.jit import jit
from teucer._transform.vmap import vmap
from teucer._trees.pytrees import tree_flatten, tree_leaves, tree_map, tree_unflatten

STEP = 2.0**-13
# How closely reverse mode agrees with forward mode, of which it is the transpose.
TRANSPOSE = 1e-9
FIRST = frozenset({"differences", "forward", "reverse"})
SECOND = FIRST | {"second"}
Function = Callable[..., list[Any]]

# Derivatives, in 64 bits


def direction(rng: np.random.Generator, like: Any) -> Any:
    """A random array of a type, its elements within [-1, 1]."""
    shape, dtype = np.shape(like), np.dtype(like.dtype)
    x = rng.uniform(-1, 1, shape)
    return np.asarray(x + 1j * rng.uniform(-1, 1, shape) if dtype.kind == "c" else x).astype(dtype)


def difference(f: Function, xs: Any, ts: Any) -> list[Any]:
    """The derivative of f at xs along ts, from four values: the error is of the fourth power of the
    step."""

    def at(h: float) -> list[Any]:
        return f(
            *(lax.add(x, lax.mul(t, np.asarray(h, t.dtype))) for x, t in zip(xs, ts, strict=True))
        )

    return [
        lax.div(
            lax.sub(lax.mul(lax.sub(b, c), np.asarray(8.0, b.dtype)), lax.sub(a, d)),
            np.asarray(12 * STEP, b.dtype),
        )
        for d, b, c, a in zip(at(-2 * STEP), at(STEP), at(-STEP), at(2 * STEP), strict=True)
    ]


def pairing(xs: Any, ys: Any) -> Any:
    """The real part of sum(x * y) over all arrays: what the transpose of a real-linear function
    keeps."""
    total: Any = 0.0
    for x, y in zip(xs, ys, strict=True):
        z = lax.mul(x, y)
        z = lax.real(z) if np.dtype(z.dtype).kind == "c" else z
        total = lax.add(total, lax.reduce_sum(z, tuple(range(z.ndim))))
    return total


def tangent(f: Function, xs: Any, ts: Any) -> list[Any]:
    return jvp(f, tuple(xs), tuple(ts))[1]


def cotangent(f: Function, xs: Any, cts: Any) -> list[Any]:
    found = list(vjp(f, *xs)[1](list(cts)))
    for ct, x in zip(found, xs, strict=True):
        assert (ct.shape, ct.dtype) == (np.shape(x), x.dtype)
    return found


def derivatives(
    f: Function, xs: Any, ts: Any, us: Any, cts: Any, laws: frozenset[str]
) -> dict[str, Any]:
    """What each law compares: (found, expected).

    laws: some of "forward", "reverse", "differences" and "second", the derivatives of derivatives.
    """

    def pushed(*v: Any) -> list[Any]:
        return tangent(f, v, ts)

    def pulled(*v: Any) -> list[Any]:
        return cotangent(f, v, cts)

    compared: dict[str, Any] = {}
    slope = pushed(*xs) if "forward" in laws else None
    pulled_along = pairing(pulled(*xs), ts) if "reverse" in laws else None
    if slope is not None and pulled_along is not None:
        compared["reverse mode against forward mode"] = pulled_along, pairing(cts, slope)
    if "differences" not in laws:
        return compared
    by_differences = difference(f, xs, ts)
    if slope is not None:
        compared["forward mode against differences"] = slope, by_differences
    if pulled_along is not None:
        compared["reverse mode against differences"] = pulled_along, pairing(cts, by_differences)
    if {"forward", "second"} <= laws:
        compared["forward over forward against differences"] = (
            tangent(pushed, xs, us),
            difference(pushed, xs, us),
        )
    if {"reverse", "second"} <= laws:
        twice = difference(pulled, xs, us)
        compared["reverse over reverse against differences"] = (
            pairing(cotangent(pulled, xs, ts), us),
            pairing(ts, twice),
        )
        if "forward" in laws:
            compared["forward over reverse against differences"] = tangent(pulled, xs, us), twice
    return compared


def assert_compared(compared: dict[str, Any], rtol: float, what: str) -> None:
    """What `derivatives` gave is equal in pairs."""
    for law, (found, expected) in compared.items():
        pairs = (
            zip(found, expected, strict=True)
            if isinstance(found, list | tuple)
            else [(found, expected)]
        )
        for y, z in pairs:
            assert_close(y, z, rtol if "differences" in law else TRANSPOSE, f"{what}, {law}")


def assert_derivatives(
    f: Callable[..., Any], *args: Any, laws: frozenset[str] = FIRST, rtol: float = 1e-6
) -> None:
    """The laws of derivatives hold for a function at arrays, along random directions."""
    rng = np.random.default_rng(1)
    leaves, tree = tree_flatten(args)
    xs = [np.asarray(x) for x in leaves]

    def g(*xs: Any) -> list[Any]:
        return [y for y in tree_leaves(f(*tree_unflatten(tree, xs))) if is_inexact(y)]

    ts, us, cts = ([direction(rng, v) for v in like] for like in (xs, xs, eval_shape(g, *xs)))
    assert_compared(derivatives(g, xs, ts, us, cts, laws), rtol, "derivatives")


# vmap and jit


def axes_of(shapes: list[tuple[int, ...]], thorough: bool) -> Iterator[tuple[int | None, ...]]:
    """Choices of in_axes: every operand alone along every axis, all together along the first and
    along the last axis;
    thorough: every combination."""
    if thorough and len(shapes) < 4:
        yield from (
            c
            for c in itertools.product(*((None, *range(len(s) + 1)) for s in shapes))
            if set(c) != {None}
        )
        return
    seen = set()
    for i, shape in enumerate(shapes):
        for axis in range(len(shape) + 1):
            seen.add(tuple(axis if j == i else None for j in range(len(shapes))))
    seen.add((0,) * len(shapes))
    seen.add(tuple(len(s) for s in shapes))
    yield from sorted(seen, key=str)


def assert_vmap(f: Callable[..., Any], *batches: Any, in_axes: Any = 0, rtol: float = 1e-9) -> None:
    """vmap(f) of trees of arrays is f of each element, stacked. in_axes: one for each argument."""
    axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(batches)
    size = next(
        np.shape(tree_leaves(x)[0])[a] for x, a in zip(batches, axes, strict=True) if a is not None
    )

    def row(i: int) -> Any:
        return f(
            *(
                x if a is None else tree_map(lambda v, a=a: np.take(v, i, a), x)
                for x, a in zip(batches, axes, strict=True)
            )
        )

    stacked = tree_map(lambda *ys: np.stack(list(map(np.asarray, ys))), *map(row, range(size)))
    assert_trees_close(vmap(f, axes)(*batches), stacked, rtol, rtol)


def assert_vmap_is_loop(f: Callable[..., Any], *args: Any, rtol: float = 1e-9) -> None:
    """`assert_vmap`, for `axes_of` batches of three that are near the arrays."""
    rng = np.random.default_rng(2)
    for axes in axes_of([np.shape(x) for x in args], thorough=False):

        def near(x: Any) -> Any:
            return x + np.asarray(0.1 * direction(rng, x), x.dtype) if is_inexact(x) else x

        batches = (
            x if a is None else np.stack([near(x) for _ in range(3)], a)
            for x, a in zip(args, axes, strict=True)
        )
        assert_vmap(f, *batches, in_axes=axes, rtol=rtol)


def assert_jit(f: Callable[..., Any], *args: Any) -> None:
    """jit(f) is f."""
    assert_trees_close(jit(f)(*args), f(*args))
