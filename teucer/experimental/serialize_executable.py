"""Compiled functions as bytes, for another process on the same platform with the same jaxlib."""

from teucer._export.executables import deserialize_and_load, serialize

__all__ = ["deserialize_and_load", "serialize"]
