"""The chi-squared distribution with `df` degrees of freedom."""

from teucer.scipy.stats._continuous import CHI2

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

cdf, logcdf, logpdf, logsf, pdf, sf = CHI2.functions(*__all__)
