"""Axes and shapes that users give, checked and counted from the front."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from teucer._base import errors
from teucer._core.trace import Tracer
from teucer._dimensions.dimensions import as_size, check_not_negative

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.typing import Axes, Size

__all__ = ["canonical_axis", "canonical_shape", "check_axes"]


def canonical_axis(axis: int, ndim: int, op: str = "axis") -> int:
    """An axis counted from the front.

    Raises ValueError if it is out of bounds.
    """
    if isinstance(axis, Tracer) and axis.concrete() is None:
        raise errors.ConcretizationTypeError(axis, f"{op}: The axis argument must be known statically.")
    i = operator.index(axis)
    if not -ndim <= i < ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return i + ndim if i < 0 else i  # type: ignore[no-any-return]


def canonical_shape(shape: Sequence[Size], op: str = "shape") -> tuple[Any, ...]:
    """A shape as a tuple of ints or symbolic dimensions.

    Raises TypeError if it is not a sequence of integers that are not negative.
    """
    try:
        sizes = tuple([as_size(d) for d in shape])
    except (TypeError, AttributeError) as err:
        raise TypeError(f"Shapes must be 1D sequences of concrete values of integer type, got {shape}.\n  {op}: a size that "
                        "depends on a traced value is not known while tracing; mark it static with static_argnums.") from err
    if any(type(d) is int and d < 0 for d in sizes):
        raise TypeError(f"{op} shape must have every element be nonnegative, got {shape}.")
    check_not_negative(op, sizes)
    return sizes


def check_axes(x: Any, axes: Axes) -> None:
    """Raise ValueError if the axes of a reduction are not distinct axes of x, counted from the front."""
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axes' of reduction: {tuple(axes)}")
    if not all(0 <= a < x.ndim for a in axes):
        raise ValueError(f"reduction axes {tuple(axes)} contains out-of-bounds indices for {x.str_short()}.")
