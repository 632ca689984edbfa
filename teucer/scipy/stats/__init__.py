"""Probability distributions, each a module: `norm`."""

from teucer._base.lazy import face

__getattr__, __dir__, __all__ = face(__name__, {"teucer.scipy.stats.norm": "norm=."})
