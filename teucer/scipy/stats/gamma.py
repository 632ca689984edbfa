"""The gamma distribution with shape `a`."""

from teucer._base.lazy import listing
from teucer.scipy.stats._continuous import GAMMA

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

cdf, logcdf, logpdf, logsf, pdf, sf = GAMMA.functions(*__all__)
__dir__ = listing(__name__, __all__)
