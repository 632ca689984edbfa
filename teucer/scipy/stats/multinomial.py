"""The multinomial distribution.

How often each of several outcomes comes, with shares `p`, in `n` trials.
"""

from __future__ import annotations

import numpy as np

from teucer import numpy as jnp
from teucer._base.lazy import listing
from teucer._core.typing import Array, ArrayLike
from teucer.numpy._library import fast
from teucer.numpy._promotion import check_arraylike
from teucer.scipy import special
from teucer.scipy._operands import matrices

__all__ = ["logpmf", "pmf"]
__dir__ = listing(__name__, __all__)


@fast
def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The logarithm of the probability of counts; -inf where they do not sum to n.

    x: integers[..., k], n: integers[...], p: T[..., k]  ->  T[...]
    Raises ValueError if x or n are no integers.

    >>> round(float(logpmf(jnp.array([1, 2]), 3, jnp.array([0.25, 0.75]))), 4)
    -0.863
    """
    check_arraylike("multinomial.logpmf", x, n, p)
    x, n = jnp.asarray(x), jnp.asarray(n)
    if not (jnp.issubdtype(x.dtype, np.integer) and jnp.issubdtype(n.dtype, np.integer)):
        raise ValueError(
            f"multinomial.logpmf: x and n must be of integer type; got x.dtype={x.dtype}, "
            f"n.dtype={n.dtype}"
        )
    fits = (x.sum(axis=-1) == n) & jnp.all(x >= 0, axis=-1)
    (p,) = matrices("multinomial.logpmf", p)
    trials, counts = n.astype(p.dtype), jnp.where(fits[..., None], x, 0).astype(p.dtype)
    terms = special.xlogy(counts, p) - special.gammaln(counts + 1)
    return jnp.where(
        fits, special.gammaln(jnp.where(fits, trials, 0.0) + 1) + terms.sum(axis=-1), -jnp.inf
    )


@fast
def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The probability of counts. Arguments as `logpmf`.

    >>> round(float(pmf(jnp.array([1, 2]), 3, jnp.array([0.25, 0.75]))), 4)
    0.4219
    """
    return jnp.exp(logpmf(x, n, p))
