"""The geometric distribution: trials up to the first success, each with probability `p`."""

from teucer._base.lazy import listing
from teucer.scipy.stats._discrete import GEOM

__all__ = ["cdf", "logcdf", "logpmf", "logsf", "pmf", "sf"]

cdf, logcdf, logpmf, logsf, pmf, sf = GEOM.functions(*__all__)
__dir__ = listing(__name__, __all__)
