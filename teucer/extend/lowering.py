"""Contexts of MLIR and of lowering rules, for libraries that write StableHLO through jaxlib's
bindings."""

from typing import Any

from teucer._base.lazy import listing
from teucer.interpreters.mlir import LoweringRuleContext

__all__ = ["JaxIrContext", "LoweringRuleContext", "upstream_dialects"]  # noqa: F822  # __getattr__ gives two
__dir__ = listing(__name__, __all__)


def __getattr__(name: str) -> Any:
    if name in (
        "JaxIrContext",
        "upstream_dialects",
    ):  # jaxlib's bindings of MLIR, which take 0.15 s to load
        from teucer._xla import mlir

        return getattr(mlir, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
