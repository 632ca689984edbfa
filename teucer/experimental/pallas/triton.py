"""Functions of kernels for NVIDIA GPUs under the names of `pallas.triton`.

Kernels that use them run on the CPU and interpreted too, except for inline assembly
(docs/guide/pallas.md).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from teucer._base.lazy import listing
from teucer._pallas import kernel
from teucer._pallas.gpu import approx_tanh, debug_barrier, elementwise_inline_asm, max_contiguous
from teucer._pallas.gpu_info import (
    GpuInfo,
    GpuVersion,
    get_gpu_info,
    get_gpu_info_from_version,
    is_gpu_device,
)
from teucer._pallas.kernel import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xchg,
    atomic_xor,
    dot,
)
from teucer._pallas.specs import CompilerParams as _AnyParams

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike

__all__ = [
    "CUSTOM_CALL_TARGET_NAME", "CompilerParams", "GpuInfo", "GpuVersion", "approx_tanh",
    "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or",
    "atomic_xchg", "atomic_xor", "debug_barrier", "dot", "elementwise_inline_asm", "get_gpu_info",
    "get_gpu_info_from_version", "is_gpu_device", "load", "max_contiguous", "store",
]  # fmt: skip
__dir__ = listing(__name__, __all__)

CUSTOM_CALL_TARGET_NAME = "__gpu$xla.gpu.triton"


@dataclasses.dataclass(frozen=True)
class CompilerParams(_AnyParams):
    """Options of the Triton compiler.

    num_warps: how many warps of 32 threads run a step of the grid, by default 4.
    num_stages: how many steps of a loop are on their way at a time, by default 3.
    """

    num_warps: int | None = None
    num_stages: int | None = None


def load(
    ref: Any,
    *,
    mask: ArrayLike | None = None,
    other: object = None,
    cache_modifier: str | None = None,
    eviction_policy: str | None = None,
    volatile: bool = False,
) -> Any:
    """The elements of a reference, or of a part of it, `ref.at[...]`; where the mask is false,
    `other` (by default 0).

    cache_modifier: '.ca', '.cg', '.cs', '.cv', ...; eviction_policy: 'evict_first' or 'evict_last';
    volatile: hints for the GPU.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> from teucer.experimental.pallas import triton as plgpu
    >>> plgpu.load(jax.new_ref(jnp.arange(1, 5)).at[1:3], mask=jnp.array([True, False]))
    Array([2, 0], dtype=int32)
    """
    return kernel.load(
        ref,
        ...,
        mask=mask,
        other=other,
        cache_modifier=cache_modifier,
        eviction_policy=eviction_policy,
        volatile=volatile,
    )


def store(
    ref: object, val: Any, *, mask: ArrayLike | None = None, eviction_policy: str | None = None
) -> None:
    """Let the elements of a reference, or of a part of it, be `val` where the mask is true."""
    kernel.store(ref, ..., val, mask=mask, eviction_policy=eviction_policy)
