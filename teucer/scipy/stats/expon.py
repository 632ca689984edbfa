"""The exponential distribution from `loc` on, with mean distance `scale`."""

from teucer._base.lazy import listing
from teucer.scipy.stats._continuous import EXPON

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

cdf, isf, logcdf, logpdf, logsf, pdf, ppf, sf = EXPON.functions(*__all__)
__dir__ = listing(__name__, __all__)
