"""Attention of one query a sequence, for decoding: all heads share keys, or groups of heads do.

Pope et al., "Efficiently Scaling Transformer Inference" (2022); Ainslie et al., "GQA" (2023).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import jit
from teucer import numpy as jnp
from teucer._experimental.unbuilt import unbuilt_names
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import triton as plgpu
from teucer.experimental.pallas.ops.gpu import _decoding

if TYPE_CHECKING:
    from teucer._core.typing import Array
    from teucer.experimental.pallas.ops._types import BlockRef

__all__ = [
    "decode_attn_unbatched", "gqa", "gqa_reference", "mha_reference", "mqa", "mqa_reference",
]  # fmt: skip
__getattr__, __dir__ = unbuilt_names(
    __name__,
    "attn_forward_kernel",
    "the kernel of one block is not public here.\n  Use gqa or mqa.",
    tuple(__all__),
)

_STATIC = (
    "sm_scale", "block_h", "block_k", "k_splits", "num_warps", "num_stages", "grid", "interpret",
    "debug", "return_residuals", "normalize_output",
)  # fmt: skip


@functools.partial(jit, static_argnames=_STATIC)
def gqa(
    q: Array,
    k: Array,
    v: Array,
    start_idx: Any = None,
    kv_seq_len: Any = None,
    sm_scale: float | None = None,
    block_h: int = 16,
    block_k: int = 128,
    k_splits: int = 16,
    num_warps: int | None = None,
    num_stages: int = 2,
    grid: tuple[int, ...] | None = None,
    interpret: bool = False,
    debug: bool = False,
    return_residuals: bool = False,
    normalize_output: bool = True,
) -> Any:
    """softmax(sm_scale q k^T) v for one query, whose heads share keys in groups.

    q: T[batch, heads, size]; k, v: T[batch, keys, groups, size], the groups divide the heads
    ->  T[batch, heads, size]
    start_idx, kv_seq_len: int or int[batch], the first key that is seen, and the one behind the
    last; by default all are. Where none is, the result is 0.
    sm_scale: by default 1 / sqrt(size). block_h, block_k, k_splits: how many heads and keys a
    program takes at a time, and how many programs share the keys of a sequence.
    return_residuals: (result, (sums of weights, greatest logits)), each f32[batch, heads].
    normalize_output: if false, the result is not divided by the sums of weights.
    Raises ValueError for shapes that do not fit.

    >>> k = jnp.ones((1, 32, 2, 16))
    >>> gqa(jnp.ones((1, 4, 16)), k, k).shape
    (1, 4, 16)

    Method: Dao, Haziza, Massa & Sizov, "Flash-Decoding for long-context inference" (2023).
    """
    _check("gqa", q, k, v, 4)
    batch, heads, size = q.shape
    keys, groups = k.shape[1:3]
    options = _decoding.Options(
        size**-0.5 if sm_scale is None else sm_scale, block_h, block_k, k_splits, num_warps,
        num_stages, grid, interpret, debug,
    )  # fmt: skip
    spec = pl.BlockSpec(
        (None, keys, None, size), _decoding.of_head(lambda b, h: (b, 0, h, 0), groups)
    )
    columns = jnp.arange(pl.next_power_of_2(size))[None, :]

    def read(refs: Sequence[BlockRef], rows: Array, seen: Array) -> Any:
        mask = seen[:, None] & (columns < size)
        k, v = (plgpu.load(ref.at[rows[:, None], columns], mask=mask, other=0) for ref in refs)
        return k, v, None, None

    out, total, greatest = _decoding.attention(
        q.reshape(batch, groups, heads // groups, size),
        _lengths(start_idx, 0, batch),
        _lengths(kv_seq_len, keys, batch),
        _decoding.Sequences((k, v), (spec, spec), read, keys),
        options,
        "decode_attention",
    )
    if normalize_output:
        out = _decoding.normalized(out, total)
    out = out.reshape(q.shape).astype(q.dtype)
    if not return_residuals:
        return out
    return out, (total.reshape(batch, heads), greatest.reshape(batch, heads))


@functools.partial(jit, static_argnames=_STATIC)
def mqa(
    q: Array,
    k: Array,
    v: Array,
    start_idx: Any = None,
    kv_seq_len: Any = None,
    sm_scale: float | None = None,
    block_h: int = 16,
    block_k: int = 256,
    k_splits: int = 16,
    num_warps: int | None = None,
    num_stages: int = 2,
    grid: tuple[int, ...] | None = None,
    interpret: bool = False,
    debug: bool = False,
    return_residuals: bool = False,
    normalize_output: bool = True,
) -> Any:
    """`gqa` where all heads share keys: k, v are T[batch, keys, size]."""
    _check("mqa", q, k, v, 3)
    return gqa(
        q, k[:, :, None], v[:, :, None], start_idx, kv_seq_len, sm_scale, block_h, block_k,
        k_splits, num_warps, num_stages, grid, interpret, debug, return_residuals,
        normalize_output,
    )  # fmt: skip


def decode_attn_unbatched(
    q: Array,
    k: Array,
    v: Array,
    start_idx: Any,
    kv_seq_len: Any,
    sm_scale: float,
    block_h: int,
    block_k: int,
    k_splits: int,
    num_warps: int | None,
    num_stages: int,
    grid: tuple[int, ...] | None,
    interpret: bool,
    debug: bool,
    return_residuals: bool,
    normalize_output: bool,
) -> Any:
    """`mqa` of one sequence: q is T[heads, size]; k, v are T[keys, size]."""
    found = mqa(
        q[None], k[None], v[None], start_idx, kv_seq_len, sm_scale, block_h, block_k, k_splits,
        num_warps, num_stages, grid, interpret, debug, return_residuals, normalize_output,
    )  # fmt: skip
    if not return_residuals:
        return found[0]
    out, residuals = found
    return out[0], tuple(x[0] for x in residuals)


@functools.partial(jit, static_argnames=("sm_scale", "return_residuals", "normalize_output"))
def gqa_reference(
    q: Array,
    k: Array,
    v: Array,
    start_idx: Any = None,
    kv_seq_len: Any = None,
    sm_scale: float | None = None,
    return_residuals: bool = False,
    normalize_output: bool = True,
) -> Any:
    """`gqa` in jnp, by its definition. Where no key is seen, all count alike."""
    _check("gqa_reference", q, k, v, 4)
    batch, heads, size = q.shape
    keys, groups = k.shape[1:3]
    wide = np.promote_types(q.dtype, np.float32)
    logits = jnp.einsum(
        "bghd,bkgd->bghk", q.reshape(batch, groups, -1, size), k, preferred_element_type=wide
    ) * (size**-0.5 if sm_scale is None else sm_scale)
    start, end = _lengths(start_idx, 0, batch), _lengths(kv_seq_len, keys, batch)
    places = jnp.arange(keys)
    seen = (start[:, None] <= places) & (places < end[:, None])
    logits = jnp.where(seen[:, None, None], logits, _decoding.MASK_VALUE)
    greatest = logits.max(-1)
    weights = jnp.exp(logits - greatest[..., None])
    total = weights.sum(-1)
    out = jnp.einsum("bghk,bkgd->bghd", weights, v, preferred_element_type=wide)
    if normalize_output:
        out = out / total[..., None]
    out = out.reshape(q.shape).astype(q.dtype)
    if not return_residuals:
        return out
    return out, (total.reshape(batch, heads), greatest.reshape(batch, heads))


def mqa_reference(
    q: Array,
    k: Array,
    v: Array,
    start_idx: Any = None,
    kv_seq_len: Any = None,
    sm_scale: float | None = None,
    return_residuals: bool = False,
    normalize_output: bool = True,
) -> Any:
    """`mqa` in jnp, by its definition."""
    _check("mqa_reference", q, k, v, 3)
    return gqa_reference(
        q, k[:, :, None], v[:, :, None], start_idx, kv_seq_len, sm_scale, return_residuals,
        normalize_output,
    )  # fmt: skip


def mha_reference(
    q: Array,
    k: Array,
    v: Array,
    start_idx: Any = None,
    kv_seq_len: Any = None,
    sm_scale: float | None = None,
) -> Array:
    """`gqa` in jnp where each head has its own keys: k, v are T[batch, keys, heads, size]."""
    return gqa_reference(q, k, v, start_idx, kv_seq_len, sm_scale)


def _lengths(given: Any, default: int, batch: int) -> Any:
    return jnp.broadcast_to(
        jnp.asarray(default if given is None else given, np.int32).reshape(-1), (batch,)
    )


def _check(name: str, q: Array, k: Array, v: Array, rank: int) -> None:
    if (
        q.ndim != 3
        or k.ndim != rank
        or k.shape != v.shape
        or (k.shape[0], k.shape[-1]) != (q.shape[0], q.shape[-1])
        or (rank == 4 and q.shape[1] % k.shape[2])
    ):
        kind = "[batch, keys, groups, size], groups that divide the heads"
        raise ValueError(
            f"{name}: q must be [batch, heads, size], k and v "
            f"{kind if rank == 4 else '[batch, keys, size]'}.\n    q: {q.dtype}{list(q.shape)}\n"
            f"    k: {k.dtype}{list(k.shape)}\n    v: {v.dtype}{list(v.shape)}"
        )
