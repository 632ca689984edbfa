"""Student's t distribution with `df` degrees of freedom."""

from teucer._base.lazy import listing
from teucer.scipy.stats._continuous import T

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

cdf, logcdf, logpdf, logsf, pdf, sf = T.functions(*__all__)
__dir__ = listing(__name__, __all__)
