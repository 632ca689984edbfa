"""Attention of one query a sequence, whose keys lie in pages.

The pages of a step are blocks of their own, whose places index maps read from the table; so they
are copied while the step before runs. Kwon et al., "Efficient Memory Management for Large Language
Model Serving with PagedAttention" (2023).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import ShapeDtypeStruct, jit, lax
from teucer import numpy as jnp
from teucer._experimental.unbuilt import unbuilt_names
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import tpu as pltpu
from teucer.experimental.pallas.ops.tpu.paged_attention import quantization_utils

if TYPE_CHECKING:
    from teucer._core.typing import Array
    from teucer.experimental.pallas.ops._types import BlockRef

__all__ = ["DEFAULT_MASK_VALUE", "paged_attention"]
__getattr__, __dir__ = unbuilt_names(
    __name__,
    "MultiPageAsyncCopyDescriptor paged_flash_attention_kernel "
    "paged_flash_attention_kernel_inline_seq_dim",
    "the kernel of one block is not public here.\n  Use paged_attention.",
    tuple(__all__),
)

DEFAULT_MASK_VALUE = -0.7 * float(np.finfo(np.float32).max)
_NT = (((1,), (1,)), ((), ()))


@functools.partial(
    jit,
    static_argnames=(
        "mask_value", "attn_logits_soft_cap", "pages_per_compute_block", "megacore_mode",
        "inline_seq_dim",
    ),
)  # fmt: skip
def paged_attention(
    q: Array,
    k_pages: Array | quantization_utils.QuantizedTensor,
    v_pages: Array | quantization_utils.QuantizedTensor,
    lengths: Array,
    page_indices: Array,
    *,
    mask_value: float = DEFAULT_MASK_VALUE,
    attn_logits_soft_cap: float | None = None,
    pages_per_compute_block: int,
    megacore_mode: str | None = None,
    inline_seq_dim: bool = True,
) -> Array:
    """softmax(q k^T) v for one query a sequence; q is scaled already.

    q: T[batch, heads, size]; k_pages, v_pages: T[groups, pages, page size, size], the groups divide
    the heads, or `QuantizedTensor`s of this shape; lengths: int32[batch], how many keys a sequence
    has; page_indices: int32[batch, pages of a sequence]  ->  T[batch, heads, size]
    Where a sequence has no keys, the result is 0.
    attn_logits_soft_cap: c, the logits x become c tanh(x / c).
    pages_per_compute_block: how many pages a step takes; it divides the pages of a sequence.
    megacore_mode: what the cores of a chip share out: None, nothing; 'batch'; 'kv_head', the
    groups. inline_seq_dim: how JAX's kernel loops over pages; here they are an axis of the grid.
    Raises ValueError for shapes and options that do not fit.

    >>> pages, table = jnp.ones((2, 4, 8, 16)), jnp.array([[3, 1]])
    >>> out = paged_attention(
    ...     jnp.ones((1, 4, 16)), pages, pages, jnp.array([9]), table, pages_per_compute_block=2)
    >>> out.shape
    (1, 4, 16)

    Method: Kwon et al., arXiv:2309.06180 (2023).
    """
    keys, values = _parts(k_pages), _parts(v_pages)
    _check(q, keys[0], values[0], lengths, page_indices, pages_per_compute_block, megacore_mode)
    batch, heads, size = q.shape
    groups, _, page_size, _ = keys[0].shape
    rows, steps = heads // groups, page_indices.shape[1] // pages_per_compute_block
    wide = np.promote_types(q.dtype, np.float32)
    block = pages_per_compute_block * page_size

    def page(i: int, width: int) -> pl.BlockSpec:
        def index(b: Array, h: Array, j: Array, lengths: BlockRef, table: BlockRef) -> Any:
            # Behind the last page that has keys it is named again, so that nothing is copied.
            last = jnp.maximum(lax.div(lengths[b] - 1, np.int32(page_size)), 0)
            return h, table[b, jnp.minimum(j * pages_per_compute_block + i, last)], 0, 0

        return pl.BlockSpec((None, None, page_size, width), index)

    def kernel(lengths_ref: BlockRef, _: BlockRef, q_ref: BlockRef, *refs: BlockRef) -> None:
        *pages, o_ref, greatest_ref, total_ref, acc_ref = refs
        length, j = lengths_ref[pl.program_id(0)], pl.program_id(2)

        @pl.when(j == 0)
        def begin() -> None:
            greatest_ref[...] = jnp.full(greatest_ref.shape, mask_value, wide)
            total_ref[...] = jnp.zeros(total_ref.shape, wide)
            acc_ref[...] = jnp.zeros(acc_ref.shape, wide)

        @pl.when(j * block < length)
        def add() -> None:
            k = _gathered(pages[: len(keys) * pages_per_compute_block], len(keys), wide)
            v = _gathered(pages[len(keys) * pages_per_compute_block :], len(values), wide)
            q = q_ref[...].astype(k.dtype)
            logits = lax.dot_general(q, k, _NT, preferred_element_type=wide)
            if attn_logits_soft_cap is not None:
                logits = attn_logits_soft_cap * jnp.tanh(logits / attn_logits_soft_cap)
            seen = j * block + lax.broadcasted_iota(np.int32, logits.shape, 1) < length
            logits = jnp.where(seen, logits, mask_value)
            before = greatest_ref[...]
            now = jnp.maximum(before, logits.max(1, keepdims=True))
            weights, old = jnp.where(seen, jnp.exp(logits - now), 0), jnp.exp(before - now)
            greatest_ref[...] = now
            total_ref[...] = total_ref[...] * old + weights.sum(1, keepdims=True)
            acc_ref[...] = acc_ref[...] * old + jnp.dot(
                weights.astype(v.dtype), v, preferred_element_type=wide
            )

        @pl.when(j == steps - 1)
        def end() -> None:
            total = total_ref[...]
            o_ref[...] = (acc_ref[...] / jnp.where(total == 0, 1, total)).astype(o_ref.dtype)

    every = range(pages_per_compute_block)
    own = pl.BlockSpec((None, None, rows, size), lambda b, h, j, *_: (b, h, 0, 0))
    specs = [page(i, x.shape[-1]) for x in (*keys, *values) for i in every]
    operands = [x for x in (*keys, *values) for _ in every]
    out = pl.pallas_call(
        kernel,
        ShapeDtypeStruct((batch, groups, rows, size), q.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(batch, groups, steps),
            in_specs=[own, *specs],
            out_specs=own,
            scratch_shapes=[
                pltpu.VMEM((rows, 1), wide),
                pltpu.VMEM((rows, 1), wide),
                pltpu.VMEM((rows, size), wide),
            ],
        ),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=(
                "parallel" if megacore_mode == "batch" else "arbitrary",
                "parallel" if megacore_mode == "kv_head" else "arbitrary",
                "arbitrary",
            )
        ),
        name="paged_attention",
    )(lengths, page_indices, q.reshape(batch, groups, rows, size), *operands)
    return out.reshape(q.shape)


def _parts(x: Array | quantization_utils.QuantizedTensor) -> list[Array]:
    """The pages, and their scales if they are quantised."""
    if not isinstance(x, quantization_utils.QuantizedTensor):
        return [x]
    return [x.weight, jnp.broadcast_to(x.scales, (*x.weight.shape[:-1], 1))]


def _gathered(refs: list[BlockRef], parts: int, wide: Any) -> Array:
    """The rows of all pages of a step, [rows, size]."""
    count = len(refs) // parts
    read: Callable[[list[BlockRef]], Array] = lambda some: jnp.concatenate(  # noqa: E731
        [ref[...] for ref in some]
    )
    rows = read(refs[:count])
    if parts == 1:
        return rows
    return quantization_utils.from_int8(rows, read(refs[count:]).astype(wide), wide)


def _check(
    q: Array, k: Array, v: Array, lengths: Array, table: Array, pages: int, mode: str | None
) -> None:
    fits = (
        q.ndim == 3
        and k.ndim == 4
        and k.shape == v.shape
        and k.shape[3] == q.shape[2]
        and q.shape[1] % k.shape[0] == 0
        and lengths.shape == q.shape[:1]
        and table.ndim == 2
        and table.shape[0] == q.shape[0]
    )
    if not fits:
        given = {"q": q, "k_pages": k, "v_pages": v, "lengths": lengths, "page_indices": table}
        lines = [f"    {name}: {x.dtype}{list(x.shape)}" for name, x in given.items()]
        raise ValueError(
            "paged_attention: q must be [batch, heads, size]; k_pages and v_pages [groups, pages, "
            "page size, size], groups that divide the heads; lengths [batch]; page_indices "
            "[batch, pages].\n" + "\n".join(lines)
        )
    for name, x in (("lengths", lengths), ("page_indices", table)):
        if x.dtype != np.int32:
            raise ValueError(f"The dtype of `{name}` must be int32. Got {x.dtype}")
    if table.shape[1] % pages:
        raise ValueError(
            "pages_per_compute_block must divide pages per sequence. "
            f"Got {pages} and {table.shape[1]}."
        )
    if mode not in (None, "batch", "kv_head"):
        raise ValueError(f"megacore_mode must be one of None, 'batch' and 'kv_head'. Got {mode!r}.")
