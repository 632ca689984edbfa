"""The Cauchy distribution wrapped around a circle, with concentration `c` between 0 and 1."""

from teucer._base.lazy import listing
from teucer.scipy.stats._continuous import WRAPCAUCHY

__all__ = ["logpdf", "pdf"]

logpdf, pdf = WRAPCAUCHY.functions(*__all__)
__dir__ = listing(__name__, __all__)
