"""Integration, as scipy.integrate has it."""

from __future__ import annotations

from teucer import numpy as jnp
from teucer._base.lazy import listing
from teucer._core.typing import Array, ArrayLike

__all__ = ["trapezoid"]
__dir__ = listing(__name__, __all__)


def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """The integral of samples y at places x, or dx apart, by the trapezoidal rule, along an axis.

    >>> trapezoid(jnp.array([1., 2., 3.]))
    Array(4., dtype=float32)
    """
    return jnp.trapezoid(y, x, dx, axis)
