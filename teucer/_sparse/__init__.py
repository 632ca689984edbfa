"""Sparse arrays: classes, functions and primitives, and derivatives in the stored elements."""

from teucer._sparse import operators  # gives the classes their methods
