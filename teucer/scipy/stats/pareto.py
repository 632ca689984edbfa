"""The Pareto distribution with shape `b`, from `loc + scale` on."""

from teucer.scipy.stats._continuous import PARETO

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

cdf, isf, logcdf, logpdf, logsf, pdf, ppf, sf = PARETO.functions(*__all__)
