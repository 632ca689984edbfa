"""The uniform distribution from `loc` to `loc + scale`."""

from teucer.scipy.stats._continuous import UNIFORM

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

cdf, isf, logcdf, logpdf, logsf, pdf, ppf, sf = UNIFORM.functions(*__all__)
