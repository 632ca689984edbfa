"""SciPy's functions on arrays that can be traced."""

from teucer._base.lazy import face

__getattr__, __dir__, __all__ = face(__name__, {
    "teucer.scipy.linalg": "linalg=.", "teucer.scipy.special": "special=.", "teucer.scipy.stats": "stats=."})
