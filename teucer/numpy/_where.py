"""`where`: choice between two arrays, and the places where a condition holds."""

from __future__ import annotations

from typing import Any

from teucer.numpy import _logic
from teucer.numpy._nonzero import nonzero
from teucer.numpy._promotion import check_arraylike

__all__ = ["where"]


def where(condition: Any, x: Any = None, y: Any = None, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Elements of x where the condition holds, of y elsewhere; the condition alone gives the places where it holds.

    condition: bool, or numbers that count as != 0; x, y: numbers. All three broadcast to one shape, x and y meet in one dtype.
    Raises ValueError if shapes do not fit, TypeError if only one of x and y is given. See `nonzero` for size and fill_value.

    >>> where(np.array([True, False]), 1, 0.5)
    Array([1. , 0.5], dtype=float32, weak_type=True)
    """
    if x is None and y is None:
        check_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    if size is not None or fill_value is not None:
        raise ValueError("size and fill_value arguments cannot be used in three-term where function.")
    return _logic.where(condition, x, y)
