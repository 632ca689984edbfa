"""Rules of primitives by transformation, for libraries that define primitives, and the
transformations as they use them."""

from teucer._base import lazy

__getattr__, __dir__, __all__ = lazy.lazy_module(
    __name__,
    {
        f"teucer.interpreters.{name}": f"{name}=."
        for name in ("ad", "batching", "mlir", "partial_eval", "pxla", "xla")
    },
)
