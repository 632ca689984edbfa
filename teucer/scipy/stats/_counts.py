"""Logarithms of binomial and Poisson probabilities, of large counts too.

There the logarithms of factorials and powers cancel, so they are taken together. C. Loader, "Fast
and accurate computation of binomial probabilities" (2000).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from teucer import numpy as jnp
from teucer.lax._functions.gamma import stirling_rest
from teucer.scipy import special

if TYPE_CHECKING:
    from teucer._core.typing import Array


def log_poisson(k: Array, mu: Array) -> Any:
    """log(mu^k e^-mu / k!) for k, mu >= 0."""
    return -_deviance(k, jnp.ones_like(mu), mu) - _log_factorial_rest(k)


def log_binomial(x: Array, y: Array, p: Array, q: Array) -> Any:
    """log((x + y)! / (x! y!) p^x q^y) for x, y >= 0 and p + q = 1."""
    n = x + y
    rest = _log_factorial_rest(n) - _log_factorial_rest(x) - _log_factorial_rest(y)
    return rest - _deviance(x, n, p) - _deviance(y, n, q)


def _deviance(x: Array, n: Array, p: Array) -> Any:
    """x log(x / m) + m - x for the mean m = n p, which may underflow. It is small beside its terms
    where x is near m."""
    mean = n * p
    difference = x - mean
    v = difference / jnp.where(x + mean > 0, x / 2 + mean / 2, 1) / 2
    is_near = jnp.abs(v) < 0.1
    v = jnp.where(is_near, v, 0)
    # log(x / mean) is 2 atanh(v).
    square, rest = v * v, jnp.zeros_like(v)
    for odd in range(15, 1, -2):
        rest = (rest + 1 / odd) * square
    near = v * (difference + x * (2 * rest))
    # Derivatives take no part of operands that are near each other or zero.
    is_apart = ~is_near & (x > 0)
    log_x, log_n, log_p = (jnp.log(jnp.where(is_apart, operand, 1)) for operand in (x, n, p))
    ratio = log_x - log_n - log_p
    far = jnp.where(is_near, 0, x) * ratio - difference
    is_endless = (x == jnp.inf) | (mean == jnp.inf)
    return jnp.where(is_endless, jnp.inf, jnp.where(is_near, near, far))


def _log_factorial_rest(x: Array) -> Any:
    """log(x!) - (x log(x) - x) for x >= 0, by Stirling's formula where x is large."""
    is_large = x >= 10
    large, small = jnp.where(is_large, x, 10), jnp.where(is_large, 1, x)
    far = 0.5 * (jnp.log(large) + math.log(2 * math.pi)) + stirling_rest(large)
    near = special.gammaln(1 + small) - small * (jnp.log(jnp.where(small > 0, small, 1)) - 1)
    return jnp.where(is_large, far, near)
