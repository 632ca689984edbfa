"""Arrays shared with other libraries by the DLPack protocol."""

from teucer.numpy import from_dlpack

__all__ = ["from_dlpack"]
