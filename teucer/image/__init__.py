"""Images: resizing, scaling, translation."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__, {"teucer.image._resize": "ResizeMethod resize scale_and_translate"}
)
