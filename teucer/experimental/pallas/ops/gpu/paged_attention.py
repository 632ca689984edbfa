"""Attention of one query a sequence, whose keys lie in pages that a table lists.

Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention"
(2023).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import jit, lax
from teucer import numpy as jnp
from teucer._experimental.unbuilt import unbuilt_names
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import triton as plgpu
from teucer.experimental.pallas.ops.gpu import _decoding

if TYPE_CHECKING:
    from teucer._core.typing import Array
    from teucer.experimental.pallas.ops._types import BlockRef

__all__ = [
    "DEFAULT_MASK_VALUE", "paged_attention", "paged_attention_reference",
    "paged_attention_unbatched",
]  # fmt: skip
__getattr__, __dir__ = unbuilt_names(
    __name__,
    "paged_attention_kernel",
    "the kernel of one block is not public here.\n  Use paged_attention.",
    tuple(__all__),
)

DEFAULT_MASK_VALUE = _decoding.MASK_VALUE


@functools.partial(
    jit,
    static_argnames=(
        "block_h", "pages_per_compute_block", "k_splits", "num_warps", "num_stages", "interpret",
        "debug", "mask_value", "attn_logits_soft_cap",
    ),
)  # fmt: skip
def paged_attention(
    q: Array,
    k_pages: Array,
    v_pages: Array,
    block_tables: Array,
    lengths: Array | None,
    k_scales_pages: Array | None = None,
    v_scales_pages: Array | None = None,
    *,
    block_h: int = 16,
    pages_per_compute_block: int = 8,
    k_splits: int = 16,
    num_warps: int = 8,
    num_stages: int = 2,
    interpret: bool = False,
    debug: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE,
    attn_logits_soft_cap: float | None = None,
) -> Array:
    """softmax(q k^T) v for one query a sequence; q is scaled already.

    q: T[batch, heads, size]; k_pages, v_pages: [groups, pages, page size, size], the groups divide
    the heads; block_tables: int[batch, pages of a sequence]  ->  T[batch, heads, size]
    lengths: int[batch], how many keys a sequence has; None: as many as its pages hold. Where it has
    none, the result is 0.
    k_scales_pages, v_scales_pages: [groups, pages, page size], of quantised pages: what each row
    is multiplied by.
    attn_logits_soft_cap: c, the logits x become c tanh(x / c).
    block_h, pages_per_compute_block, k_splits: how many heads and pages a program takes at a time,
    and how many programs share a sequence.
    Raises ValueError for shapes that do not fit.

    >>> pages, table = jnp.ones((2, 4, 8, 16)), jnp.array([[3, 1]])
    >>> paged_attention(jnp.ones((1, 4, 16)), pages, pages, table, jnp.array([9])).shape
    (1, 4, 16)

    Method: Kwon et al., arXiv:2309.06180 (2023).
    """
    _check(q, k_pages, v_pages, block_tables, lengths, k_scales_pages, v_scales_pages)
    batch, heads, size = q.shape
    groups, _, page_size, _ = k_pages.shape
    most = block_tables.shape[1] * page_size
    options = _decoding.Options(
        1.0, block_h, pages_per_compute_block * page_size, k_splits, num_warps, num_stages, None,
        interpret, debug, mask_value, attn_logits_soft_cap,
    )  # fmt: skip
    columns = jnp.arange(pl.next_power_of_2(size))[None, :]
    scales = [x for x in (k_scales_pages, v_scales_pages) if x is not None]

    def read(refs: Sequence[BlockRef], rows: Array, seen: Array) -> Any:
        table_ref, k_ref, v_ref, *scale_refs = refs
        pages = plgpu.load(table_ref.at[lax.div(rows, np.int32(page_size))], mask=seen, other=0)
        places = lax.rem(rows, np.int32(page_size))
        mask = seen[:, None] & (columns < size)
        k, v = (
            plgpu.load(ref.at[pages[:, None], places[:, None], columns], mask=mask, other=0)
            for ref in (k_ref, v_ref)
        )
        found = [plgpu.load(ref.at[pages, places], mask=seen, other=0) for ref in scale_refs]
        k_scales = None if k_scales_pages is None else found[0]
        return k, v, k_scales, None if v_scales_pages is None else found[-1]

    table = pl.BlockSpec(
        (None, block_tables.shape[1]), _decoding.of_head(lambda b, h: (b, 0), groups)
    )
    shape = k_pages.shape[1:]
    pages = pl.BlockSpec((None, *shape), _decoding.of_head(lambda b, h: (h, 0, 0, 0), groups))
    of_pages = pl.BlockSpec((None, *shape[:2]), _decoding.of_head(lambda b, h: (h, 0, 0), groups))
    out, total, _ = _decoding.attention(
        q.reshape(batch, groups, heads // groups, size),
        jnp.zeros(batch, np.int32),
        jnp.full(batch, most, np.int32) if lengths is None else lengths.astype(np.int32),
        _decoding.Sequences(
            (block_tables.astype(np.int32), k_pages, v_pages, *scales),
            (table, pages, pages, *[of_pages] * len(scales)),
            read,
            most,
        ),
        options,
        "paged_attention",
    )
    return _decoding.normalized(out, total).reshape(q.shape).astype(q.dtype)


def paged_attention_unbatched(
    q: Array,
    k_pages: Array,
    v_pages: Array,
    block_tables: Array,
    lengths: Array | None,
    k_scales_pages: Array | None = None,
    v_scales_pages: Array | None = None,
    *,
    block_h: int,
    pages_per_compute_block: int,
    k_splits: int,
    num_warps: int,
    num_stages: int,
    interpret: bool,
    debug: bool,
    mask_value: float,
    attn_logits_soft_cap: float | None,
) -> Array:
    """`paged_attention` of one sequence: q is T[heads, size], block_tables int[pages]."""
    return paged_attention(
        q[None],
        k_pages,
        v_pages,
        block_tables[None],
        None if lengths is None else jnp.reshape(lengths, (1,)),
        k_scales_pages,
        v_scales_pages,
        block_h=block_h,
        pages_per_compute_block=pages_per_compute_block,
        k_splits=k_splits,
        num_warps=num_warps,
        num_stages=num_stages,
        interpret=interpret,
        debug=debug,
        mask_value=mask_value,
        attn_logits_soft_cap=attn_logits_soft_cap,
    )[0]


@functools.partial(jit, static_argnames=("mask_value", "attn_logits_soft_cap"))
def paged_attention_reference(
    q: Array,
    k: Array,
    v: Array,
    lengths: Array,
    *,
    mask_value: float = DEFAULT_MASK_VALUE,
    attn_logits_soft_cap: float | None = None,
) -> Array:
    """The same in jnp, of keys and values in one piece: T[batch, keys, groups, size]."""
    batch, _, size = q.shape
    keys, groups = k.shape[1:3]
    wide = np.promote_types(q.dtype, np.float32)
    logits = jnp.einsum(
        "bghd,bkgd->bghk", q.reshape(batch, groups, -1, size), k, preferred_element_type=wide
    )
    if attn_logits_soft_cap is not None:
        logits = attn_logits_soft_cap * jnp.tanh(logits / attn_logits_soft_cap)
    seen = jnp.arange(keys) < lengths[:, None]
    logits = jnp.where(seen[:, None, None], logits, mask_value)
    weights = jnp.exp(logits - logits.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    out = jnp.einsum("bghk,bkgd->bghd", weights, v, preferred_element_type=wide)
    return out.reshape(q.shape).astype(q.dtype)


def _check(
    q: Array,
    k_pages: Array,
    v_pages: Array,
    table: Array,
    lengths: Array | None,
    k_scales: Array | None,
    v_scales: Array | None,
) -> None:
    fits = (
        q.ndim == 3
        and k_pages.ndim == 4
        and k_pages.shape == v_pages.shape
        and k_pages.shape[3] == q.shape[2]
        and q.shape[1] % k_pages.shape[0] == 0
        and table.ndim == 2
        and table.shape[0] == q.shape[0]
        and (lengths is None or lengths.shape == q.shape[:1])
        and all(s is None or s.shape == k_pages.shape[:3] for s in (k_scales, v_scales))
    )
    if not fits:
        given = {
            "q": q, "k_pages": k_pages, "v_pages": v_pages, "block_tables": table,
            "lengths": lengths, "k_scales_pages": k_scales, "v_scales_pages": v_scales,
        }  # fmt: skip
        lines = [
            f"    {name}: {x.dtype}{list(x.shape)}" for name, x in given.items() if x is not None
        ]
        raise ValueError(
            "paged_attention: q must be [batch, heads, size]; k_pages and v_pages [groups, pages, "
            "page size, size], groups that divide the heads; block_tables [batch, pages]; lengths "
            "[batch]; scales [groups, pages, page size].\n" + "\n".join(lines)
        )
