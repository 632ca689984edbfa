"""The beta distribution with shapes `a` and `b`, from `loc` to `loc + scale`."""

from teucer._base.lazy import listing
from teucer.scipy.stats._continuous import BETA

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

cdf, logcdf, logpdf, logsf, pdf, sf = BETA.functions(*__all__)
__dir__ = listing(__name__, __all__)
