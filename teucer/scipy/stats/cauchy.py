"""The Cauchy distribution with median `loc`, a quarter of it beyond `loc + scale`."""

from teucer._base.lazy import listing
from teucer.scipy.stats._continuous import CAUCHY

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

cdf, isf, logcdf, logpdf, logsf, pdf, ppf, sf = CAUCHY.functions(*__all__)
__dir__ = listing(__name__, __all__)
