"""Arrays as text, and from files."""

from __future__ import annotations

from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer._core.typing import Array, ArrayLike
from teucer.numpy._creation import asarray

__all__ = ["array_repr", "array_str", "load"]


def array_repr(
    arr: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """An array as a line of Python, with its dtype.

    >>> array_repr(asarray([1., 2.]))
    'Array([1., 2.], dtype=float32)'
    """
    value = np.asarray(arr)
    text = np.array2string(
        value,
        max_line_width,
        precision,
        suppress_small,
        separator=", ",
        prefix="Array(",
        suffix=")",
    )
    return (
        "Array("
        f"{text if value.size else '[]' if value.shape == (0,) else f'[], shape={value.shape}'}, "
        f"dtype={value.dtype.name})"
    )


def array_str(
    a: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The values of an array as text.

    >>> array_str(asarray([1., 2.]))
    '[1. 2.]'
    """
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)


def load(file: Any, *args: Any, **kwargs: Any) -> Array:
    """An array from a file that `save` wrote; arguments as for numpy.load.

    >>> import io
    >>> file = io.BytesIO()
    >>> np.save(file, np.arange(2)); _ = file.seek(0)
    >>> load(file).tolist()
    [0, 1]
    """
    out = np.load(file, *args, **kwargs)
    if isinstance(out, np.ndarray) and out.dtype == np.dtype("V2"):
        out = out.view(dtypes.bfloat16)  # the format has no name for it
    return asarray(out) if isinstance(out, np.ndarray | Array) else out
