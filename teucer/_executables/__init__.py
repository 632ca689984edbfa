"""Compilation, its caches, and the record of it."""
