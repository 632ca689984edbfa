"""The Bernoulli distribution: 1 with probability `p`, else 0."""

from teucer._base.lazy import listing
from teucer.scipy.stats._discrete import BERNOULLI

__all__ = ["cdf", "logcdf", "logpmf", "logsf", "pmf", "ppf", "sf"]

cdf, logcdf, logpmf, logsf, pmf, ppf, sf = BERNOULLI.functions(*__all__)
__dir__ = listing(__name__, __all__)
