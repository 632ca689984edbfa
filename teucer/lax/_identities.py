"""Values that change nothing.

The identities of associative operations, by the StableHLO name of the operation and the dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes

if TYPE_CHECKING:
    from teucer._core.typing import DTypeLike


def lowest(dtype: DTypeLike) -> Any:
    """The identity of max: nothing of the dtype is less."""
    if dtype == np.bool_:
        return False
    if dtypes.issubdtype(dtype, np.complexfloating):
        return complex(-np.inf, -np.inf)
    return _least(dtype) if dtypes.issubdtype(dtype, np.inexact) else dtypes.iinfo(dtype).min


def highest(dtype: DTypeLike) -> Any:
    """The identity of min: nothing of the dtype is greater."""
    if dtype == np.bool_:
        return True
    if dtypes.issubdtype(dtype, np.complexfloating):
        return complex(np.inf, np.inf)
    return -_least(dtype) if dtypes.issubdtype(dtype, np.inexact) else dtypes.iinfo(dtype).max


def _least(dtype: DTypeLike) -> float:
    """Minus infinity, or the least number of a dtype that has no infinities, as float8_e4m3fn."""
    return (
        -np.inf
        if np.isinf(float(np.asarray(-np.inf).astype(dtype)))
        else float(dtypes.finfo(dtype).min)
    )


def _all_bits(dtype: DTypeLike) -> Any:
    if dtype == np.bool_:
        return True
    return -1 if dtypes.issubdtype(dtype, np.signedinteger) else dtypes.iinfo(dtype).max


# The operations that are associative, with the value that changes nothing: StableHLO name ->
# identity of a dtype.
_IDENTITIES: dict[str, Callable[[Any], Any]] = {
    "add": lambda dtype: 0,
    "multiply": lambda dtype: 1,
    "maximum": lowest,
    "minimum": highest,
    "and": _all_bits,
    "or": lambda dtype: 0,
    "xor": lambda dtype: 0,
}


def identity_of(op: str, dtype: DTypeLike) -> Any:
    """The identity element of the StableHLO operation `op`: op(x, identity) is x.

    >>> identity_of("maximum", np.dtype("int8"))
    -128
    """
    return _IDENTITIES[op](dtype)
