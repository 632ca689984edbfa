"""Iterative methods for linear systems, in `linalg`."""

from teucer._base.lazy import face

__getattr__, __dir__, __all__ = face(__name__, {"teucer.scipy.sparse.linalg": "linalg=."})
