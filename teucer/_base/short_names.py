"""Short names of dtypes, as jaxprs and error messages print them.

F32, bf16, i32, u8, bool, key<fry>.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

_LETTER = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}
_FORM = re.compile(r"(float|bfloat|uint|int|complex)(\d+)(_\w+)?")
_names: dict[Any, str] = {}


def short_name(dtype: Any) -> str:
    """float32 -> f32, float8_e4m3fn -> f8_e4m3fn; bool, float0 and key<fry> as they are.

    >>> short_name(np.dtype("uint8"))
    'u8'
    """
    try:
        return _names[dtype]
    except KeyError:
        name = _names[dtype] = _spell(dtype)
        return name


def _spell(dtype: Any) -> str:
    if isinstance(dtype, np.dtype) and dtype.names == ("float0",):
        return "float0"
    name = str(dtype.name)
    match = _FORM.fullmatch(name)
    return f"{_LETTER[match[1]]}{match[2]}{match[3] or ''}" if match else name
