"""The normal distribution of vectors, with mean `mean` and covariance matrix `cov`."""

from __future__ import annotations

import math
from typing import Any

from teucer import lax
from teucer import numpy as jnp
from teucer._base.lazy import listing
from teucer._core.typing import Array, ArrayLike
from teucer.numpy._library import fast
from teucer.scipy._operands import matrices, of_one_rank
from teucer.scipy.stats import norm

__all__ = ["logpdf", "pdf"]
__dir__ = listing(__name__, __all__)


def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """The logarithm of the density.

    x, mean: T[..., n], cov: T[..., n, n]  ->  T[...]; or all scalars, cov the variance.
    Raises NotImplementedError for allow_singular, ValueError if shapes do not fit.

    >>> logpdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2))
    Array(-1.837877, dtype=float32)

    Method: by the Cholesky factor of cov.
    """
    if allow_singular is not None:
        raise NotImplementedError(
            "multivariate_normal.logpdf with allow_singular\n"
            "  A covariance matrix must have full rank."
        )
    return _logpdf(x, mean, cov)


@fast
def _logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Any:
    x, mean, cov = matrices("multivariate_normal.logpdf", x, mean, cov)
    if not mean.ndim:
        return norm.logpdf(x, mean, jnp.sqrt(cov))
    n = mean.shape[-1]
    x, mean = of_one_rank(x, mean)
    if not cov.ndim:
        centred = x - mean
        return -0.5 * (
            jnp.sum(centred * centred, axis=-1) / cov + n * (math.log(2 * math.pi) + jnp.log(cov))
        )
    if cov.ndim < 2 or cov.shape[-2:] != (n, n):
        raise ValueError(
            f"multivariate_normal.logpdf got incompatible shapes\n    mean: {mean.shape}\n"
            f"    cov: {cov.shape}"
        )
    factor = jnp.linalg.cholesky(cov)
    centred = x - mean
    common = jnp.broadcast_shapes(centred.shape[:-1], cov.shape[:-2])
    solved = lax.linalg.triangular_solve(
        jnp.broadcast_to(factor, (*common, n, n)),
        jnp.broadcast_to(centred, (*common, n))[..., None],
        left_side=True,
        lower=True,
    )[..., 0]
    log_root = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
    return -0.5 * jnp.sum(solved * solved, axis=-1) - 0.5 * n * math.log(2 * math.pi) - log_root


def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """The density. Arguments as `logpdf`.

    >>> pdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2))
    Array(0.15915495, dtype=float32)
    """
    return jnp.exp(logpdf(x, mean, cov))
