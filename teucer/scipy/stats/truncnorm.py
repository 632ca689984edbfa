"""The normal distribution between `a` and `b`, which are in units of `scale` from `loc`."""

from teucer._base.lazy import listing
from teucer.scipy.stats._continuous import TRUNCNORM

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

cdf, logcdf, logpdf, logsf, pdf, sf = TRUNCNORM.functions(*__all__)
__dir__ = listing(__name__, __all__)
