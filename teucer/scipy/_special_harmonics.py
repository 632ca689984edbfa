"""Spherical harmonics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._core.typing import Array
from teucer.lax._control.bodies import is_concrete
from teucer.numpy._library import fast
from teucer.numpy._promotion import check_arraylike
from teucer.scipy._operands import strong

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike


def sph_harm_y(
    n: ArrayLike,
    m: ArrayLike,
    theta: ArrayLike,
    phi: ArrayLike,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Array:
    """The spherical harmonic of degree n and order m at colatitude theta and longitude phi; 0 for
    |m| > n, nan for negative n.

    n, m: integers; theta, phi: real, in radians  ->  complex, of the common shape
    n_max: the greatest degree; needed for reverse derivatives with traced degrees; greater
    ones are cut to it. Raises ValueError if n or m are no integers, NotImplementedError for diff_n:
    use `jax.grad`.

    >>> round(float(sph_harm_y(1, 0, 0.0, 0.0).real), 4)
    0.4886

    Method: the recurrence of the normalized Legendre functions in the degree, which is stable.
    """
    if diff_n is not None:
        raise NotImplementedError(
            "sph_harm_y: derivatives by the argument diff_n are not supported\n"
            "  Use jax.grad or jax.jacfwd."
        )
    check_arraylike("sph_harm_y", n, m, theta, phi)
    for name, x in (("n", n), ("m", m)):
        if not jnp.issubdtype(jnp.result_type(x), np.integer):
            raise ValueError(
                f"sph_harm_y: {name} must be integers, got dtype {jnp.result_type(x)}."
            )
    if n_max is None and is_concrete(n):
        n_max = max(int(np.max(np.asarray(n), initial=0)), 0)
    return _sph_harm_y(n, m, theta, phi, n_max)


@fast(static=("n_max",))
def _sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, n_max: int | None) -> Any:
    theta, phi = strong("sph_harm_y", theta, phi)
    n, m, theta, phi = jnp.broadcast_arrays(jnp.asarray(n), jnp.asarray(m), theta, phi)
    n = n if n_max is None else jnp.minimum(n, n_max)
    degree, order = n.astype(theta.dtype), jnp.abs(m).astype(theta.dtype)
    cosine, sine = jnp.cos(theta), jnp.sin(theta)

    def step(i: ArrayLike, state: tuple[Any, Any]) -> tuple[Any, Any]:
        """The functions of degrees `at` and `at - 1`: along the diagonal m = n up to the order,
        from there on at the order."""
        here, before = state
        at = jnp.asarray(i + 1, theta.dtype)
        is_above = at > order
        diagonal = here * -sine * jnp.sqrt((2 * at + 1) / (2 * at))
        # Where the degree is not above the order the square roots would be of no numbers.
        low = jnp.where(is_above, order, 0.0)
        rise = jnp.sqrt((4 * at * at - 1) / (at * at - low * low))
        fall = jnp.sqrt(
            (jnp.square(at - 1) - low * low).clip(0) / jnp.maximum(4 * jnp.square(at - 1) - 1, 1.0)
        )
        raised = rise * (cosine * here - fall * before)
        is_done = at > degree
        return (
            jnp.where(is_done, here, jnp.where(is_above, raised, diagonal)),
            jnp.where(is_done, before, jnp.where(is_above, here, 0.0)),
        )

    start = jnp.full_like(theta, math.sqrt(1 / (4 * math.pi))), jnp.zeros_like(theta)
    count = jnp.max(n, initial=0) if n_max is None else n_max
    legendre, _ = lax.fori_loop(0, count, step, start)
    legendre = jnp.where((m < 0) & (m % 2 != 0), -legendre, legendre)
    angle = m.astype(theta.dtype) * phi
    legendre = jnp.where(n < 0, jnp.nan, jnp.where(jnp.abs(m) > n, 0.0, legendre))
    return lax.complex(legendre * jnp.cos(angle), legendre * jnp.sin(angle))
