"""Types for annotations: what functions take and give."""

from teucer._core.typing import ArrayLike, DTypeLike

__all__ = ["ArrayLike", "DTypeLike"]
