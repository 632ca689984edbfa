"""Integration, as scipy.integrate has it."""

from __future__ import annotations

from typing import Any

from teucer import numpy as jnp

__all__ = ["trapezoid"]


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral of samples y at places x, or dx apart, by the trapezoidal rule, along an axis.

    >>> trapezoid(jnp.array([1., 2., 3.]))
    Array(4., dtype=float32)
    """
    return jnp.trapezoid(y, x, dx, axis)
