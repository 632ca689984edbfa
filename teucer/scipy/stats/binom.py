"""The binomial distribution: successes in `n` trials, each with probability `p`."""

from teucer._base.lazy import listing
from teucer.scipy.stats._discrete import BINOM

__all__ = ["cdf", "logcdf", "logpmf", "logsf", "pmf", "sf"]

cdf, logcdf, logpmf, logsf, pmf, sf = BINOM.functions(*__all__)
__dir__ = listing(__name__, __all__)
