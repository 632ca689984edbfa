"""Functions of sparse arrays of any format."""

from teucer._base import lazy

_SOURCES = {"teucer._sparse.api": "empty eye todense todense_p"}
__getattr__, __dir__, __all__ = lazy.lazy_module(__name__, _SOURCES)
