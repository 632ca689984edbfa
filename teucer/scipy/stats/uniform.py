"""The uniform distribution from `loc` to `loc + scale`."""

from teucer._base.lazy import listing
from teucer.scipy.stats._continuous import UNIFORM

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

cdf, isf, logcdf, logpdf, logsf, pdf, ppf, sf = UNIFORM.functions(*__all__)
__dir__ = listing(__name__, __all__)
