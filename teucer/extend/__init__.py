"""What libraries on top of this one build on: primitives and jaxprs in `core`, wrapped functions in `linear_util`."""

from teucer._base.lazy import lazy_module

__getattr__, __dir__, __all__ = lazy_module(__name__, {f"teucer.extend.{name}": f"{name}=." for name in ("core", "linear_util")})
