"""Functions of kernels for GPUs under the names of `pallas.triton`: masked loads and stores, atomic operations."""

from teucer.experimental.pallas._kernel import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xchg,
    atomic_xor,
    dot,
    load,
    store,
)
from teucer.experimental.pallas._specs import CompilerParams

__all__ = ["CompilerParams", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or",
           "atomic_xchg", "atomic_xor", "dot", "load", "store"]
