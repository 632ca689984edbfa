"""The von Mises distribution of angles around `loc`, with concentration `kappa`."""

from teucer._base.lazy import listing
from teucer.scipy.stats._continuous import VONMISES

__all__ = ["logpdf", "pdf"]

logpdf, pdf = VONMISES.functions(*__all__)
__dir__ = listing(__name__, __all__)
