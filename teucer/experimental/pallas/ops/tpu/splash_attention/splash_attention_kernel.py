"""Attention of one sequence with a mask for each head."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from teucer import Array, lax, tree_util
from teucer import numpy as jnp
from teucer._base.lazy import listing, refusing
from teucer.ad_checkpoint import checkpoint_name
from teucer.experimental.pallas.ops.tpu.splash_attention.splash_attention_mask import (
    Mask,
    MultiHeadMask,
    NumpyMask,
)
from teucer.sharding import NamedSharding, PartitionSpec

__all__ = [
    "DEFAULT_MASK_VALUE", "NN_DIM_NUMBERS", "NT_DIM_NUMBERS", "NUM_LANES", "NUM_SUBLANES",
    "BlockSizes", "QKVLayout", "SegmentIds", "SplashAttentionKernel", "SplashCustomReturnType",
    "make_attention_reference", "make_masked_mha_reference", "make_masked_mqa_reference",
    "make_splash_mha", "make_splash_mha_single_device", "make_splash_mqa",
    "make_splash_mqa_single_device",
]  # fmt: skip
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)

# A function of the places of queries and keys; AXLearn names it.
MaskFunctionType = Callable[..., Array]
DEFAULT_MASK_VALUE = -0.7 * float(np.finfo(np.float32).max)
"""The logit of keys that a query does not see."""


class SegmentIds(NamedTuple):
    """Numbers of the segments of queries and keys, int[queries] and int[keys]: a query sees the
    keys of its segment."""

    q: Array
    kv: Array


class QKVLayout(enum.IntEnum):
    """How JAX's kernel has an operand in memory; accepted for programs written for JAX."""

    HEAD_DIM_MINOR = 1
    SEQ_MINOR = 2


@dataclass(frozen=True)
class BlockSizes:
    """How JAX's kernel cuts the work; accepted for programs written for JAX."""

    block_q: int
    block_kv: int
    block_kv_compute: int | None = None
    block_q_dkv: int | None = None
    block_kv_dkv: int | None = None
    block_kv_dkv_compute: int | None = None
    block_q_dq: int | None = None
    block_kv_dq: int | None = None
    use_fused_bwd_kernel: bool = False
    q_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR
    k_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR
    v_layout: QKVLayout = QKVLayout.HEAD_DIM_MINOR

    @classmethod
    def get_default(cls) -> BlockSizes:
        """Blocks of 128."""
        return cls(128, 128, 128, 128, 128, 128, 128, 128)


class _Options(NamedTuple):
    mask: MultiHeadMask | None  # None: an array
    is_mqa: bool
    save_residuals: bool
    mask_value: float
    soft_cap: float | None
    name: str | None


@final
class SplashAttentionKernel:
    """The result of `make_splash_mha`: a function of q, k, v, segment_ids and sinks.

    It is a pytree, so that it can be an operand of `shard_map`. heads, rows: the places of the
    heads and queries that it is called on, int[heads] and int[queries]. seen: the mask, if an
    array.
    """

    def __init__(self, heads: Any, rows: Any, seen: Any, options: _Options) -> None:
        self.heads, self.rows, self.seen, self._options = heads, rows, seen, options

    def manual_sharding_spec(self, sharding: NamedSharding) -> SplashAttentionKernel:
        """The in_specs of `shard_map` for this, where heads and queries lie over the mesh as
        `sharding` says."""
        heads, rows = (*sharding.spec.partitions, None, None)[:2]
        seen = None if self.seen is None else PartitionSpec(heads, rows)
        return SplashAttentionKernel(PartitionSpec(heads), PartitionSpec(rows), seen, self._options)

    def __call__(
        self,
        q: Array,
        k: Array,
        v: Array,
        segment_ids: SegmentIds | None = None,
        sinks: Array | None = None,
    ) -> Any:
        """The attention; with `save_residuals` a pair of it and (the logarithm of the sum of each
        query's weights,).

        q: T[heads, queries, size]; k, v: T[heads, keys, size], or of fewer heads that divide q's;
        of MQA without heads.
        sinks: of each head the logit of one more key, whose value is zero.
        """
        if self._options.is_mqa:
            k, v = k[None], v[None]
        self._check(q, k, v)
        heads = q.shape[0]
        # Heads of q in groups, one for each head of k.
        grouped = q.reshape(k.shape[0], heads // k.shape[0], *q.shape[1:])
        logits = jnp.einsum(
            "ghqd,gkd->ghqk", grouped, k, preferred_element_type=jnp.float32
        ).reshape(heads, q.shape[1], k.shape[1])
        cap = self._options.soft_cap
        if cap is not None:
            logits = cap * jnp.tanh(logits / cap)
        seen = self._seen(k.shape[1])
        if segment_ids is not None:
            seen = seen & (segment_ids.q[:, None] == segment_ids.kv)
        logits = jnp.where(seen, logits, jnp.float32(self._options.mask_value))
        greatest = logits.max(-1, keepdims=True)
        sink = None if sinks is None else sinks.astype(jnp.float32)[:, None, None]
        if sink is not None:
            greatest = jnp.maximum(greatest, sink)
        greatest = lax.stop_gradient(greatest)
        weights = jnp.exp(logits - greatest)
        total = weights.sum(-1, keepdims=True)
        if sink is not None:
            total = total + jnp.exp(sink - greatest)
        weights = (weights / total).reshape(k.shape[0], -1, *logits.shape[1:])
        out = (
            jnp.einsum("ghqk,gkd->ghqd", weights, v.astype(jnp.float32))
            .reshape(*q.shape[:2], v.shape[-1])
            .astype(q.dtype)
        )
        summed = (jnp.log(total) + greatest)[..., 0]
        if self._options.name is not None:
            out, summed = (
                checkpoint_name(out, self._options.name),
                checkpoint_name(summed, self._options.name),
            )
        return (out, (summed,)) if self._options.save_residuals else out

    def _seen(self, keys: int) -> Any:
        """Which keys each query sees: bool[heads, queries, keys], or of one head where all see
        alike."""
        if self._options.mask is None:
            return self.seen
        columns = np.arange(keys)[None]
        masks = list(dict.fromkeys(self._options.mask.masks))
        each = [mask.sees(self.rows[:, None], columns) for mask in masks]
        if len(masks) == 1:
            return each[0][None]
        return jnp.stack(each)[
            jnp.asarray([masks.index(mask) for mask in self._options.mask.masks])[self.heads]
        ]

    def _check(self, q: Array, k: Array, v: Array) -> None:
        if k.shape[-1] != q.shape[-1]:
            raise ValueError(
                f"Expected 'key' head dimension to be: {q.shape[-1]}. Instead got: {k.shape[-1]}."
            )
        if v.shape[:-1] != k.shape[:-1]:
            raise ValueError(
                f"splash attention: k and v differ in heads or keys.\n    k: {k.shape}\n"
                f"    v: {v.shape}"
            )
        if q.shape[0] % k.shape[0]:
            raise ValueError(
                f"splash attention: {k.shape[0]} heads of k do not divide {q.shape[0]} heads of q."
            )
        heads, rows = len(self.heads), len(self.rows)
        keys = self.seen.shape[-1] if self._options.mask is None else self._options.mask.shape[-1]
        if (heads, rows, keys) != (*q.shape[:2], k.shape[1]):
            raise ValueError(
                "splash attention: the mask is of another shape than the operands.\n"
                f"    mask (heads, queries, keys): {(heads, rows, keys)}\n    q: {q.shape}\n"
                f"    k: {k.shape}"
            )


tree_util.register_pytree_node(
    SplashAttentionKernel,
    lambda kernel: ((kernel.heads, kernel.rows, kernel.seen), kernel._options),
    lambda options, leaves: SplashAttentionKernel(leaves[0], leaves[1], leaves[2], options),
)


def _make(
    mask: Any,
    *,
    block_sizes: BlockSizes | None = None,
    is_mqa: bool,
    save_residuals: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE,
    attn_logits_soft_cap: float | None = None,
    downcast_smem_data: bool = True,
    head_shards: int,
    q_seq_shards: int,
    residual_checkpoint_name: str | None = None,
    interpret: bool = False,
) -> SplashAttentionKernel:
    """Attention with a mask for each head.

    mask: MultiHeadMask or bool[heads, queries, keys]. mask_value: the logit of keys that are not
    seen.
    attn_logits_soft_cap: logits become cap * tanh(logits / cap) before they are masked.
    head_shards, q_seq_shards: in how many parts `shard_map` cuts heads and queries.
    residual_checkpoint_name: of the results, for policies of `checkpoint`. The other arguments are
    for JAX's kernel and ignored. Raises ValueError for a mask of other ranks and for parts that are
    not equal.

    >>> import teucer.numpy as jnp
    >>> from teucer.experimental.pallas.ops.tpu import splash_attention
    >>> masks = splash_attention.splash_attention_mask
    >>> mask = masks.MultiHeadMask([masks.CausalMask((2, 2))])
    >>> attend = make_splash_mha(mask, head_shards=1, q_seq_shards=1)
    >>> x = jnp.arange(4.0).reshape(1, 2, 2)
    >>> attend(jnp.zeros_like(x), x, x)
    Array([[[0., 1.],
            [1., 2.]]], dtype=float32)
    """
    if len(mask.shape) != 3:
        raise ValueError(
            f"Unexpected mask shape: {mask.shape}\n  A mask is (heads, queries, keys)."
        )
    heads, rows = mask.shape[:2]
    for name, size, parts in (("heads", heads, head_shards), ("queries", rows, q_seq_shards)):
        if size % parts:
            raise ValueError(f"splash attention: {size} {name} are not {parts} equal parts.")
    if isinstance(mask, np.ndarray):
        mask = MultiHeadMask(list(map(NumpyMask, mask)))
    fixed = isinstance(mask, MultiHeadMask)
    options = _Options(
        mask if fixed else None,
        is_mqa,
        save_residuals,
        mask_value,
        attn_logits_soft_cap,
        residual_checkpoint_name,
    )
    return SplashAttentionKernel(
        jnp.arange(heads), jnp.arange(rows), None if fixed else mask, options
    )


make_splash_mha = functools.partial(_make, is_mqa=False)
make_splash_mqa = functools.partial(_make, is_mqa=True)
make_splash_mha_single_device = functools.partial(make_splash_mha, head_shards=1, q_seq_shards=1)
make_splash_mqa_single_device = functools.partial(make_splash_mqa, head_shards=1, q_seq_shards=1)
# The tile of a TPU's registers.
NUM_LANES, NUM_SUBLANES = 128, 8
# The axes of matrix products, x @ y and x @ y.T.
NN_DIM_NUMBERS = (((1,), (0,)), ((), ()))
NT_DIM_NUMBERS = (((1,), (1,)), ((), ()))
# The result of attention; with save_residuals a pair.
SplashCustomReturnType = Array | tuple[Array, tuple[Array]]


def make_attention_reference(
    mask: Mask | np.ndarray, is_mqa: bool, backward_impl: str = "vanilla", **params: object
) -> Callable[..., Any]:
    """The same attention, for tests written for JAX, where it is another program.

    mask: as of `make_splash_mha`, or of two axes for one head, whose operands have no axis of
    heads.
    backward_impl: accepted for programs written for JAX. params: save_residuals, mask_value,
    attn_logits_soft_cap.
    """
    if len(mask.shape) == 3:
        return (
            make_splash_mqa_single_device(mask, **params)
            if is_mqa
            else make_splash_mha_single_device(mask, **params)
        )
    attend = make_splash_mha_single_device(
        MultiHeadMask([mask if isinstance(mask, Mask) else NumpyMask(mask)]), **params
    )

    def of_one_head(
        q: Array,
        k: Array,
        v: Array,
        segment_ids: SegmentIds | None = None,
        sinks: Array | None = None,
    ) -> Any:
        results = attend(
            q[None],
            k[None],
            v[None],
            segment_ids,
            None if sinks is None else jnp.reshape(sinks, (1,)),
        )
        return tree_util.tree_map(lambda x: x[0], results)

    return of_one_head


make_masked_mha_reference = functools.partial(make_attention_reference, is_mqa=False)
make_masked_mqa_reference = functools.partial(make_attention_reference, is_mqa=True)
