"""Clusters of points, as scipy.cluster has them."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(__name__, {"teucer.scipy.cluster.vq": "vq=."})
