"""What distributions share: operands in their standard form, and values inside of their support."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from teucer import numpy as jnp
from teucer.scipy._operands import inexact

__all__ = ["inside", "probability", "shifted", "standard"]


def standard(name: str, x: Any, *parameters: Any) -> tuple[Any, ...]:
    """(x - loc) / scale, the shape parameters, and scale, of operands (x, *shape parameters, loc, scale)."""
    x, *shapes, loc, scale = inexact(name, x, *parameters)
    return ((x - loc) / scale, *shapes, scale)


def shifted(name: str, k: Any, loc: Any, *parameters: Any) -> tuple[Any, ...]:
    """k - loc and the parameters, in one inexact dtype."""
    k, loc, *parameters = inexact(name, k, loc, *parameters)  # type: ignore[assignment]
    return (k - loc, *parameters)


def probability(name: str, q: Any, *parameters: Any) -> tuple[Any, ...]:
    """A probability, nan outside [0, 1], and parameters."""
    q, *parameters = inexact(name, q, *parameters)  # type: ignore[assignment]
    return (jnp.where((q >= 0) & (q <= 1), q, jnp.nan), *parameters)


def inside(condition: Any, f: Callable[[Any], Any], z: Any, safe: float, outside: float) -> Any:
    """f(z) where the condition holds, a constant elsewhere, and nan for nan. Elsewhere f sees `safe`, so that its derivative is 0
    and not nan."""
    value = jnp.where(condition, f(jnp.where(condition, z, safe)), outside)
    return jnp.where(jnp.isnan(z), z, value)
