"""The axes of a product by role, and products at stored elements.

What `bcoo_dot_general` and its sampled form share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import dtypes

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, Axes


Numbers = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


class Contraction(NamedTuple):
    """dimension_numbers of `lax.dot_general`, with the axes that they leave free, and the shape of
    the result."""

    lhs_contract: tuple[int, ...]
    rhs_contract: tuple[int, ...]
    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    lhs_free: tuple[int, ...]
    rhs_free: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def numbers(self) -> Numbers:
        return (self.lhs_contract, self.rhs_contract), (self.lhs_batch, self.rhs_batch)


def as_numbers(dimension_numbers: Any) -> Numbers:
    """dimension_numbers as tuples."""
    (lc, rc), (lb, rb) = dimension_numbers
    return ((_axes(lc), _axes(rc)), (_axes(lb), _axes(rb)))


def _axes(axes: Axes) -> tuple[int, ...]:
    return tuple(int(a) for a in axes)


def contraction(
    op: str, lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: object
) -> Contraction:
    """The roles of axes in a product.

    Raises TypeError if axes are not distinct or out of range (C1), or sizes differ (C2).
    """
    (lc, rc), (lb, rb) = as_numbers(dimension_numbers)
    shapes = (
        f"\n    lhs: {tuple(lhs_shape)}\n    rhs: {tuple(rhs_shape)}\n"
        f"    dimension_numbers: {dimension_numbers}"
    )
    for axes, shape in (((*lc, *lb), lhs_shape), ((*rc, *rb), rhs_shape)):
        if len(set(axes)) != len(axes) or any(not 0 <= a < len(shape) for a in axes):
            raise TypeError(f"{op}: dimension_numbers must name distinct axes.{shapes}")
    if len(lc) != len(rc) or len(lb) != len(rb):
        raise TypeError(f"{op}: dimension_numbers must name as many axes of lhs as of rhs.{shapes}")
    for kind, left, right in (("contracting", lc, rc), ("batch", lb, rb)):
        if [lhs_shape[a] for a in left] != [rhs_shape[a] for a in right]:
            raise TypeError(f"{op} requires {kind} dimensions to have the same sizes.{shapes}")
    lf = tuple(a for a in range(len(lhs_shape)) if a not in (*lc, *lb))
    rf = tuple(a for a in range(len(rhs_shape)) if a not in (*rc, *rb))
    shape = (*(lhs_shape[a] for a in (*lb, *lf)), *(rhs_shape[a] for a in rf))
    return Contraction(lc, rc, lb, rb, lf, rf, shape)


def product_dtype(lhs: Any, rhs: Any, preferred: Any) -> Any:
    """The dtype of a product of two arrays."""
    return np.dtype(preferred) if preferred is not None else dtypes.result_type(lhs, rhs)


def moved_to_front(x: ArrayLike, axes: Sequence[int]) -> tuple[Any, list[int]]:
    """x with axes in front, in their order; and which axis each of the others was."""
    rest = [a for a in range(np.ndim(x)) if a not in axes]
    return lax.transpose(x, (*axes, *rest)), rest


def at_places(x: Array, places: Sequence[object]) -> Any:
    """The blocks of x at places along its first axes, which are the sparse ones: T[*sparse, *rest],
    int[nse] each -> T[nse, *rest].

    Out of bounds it is 0. For no places: x itself with an axis of size 1 in front.
    """
    return x.at[tuple(places)].get(mode="fill", fill_value=0) if places else jnp.asarray(x)[None]
