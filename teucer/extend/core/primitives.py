"""The primitives, by name: primitives of lax, and primitives that carry programs or rules of
users."""

from teucer._base.lazy import lazy_module
from teucer._jax.primitives import SOURCES

__getattr__, __dir__, __all__ = lazy_module(__name__, SOURCES)
