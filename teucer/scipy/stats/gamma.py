"""The gamma distribution with shape `a`."""

from __future__ import annotations

from typing import Any

from teucer import numpy as jnp
from teucer.numpy._library import fast
from teucer.scipy import special
from teucer.scipy.stats._standard import inside, standard

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


@fast
def logpdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density; -inf where there is none.

    >>> logpdf(0.5, 2.0)
    Array(-1.1931472, dtype=float32, weak_type=True)
    """
    z, a, scale = standard("gamma.logpdf", x, a, loc, scale)
    return inside(z >= 0, lambda z: special.xlogy(a - 1, z) - z - special.gammaln(a) - jnp.log(scale), z, 1.0, -jnp.inf)


@fast
def pdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density.

    >>> pdf(0.5, 2.0)
    Array(0.30326533, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, a, loc, scale))


@fast
def cdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to x.

    >>> cdf(0.5, 2.0)
    Array(0.09020401, dtype=float32, weak_type=True)
    """
    z, a, _ = standard("gamma.cdf", x, a, loc, scale)
    return inside(z >= 0, lambda z: special.gammainc(a, z), z, 1.0, 0.0)


@fast
def logcdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of `cdf`.

    >>> logcdf(0.5, 2.0)
    Array(-2.4056814, dtype=float32, weak_type=True)
    """
    z, a, _ = standard("gamma.logcdf", x, a, loc, scale)
    return inside(z >= 0, lambda z: jnp.log(special.gammainc(a, z)), z, 1.0, -jnp.inf)


@fast
def sf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above x.

    >>> sf(0.5, 2.0)
    Array(0.909796, dtype=float32, weak_type=True)
    """
    z, a, _ = standard("gamma.sf", x, a, loc, scale)
    return inside(z >= 0, lambda z: special.gammaincc(a, z), z, 1.0, 1.0)


@fast
def logsf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of `sf`.

    >>> logsf(0.5, 2.0)
    Array(-0.09453488, dtype=float32, weak_type=True)
    """
    z, a, _ = standard("gamma.logsf", x, a, loc, scale)
    return inside(z >= 0, lambda z: jnp.log(special.gammaincc(a, z)), z, 1.0, 0.0)
