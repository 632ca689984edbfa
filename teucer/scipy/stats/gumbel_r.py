"""The right-skewed Gumbel distribution with mode `loc`."""

from teucer.scipy.stats._continuous import GUMBEL_R

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

cdf, isf, logcdf, logpdf, logsf, pdf, ppf, sf = GUMBEL_R.functions(*__all__)
