"""The normal distribution between two bounds.

What is lost to cancellation or underflow in plain differences of `ndtr`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from teucer import numpy as jnp
from teucer.scipy import special

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike


def log_density(z: ArrayLike, a: ArrayLike, b: ArrayLike) -> Any:
    """The logarithm of the density at z within (a, b)."""
    return -0.5 * jnp.square(z) - 0.5 * math.log(2 * math.pi) - log_mass(a, b)


def log_cdf(z: ArrayLike, a: ArrayLike, b: ArrayLike) -> Any:
    """The logarithm of the probability of values from a to z."""
    return jnp.where(z == a, -jnp.inf, jnp.where(z == b, 0.0, _log_cdf_inside(z, a, b)))


def _log_cdf_inside(z: ArrayLike, a: ArrayLike, b: ArrayLike) -> Any:
    """By the probability of values from a to z, or, where most are there, by that of values from z
    to b."""
    inside = jnp.where((z == a) | (z == b), 0.5 * (a + b), z)
    below = log_mass(a, inside) - log_mass(a, b)
    rest = log_mass(inside, b) - log_mass(a, b)
    is_most = rest < -1.0
    return jnp.where(is_most, jnp.log1p(-jnp.exp(jnp.where(is_most, rest, -1.0))), below)


def log_mass(a: Any, b: Any) -> Any:
    """log(ndtr(b) - ndtr(a)): from the tail in which both are, or around 0 from `erf`, which is
    exact there."""
    in_middle = ((a <= 0) & (b >= 0)) | ((jnp.abs(a) < 1) & (jnp.abs(b) < 1))
    is_right = ~in_middle & (a > 0)
    # In the right tail the two are mirrored into the left one.
    low = jnp.where(in_middle, -2.0, jnp.where(is_right, -b, a))
    high = jnp.where(in_middle, -1.0, jnp.where(is_right, -a, b))
    log_high = special.log_ndtr(high)
    in_tail = log_high + jnp.log1p(-jnp.exp(special.log_ndtr(low) - log_high))
    below, above = jnp.where(in_middle, a, -1.0), jnp.where(in_middle, b, 1.0)
    root = math.sqrt(0.5)
    across = jnp.log(0.5 * (special.erf(above * root) - special.erf(below * root)))
    return jnp.where(in_middle, across, in_tail)
