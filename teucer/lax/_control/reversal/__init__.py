"""Reverse mode through loops of unknown length (docs/loops.md)."""
