"""Places of elements, by which generators count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base.lazy import listing, refusing

if TYPE_CHECKING:
    from teucer._core.typing import Array

__all__ = ["blocked_iota", "compute_scalar_offset", "round_up"]
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)


def round_up(x: int, y: int) -> int:
    """The least multiple of y that is not less than x."""
    return -(-x // y) * y


def blocked_iota(block_shape: Sequence[int], total_shape: Sequence[int]) -> Array:
    """The places of a block's elements in an array that the block begins, uint32[block_shape].

    >>> blocked_iota((2, 2), (4, 8))
    Array([[0, 1],
           [8, 9]], dtype=uint32)
    """
    found = jnp.zeros(tuple(block_shape), np.uint32)
    for axis in range(len(block_shape)):
        stride = np.uint32(math.prod(total_shape[axis + 1 :]))
        found = found + stride * lax.broadcasted_iota(np.uint32, tuple(block_shape), axis)
    return found


def compute_scalar_offset(
    iteration_index: Sequence[int | Array], total_size: Sequence[int], block_size: Sequence[int]
) -> int | Array:
    """The place in an array of the first element of a block.

    >>> compute_scalar_offset((1, 1), (4, 8), (2, 4))
    20
    """
    found: int | Array = 0
    for axis, (i, block) in enumerate(zip(iteration_index, block_size, strict=True)):
        found = found + i * (block * math.prod(total_size[axis + 1 :]))
    return found
