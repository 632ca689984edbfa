"""Types for annotations of functions' arguments and results."""

from teucer._core.typing import ArrayLike, DTypeLike

__all__ = ["ArrayLike", "DTypeLike"]
