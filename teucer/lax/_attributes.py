"""Python values as attributes of MLIR operations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from teucer._base import dtypes
from teucer._lower import text

if TYPE_CHECKING:
    from teucer._core.typing import DTypeLike
    from teucer._lower.value import Value


_ESCAPED = b'"\\'
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")


def quoted(value: str | bytes) -> str:
    """A string in MLIR's notation.

    >>> print(quoted('a "b"'))
    "a \\22b\\22"
    """
    data = value.encode() if isinstance(value, str) else value
    return (
        '"'
        + "".join([chr(c) if 32 <= c < 127 and c not in _ESCAPED else f"\\{c:02X}" for c in data])
        + '"'
    )


def attribute(value: object) -> str:
    """The text of an attribute.

    value: a bool, a number (an int is an i64, a float an f64, a NumPy scalar of its own type), a
    string, a dtype, a NumPy array of numbers, or a list, tuple or mapping of such.
    Raises TypeError for anything else, OverflowError for an int that 64 bits do not hold.
    """
    if isinstance(value, str | bytes) and not isinstance(value, np.str_ | np.bytes_):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not -1 << 63 <= value < 1 << 63:
            raise OverflowError(f"an attribute of type i64 cannot hold {value}.")
        return f"{value} : i64"
    if isinstance(value, float):
        value = np.float64(value)
    if isinstance(value, np.dtype):
        return text.element_type(value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype == dtypes.float0:
        value = np.zeros(value.shape, bool)
    if isinstance(value, np.ndarray) and _is_real(value.dtype):
        return text.array(value)
    if isinstance(value, np.generic) and _is_real(value.dtype):
        number = text.dense(np.asarray(value))[len("dense<") : -1]
        return number if value.dtype.kind == "b" else f"{number} : {text.element_type(value.dtype)}"
    if isinstance(value, Mapping):
        return dictionary(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(attribute, value))}]"
    raise TypeError(f"No attribute handler defined for type: {type(value)}")


def dictionary(values: Mapping[str, Value]) -> str:
    """The text of a dictionary of attributes, by name.

    Raises TypeError as `attribute`, and for a name that is no string.
    """
    items = []
    for name, value in values.items():
        if not isinstance(name, str):
            raise TypeError(f"names of attributes are strings, got {name!r} of type {type(name)}")
        items.append(f"{name if _BARE.fullmatch(name) else quoted(name)} = {attribute(value)}")
    return f"{{{', '.join(items)}}}"


def _is_real(dtype: DTypeLike) -> bool:
    return (
        dtypes.issubdtype(dtype, np.bool_)
        or dtypes.issubdtype(dtype, np.integer)
        or dtypes.issubdtype(dtype, np.floating)
    )
