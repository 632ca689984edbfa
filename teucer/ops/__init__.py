"""Reductions over segments of arrays."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__, {"teucer.ops._segments": "segment_max segment_min segment_prod segment_sum"}
)
