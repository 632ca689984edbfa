"""Text as an MLIR module, which programs with host callbacks need: the compiler takes their callbacks with a module only."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

__all__ = ["parse"]


def parse(text: str) -> Any:
    """The module that a text says."""
    context = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (stablehlo, chlo, sdy):
        dialect.register_dialect(context)
    with context:
        return ir.Module.parse(text)
