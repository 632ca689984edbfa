"""Modules of the tpu dialect, as libtpu reads them."""

from __future__ import annotations

import base64
import io

from jaxlib.mlir import ir, passmanager
from jaxlib.mlir._mlir_libs import _tpu_ext

from teucer._xla import mlir


def _context() -> ir.Context:
    context = mlir.JaxIrContext()
    context.load()
    _tpu_ext.register_dialect(context)
    context.load_all_available_dialects()
    return context


def serialized(text: str) -> str:
    """A module in the stable form of the dialect, bytecode in base 64.

    Raises ValueError, with line and column, for a text that is no module.
    """
    context = _context()
    with context, ir.Location.unknown():
        try:
            module = ir.Module.parse(text)
            module.operation.verify()
        except ir.MLIRError as err:
            raise ValueError(_said(text, err)) from None
        context.allow_unregistered_dialects = True
        stable = passmanager.PassManager.parse("builtin.module(mosaic-serde{serialize=true})")
        stable.run(module.operation)
        out = io.BytesIO()
        module.operation.write_bytecode(out, desired_version=0)
    return base64.b64encode(out.getvalue()).decode()


def _said(text: str, err: ir.MLIRError) -> str:
    """What MLIR says of a text, with the line that it is about."""
    found = []
    for d in err.error_diagnostics:
        line = str(d.location)
        found.append(f"{d.message} at {line}")
    return "the kernel's module is wrong: " + "; ".join(found)
