"""The negative binomial distribution.

Failures before the `n`-th success, each with probability `p`.
"""

from teucer._base.lazy import listing
from teucer.scipy.stats._discrete import NBINOM

__all__ = ["cdf", "logcdf", "logpmf", "logsf", "pmf", "sf"]

cdf, logcdf, logpmf, logsf, pmf, sf = NBINOM.functions(*__all__)
__dir__ = listing(__name__, __all__)
