"""Associated Legendre functions of all orders and degrees up to a greatest one."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._core.typing import Array
from teucer.numpy._library import fast

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike


def lpmn(m: int, n: int, z: ArrayLike) -> tuple[Array, Array]:
    """The associated Legendre functions of orders 0 to m and degrees 0 to n, and their derivatives
    by z. Deprecated, as in JAX.

    z: real[points], where |z| <= 1  ->  real[m + 1, n + 1, points], twice
    Functions whose order exceeds the degree are 0. The sign (-1)**order is part of the functions.
    Raises NotImplementedError if m is not n, ValueError if n < 0 or z is not 1-D, TypeError if z is
    no float32 or float64.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     values, slopes = lpmn(1, 1, jnp.array([0.6]))
    >>> values[1, 1], slopes[0, 1]
    (Array([-0.8], dtype=float32), Array([1.], dtype=float32))

    Method: the recurrence in the degree, and its derivative; Abramowitz & Stegun, 8.5.3.
    """
    _check("lpmn", m, n, z)
    return _legendre(z, n=int(n), is_normalized=False, slopes=True)


def lpmn_values(m: int, n: int, z: ArrayLike, is_normalized: bool) -> Array:
    """The associated Legendre functions of orders 0 to m and degrees 0 to n. Deprecated, as in JAX.

    z: real[points], where |z| <= 1  ->  real[m + 1, n + 1, points]
    is_normalized: whether the functions have the factor that makes spherical harmonics orthonormal.
    Raises what `lpmn` raises.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     lpmn_values(1, 1, jnp.array([0.6]), is_normalized=False)[:, :, 0]
    Array([[ 1. ,  0.6],
           [ 0. , -0.8]], dtype=float32)
    """
    _check("lpmn_values", m, n, z)
    return _legendre(z, n=int(n), is_normalized=bool(is_normalized), slopes=False)


def _check(name: str, m: int, n: int, z: ArrayLike) -> None:
    warnings.warn(
        f"jax.scipy.special.{name} is deprecated, and nothing takes its place.",
        DeprecationWarning,
        stacklevel=3,
    )
    if n < 0:
        raise ValueError(f"{name}: the greatest degree n must not be negative.\n  n: {n}")
    if m != n:
        raise NotImplementedError(
            f"{name}: the greatest order m must be the greatest degree n.\n  m: {m}\n  n: {n}"
        )
    if np.ndim(z) != 1:
        raise ValueError(f"{name}: z must be a 1D array.\n  z: shape {np.shape(z)}")
    if jnp.result_type(z) not in (np.float32, np.float64):
        raise TypeError(f"{name}: z must be float32 or float64.\n  z: {jnp.result_type(z)}")


def _coefficients(n: int, *, is_normalized: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factors of the recurrence for each degree from 1 on, by order: for the degree before, for the
    one before that, and for the diagonal."""
    degree, order = np.arange(1.0, n + 1)[:, None], np.arange(n + 1.0)
    gap = np.where(order < degree, degree - order, 1)
    if not is_normalized:
        rise, fall, diagonal = (
            (2 * degree - 1) / gap,
            (degree + order - 1) / gap,
            2 * degree[:, 0] - 1,
        )
    else:
        rise = np.sqrt((4 * degree**2 - 1) / (gap * (degree + order)))
        fall = rise * np.sqrt(
            ((degree - 1) ** 2 - order**2).clip(0) / np.maximum(4 * (degree - 1) ** 2 - 1, 1)
        )
        diagonal = np.sqrt((2 * degree[:, 0] + 1) / (2 * degree[:, 0]))
    return np.where(order < degree, rise, 0), np.where(order < degree, fall, 0), diagonal


@partial(fast, static=("n", "is_normalized", "slopes"))
def _legendre(z: ArrayLike, *, n: int, is_normalized: bool, slopes: bool) -> Any:
    z = jnp.asarray(z)[None]
    orders = jnp.arange(n + 1, dtype=z.dtype)[:, None]
    sine = jnp.sqrt(1 - z * z)

    def step(state: tuple[Any, ...], row: tuple[Any, ...]) -> tuple[Any, Any]:
        """By order: the functions of this degree and of the one before, their slopes, and the
        diagonal over sine**2."""
        here, before, slope, slope_before, over = state
        degree, rise, fall, diagonal = row
        rise, fall = rise[:, None], fall[:, None]
        on_diagonal = orders == degree
        raised = rise * (z * here) - fall * before
        # The diagonal is a multiple of sine**degree; its slope has sine**(degree - 2), which the
        # first two have no product for.
        now = jnp.where(on_diagonal, -diagonal * sine * jnp.roll(here, 1, axis=0), raised)
        over = jnp.where(
            degree == 1, -1 / sine, jnp.where(degree == 2, 3.0, -diagonal * sine * over)
        ).astype(z.dtype)
        inclined = rise * (here + z * slope) - fall * slope_before
        # At the ends the slopes of order 1 are infinite, and a difference of such would be no
        # number.
        infinite = jnp.where((z < 0) & (degree % 2 == 1), -jnp.inf, jnp.inf)
        ends = jnp.where((orders == 1) & (jnp.abs(z) == 1), infinite, inclined)
        slopes_now = jnp.where(on_diagonal, -degree * z * over, jnp.where(orders < degree, ends, 0))
        return (now, here, slopes_now.astype(z.dtype), slope, over), (
            now,
            slopes_now.astype(z.dtype),
        )

    first = jnp.where(
        orders == 0, np.sqrt(0.25 / np.pi) if is_normalized else 1.0, jnp.zeros_like(z)
    ).astype(z.dtype)
    nothing = jnp.zeros_like(first)
    rows = tuple(jnp.asarray(c, z.dtype) for c in _coefficients(n, is_normalized=is_normalized))
    _, later = lax.scan(
        step,
        (first, nothing, nothing, nothing, jnp.zeros_like(z)),
        (jnp.arange(1, n + 1, dtype=z.dtype), *rows),
    )
    values, inclines = (
        jnp.moveaxis(jnp.concatenate([start[None], rest]), 0, 1)
        for start, rest in zip((first, nothing), later, strict=True)
    )
    return (values, inclines) if slopes else values
