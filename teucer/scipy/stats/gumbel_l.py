"""The left-skewed Gumbel distribution with mode `loc`."""

from teucer.scipy.stats._continuous import GUMBEL_L

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

cdf, isf, logcdf, logpdf, logsf, pdf, ppf, sf = GUMBEL_L.functions(*__all__)
