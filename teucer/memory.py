"""Memories in which arrays are: of their devices, and of the host."""

from teucer._core.memory import MemorySpace as Space

__all__ = ["Space"]
