"""Predicates of conditionals: what may be one, and the number of the branch that it chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer.lax import _arithmetic, _structure

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike

__all__ = ["as_index", "check_pred"]


def check_pred(pred: ArrayLike) -> None:
    if pred is None:
        raise TypeError("cond predicate is None")
    if callable(pred):
        raise TypeError(f"Pred type must be either boolean or number, got {pred}.")
    try:
        aval = typeof(pred)
    except TypeError:
        raise TypeError(f"Pred must be a scalar, got {pred!r:.100} of type {type(pred)}.") from None
    if aval.shape:
        raise TypeError(f"Pred must be a scalar, got {pred} of shape {aval.shape}.")
    if isinstance(aval.dtype, dtypes.ExtendedDType) or dtypes.issubdtype(aval.dtype, np.complexfloating):
        raise TypeError(f"Pred type must be either boolean or number, got {aval.str_short()}.")


def as_index(pred: Array) -> Any:
    dtype = typeof(pred).dtype
    if dtype != np.bool_:
        pred = _arithmetic.ne(pred, np.asarray(0, dtype))
    if isinstance(pred, bool | np.bool_):
        return np.int32(pred)
    return _structure.convert_element_type(pred, np.dtype(np.int32))
