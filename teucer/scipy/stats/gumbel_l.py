"""The left-skewed Gumbel distribution with mode `loc`."""

from teucer._base.lazy import listing
from teucer.scipy.stats._continuous import GUMBEL_L

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

cdf, isf, logcdf, logpdf, logsf, pdf, ppf, sf = GUMBEL_L.functions(*__all__)
__dir__ = listing(__name__, __all__)
