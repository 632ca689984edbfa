"""Primitives on types of libraries, and values that change."""
