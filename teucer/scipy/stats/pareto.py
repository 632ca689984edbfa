"""The Pareto distribution with shape `b`, from `loc + scale` on."""

from teucer._base.lazy import listing
from teucer.scipy.stats._continuous import PARETO

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

cdf, isf, logcdf, logpdf, logsf, pdf, ppf, sf = PARETO.functions(*__all__)
__dir__ = listing(__name__, __all__)
