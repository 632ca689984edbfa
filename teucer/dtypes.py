"""Dtypes: their order, their limits, and the one in which values of different dtypes meet."""

from teucer._base.dtypes import (
    TypePromotionError,
    canonicalize_dtype,
    extended,
    finfo,
    float0,
    iinfo,
    issubdtype,
    prng_key,
    result_type,
    scalar_type_of,
)
from teucer._base.dtypes import bfloat16 as _bfloat16
from teucer._base.dtypes import bit_width as itemsize_bits

bfloat16 = _bfloat16.type

__all__ = [
    "TypePromotionError", "bfloat16", "canonicalize_dtype", "extended", "finfo", "float0", "iinfo",
    "issubdtype", "itemsize_bits", "prng_key", "result_type", "scalar_type_of",
]  # fmt: skip
