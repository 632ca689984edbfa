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


def log_density(z: Any, a: Any, b: Any) -> Any:
    """The logarithm of the density at z within (a, b)."""
    end, rest = _log_mass(a, b)
    distance = jnp.abs(z)
    return -0.5 * ((distance - end) * (distance + end) + math.log(2 * math.pi)) - rest


def log_cdf(z: ArrayLike, a: ArrayLike, b: ArrayLike) -> Any:
    """The logarithm of the probability of values from a to z."""
    return jnp.where(z == a, -jnp.inf, jnp.where(z == b, 0.0, _log_cdf_inside(z, a, b)))


def _log_cdf_inside(z: Any, a: Any, b: Any) -> Any:
    """By the probability of values from a to z; if most are there, by the probability of values
    from z to b."""
    inside = jnp.where((z == a) | (z == b), 0.5 * (a + b), z)
    whole = _log_mass(a, b)
    below, rest = _log_ratio(_log_mass(a, inside), whole), _log_ratio(_log_mass(inside, b), whole)
    is_most = rest < -1.0
    return jnp.where(is_most, jnp.log1p(-jnp.exp(jnp.where(is_most, rest, -1.0))), below)


def _log_ratio(part: tuple[Any, Any], whole: tuple[Any, Any]) -> Any:
    (end, rest), (whole_end, whole_rest) = part, whole
    return rest - whole_rest - 0.5 * (end - whole_end) * (end + whole_end)


def _log_mass(a: Any, b: Any) -> tuple[Any, Any]:
    """log(ndtr(b) - ndtr(a)) as (m, r) for r - m^2 / 2: of a tail m is its end near 0, of which the
    square may be large, and around 0 it is 0. There `erf` is exact."""
    in_middle = ((a <= 0) & (b >= 0)) | ((jnp.abs(a) < 1) & (jnp.abs(b) < 1))
    is_right = ~in_middle & (a > 0)
    # Both ends as numbers above 0, of the right tail.
    near = jnp.where(in_middle, 1.0, jnp.where(is_right, a, -b))
    far = jnp.where(in_middle, 2.0, jnp.where(is_right, b, -a))
    root = math.sqrt(0.5)
    log_near, log_far = (jnp.log(0.5 * special.erfcx(x * root)) for x in (near, far))
    gap = 0.5 * (far - near) * (far + near)
    in_tail = log_near + jnp.log(-jnp.expm1(log_far - log_near - gap))
    below, above = jnp.where(in_middle, a, -1.0), jnp.where(in_middle, b, 1.0)
    across = jnp.log(0.5 * (special.erf(above * root) - special.erf(below * root)))
    return jnp.where(in_middle, 0.0, near), jnp.where(in_middle, across, in_tail)
