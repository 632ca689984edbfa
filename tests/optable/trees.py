"""Arguments of samples as flat arrays, and what the laws do with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from optable.table import Op, Sample

from teucer._base import dtypes
from teucer._trees.pytrees import tree_flatten, tree_leaves, tree_unflatten


def flat_call(op: Op, call: Sample) -> tuple[list[Any], Callable[..., list[Any]]]:
    """The arrays of a call, and the operation as a function of them that returns a list of
    arrays."""
    leaves, tree = tree_flatten(call.args)

    def f(*xs: Any) -> list[Any]:
        return tree_leaves(op(*tree_unflatten(tree, xs), **call.kwargs))

    return leaves, f


def moving(op: Op, call: Sample) -> list[bool]:
    """Which of the arrays of a call are differentiated."""
    found: list[bool] = []
    for i, arg in enumerate(call.args):
        found += [i not in op.constant and is_inexact(x) for x in tree_leaves(arg)]
    return found


def is_inexact(x: Any) -> bool:
    return bool(
        dtypes.issubdtype(np.asarray(x).dtype if not hasattr(x, "dtype") else x.dtype, np.inexact)
    )


def along(
    f: Callable[..., list[Any]], leaves: Sequence[Any], moves: Sequence[bool]
) -> Callable[..., list[Any]]:
    """f as a function of the arrays that move, with the results that can move."""

    def g(*xs: Any) -> list[Any]:
        rest = iter(xs)
        outs = f(*(next(rest) if m else x for m, x in zip(moves, leaves, strict=True)))
        return [y for y in outs if is_inexact(y)]

    return g


def widened(x: Any, widen: str) -> Any:
    """An operand of a reference, as Op.widen says."""
    if isinstance(x, list | tuple):
        return type(x)(widened(v, widen) for v in x)
    x = np.asarray(x)
    if widen == "no" or not is_inexact(x):
        return x
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        return x.astype(np.clongdouble if widen == "long" else np.complex128)
    return x.astype(np.float64).astype(np.longdouble if widen == "long" else np.float64)


def strided(x: Any) -> Any:
    """Equal elements in an array that is not contiguous."""
    x = np.asarray(x)
    if not x.ndim:
        return x
    spread = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    spread[..., ::2] = x
    return np.asfortranarray(x) if x.ndim > 1 and x.shape[-1] % 2 else spread[..., ::2]


def normal(rng: np.random.Generator, *shape: int, dtype: Any = np.float64) -> Any:
    """Normally distributed numbers of a dtype, complex ones in both parts."""
    x = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.normal(size=shape)
    return np.asarray(x).astype(dtype)
