"""Attention, and matrix products with scales."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike, DTypeLike
from teucer.nn._normalizations import logsumexp, softmax


@overload
def dot_product_attention(
    query: ArrayLike,
    key: Array,
    value: ArrayLike,
    bias: ArrayLike | None = ...,
    mask: ArrayLike | None = ...,
    *,
    scale: float | None = ...,
    is_causal: bool = ...,
    query_seq_lengths: ArrayLike | None = ...,
    key_value_seq_lengths: ArrayLike | None = ...,
    local_window_size: object = ...,
    implementation: str | None = ...,
    return_residual: Literal[False] = ...,
) -> Array: ...
@overload
def dot_product_attention(
    query: ArrayLike,
    key: Array,
    value: ArrayLike,
    bias: ArrayLike | None = ...,
    mask: ArrayLike | None = ...,
    *,
    scale: float | None = ...,
    is_causal: bool = ...,
    query_seq_lengths: ArrayLike | None = ...,
    key_value_seq_lengths: ArrayLike | None = ...,
    local_window_size: object = ...,
    implementation: str | None = ...,
    return_residual: bool = ...,
) -> Any: ...
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: object = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Array | tuple[Array, Array]:
    """softmax(query @ key^T * scale + bias) @ value, for several heads.

    query: T[batch, q, heads, width] or without batch. key, value: T[batch, k, kv_heads, width],
    where kv_heads divides heads. bias, mask: broadcast to [batch, heads, q, k]; where the mask is
    False nothing is attended to.
    scale: by default 1 / sqrt(width). is_causal: query i attends to keys up to i.
    query_seq_lengths, key_value_seq_lengths: int32[batch], how many are real. local_window_size: an
    int or (left, right), how far to attend.
    return_residual: also return the log of the sums of exponentials, T[batch, q, heads], as
    constants. Raises ValueError for shapes that do not fit; NotImplementedError for
    implementation='cudnn'.

    >>> q = jnp.ones((1, 2, 1, 4))
    >>> dot_product_attention(q, q, q).shape
    (1, 2, 1, 4)
    """
    if implementation not in (None, "xla", "cudnn"):
        raise ValueError(
            f"dot_product_attention: Unsupported implementation option: {implementation}"
        )
    if implementation == "cudnn":
        raise NotImplementedError(
            f"dot_product_attention: implementation {implementation!r} is not available; use 'xla'."
        )
    query, key, value = (jnp.asarray(x) for x in (query, key, value))
    unbatched = query.ndim == 3
    if unbatched:
        query, key, value = query[None], key[None], value[None]
    _check_shapes(query, key, value)
    if mask is not None and jnp.asarray(mask).dtype != np.bool_:
        raise ValueError(
            f"dot_product_attention: mask dtype should be bool, but got {jnp.asarray(mask).dtype}"
        )
    (b, t, n, h), s, k = query.shape, key.shape[1], key.shape[2]
    groups = n // k
    grouped = query.reshape(b, t, k, groups, h)
    scale = 1.0 / np.sqrt(h) if scale is None else scale
    summed = np.promote_types(query.dtype, np.float32)
    logits = jnp.einsum("btkgh,bskh->bkgts", grouped, key, preferred_element_type=summed) * scale
    logits = logits.reshape(b, n, t, s)
    if bias is not None:
        logits = logits + bias
    allowed = _allowed(
        mask, t, s, is_causal, local_window_size, query_seq_lengths, key_value_seq_lengths
    )
    if allowed is not None:
        logits = jnp.where(allowed, logits, 0.7 * float(jnp.finfo(logits.dtype).min))
    weights = softmax(logits, axis=-1).astype(value.dtype).reshape(b, k, groups, t, s)
    out = (
        jnp.einsum("bkgts,bskh->btkgh", weights, value)
        .reshape(b, t, n, value.shape[-1])
        .astype(query.dtype)
    )
    if query_seq_lengths is not None:
        real = jnp.arange(t)[None, :] < jnp.asarray(query_seq_lengths)[:, None]
        out = jnp.where(real[:, :, None, None], out, jnp.zeros_like(out))
    out = out[0] if unbatched else out
    if not return_residual:
        return out
    residual = lax.stop_gradient(jnp.swapaxes(logsumexp(logits, axis=-1), 1, 2).astype(query.dtype))
    return out, residual[0] if unbatched else residual


def _check_shapes(query: Array, key: Array, value: Array) -> None:
    listed = "".join(
        f"\n    {name}: {typeof(x).str_short(True)}"
        for name, x in (("query", query), ("key", key), ("value", value))
    )
    if not query.ndim == key.ndim == value.ndim == 4:
        raise ValueError(f"dot_product_attention: arguments must have 3 or 4 axes.{listed}")
    if key.shape != value.shape or query.shape[0] != key.shape[0] or query.shape[3] != key.shape[3]:
        raise ValueError(
            f"dot_product_attention: shapes do not fit.{listed}\n"
            "  query is [batch, q, heads, width], key and value are [batch, k, kv_heads, width]."
        )
    if query.shape[2] % key.shape[2]:
        raise ValueError(
            "dot_product_attention: the number of query heads must be a multiple of that of key "
            f"heads.{listed}"
        )


def _allowed(
    mask: Any, t: int, s: int, is_causal: bool, window: Any, q_lengths: Any, kv_lengths: Any
) -> Any:
    """Which pairs of query and key may attend, broadcast to [batch, heads, q, k]; None for all."""
    rows, columns = jnp.arange(t).reshape(1, 1, t, 1), jnp.arange(s).reshape(1, 1, 1, s)
    parts = [] if mask is None else [jnp.asarray(mask)]
    parts = [part.reshape((1,) * (4 - part.ndim) + part.shape) for part in parts]
    if is_causal:
        parts.append(columns <= rows)
    if window is not None:
        left, right = (window, window) if isinstance(window, int) else window
        parts.append((columns >= rows - left) & (columns <= rows + right))
    if q_lengths is not None:
        parts.append(rows < jnp.asarray(q_lengths)[:, None, None, None])
    if kv_lengths is not None:
        parts.append(columns < jnp.asarray(kv_lengths)[:, None, None, None])
    allowed = None
    for part in parts:
        allowed = part if allowed is None else allowed & part
    return allowed


def scaled_matmul(
    lhs: ArrayLike,
    rhs: ArrayLike,
    lhs_scales: ArrayLike,
    rhs_scales: ArrayLike,
    preferred_element_type: DTypeLike = jnp.float32,
) -> Array:
    """Products of matrices whose elements are scaled by blocks along the contracted axis: lhs @
    rhs^T, batched.

    lhs: T[batch, m, k], rhs: T[batch, n, k], scales: S[batch, m or n, k / block]  ->  [batch, m,
    n].
    Raises ValueError if the scales do not divide k or the shapes do not fit.

    >>> one = jnp.ones((1, 2, 4))
    >>> scaled_matmul(one, one, jnp.ones((1, 2, 2)), jnp.ones((1, 2, 2))).shape
    (1, 2, 2)
    """
    arrays = [jnp.asarray(x) for x in (lhs, rhs, lhs_scales, rhs_scales)]
    if any(x.ndim != 3 for x in arrays):
        raise ValueError(
            "scaled_matmul requires all inputs to be 3-dimensional arrays, got "
            f"{[x.shape for x in arrays]}"
        )
    lhs, rhs, lhs_scales, rhs_scales = arrays
    if lhs.shape[2] != rhs.shape[2] or lhs.shape[0] != rhs.shape[0]:
        raise ValueError(
            "scaled_matmul requires inputs a and b to have matching batch (B) and contract (K) "
            f"dimensions, got {lhs.shape}, {rhs.shape}"
        )
    scaled = [
        _apply_scales(x, s, preferred_element_type)
        for x, s in ((lhs, lhs_scales), (rhs, rhs_scales))
    ]
    return jnp.einsum("bmk,bnk->bmn", *scaled, preferred_element_type=preferred_element_type)


def _apply_scales(x: Any, scales: Any, dtype: Any) -> Any:
    k, blocks = x.shape[2], scales.shape[2]
    if x.shape[:2] != scales.shape[:2] or not blocks or k % blocks:
        raise ValueError(
            f"scaled_matmul: scales of shape {scales.shape} do not divide an array of shape "
            f"{x.shape}."
        )
    return x.astype(dtype) * jnp.repeat(scales.astype(dtype), k // blocks, axis=2)
