"""SciPy's functions on arrays that can be traced."""

from teucer._base.lazy import face

__getattr__, __dir__, __all__ = face(__name__, {
    f"teucer.scipy.{name}": f"{name}=." for name in ("fft", "linalg", "sparse", "special", "stats")})
