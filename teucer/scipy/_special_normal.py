"""Functions of the normal distribution: Owen's T, and the inverse of erfc."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import numpy as jnp
from teucer._core.typing import Array, ArrayLike
from teucer._derived.custom_jvp import custom_jvp
from teucer.numpy._library import fast
from teucer.scipy._operands import strong
from teucer.scipy._special_logs import ndtr, ndtri

if TYPE_CHECKING:
    from teucer._core.typing import Arrays


@fast
def erfcinv(y: ArrayLike) -> Array:
    """The inverse of erfc: infinite at 0 and 2, nan outside of them.

    >>> round(float(erfcinv(0.5)), 4)
    0.4769
    """
    (y,) = strong("erfcinv", y)
    return -math.sqrt(0.5) * ndtri(0.5 * y)


@fast
def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T: the probability that X > h and 0 < Y < a X, for independent normal X and Y.

    h, a: real. T(-h, a) = T(h, a), T(h, -a) = -T(h, a).

    >>> round(float(owens_t(1.0, 0.5)), 4)
    0.0431

    Method: Gauss-Legendre quadrature of Owen's integral where it is not negligible, for |a| up to
    1, to which his identity takes other a (D. B. Owen, Ann. Math. Statist. 27 (1956) 1075).
    """
    return _owens_t(*jnp.broadcast_arrays(*strong("owens_t", h, a)))


@custom_jvp
def _owens_t(h: Array, a: Array) -> Any:
    x, slope = jnp.abs(h), jnp.abs(a)
    is_steep = slope > 1
    both = jnp.where((x == 0) | (slope == 0), 0.0, x * slope)
    flat = _quadrature(
        jnp.where(is_steep, both, x),
        jnp.where(is_steep, 1 / jnp.where(is_steep, slope, 1.0), slope),
    )
    # From the middle for small h and from the tail for large ones, so that nothing cancels.
    middle = 0.25 - (ndtr(x) - 0.5) * (ndtr(both) - 0.5)
    tail = 0.5 * (ndtr(-x) + ndtr(-both)) - ndtr(-x) * ndtr(-both)
    steep = jnp.where(x < 0.67, middle, tail) - flat
    return jnp.copysign(jnp.where(is_steep, steep, flat), a)


@_owens_t.defjvp
def _owens_t_jvp(primals: Arrays, tangents: Arrays) -> tuple[Any, Any]:
    (h, a), (dh, da) = primals, tangents
    along_h = (
        -jnp.exp(-0.5 * h * h)
        / math.sqrt(2 * math.pi)
        * (ndtr(jnp.where(h == 0, 0.0, a * h)) - 0.5)
    )
    along_a = (
        jnp.exp(-0.5 * h * h) * jnp.exp(-0.5 * jnp.square(a * h)) / (2 * math.pi * (1 + a * a))
    )
    return _owens_t(h, a), along_h * dh + along_a * da


def _quadrature(h: Array, a: Array) -> Any:
    """T(h, a) for h >= 0 and a in [0, 1]."""
    # Beyond `reach` the integrand is below the precision of its first value.
    count, reach = (16, 6.0) if jnp.finfo(h.dtype).bits <= 32 else (32, 8.7)
    end = jnp.minimum(a, reach / jnp.maximum(h, 1.0))
    total = jnp.zeros_like(h)
    for node, weight in zip(*np.polynomial.legendre.leggauss(count), strict=True):
        square = jnp.square(0.5 * (1 + float(node)) * end)
        total = total + float(weight) * jnp.exp(-0.5 * h * h * (1 + square)) / (1 + square)
    return total * end / (4 * math.pi)
