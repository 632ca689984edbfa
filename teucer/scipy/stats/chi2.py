"""The chi-squared distribution with `df` degrees of freedom."""

from __future__ import annotations

from typing import Any

from teucer.numpy._library import fast
from teucer.scipy._operands import inexact
from teucer.scipy.stats import gamma

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


@fast
def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density; -inf where there is none.

    >>> logpdf(0.5, 2.0)
    Array(-0.9431472, dtype=float32, weak_type=True)
    """
    df, scale = inexact("chi2.logpdf", df, scale)
    return gamma.logpdf(x, df / 2, loc, 2 * scale)


@fast
def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density.

    >>> pdf(0.5, 2.0)
    Array(0.3894004, dtype=float32, weak_type=True)
    """
    df, scale = inexact("chi2.pdf", df, scale)
    return gamma.pdf(x, df / 2, loc, 2 * scale)


@fast
def cdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values up to x.

    >>> cdf(0.5, 2.0)
    Array(0.22119918, dtype=float32, weak_type=True)
    """
    df, scale = inexact("chi2.cdf", df, scale)
    return gamma.cdf(x, df / 2, loc, 2 * scale)


@fast
def logcdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of `cdf`.

    >>> logcdf(0.5, 2.0)
    Array(-1.5086917, dtype=float32, weak_type=True)
    """
    df, scale = inexact("chi2.logcdf", df, scale)
    return gamma.logcdf(x, df / 2, loc, 2 * scale)


@fast
def sf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The probability of values above x.

    >>> sf(0.5, 2.0)
    Array(0.7788008, dtype=float32, weak_type=True)
    """
    df, scale = inexact("chi2.sf", df, scale)
    return gamma.sf(x, df / 2, loc, 2 * scale)


@fast
def logsf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of `sf`.

    >>> logsf(0.5, 2.0)
    Array(-0.25, dtype=float32, weak_type=True)
    """
    df, scale = inexact("chi2.logsf", df, scale)
    return gamma.logsf(x, df / 2, loc, 2 * scale)
