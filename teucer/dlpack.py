"""Arrays shared with other libraries by the DLPack protocol."""

from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer.numpy import from_dlpack

__all__ = ["from_dlpack", "is_supported_dtype"]


def is_supported_dtype(dtype: Any) -> bool:
    """Whether other libraries know a dtype: all of whole bytes but floats of one.

    Raises TypeError for what is not a dtype of numbers or booleans.

    >>> is_supported_dtype("bfloat16"), is_supported_dtype("int4")
    (True, False)
    """
    kind = dtypes.as_dtype(dtype)
    return dtypes.bit_width(kind) >= (16 if dtypes.issubdtype(kind, np.floating) else 8)
