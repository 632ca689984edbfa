"""Contractions: what happens to the axes of products and convolutions of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from teucer._core.typing import Size

__all__ = ["Roles", "inverse_permutation", "remaining", "roles_of", "taken"]


class Roles(NamedTuple):
    """Axes of one operand of dot_general by what happens to them."""

    batch: tuple[int, ...]
    contract: tuple[int, ...]
    kept: tuple[int, ...]


def remaining(ndim: int, *taken: Sequence[int]) -> tuple[int, ...]:
    """The axes of an array that are in none of the given groups."""
    used = {i for group in taken for i in group}
    return tuple(i for i in range(ndim) if i not in used)


def roles_of(ndims: tuple[int, int], dimension_numbers: Any) -> tuple[Roles, Roles]:
    """Of the axes of lhs and of rhs; ndims: how many they have."""
    contract, batch = dimension_numbers
    lhs, rhs = (
        Roles(batch[i], contract[i], remaining(ndims[i], batch[i], contract[i])) for i in (0, 1)
    )
    return lhs, rhs


def taken(shape: Sequence[Size], spec: Sequence[int]) -> tuple[Any, ...]:
    """The sizes of a shape in the order of a spec."""
    return tuple(shape[i] for i in spec)


def inverse_permutation(spec: Sequence[int]) -> tuple[int, ...]:
    """Where each axis of the array stands in the spec."""
    return tuple(int(i) for i in np.argsort(spec))
