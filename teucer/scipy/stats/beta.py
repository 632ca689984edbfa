"""The beta distribution with shapes `a` and `b`, from `loc` to `loc + scale`."""

from __future__ import annotations

from typing import Any

from teucer import numpy as jnp
from teucer.numpy._library import fast
from teucer.scipy import special
from teucer.scipy.stats._standard import inside, standard

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


@fast
def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density; -inf where there is none.

    >>> logpdf(0.5, 2.0, 3.0)
    Array(0.40546608, dtype=float32, weak_type=True)
    """
    z, a, b, scale = standard("beta.logpdf", x, a, b, loc, scale)
    def density(z: Any) -> Any:
        return special.xlogy(a - 1, z) + special.xlog1py(b - 1, -z) - special.betaln(a, b) - jnp.log(scale)

    return inside((z >= 0) & (z <= 1), density, z, 0.5, -jnp.inf)


@fast
def pdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density.

    >>> pdf(0.5, 2.0, 3.0)
    Array(1.5000014, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, a, b, loc, scale))


@fast
def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to x.

    >>> cdf(0.5, 2.0, 3.0)
    Array(0.6874997, dtype=float32, weak_type=True)
    """
    z, a, b, _ = standard("beta.cdf", x, a, b, loc, scale)
    return special.betainc(a, b, jnp.clip(z, 0.0, 1.0))


@fast
def logcdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of `cdf`.

    >>> logcdf(0.5, 2.0, 3.0)
    Array(-0.37469387, dtype=float32, weak_type=True)
    """
    z, a, b, _ = standard("beta.logcdf", x, a, b, loc, scale)
    return jnp.log(special.betainc(a, b, jnp.clip(z, 0.0, 1.0)))


@fast
def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above x.

    >>> sf(0.5, 2.0, 3.0)
    Array(0.3125003, dtype=float32, weak_type=True)
    """
    z, a, b, _ = standard("beta.sf", x, a, b, loc, scale)
    return special.betainc(b, a, jnp.clip(1 - z, 0.0, 1.0))


@fast
def logsf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of `sf`.

    >>> logsf(0.5, 2.0, 3.0)
    Array(-1.1631498, dtype=float32, weak_type=True)
    """
    z, a, b, _ = standard("beta.logsf", x, a, b, loc, scale)
    return jnp.log(special.betainc(b, a, jnp.clip(1 - z, 0.0, 1.0)))
