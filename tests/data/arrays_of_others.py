"""Arrays as other libraries have them."""

from __future__ import annotations

from typing import Any

import numpy as np


class Producer:
    """Something that speaks DLPack, and is no array to NumPy. It asks an array for capsules in one way."""

    def __init__(self, array: Any, **asked: Any) -> None:
        self.array, self.asked = array, asked

    def __dlpack__(self, **asked: Any) -> Any:
        return self.array.__dlpack__(**{**asked, **self.asked})

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def aligned(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy of x that begins at a multiple of 64 bytes."""
    room = np.zeros(x.nbytes + 64, np.uint8)
    begin = -room.ctypes.data % 64
    out = room[begin : begin + x.nbytes].view(x.dtype).reshape(x.shape)
    out[...] = x
    return out
