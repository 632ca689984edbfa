"""`where`: choice between two arrays, and the places where a condition holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from teucer.numpy import _logic
from teucer.numpy._creation import ones
from teucer.numpy._nonzero import nonzero
from teucer.numpy._promotion import check_arraylike

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike

__all__ = ["mask_indices", "where"]


def where(
    condition: Any,
    x: Any = None,
    y: Any = None,
    /,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """Elements of x where the condition holds, of y elsewhere; the condition alone gives the places
    where it holds.

    condition: bool, or numbers that count as != 0; x, y: numbers. All three broadcast to one shape,
    x and y meet in one dtype. Raises ValueError if shapes do not fit, TypeError if only one of x
    and y is given. See `nonzero` for size and fill_value.

    >>> import numpy as np
    >>> where(np.array([True, False]), 1, 0.5)
    Array([1. , 0.5], dtype=float32, weak_type=True)
    """
    if x is None and y is None:
        check_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    if size is not None or fill_value is not None:
        raise ValueError(
            "size and fill_value arguments cannot be used in three-term where function."
        )
    return _logic.where(condition, x, y)


def mask_indices(
    n: int, mask_func: Callable[..., Any], k: int = 0, *, size: int | None = None
) -> tuple[Array, Array]:
    """The places of a matrix of n rows and columns that mask_func(matrix, k), such as `triu`, does
    not set to 0.

    size: how many, if the mask is traced; see `nonzero`.

    >>> import teucer.numpy as jnp
    >>> mask_indices(2, jnp.triu)
    (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    rows, columns = nonzero(mask_func(ones((n, n)), k), size=size)
    return rows, columns
