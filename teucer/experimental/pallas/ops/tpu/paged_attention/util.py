"""Attention of one query a sequence in jnp, by its definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import teucer as jax
from teucer import numpy as jnp
from teucer._base.lazy import listing, refusing

if TYPE_CHECKING:
    from teucer._core.typing import Array

__all__ = ["MASK_VALUE", "grouped_query_attention_reference"]
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)

MASK_VALUE = -0.7 * float(np.finfo(np.float32).max)


def grouped_query_attention_reference(
    queries: Array,
    k_pages: Array,
    v_pages: Array,
    seq_lens: Array,
    soft_cap: float | None = None,
    debug: bool = False,
) -> Array:
    """softmax(q k^T) v, heads in groups that share keys.

    queries: T[batch, heads, size]; k_pages, v_pages: T[batch, groups, keys, size], in one piece;
    seq_lens: int[batch]  ->  T[batch, heads, size]
    debug: print the logits.
    """
    batch, heads, size = queries.shape
    groups, keys = k_pages.shape[1:3]
    wide = np.promote_types(queries.dtype, np.float32)
    logits = jnp.einsum(
        "bghd,bgkd->bghk",
        queries.reshape(batch, groups, heads // groups, size),
        k_pages,
        preferred_element_type=wide,
    )
    if soft_cap is not None:
        logits = soft_cap * jnp.tanh(logits / soft_cap)
    if debug:
        jax.debug.print("logits: {}", logits)
    seen = jnp.arange(keys) < seq_lens[:, None]
    weights = jax.nn.softmax(jnp.where(seen[:, None, None], logits, MASK_VALUE))
    return (
        jnp.einsum("bghk,bgkd->bghd", weights, v_pages).reshape(queries.shape).astype(queries.dtype)
    )
