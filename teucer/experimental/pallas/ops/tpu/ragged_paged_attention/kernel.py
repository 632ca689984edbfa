"""Attention of sequences that follow one another in one array of tokens, with keys in pages.

A step of the grid sees a block of queries, of which one sequence's are computed, and some pages of
this sequence. Which they are is computed before the grid begins, as for grouped products. Kwon et
al., "Efficient Memory Management for Large Language Model Serving with PagedAttention" (2023).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import ShapeDtypeStruct, jit, lax
from teucer import numpy as jnp
from teucer._experimental.unbuilt import unbuilt_names
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import tpu as pltpu
from teucer.experimental.pallas.ops.tpu.megablox.gmm import make_group_metadata
from teucer.experimental.pallas.ops.tpu.ragged_paged_attention.tuned_block_sizes import (
    get_tuned_block_sizes,
)

if TYPE_CHECKING:
    from teucer._core.typing import Array, DTypeLike
    from teucer.experimental.pallas.ops._types import BlockRef

__all__ = [
    "DEFAULT_MASK_VALUE", "dynamic_validate_inputs", "get_dtype_packing", "get_min_heads_per_blk",
    "get_tuned_block_sizes", "ragged_paged_attention", "ref_ragged_paged_attention",
    "static_validate_inputs",
]  # fmt: skip
__getattr__, __dir__ = unbuilt_names(
    __name__,
    "MultiPageAsyncCopyDescriptor ragged_paged_attention_kernel",
    "the kernel of one block is not public here.\n  Use ragged_paged_attention.",
    tuple(__all__),
)

DEFAULT_MASK_VALUE = -0.7 * float(np.finfo(np.float32).max)
_NT = (((1,), (1,)), ((), ()))


@functools.partial(
    jit,
    static_argnames=(
        "sm_scale", "sliding_window", "soft_cap", "mask_value", "k_scale", "v_scale",
        "num_kv_pages_per_block", "num_queries_per_block", "vmem_limit_bytes",
    ),
)  # fmt: skip
def ragged_paged_attention(
    q: Array,
    kv_pages: Array,
    kv_lens: Array,
    page_indices: Array,
    cu_q_lens: Array,
    num_seqs: Array,
    *,
    sm_scale: float = 1.0,
    sliding_window: int | None = None,
    soft_cap: float | None = None,
    mask_value: float | None = DEFAULT_MASK_VALUE,
    k_scale: float | None = None,
    v_scale: float | None = None,
    num_kv_pages_per_block: int | None = None,
    num_queries_per_block: int | None = None,
    vmem_limit_bytes: int | None = None,
) -> Array:
    """softmax(sm_scale q k^T) v for the last tokens of each sequence, which see those before them.

    q: T[tokens, heads, size], sequence after sequence; kv_pages: [pages, page size, 2 groups,
    size], keys and values of a group side by side, the groups divide the heads; kv_lens:
    int32[sequences], how many keys each has, its own tokens included; page_indices:
    int32[sequences, pages of each]; cu_q_lens: int32[sequences + 1], where the tokens of each
    begin; num_seqs: int32[1], how many sequences there are  ->  T[tokens, heads, size]
    Tokens of no sequence give 0.
    sliding_window: how many keys a token sees, its own the last; soft_cap: c, the logits x become
    c tanh(x / c); k_scale, v_scale: what keys and values are multiplied by, where they are
    quantised.
    num_kv_pages_per_block, num_queries_per_block: what a step takes, by default as
    `get_tuned_block_sizes` says.
    Raises ValueError for shapes, types and options that do not fit; `dynamic_validate_inputs`
    checks numbers, too.

    Method: Kwon et al., arXiv:2309.06180 (2023).
    """
    static_validate_inputs(
        q, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs, sm_scale=sm_scale,
        sliding_window=sliding_window, soft_cap=soft_cap, mask_value=mask_value, k_scale=k_scale,
        v_scale=v_scale, num_kv_pages_per_block=num_kv_pages_per_block,
        num_queries_per_block=num_queries_per_block, vmem_limit_bytes=vmem_limit_bytes,
    )  # fmt: skip
    masked = DEFAULT_MASK_VALUE if mask_value is None else mask_value
    (tokens, heads, size), (sequences, most_pages) = q.shape, page_indices.shape
    page_size, groups = kv_pages.shape[1], kv_pages.shape[2] // 2
    pages, queries = get_tuned_block_sizes(
        q.dtype, kv_pages.dtype, heads, groups, size, page_size, tokens, most_pages
    )
    pages = num_kv_pages_per_block or pages
    queries = min(num_queries_per_block or queries, tokens)
    if not q.size or not sequences:
        return jnp.zeros_like(q)
    share, wide = heads // groups, np.promote_types(q.dtype, np.float32)
    rows, keys = queries * share, pages * page_size
    there = jnp.arange(sequences) < num_seqs[0]
    lengths = jnp.where(there, cu_q_lens[1:] - cu_q_lens[:-1], 0)
    metadata, count = make_group_metadata(
        group_sizes=lengths,
        m=tokens,
        tm=queries,
        start_group=jnp.zeros((), np.int32),
        num_nonzero_groups=sequences,
        visit_empty_groups=False,
    )

    def kernel(
        offsets: BlockRef, ids: BlockRef, places: BlockRef, lens: BlockRef, table: BlockRef,
        q_ref: BlockRef, *refs: BlockRef,
    ) -> None:  # fmt: skip
        page_refs, (o_ref, *totals) = refs[:pages], refs[pages:]
        greatest_ref, total_ref, acc_ref = totals
        t, j = pl.program_id(0), pl.program_id(1)
        sequence, block = ids[t], places[t]
        begin, end, length = offsets[sequence], offsets[sequence + 1], lens[sequence]
        # Rows are tokens, each as often as heads share keys.
        token = lax.div(
            lax.broadcasted_iota(np.int32, (rows, 1), 0), np.int32(share)
        ) + block * np.int32(queries)
        place = token - end + length  # of the last keys, that of the token itself
        first, last = jnp.maximum(begin, block * queries), jnp.minimum(end, (block + 1) * queries)
        needed = _is_seen(
            j * keys, (j + 1) * keys, first - end + length, last - end + length, sliding_window
        )

        @pl.when(j == 0)
        def start() -> None:
            greatest_ref[...] = jnp.full(greatest_ref.shape, masked, wide)
            total_ref[...] = jnp.zeros(total_ref.shape, wide)
            acc_ref[...] = jnp.zeros(acc_ref.shape, wide)

        def add(group: int) -> None:
            k, v = (
                _joined([ref[:, 2 * group + i, :] for ref in page_refs], scale, q_ref.dtype)
                for i, scale in enumerate((k_scale, v_scale))
            )
            logits = sm_scale * lax.dot_general(
                q_ref[group].astype(k.dtype), k, _NT, preferred_element_type=wide
            )
            if soft_cap is not None:
                logits = soft_cap * jnp.tanh(logits / soft_cap)
            key = j * keys + lax.broadcasted_iota(np.int32, logits.shape, 1)
            seen = (key <= place) & (key < length)
            if sliding_window is not None:
                seen = seen & (key > place - sliding_window)
            logits = jnp.where(seen, logits, masked)
            _accumulate(logits, seen, v, *(ref.at[group] for ref in totals))

        @pl.when(needed)
        def run() -> None:
            for group in range(groups):
                add(group)

        @pl.when(j == pl.num_programs(1) - 1)
        def store() -> None:
            own = (begin <= token) & (token < end)
            is_first = (t == 0) | (places[jnp.maximum(t - 1, 0)] != block)
            for group in range(groups):
                total = total_ref[group]
                found = (acc_ref[group] / jnp.where(total == 0, 1, total)).astype(o_ref.dtype)
                # The first sequence that sees a block finds nothing in it.
                before = jnp.where(is_first, jnp.zeros(found.shape, found.dtype), o_ref[group])
                o_ref[group] = jnp.where(own, found, before)

    spec = pl.BlockSpec(
        (groups, rows, size), lambda t, j, offsets, ids, places, *_: (0, places[t], 0)
    )
    by_group = q.reshape(tokens, groups, share, size).swapaxes(0, 1)
    out = pl.pallas_call(
        kernel,
        ShapeDtypeStruct((groups, tokens * share, size), q.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=5,
            grid=(count, pl.cdiv(most_pages, pages)),
            in_specs=[spec, *[_page(kv_pages, i, pages) for i in range(pages)]],
            out_specs=spec,
            scratch_shapes=[
                pltpu.VMEM((groups, rows, 1), wide),
                pltpu.VMEM((groups, rows, 1), wide),
                pltpu.VMEM((groups, rows, size), wide),
            ],
        ),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("arbitrary", "arbitrary"), vmem_limit_bytes=vmem_limit_bytes
        ),
        name="ragged_paged_attention",
    )(
        *metadata, kv_lens, page_indices, by_group.reshape(groups, tokens * share, size),
        *[kv_pages] * pages,
    )  # fmt: skip
    out = out.reshape(groups, tokens, share, size).swapaxes(0, 1).reshape(q.shape)
    # Blocks that no sequence sees are not written.
    return jnp.where(jnp.arange(tokens)[:, None, None] < metadata[0][-1], out, 0)


def _page(kv_pages: Array, i: int, pages: int) -> pl.BlockSpec:
    """The block of the i-th of the pages that a step takes."""
    page_size = np.int32(kv_pages.shape[1])

    def index(
        t: Array, j: Array, offsets: BlockRef, ids: BlockRef, places: BlockRef, lens: BlockRef,
        table: BlockRef,
    ) -> Any:  # fmt: skip
        # Behind the last page that has keys it is named again, so that nothing is copied.
        sequence = ids[t]
        last = jnp.maximum(lax.div(lens[sequence] - 1, page_size), 0)
        return table[sequence, jnp.minimum(j * pages + i, last)], 0, 0, 0

    return pl.BlockSpec((None, *kv_pages.shape[1:]), index)


def _joined(pages: Sequence[Array], scale: float | None, dtype: DTypeLike) -> Array:
    """Keys or values of some pages, in a dtype, times what they were divided by."""
    x = jnp.concatenate(pages)
    if x.dtype == dtype and scale is None:
        return x
    return (
        x.astype(np.promote_types(dtype, np.float32)) * (1.0 if scale is None else scale)
    ).astype(dtype)


def _is_seen(start: Any, stop: Any, first: Array, last: Array, window: int | None) -> Array:
    """Whether a token of those at the places from `first` to `last` sees a key from `start` on."""
    seen = start <= last - 1
    return seen if window is None else seen & (stop > first - window + 1)


def _accumulate(
    logits: Array, seen: Array, v: Array, greatest_ref: BlockRef, total_ref: BlockRef,
    acc_ref: BlockRef,
) -> None:  # fmt: skip
    """Add values, weighted by exp(logits), to those of earlier keys."""
    before = greatest_ref[...]
    now = jnp.maximum(before, logits.max(1, keepdims=True))
    weights, old = jnp.where(seen, jnp.exp(logits - now), 0), jnp.exp(before - now)
    greatest_ref[...] = now
    total_ref[...] = total_ref[...] * old + weights.sum(1, keepdims=True)
    found = jnp.dot(weights.astype(v.dtype), v, preferred_element_type=acc_ref.dtype)
    acc_ref[...] = acc_ref[...] * old + found


def ref_ragged_paged_attention(
    queries: Array,
    kv_pages: Array,
    kv_lens: Array,
    page_indices: Array,
    cu_q_lens: Array,
    num_seqs: Array,
    *,
    sm_scale: float = 1.0,
    sliding_window: int | None = None,
    soft_cap: float | None = None,
    mask_value: float | None = DEFAULT_MASK_VALUE,
    k_scale: float | None = None,
    v_scale: float | None = None,
) -> Array:
    """`ragged_paged_attention` in jnp, sequence after sequence, for the tokens that there are;
    lengths must be known."""
    masked = DEFAULT_MASK_VALUE if mask_value is None else mask_value
    heads, size = queries.shape[1:]
    groups = kv_pages.shape[2] // 2
    outs = []
    for i in range(int(num_seqs[0])):
        begin, end, length = int(cu_q_lens[i]), int(cu_q_lens[i + 1]), int(kv_lens[i])
        if begin == end:
            continue
        flat = kv_pages[page_indices[i]].reshape(-1, 2 * groups, size)[:length]
        k, v = (
            jnp.repeat(flat[:, start::2].astype(np.float32), heads // groups, 1)
            * (1.0 if scale is None else scale)
            for start, scale in ((0, k_scale), (1, v_scale))
        )
        logits = sm_scale * jnp.einsum("qhd,khd->hqk", queries[begin:end].astype(np.float32), k)
        if soft_cap is not None:
            logits = soft_cap * jnp.tanh(logits / soft_cap)
        place, key = jnp.arange(begin, end)[:, None] - end + length, jnp.arange(length)
        seen = key <= place
        if sliding_window is not None:
            seen = seen & (key > place - sliding_window)
        logits = jnp.where(seen, logits, masked)
        weights = jnp.exp(logits - logits.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        outs.append(jnp.einsum("hqk,khd->qhd", weights, v).astype(queries.dtype))
    return jnp.concatenate(outs) if outs else queries[:0]


def get_dtype_packing(dtype: DTypeLike) -> int:
    """How many elements share 32 bits."""
    return 4 // jnp.dtype(dtype).itemsize


def get_min_heads_per_blk(
    num_q_heads: int, num_combined_kv_heads: int, q_dtype: DTypeLike, kv_dtype: DTypeLike
) -> tuple[int, int]:
    """(heads of queries, heads of keys and values) of a block: here all of them."""
    return num_q_heads, num_combined_kv_heads


def static_validate_inputs(
    q: Array,
    kv_pages: Array,
    kv_lens: Array,
    page_indices: Array,
    cu_q_lens: Array,
    num_seqs: Array,
    *,
    sm_scale: float | None = None,
    sliding_window: int | None = None,
    soft_cap: float | None = None,
    mask_value: float | None = None,
    k_scale: float | None = None,
    v_scale: float | None = None,
    num_kv_pages_per_block: int | None = None,
    num_queries_per_block: int | None = None,
    vmem_limit_bytes: int | None = None,
) -> None:
    """Raises ValueError for shapes, types and options that `ragged_paged_attention` does not
    take."""
    given = {
        "q": q, "kv_pages": kv_pages, "kv_lens": kv_lens, "page_indices": page_indices,
        "cu_q_lens": cu_q_lens, "num_seqs": num_seqs,
    }  # fmt: skip
    ranks = {name: len(x.shape) for name, x in given.items()}
    sequences = page_indices.shape[0] if page_indices.ndim else 0
    fits = (
        list(ranks.values()) == [3, 4, 1, 2, 1, 1]
        and q.shape[2] == kv_pages.shape[3]
        and kv_pages.shape[2] % 2 == 0
        and q.shape[1] % (kv_pages.shape[2] // 2) == 0
        and kv_lens.shape == (sequences,)
        and cu_q_lens.shape == (sequences + 1,)
        and num_seqs.shape == (1,)
    )
    if not fits:
        lines = [f"    {name}: {x.dtype}{list(x.shape)}" for name, x in given.items()]
        raise ValueError(
            "ragged_paged_attention: q must be [tokens, heads, size]; kv_pages [pages, page size, "
            "2 groups, size], groups that divide the heads; kv_lens [sequences]; page_indices "
            "[sequences, pages]; cu_q_lens [sequences + 1]; num_seqs [1].\n" + "\n".join(lines)
        )
    for name in ("kv_lens", "page_indices", "cu_q_lens", "num_seqs"):
        if given[name].dtype != np.int32:
            raise ValueError(f"{name} must be int32, got {given[name].dtype}.")
    for name, value in (
        ("sliding_window", sliding_window),
        ("num_kv_pages_per_block", num_kv_pages_per_block),
        ("num_queries_per_block", num_queries_per_block),
        ("vmem_limit_bytes", vmem_limit_bytes),
    ):
        if value is not None and value <= 0:
            raise ValueError(f"{name} must be positive, got {value}.")
    if soft_cap == 0.0:
        raise ValueError("soft_cap must not be 0.0.")
    if num_kv_pages_per_block is not None and num_kv_pages_per_block > page_indices.shape[1]:
        raise ValueError(
            f"num_kv_pages_per_block={num_kv_pages_per_block} is more than a sequence has, "
            f"{page_indices.shape[1]}."
        )


def dynamic_validate_inputs(
    q: Array,
    kv_pages: Array,
    kv_lens: Array,
    page_indices: Array,
    cu_q_lens: Array,
    num_seqs: Array,
    *,
    sm_scale: float | None = None,
    sliding_window: int | None = None,
    soft_cap: float | None = None,
    mask_value: float | None = None,
    k_scale: float | None = None,
    v_scale: float | None = None,
    num_kv_pages_per_block: int | None = None,
    num_queries_per_block: int | None = None,
    vmem_limit_bytes: int | None = None,
) -> None:
    """Raises ValueError for numbers that `ragged_paged_attention` does not take, which must be
    known."""
    static_validate_inputs(
        q, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs, sm_scale=sm_scale,
        sliding_window=sliding_window, soft_cap=soft_cap, mask_value=mask_value, k_scale=k_scale,
        v_scale=v_scale, num_kv_pages_per_block=num_kv_pages_per_block,
        num_queries_per_block=num_queries_per_block, vmem_limit_bytes=vmem_limit_bytes,
    )  # fmt: skip
    count, (sequences, most), page_size = int(num_seqs[0]), page_indices.shape, kv_pages.shape[1]
    if count > sequences:
        raise ValueError(f"num_seqs={count} must be at most {sequences}, the rows of page_indices.")
    begins = [int(n) for n in cu_q_lens[: count + 1]]
    if begins[-1] > q.shape[0]:
        raise ValueError(f"cu_q_lens ends at {begins[-1]}, behind the {q.shape[0]} tokens of q.")
    for i in range(count):
        own, length = begins[i + 1] - begins[i], int(kv_lens[i])
        if own < 0:
            raise ValueError(f"cu_q_lens must grow: {begins[i]} and {begins[i + 1]} at {i}.")
        if not own <= length <= most * page_size:
            raise ValueError(
                f"kv_lens[{i}]={length} must be at least its {own} tokens, and at most the "
                f"{most * page_size} keys of its pages."
            )
        for number in page_indices[i, : -(-length // page_size)]:
            if not 0 <= int(number) < kv_pages.shape[0]:
                raise ValueError(
                    f"page_indices[{i}] has {int(number)}, for {kv_pages.shape[0]} pages."
                )
