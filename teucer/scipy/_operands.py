"""Operands of functions as arrays of one dtype of floats."""

from __future__ import annotations

from typing import Any

from teucer import numpy as jnp
from teucer.numpy._promotion import INEXACT, promote

__all__ = ["inexact"]


def inexact(name: str, *xs: Any) -> list[Any]:
    """Operands in one inexact dtype and one shape; numbers become arrays, since Python's division by zero raises."""
    return [jnp.asarray(x) for x in promote(name, INEXACT, *xs)]
