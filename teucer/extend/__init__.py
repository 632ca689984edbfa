"""What libraries on top of this one build on.

Primitives and jaxprs (`core`), wrapped functions (`linear_util`), backends, lowerings, generators of random numbers, and passes
over XLA's programs.
"""

from teucer._base.lazy import lazy_module

_MODULES = ("backend", "core", "linear_util", "lowering", "random", "source_info_util", "xla")
__getattr__, __dir__, __all__ = lazy_module(__name__, {f"teucer.extend.{name}": f"{name}=." for name in _MODULES})
