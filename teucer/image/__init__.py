"""Images: resizing, scaling, translation."""

from teucer._base.lazy import face

__getattr__, __dir__, __all__ = face(__name__, {"teucer.image._resize": "ResizeMethod resize scale_and_translate"})
