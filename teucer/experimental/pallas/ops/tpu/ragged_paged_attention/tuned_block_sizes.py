"""How many pages and queries a step of ragged paged attention takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from teucer import numpy as jnp
from teucer._base.lazy import listing, refusing
from teucer.experimental import pallas as pl
from teucer.experimental.pallas.ops.tpu.megablox import common

if TYPE_CHECKING:
    from teucer._core.typing import DTypeLike

__all__ = [
    "MAX_PAGES_PER_SEQ", "TUNED_BLOCK_SIZES", "get_device_name", "get_min_page_size",
    "get_tpu_version", "get_tuned_block_sizes", "next_power_of_2", "simplify_key",
]  # fmt: skip
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)

MAX_PAGES_PER_SEQ = 16
"""How many pages of a sequence `get_min_page_size` aims at."""
# Device, then `simplify_key` of a shape: (pages, queries) of a step. Nothing was measured yet.
TUNED_BLOCK_SIZES: dict[str, dict[tuple[Any, ...], tuple[int, int]]] = {}
_MOST_KEYS, _MOST_QUERIES = 512, 32


def next_power_of_2(x: int) -> int:
    """The least power of 2 that is not less than x."""
    return pl.next_power_of_2(x)


def get_device_name(num_devices: int | None = None) -> str:
    """The kind of the first device, with so many of them."""
    name = common.tpu_kind()
    return name if num_devices is None else f"{name}-{num_devices}"


def get_tpu_version() -> int:
    """The generation of the TPU, -1 where there is none."""
    return common.tpu_generation() if common.is_tpu() else -1


def get_min_page_size(max_model_len: int, min_page_size: int = 16) -> int:
    """A page size by which a sequence has at most MAX_PAGES_PER_SEQ pages, a power of 2."""
    return max(min_page_size, next_power_of_2(max_model_len) // MAX_PAGES_PER_SEQ)


def simplify_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A shape as TUNED_BLOCK_SIZES names it: types by name, sizes as powers of 2.

    key: the arguments of `get_tuned_block_sizes`.
    """
    q_dtype, kv_dtype, q_heads, kv_heads, size, page, tokens, pages = key
    return (
        jnp.dtype(q_dtype).name,
        jnp.dtype(kv_dtype).name,
        next_power_of_2(q_heads),
        next_power_of_2(kv_heads),
        (size + 127) // 128 * 128,
        next_power_of_2(page),
        next_power_of_2(tokens),
        next_power_of_2(page * pages),
    )


def get_tuned_block_sizes(
    q_dtype: DTypeLike,
    kv_dtype: DTypeLike,
    num_q_heads_per_blk: int,
    num_kv_heads_per_blk: int,
    head_dim: int,
    page_size: int,
    max_num_batched_tokens: int,
    pages_per_seq: int,
) -> tuple[int, int]:
    """(pages, queries) of a step: as measured, or about 512 keys and 32 queries."""
    key = simplify_key(
        (
            q_dtype, kv_dtype, num_q_heads_per_blk, num_kv_heads_per_blk, head_dim, page_size,
            max_num_batched_tokens, pages_per_seq,
        )
    )  # fmt: skip
    pages, queries = TUNED_BLOCK_SIZES.get(get_device_name(), {}).get(
        key, (max(_MOST_KEYS // page_size, 1), _MOST_QUERIES)
    )
    return min(pages, pages_per_seq), min(queries, max_num_batched_tokens)
