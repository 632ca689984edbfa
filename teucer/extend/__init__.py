"""What libraries on top of this one build on: primitives and jaxprs (`core`), wrapped functions (`linear_util`), backends."""

from teucer._base.lazy import lazy_module

_MODULES = ("backend", "core", "linear_util", "source_info_util")
__getattr__, __dir__, __all__ = lazy_module(__name__, {f"teucer.extend.{name}": f"{name}=." for name in _MODULES})
