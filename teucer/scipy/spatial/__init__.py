"""Points and rotations in space, as scipy.spatial has them."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(
    __name__, {"teucer.scipy.spatial.transform": "transform=."}
)
