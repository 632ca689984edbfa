"""The normal distribution with mean `loc` and standard deviation `scale`."""

from teucer._base.lazy import listing
from teucer.scipy.stats._continuous import NORM

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

cdf, isf, logcdf, logpdf, logsf, pdf, ppf, sf = NORM.functions(*__all__)
__dir__ = listing(__name__, __all__)
