"""Student's t distribution with `df` degrees of freedom."""

from __future__ import annotations

import math
from typing import Any

from teucer import numpy as jnp
from teucer.numpy._library import fast
from teucer.scipy import special
from teucer.scipy.stats._standard import standard

__all__ = ["logpdf", "pdf"]


@fast
def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The logarithm of the density.

    >>> logpdf(0.5, 2.0)
    Array(-1.2163954, dtype=float32, weak_type=True)
    """
    z, df, scale = standard("t.logpdf", x, df, loc, scale)
    half = special.gammaln((df + 1) / 2) - special.gammaln(df / 2) - 0.5 * jnp.log(df * math.pi)
    return half - (df + 1) / 2 * jnp.log1p(z * z / df) - jnp.log(scale)


@fast
def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """The density.

    >>> pdf(0.5, 2.0)
    Array(0.29629627, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, df, loc, scale))
