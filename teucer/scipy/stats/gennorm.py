"""The generalized normal distribution with shape `beta`: 1 is that of Laplace, 2 a normal one."""

from teucer._base.lazy import listing
from teucer.scipy.stats._continuous import GENNORM

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

cdf, logcdf, logpdf, logsf, pdf, sf = GENNORM.functions(*__all__)
__dir__ = listing(__name__, __all__)
