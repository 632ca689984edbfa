"""Contractions: roles of the axes in products and convolutions of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._core.types import ShapedArray
from teucer._dimensions.dimensions import dilated
from teucer._hlo import rare_hlo

if TYPE_CHECKING:
    from teucer._core.typing import Params, Size
    from teucer._lower.context import Context
    from teucer._lower.value import Value


class Roles(NamedTuple):
    """Axes of one operand of dot_general by their roles."""

    batch: tuple[int, ...]
    contract: tuple[int, ...]
    kept: tuple[int, ...]


def remaining(ndim: int, *taken: Sequence[int]) -> tuple[int, ...]:
    """The axes of an array that are in none of the given groups."""
    used = {i for group in taken for i in group}
    return tuple(i for i in range(ndim) if i not in used)


def roles_of(
    ndims: tuple[int, int], dimension_numbers: Sequence[Sequence[Sequence[int]]]
) -> tuple[Roles, Roles]:
    """Of the axes of lhs and of rhs; ndims: how many they have."""
    contract, batch = dimension_numbers
    lhs, rhs = (
        Roles(tuple(batch[i]), tuple(contract[i]), remaining(ndims[i], batch[i], contract[i]))
        for i in (0, 1)
    )
    return lhs, rhs


def taken(shape: Sequence[Size], spec: Sequence[int]) -> tuple[Any, ...]:
    """The sizes of a shape in the order of a spec."""
    return tuple(shape[i] for i in spec)


def inverse_permutation(spec: Sequence[int]) -> tuple[int, ...]:
    """Where each axis of the array stands in the spec."""
    return tuple(int(i) for i in np.argsort(spec))


def spread(
    ctx: Context, lhs: Value, window: Params, pads: Sequence[tuple[int, int]]
) -> tuple[Any, dict[str, Any]]:
    """The left operand of a convolution dilated and padded by pads, and the window that is left."""
    shape, rank = list(lhs.shape), len(lhs.shape)
    low, high, interior = [0] * rank, [0] * rank, [0] * rank
    for axis, pad, dilation in zip(
        window["dimension_numbers"][0][2:], pads, window["lhs_dilation"], strict=True
    ):
        (low[axis], high[axis]), interior[axis] = pad, dilation - 1
        shape[axis] = max(dilated(shape[axis], dilation) + sum(pad), 0)
    if any((*low, *high, *interior)):
        lhs = rare_hlo.pad(
            ctx,
            lhs,
            ctx.constant(0, lhs.dtype),
            low,
            high,
            interior,
            ShapedArray(tuple(shape), lhs.dtype),
        )
    padding = tuple(
        (before - low, after - high)
        for (before, after), (low, high) in zip(window["padding"], pads, strict=True)
    )
    return lhs, {**window, "padding": padding, "lhs_dilation": (1,) * len(padding)}
