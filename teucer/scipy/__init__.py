"""SciPy's functions on arrays that can be traced."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__,
    {
        f"teucer.scipy.{name}": f"{name}=."
        for name in (
            "cluster",
            "fft",
            "integrate",
            "interpolate",
            "linalg",
            "ndimage",
            "optimize",
            "signal",
            "sparse",
            "spatial",
            "special",
            "stats",
        )
    },
)
