"""The logistic distribution with mean `loc`."""

from teucer.scipy.stats._continuous import LOGISTIC

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

cdf, isf, logcdf, logpdf, logsf, pdf, ppf, sf = LOGISTIC.functions(*__all__)
