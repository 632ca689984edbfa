"""Sparse arrays: classes, functions and primitives, and derivatives by what they store."""

from teucer._sparse import operators  # gives the classes their methods
