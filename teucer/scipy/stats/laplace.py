"""The Laplace distribution around `loc`, with mean distance `scale`."""

from teucer._base.lazy import listing
from teucer.scipy.stats._continuous import LAPLACE

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

cdf, isf, logcdf, logpdf, logsf, pdf, ppf, sf = LAPLACE.functions(*__all__)
__dir__ = listing(__name__, __all__)
