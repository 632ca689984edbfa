"""Arrays shared with other libraries by the DLPack protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import numpy as jnp
from teucer._base import dtypes
from teucer._base.lazy import listing

if TYPE_CHECKING:
    from teucer._core.typing import DTypeLike

__all__ = ["from_dlpack", "is_supported_dtype"]
__dir__ = listing(__name__, __all__)


def from_dlpack(external_array: Any, device: object = None, copy: bool | None = None) -> Any:
    """The array that another library's array is, as `jax.numpy.from_dlpack`, which says more.

    >>> from_dlpack(np.float32([1, 2]))
    Array([1., 2.], dtype=float32)
    """
    return jnp.from_dlpack(external_array, device=device, copy=copy)


def is_supported_dtype(dtype: DTypeLike) -> bool:
    """Whether DLPack has a dtype: all dtypes of whole bytes, except 8-bit floats.

    Raises TypeError for an object that is not a dtype of numbers or booleans.

    >>> is_supported_dtype("bfloat16"), is_supported_dtype("int4")
    (True, False)
    """
    kind = dtypes.as_dtype(dtype)
    return dtypes.bit_width(kind) >= (16 if dtypes.issubdtype(kind, np.floating) else 8)
