"""The chi-squared distribution with `df` degrees of freedom."""

from teucer._base.lazy import listing
from teucer.scipy.stats._continuous import CHI2

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

cdf, logcdf, logpdf, logsf, pdf, sf = CHI2.functions(*__all__)
__dir__ = listing(__name__, __all__)
