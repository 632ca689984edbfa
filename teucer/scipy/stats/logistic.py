"""The logistic distribution with mean `loc`."""

from teucer._base.lazy import listing
from teucer.scipy.stats._continuous import LOGISTIC

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

cdf, isf, logcdf, logpdf, logsf, pdf, ppf, sf = LOGISTIC.functions(*__all__)
__dir__ = listing(__name__, __all__)
