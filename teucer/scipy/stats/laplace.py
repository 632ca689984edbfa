"""The Laplace distribution around `loc`, with mean distance `scale`."""

from teucer.scipy.stats._continuous import LAPLACE

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

cdf, isf, logcdf, logpdf, logsf, pdf, ppf, sf = LAPLACE.functions(*__all__)
