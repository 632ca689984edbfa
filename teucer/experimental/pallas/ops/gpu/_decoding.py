"""Attention of one query, whose keys several programs share out and then combine.

The keys of a sequence are cut in `k_splits` parts, so that a long sequence keeps the whole GPU at
work. A program gives the weighted sum of its values, the sum of its weights, and its greatest
logit, from which the whole follows. Dao, Haziza, Massa & Sizov, "Flash-Decoding" (2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import ShapeDtypeStruct, lax
from teucer import numpy as jnp
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import triton as plgpu

if TYPE_CHECKING:
    from teucer._core.typing import Array
    from teucer.experimental.pallas.ops._types import BlockRef

MASK_VALUE = -0.7 * float(np.finfo(np.float32).max)


class Sequences(NamedTuple):
    """Where kernels find keys and values.

    operands, specs: the arrays, and what a program sees of each. read: (references, rows, which of
    these are wanted) -> (keys, values, scales of keys, of values), the latter None or a vector.
    length: the greatest number of keys.
    """

    operands: Sequence[Any]
    specs: Sequence[pl.BlockSpec]
    read: Callable[[Sequence[BlockRef], Array, Array], tuple[Any, Any, Any, Any]]
    length: int


class Options(NamedTuple):
    """How the kernels are made."""

    sm_scale: float
    block_h: int
    block_k: int
    k_splits: int
    num_warps: int | None
    num_stages: int
    grid: tuple[int, ...] | None
    interpret: bool
    debug: bool
    mask_value: float = MASK_VALUE
    soft_cap: float | None = None


def of_head(index: Callable[[Any, Any], tuple[Any, ...]], heads: int) -> Callable[..., Any]:
    """An index map of the grid from one of (batch, head of keys)."""
    return lambda i, s, bh: index(lax.div(bh, np.int32(heads)), lax.rem(bh, np.int32(heads)))


def attention(
    q: Array, start: Array, end: Array, keys: Sequences, options: Options, name: str
) -> tuple[Any, Any, Any]:
    """(sums of weighted values, of weights, greatest logits), in float32.

    q: T[batch, heads of keys, queries of each, size]; start, end: int[batch], which keys are seen.
    """
    batch, heads, group, size = q.shape
    wide = np.promote_types(q.dtype, np.float32)
    block = min(pl.next_power_of_2(options.block_k), pl.next_power_of_2(max(keys.length, 16)))
    block_h = min(pl.next_power_of_2(options.block_h), max(pl.next_power_of_2(group), 16))
    columns = pl.next_power_of_2(size)
    splits = max(1, min(options.k_splits, math.ceil(keys.length / block)))
    share = math.ceil(math.ceil(keys.length / block) / splits)
    grid = (math.ceil(group / block_h), splits, batch * heads)
    if options.grid not in (None, grid[: len(options.grid or ())]):
        raise ValueError(
            f"{name}: grid must be (blocks of heads, k_splits), {grid[:2]}, got {options.grid}."
        )

    def kernel(start_ref: BlockRef, end_ref: BlockRef, q_ref: BlockRef, *refs: BlockRef) -> None:
        *given, o_ref, total_ref, greatest_ref = refs
        start, end = start_ref[...], end_ref[...]
        q = jnp.where(jnp.arange(columns) < size, q_ref[...], 0)

        def body(j: Array, state: Any) -> Any:
            out, total, greatest = state
            rows = j * block + jnp.arange(block)
            seen = (start <= rows) & (rows < end) & (rows < keys.length)
            k, v, k_scales, v_scales = keys.read(given, rows, seen)
            logits = options.sm_scale * pl.dot(q, k.astype(q.dtype), trans_b=True)
            if k_scales is not None:
                logits = logits * k_scales[None, :]
            if options.soft_cap is not None:
                logits = options.soft_cap * jnp.tanh(logits / options.soft_cap)
            logits = jnp.where(seen[None, :], logits, options.mask_value)
            now = jnp.maximum(greatest, logits.max(1))
            weights = jnp.where(seen[None, :], jnp.exp(logits - now[:, None]), 0)
            old = jnp.exp(greatest - now)
            weighted = weights if v_scales is None else weights * v_scales[None, :]
            return (
                out * old[:, None] + pl.dot(weighted.astype(q.dtype), v.astype(q.dtype)),
                total * old + weights.sum(1),
                now,
            )

        begin = (
            jnp.zeros(q.shape, wide),
            jnp.zeros(block_h, wide),
            jnp.full(block_h, options.mask_value, wide),
        )
        own = pl.program_id(1) * share
        first = jnp.maximum(own, lax.div(start, np.int32(block)))
        last = jnp.minimum(own + share, lax.div(end + np.int32(block - 1), np.int32(block)))
        out, total, greatest = lax.fori_loop(first, last, body, begin)
        o_ref[...], total_ref[...], greatest_ref[...] = out, total, greatest

    of_batch = of_head(lambda b, h: (b,), heads)
    number = pl.BlockSpec((None,), of_batch)
    numbers = pl.BlockSpec(
        (None, None, None, block_h),
        lambda i, s, bh: (lax.div(bh, np.int32(heads)), lax.rem(bh, np.int32(heads)), s, i),
    )
    out, total, greatest = pl.pallas_call(
        kernel,
        [
            ShapeDtypeStruct((batch, heads, splits, group, size), wide),
            *[ShapeDtypeStruct((batch, heads, splits, group), wide)] * 2,
        ],
        grid=grid,
        in_specs=[
            number,
            number,
            pl.BlockSpec(
                (None, None, block_h, columns),
                lambda i, s, bh: (lax.div(bh, np.int32(heads)), lax.rem(bh, np.int32(heads)), i, 0),
            ),
            *keys.specs,
        ],
        out_specs=[
            pl.BlockSpec(
                (None, None, None, block_h, columns),
                lambda i, s, bh: (
                    lax.div(bh, np.int32(heads)), lax.rem(bh, np.int32(heads)), s, i, 0
                ),
            ),
            numbers,
            numbers,
        ],
        compiler_params=plgpu.CompilerParams(
            num_warps=options.num_warps or 4, num_stages=options.num_stages
        ),
        interpret=options.interpret,
        debug=options.debug,
        name=name,
    )(start, end, q, *keys.operands)  # fmt: skip
    most = greatest.max(2)
    share_of = jnp.exp(greatest - most[:, :, None])
    return (out * share_of[..., None]).sum(2), (total * share_of).sum(2), most


def normalized(out: Array, total: Array) -> Any:
    """The mean of the values; 0 where no key is seen."""
    return out / jnp.where(total == 0, 1, total)[..., None]
