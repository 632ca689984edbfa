"""jaxlib's bindings of MLIR as libraries use them."""

from __future__ import annotations

import importlib
import pkgutil

import jaxlib.mlir.dialects
from jaxlib._jax import mlir
from jaxlib.mlir import ir, passmanager

__all__ = [
    "deserialize_portable_artifact", "dialects", "hlo_to_stablehlo", "ir", "passmanager",
    "refine_polymorphic_shapes", "serialize_portable_artifact",
]  # fmt: skip

# Those that JAX names, if jaxlib has them.
_NAMES = (
    "arith", "builtin", "chlo", "func", "math", "memref", "mpmd", "scf", "sdy", "sparse_tensor",
    "stablehlo", "vector",
)  # fmt: skip
_here = {module.name for module in pkgutil.iter_modules(jaxlib.mlir.dialects.__path__)}
dialects = {
    name: importlib.import_module(f"jaxlib.mlir.dialects.{name}")
    for name in _NAMES
    if name in _here
}

deserialize_portable_artifact = mlir.deserialize_portable_artifact
hlo_to_stablehlo = mlir.hlo_to_stablehlo
refine_polymorphic_shapes = mlir.refine_polymorphic_shapes
serialize_portable_artifact = mlir.serialize_portable_artifact
