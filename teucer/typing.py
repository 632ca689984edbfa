"""Types for annotations: what functions take and give."""

from typing import TypeAlias

import numpy as np

from teucer._arrays.arrays import Array

__all__ = ["ArrayLike", "DTypeLike"]

# What an argument of a numerical function may be.
ArrayLike: TypeAlias = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
# What may say a dtype.
DTypeLike: TypeAlias = np.dtype | type | str
