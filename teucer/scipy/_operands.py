"""Operands of functions as arrays of one dtype of floats."""

from __future__ import annotations

from typing import Any

from teucer import numpy as jnp
from teucer.numpy._promotion import INEXACT, promote, promote_dtypes

__all__ = ["inexact", "matrices", "real"]


def inexact(name: str, *xs: Any) -> list[Any]:
    """Operands in one inexact dtype and one shape; numbers become arrays, since Python's division by zero raises."""
    return [jnp.asarray(x) for x in promote(name, INEXACT, *xs)]


def real(name: str, *xs: Any, error: type[Exception] = TypeError) -> list[Any]:
    """As `inexact`, of real numbers only: raises `error` for complex ones."""
    values = inexact(name, *xs)
    for x in values:
        if jnp.iscomplexobj(x):
            raise error(f"{name} does not support complex-valued inputs: must be real-valued. Got dtype {x.dtype}.")
    return values


def matrices(name: str, *xs: Any) -> list[Any]:
    """Operands in one inexact dtype; their shapes stay."""
    return [jnp.asarray(x) for x in promote_dtypes(name, INEXACT, *xs)]
