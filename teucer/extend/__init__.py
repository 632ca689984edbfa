"""The interface for libraries that extend this one.

Primitives and jaxprs (`core`), wrapped functions (`linear_util`), backends, lowerings and the
bindings of MLIR (`mlir`), generators of random numbers, shardings that the compiler chose, and
passes over XLA's programs.
"""

from teucer._base.lazy import lazy_module

_MODULES = (
    "backend", "core", "ifrt_programs", "linear_util", "lowering", "mlir", "random", "sharding",
    "source_info_util", "xla",
)  # fmt: skip
__getattr__, __dir__, __all__ = lazy_module(
    __name__, {f"teucer.extend.{name}": f"{name}=." for name in _MODULES}
)
