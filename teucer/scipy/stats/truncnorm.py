"""The normal distribution between `a` and `b`, which are in units of `scale` from `loc`."""

from teucer.scipy.stats._continuous import TRUNCNORM

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

cdf, logcdf, logpdf, logsf, pdf, sf = TRUNCNORM.functions(*__all__)
