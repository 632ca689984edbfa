"""The Dirichlet distribution of shares that sum to 1, with concentrations `alpha`."""

from __future__ import annotations

from teucer import numpy as jnp
from teucer._base.lazy import listing
from teucer._core.typing import Array, ArrayLike
from teucer.numpy._library import fast
from teucer.scipy import special
from teucer.scipy._operands import matrices

__all__ = ["logpdf", "pdf"]
__dir__ = listing(__name__, __all__)


@fast
def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The logarithm of the density; -inf where x are no shares.

    x: T[n, ...], or T[n - 1, ...], whose last shares follow. alpha: T[n]  ->  T[...]
    Raises ValueError for other shapes.

    >>> round(float(logpdf(jnp.array([0.5, 0.3, 0.2]), jnp.array([2.0, 1.0, 3.0]))), 4)
    0.1823
    """
    x, alpha = matrices("dirichlet.logpdf", x, alpha)
    if alpha.ndim != 1:
        raise ValueError(
            f"dirichlet.logpdf: `alpha` must be one-dimensional; got alpha.shape={alpha.shape}"
        )
    n = alpha.shape[0]
    if x.ndim < 1 or x.shape[0] not in (n, n - 1):
        raise ValueError(
            "dirichlet.logpdf: `x` must have either the same number of entries as `alpha` or one "
            f"entry fewer; got x.shape={x.shape}, alpha.shape={alpha.shape}"
        )
    if x.shape[0] != n:
        x = jnp.concatenate([x, 1 - x.sum(axis=0, keepdims=True)])
    are_shares = jnp.all(x >= 0, axis=0) & (jnp.abs(x.sum(axis=0) - 1) < 1e-6)
    weights = alpha.reshape((n,) + (1,) * (x.ndim - 1))
    safe = jnp.where(x >= 0, x, 1.0)
    norm = special.gammaln(alpha).sum() - special.gammaln(alpha.sum())
    density = special.xlogy(weights - 1, safe).sum(axis=0) - norm
    return jnp.where(jnp.isnan(x).any(axis=0), jnp.nan, jnp.where(are_shares, density, -jnp.inf))


@fast
def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The density. Arguments as `logpdf`.

    >>> round(float(pdf(jnp.array([0.5, 0.3, 0.2]), jnp.array([2.0, 1.0, 3.0]))), 4)
    1.2
    """
    return jnp.exp(logpdf(x, alpha))
