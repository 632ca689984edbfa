"""Attention whose matrix of weights never leaves the core, forward and backward.

Dao et al., "FlashAttention" (2022); Dao, "FlashAttention-2" (2023). A step of the grid sees one
block of queries and one of keys; sums stay in scratch memory from step to step.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import ShapeDtypeStruct, custom_vjp, jit, lax
from teucer import numpy as jnp
from teucer._experimental.unbuilt import unbuilt_names
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import tpu as pltpu

if TYPE_CHECKING:
    from teucer._core.typing import Array
    from teucer.experimental.pallas.ops._types import BlockRef

__all__ = [
    "DEFAULT_MASK_VALUE", "MIN_BLOCK_SIZE", "NUM_LANES", "NUM_SUBLANES", "TRANS_B_DIM_NUMBERS",
    "BlockSizes", "SegmentIds", "below_or_on_diag", "flash_attention", "mha_reference",
    "mha_reference_bwd", "mha_reference_no_custom_vjp",
]  # fmt: skip
__getattr__, __dir__ = unbuilt_names(
    __name__,
    "_flash_attention_dkv_kernel _flash_attention_dq_kernel _flash_attention_kernel _verify_block",
    "the kernel of one block is not public here.\n  Use flash_attention.",
    tuple(__all__),
)

DEFAULT_MASK_VALUE = -0.7 * float(np.finfo(np.float32).max)
"""The logit of keys that a query does not see."""
NUM_LANES, NUM_SUBLANES, MIN_BLOCK_SIZE = 128, 8, 128
TRANS_B_DIM_NUMBERS = (((1,), (1,)), ((), ()))
_SEMANTICS = pltpu.CompilerParams(
    dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")
)


class SegmentIds(NamedTuple):
    """Numbers of the segments of queries and keys, int[batch, queries] and int[batch, keys]: a
    query sees the keys of its segment."""

    q: Array
    kv: Array


@dataclasses.dataclass(frozen=True)
class BlockSizes:
    """How many elements a step takes at a time.

    block_q queries of block_b sequences meet block_k_major keys, block_k at a time. The others say
    the same of the backward pass: `dkv` where the cotangents of keys and values are computed, `dq`
    where those of queries are.
    Raises ValueError where a block does not divide the larger one around it.
    """

    block_q: int
    block_k_major: int
    block_k: int
    block_b: int
    block_q_major_dkv: int | None = None
    block_k_major_dkv: int | None = None
    block_k_dkv: int | None = None
    block_q_dkv: int | None = None
    block_k_major_dq: int | None = None
    block_k_dq: int | None = None
    block_q_dq: int | None = None

    def __post_init__(self) -> None:
        for whole, part in (
            ("block_k_major", "block_k"),
            ("block_q_major_dkv", "block_q_dkv"),
            ("block_k_major_dkv", "block_k_dkv"),
            ("block_k_major_dq", "block_k_dq"),
        ):
            outer, inner = getattr(self, whole), getattr(self, part)
            if outer is not None and inner is not None and (inner > outer or outer % inner):
                raise ValueError(f"{part}={inner} should divide {whole}={outer}")

    @classmethod
    def get_default(
        cls, batch_size: int, num_heads: int, q_seq_len: int, kv_len: int, d_model: int
    ) -> BlockSizes:
        """Blocks of 128, whatever the shape."""
        return cls(128, 128, 128, 1, 128, 128, 128, 128, 128, 128, 128)

    @property
    def has_backward_blocks(self) -> bool:
        """Whether the sizes of the backward pass are given."""
        return None not in dataclasses.astuple(self)


class _Options(NamedTuple):
    causal: bool
    sm_scale: float
    sizes: BlockSizes
    debug: bool


def below_or_on_diag(r: Array, r_blk_size: int, c: Array, c_blk_size: int) -> Array:
    """Whether block (r, c) of a matrix has elements on or below the diagonal."""
    return (r + 1) * r_blk_size - 1 >= c * c_blk_size


@functools.partial(jit, static_argnames=("causal", "sm_scale", "block_sizes", "debug"))
def flash_attention(
    q: Array,
    k: Array,
    v: Array,
    ab: Array | None = None,
    segment_ids: SegmentIds | None = None,
    *,
    causal: bool = False,
    sm_scale: float = 1.0,
    block_sizes: BlockSizes | None = None,
    debug: bool = False,
) -> Array:
    """softmax(sm_scale (q k^T + ab)) v for each head, with gradients in q, k, v and ab.

    q: T[batch, heads, queries, size]; k, v: T[batch, heads, keys, size]; ab: T[batch, heads,
    queries, keys]  ->  T[batch, heads, queries, size]
    causal: a query sees the keys up to its own place. block_sizes: by default blocks of 128.
    Raises ValueError for shapes that do not fit, for lengths that blocks do not divide, and for a
    gradient without the blocks of the backward pass.

    >>> q = jnp.ones((1, 1, 128, 64))
    >>> flash_attention(q, q, q, causal=True).shape
    (1, 1, 128, 64)

    Method: Dao et al., "FlashAttention", arXiv:2205.14135 (2022).
    """
    _check(q, k, v, ab, segment_ids)
    if block_sizes is None:
        block_sizes = BlockSizes.get_default(
            q.shape[0], q.shape[1], q.shape[2], k.shape[2], q.shape[3]
        )
    options = _Options(causal, float(sm_scale), block_sizes, debug)
    return _attention(q, k, v, ab, segment_ids, options)


@functools.partial(custom_vjp, nondiff_argnums=(5,))
def _attention(
    q: Array,
    k: Array,
    v: Array,
    ab: Array | None,
    segment_ids: SegmentIds | None,
    options: _Options,
) -> Array:
    return _forward(q, k, v, ab, segment_ids, options)[0]


def _attention_forward(
    q: Array, k: Array, v: Array, ab: Array | None, segment_ids: SegmentIds | None,
    options: _Options,
) -> Any:  # fmt: skip
    if not options.sizes.has_backward_blocks:
        raise ValueError(
            "Program is being differentiated, but not all backward blocks are specified.\n"
            f"    block_sizes: {options.sizes}"
        )
    out, summed = _forward(q, k, v, ab, segment_ids, options)
    return out, (q, k, v, ab, segment_ids, out, summed)


def _attention_backward(options: _Options, saved: Sequence[Any], ct: Array) -> Any:
    q, k, v, ab, segment_ids, out, summed = saved
    products = (out.astype(summed.dtype) * ct).sum(-1, keepdims=True)
    given = _Given(q, k, v, ab, segment_ids)
    dq, dab = _ct_of_queries(given, summed, ct, products, options)
    return dq, *_cts_of_keys(given, summed, ct, products, options), dab, None


_attention.defvjp(_attention_forward, _attention_backward)


# --- Kernels --------------------------------------------------------------------------------------


class _Given(NamedTuple):
    """The operands, and what kernels see of them."""

    q: Array
    k: Array
    v: Array
    ab: Array | None
    segment_ids: SegmentIds | None

    @property
    def wide(self) -> Any:
        return np.promote_types(self.q.dtype, np.float32)

    def operands(self) -> list[Array]:
        """q, k, v, the bias, and segments: those of queries as columns, those of keys as rows."""
        found = [self.q, self.k, self.v]
        if self.ab is not None:
            found.append(self.ab)
        if self.segment_ids is not None:
            found += [self.segment_ids.q[:, :, None], self.segment_ids.kv[:, None, :]]
        return found

    def specs(self, at: _Places, block_b: int | None, block_q: int, block_k: int) -> list[Any]:
        """BlockSpecs of the operands."""
        queries, keys = at.rows(block_b, block_q, self.q), at.keys(block_b, block_k, self.k)
        found = [queries, keys, keys]
        if self.ab is not None:
            found.append(at.both(block_b, block_q, block_k))
        if self.segment_ids is not None:
            found += [
                pl.BlockSpec((block_b, block_q, 1), lambda *g: (g[0], at.query(*g), 0)),
                pl.BlockSpec((block_b, 1, block_k), lambda *g: (g[0], 0, at.key(*g))),
            ]
        return found

    def split(self, refs: Sequence[BlockRef]) -> tuple[_Refs, Sequence[BlockRef]]:
        """The references to the operands, and the others."""
        n = 3 + (self.ab is not None)
        ab = refs[3] if self.ab is not None else None
        segments = None if self.segment_ids is None else (refs[n], refs[n + 1])
        return _Refs(refs[0], refs[1], refs[2], ab, segments), refs[
            n + 2 * (segments is not None) :
        ]


class _Places(NamedTuple):
    """Which blocks of queries and keys a step sees, by its place in the grid.

    keys_last: whether the last axis of the grid counts blocks of keys, else blocks of queries.
    skip: whether steps above the diagonal, which need no block, name the block of another step, so
    that none is copied for them.
    """

    block_q: int
    block_k: int
    keys_last: bool
    skip: bool

    def query(self, b: Array, h: Array, i: Array, j: Array) -> Array:
        """The number of the block of queries at place (b, h, i, j) of the grid."""
        if self.keys_last:
            return i
        if not self.skip:
            return j
        first = lax.div(i * np.int32(self.block_k), np.int32(self.block_q))
        return jnp.maximum(j, first)

    def key(self, b: Array, h: Array, i: Array, j: Array) -> Array:
        """The number of the block of keys at place (b, h, i, j) of the grid."""
        if not self.keys_last:
            return i
        if not self.skip:
            return j
        return jnp.where(below_or_on_diag(i, self.block_q, j, self.block_k), j, 0)

    def rows(self, block_b: int | None, block: int, x: Array) -> pl.BlockSpec:
        """The BlockSpec of a block of query rows of x."""
        return pl.BlockSpec(
            (block_b, None, block, x.shape[-1]), lambda *g: (g[0], g[1], self.query(*g), 0)
        )

    def keys(self, block_b: int | None, block: int, x: Array) -> pl.BlockSpec:
        """The BlockSpec of a block of rows of x, the keys or the values."""
        return pl.BlockSpec(
            (block_b, None, block, x.shape[-1]), lambda *g: (g[0], g[1], self.key(*g), 0)
        )

    def both(self, block_b: int | None, block_q: int, block_k: int) -> pl.BlockSpec:
        """The BlockSpec of a block of a matrix of queries by keys, such as the bias."""
        return pl.BlockSpec(
            (block_b, None, block_q, block_k), lambda *g: (g[0], g[1], self.query(*g), self.key(*g))
        )


class _Refs(NamedTuple):
    """References to the operands of one sequence."""

    q: BlockRef
    k: BlockRef
    v: BlockRef
    ab: BlockRef | None
    segments: tuple[BlockRef, BlockRef] | None

    def of(self, b: int) -> _Refs:
        """The references to the operands of sequence b, from references to those of several."""
        ab = None if self.ab is None else self.ab.at[b]
        segments = (
            None if self.segments is None else (self.segments[0].at[b], self.segments[1].at[b])
        )
        return _Refs(self.q.at[b], self.k.at[b], self.v.at[b], ab, segments)

    def logits(self, rows: _Part, columns: _Part, options: _Options, wide: Any) -> Array:
        """The logits of the queries `rows` and the keys `columns` of the blocks."""
        found = lax.dot_general(
            self.q[rows.slice, :],
            self.k[columns.slice, :],
            TRANS_B_DIM_NUMBERS,
            preferred_element_type=wide,
        )
        if self.ab is not None:
            found = found + self.ab[rows.slice, columns.slice].astype(wide)
        if options.sm_scale != 1.0:
            found = found * options.sm_scale
        seen = None
        if options.causal:
            shape = found.shape
            seen = rows.first + lax.broadcasted_iota(
                np.int32, shape, 0
            ) >= columns.first + lax.broadcasted_iota(np.int32, shape, 1)
        if self.segments is not None:
            same = self.segments[0][rows.slice, :] == self.segments[1][:, columns.slice]
            seen = same if seen is None else seen & same
        return found if seen is None else jnp.where(seen, found, DEFAULT_MASK_VALUE)


class _Part(NamedTuple):
    """Some rows or columns of a block: which of the block, and where the first is in the array."""

    slice: Any
    first: Array


def _over(whole: int, part: int, block: Array, f: Any) -> None:
    """Call f with a `_Part` for each part of a block."""
    if whole == part:
        f(_Part(slice(None), block * whole))
        return

    def step(i: Array, state: None) -> None:
        start = pl.multiple_of(i * part, [part])
        f(_Part(pl.ds(start, part), block * whole + start))
        return state

    lax.fori_loop(0, whole // part, step, None)


def _forward(
    q: Array, k: Array, v: Array, ab: Array | None, segment_ids: SegmentIds | None,
    options: _Options,
) -> tuple[Array, Array]:  # fmt: skip
    """(the result, the logarithms of the sums of weights, [batch, heads, queries, 1])."""
    given, sizes = _Given(q, k, v, ab, segment_ids), options.sizes
    (batch, heads, length, size), keys = q.shape, k.shape[2]
    wide = given.wide
    fit("block_b", sizes.block_b, "batch", batch)
    fit("block_q", sizes.block_q, "q_seq_len", length)
    fit("block_k_major", sizes.block_k_major, "kv_seq_len", keys)
    at = _Places(sizes.block_q, sizes.block_k_major, True, options.causal)

    def kernel(*refs: BlockRef) -> None:
        blocks, (o_ref, summed_ref, greatest_ref, total_ref, acc_ref) = given.split(refs)
        i, j = pl.program_id(2), pl.program_id(3)

        @pl.when(j == 0)
        def begin() -> None:
            greatest_ref[...] = jnp.full(greatest_ref.shape, -np.inf, wide)
            total_ref[...] = jnp.zeros(total_ref.shape, wide)
            acc_ref[...] = jnp.zeros(acc_ref.shape, wide)

        def add(b: int, columns: _Part) -> None:
            one = blocks.of(b)
            logits = one.logits(_Part(slice(None), i * sizes.block_q), columns, options, wide)
            before = greatest_ref[b]
            now = jnp.maximum(before, logits.max(1, keepdims=True))
            weights, old = jnp.exp(logits - now), jnp.exp(before - now)
            greatest_ref[b] = now
            total_ref[b] = total_ref[b] * old + weights.sum(1, keepdims=True)
            values = one.v[columns.slice, :]
            acc_ref[b] = acc_ref[b] * old + jnp.dot(
                weights.astype(values.dtype), values, preferred_element_type=wide
            )

        @pl.when(below_or_on_diag(i, sizes.block_q, j, sizes.block_k_major) | (not options.causal))
        def run() -> None:
            for b in range(sizes.block_b):
                _over(sizes.block_k_major, sizes.block_k, j, functools.partial(add, b))

        @pl.when(j == pl.num_programs(3) - 1)
        def end() -> None:
            o_ref[...] = (acc_ref[...] / total_ref[...]).astype(o_ref.dtype)
            summed_ref[...] = jnp.log(total_ref[...]) + greatest_ref[...]

    numbers = (sizes.block_b, sizes.block_q, 1)
    out, summed = pl.pallas_call(
        kernel,
        [ShapeDtypeStruct(q.shape, q.dtype), ShapeDtypeStruct((*q.shape[:3], 1), wide)],
        grid=(batch // sizes.block_b, heads, length // sizes.block_q, keys // sizes.block_k_major),
        in_specs=given.specs(at, sizes.block_b, sizes.block_q, sizes.block_k_major),
        out_specs=[
            at.rows(sizes.block_b, sizes.block_q, q),
            pl.BlockSpec((sizes.block_b, None, sizes.block_q, 1), lambda b, h, i, j: (b, h, i, 0)),
        ],
        scratch_shapes=[
            pltpu.VMEM(numbers, wide),
            pltpu.VMEM(numbers, wide),
            pltpu.VMEM((*numbers[:2], size), wide),
        ],
        compiler_params=_SEMANTICS,
        debug=options.debug,
        name="flash_attention",
    )(*given.operands())
    return out, summed


def _ct_of_queries(
    given: _Given, summed: Array, ct: Array, products: Array, options: _Options
) -> tuple[Array, Array | None]:
    """The cotangents of q and of the bias."""
    sizes, wide = options.sizes, given.wide
    block_q, block_k, inner = sizes.block_q_dq, sizes.block_k_major_dq, sizes.block_k_dq
    assert block_q is not None
    assert block_k is not None
    assert inner is not None
    (batch, heads, length, size), keys = given.q.shape, given.k.shape[2]
    fit("block_q_dq", block_q, "q_seq_len", length)
    fit("block_k_major_dq", block_k, "kv_seq_len", keys)
    at = _Places(block_q, block_k, True, options.causal)

    def kernel(*refs: BlockRef) -> None:
        blocks, (summed_ref, ct_ref, products_ref, dq_ref, *others) = given.split(refs)
        *slopes_refs, acc_ref = others
        i, j = pl.program_id(2), pl.program_id(3)

        @pl.when(j == 0)
        def begin() -> None:
            acc_ref[...] = jnp.zeros(acc_ref.shape, wide)

        def add(columns: _Part) -> None:
            logits = blocks.logits(_Part(slice(None), i * block_q), columns, options, wide)
            weights = jnp.exp(logits - summed_ref[...])
            along = lax.dot_general(
                ct_ref[...],
                blocks.v[columns.slice, :],
                TRANS_B_DIM_NUMBERS,
                preferred_element_type=wide,
            )
            slopes = weights * (along - products_ref[...]) * options.sm_scale
            for ref in slopes_refs:
                ref[:, columns.slice] = slopes.astype(ref.dtype)
            seen = blocks.k[columns.slice, :]
            acc_ref[...] += jnp.dot(slopes.astype(seen.dtype), seen, preferred_element_type=wide)

        needed = below_or_on_diag(i, block_q, j, block_k) | (not options.causal)

        @pl.when(needed)
        def run() -> None:
            _over(block_k, inner, j, add)

        @pl.when(jnp.logical_not(needed))
        def nothing() -> None:
            for ref in slopes_refs:
                ref[...] = jnp.zeros(ref.shape, ref.dtype)

        @pl.when(j == pl.num_programs(3) - 1)
        def end() -> None:
            dq_ref[...] = acc_ref[...].astype(dq_ref.dtype)

    q_spec = at.rows(None, block_q, given.q)
    number = pl.BlockSpec((None, None, block_q, 1), lambda b, h, i, j: (b, h, i, 0))
    biases = [] if given.ab is None else [given.ab]
    dq, *dab = pl.pallas_call(
        kernel,
        [ShapeDtypeStruct(x.shape, x.dtype) for x in (given.q, *biases)],
        grid=(batch, heads, length // block_q, keys // block_k),
        in_specs=[*given.specs(at, None, block_q, block_k), number, q_spec, number],
        out_specs=[
            q_spec,
            # Blocks above the diagonal are written too, as zeros.
            *[pl.BlockSpec((None, None, block_q, block_k), lambda b, h, i, j: (b, h, i, j))]
            * len(biases),
        ],
        scratch_shapes=[pltpu.VMEM((block_q, size), wide)],
        compiler_params=_SEMANTICS,
        debug=options.debug,
        name="flash_attention_dq",
    )(*given.operands(), summed, ct, products)
    return dq, dab[0] if dab else None


def _cts_of_keys(
    given: _Given, summed: Array, ct: Array, products: Array, options: _Options
) -> tuple[Array, Array]:
    """The cotangents of k and v."""
    sizes, wide = options.sizes, given.wide
    block_q, inner_q = sizes.block_q_major_dkv, sizes.block_q_dkv
    block_k, inner_k = sizes.block_k_major_dkv, sizes.block_k_dkv
    assert block_q is not None
    assert block_k is not None
    assert inner_q is not None
    assert inner_k is not None
    (batch, heads, length, size), keys = given.q.shape, given.k.shape[2]
    fit("block_q_major_dkv", block_q, "q_seq_len", length)
    fit("block_k_major_dkv", block_k, "kv_seq_len", keys)
    at = _Places(block_q, block_k, False, options.causal)

    def kernel(*refs: BlockRef) -> None:
        blocks, (summed_ref, ct_ref, products_ref, *others) = given.split(refs)
        dk_ref, dv_ref, dk_acc, dv_acc = others
        j, i = pl.program_id(2), pl.program_id(3)

        @pl.when(i == 0)
        def begin() -> None:
            dk_acc[...] = jnp.zeros(dk_acc.shape, wide)
            dv_acc[...] = jnp.zeros(dv_acc.shape, wide)

        def add(columns: _Part, rows: _Part) -> None:
            logits = blocks.logits(rows, columns, options, wide)
            weights = jnp.exp(logits - summed_ref[rows.slice, :])
            ct = ct_ref[rows.slice, :]
            dv_acc[columns.slice, :] += jnp.dot(
                weights.T.astype(ct.dtype), ct, preferred_element_type=wide
            )
            along = lax.dot_general(
                ct, blocks.v[columns.slice, :], TRANS_B_DIM_NUMBERS, preferred_element_type=wide
            )
            slopes = weights * (along - products_ref[rows.slice, :]) * options.sm_scale
            q = blocks.q[rows.slice, :]
            dk_acc[columns.slice, :] += jnp.dot(
                slopes.T.astype(q.dtype), q, preferred_element_type=wide
            )

        @pl.when(below_or_on_diag(i, block_q, j, block_k) | (not options.causal))
        def run() -> None:
            _over(
                block_k,
                inner_k,
                j,
                lambda columns: _over(block_q, inner_q, i, functools.partial(add, columns)),
            )

        @pl.when(i == pl.num_programs(3) - 1)
        def end() -> None:
            dk_ref[...] = dk_acc[...].astype(dk_ref.dtype)
            dv_ref[...] = dv_acc[...].astype(dv_ref.dtype)

    number = pl.BlockSpec((None, None, block_q, 1), lambda *g: (g[0], g[1], at.query(*g), 0))
    spec = at.keys(None, block_k, given.k)
    dk, dv = pl.pallas_call(
        kernel,
        [ShapeDtypeStruct(x.shape, x.dtype) for x in (given.k, given.v)],
        grid=(batch, heads, keys // block_k, length // block_q),
        in_specs=[
            *given.specs(at, None, block_q, block_k), number, at.rows(None, block_q, given.q),
            number,
        ],
        out_specs=[spec, spec],
        scratch_shapes=[pltpu.VMEM((block_k, size), wide)] * 2,
        compiler_params=_SEMANTICS,
        debug=options.debug,
        name="flash_attention_dkv",
    )(*given.operands(), summed, ct, products)  # fmt: skip
    return dk, dv


# --- By the definition ----------------------------------------------------------------------------


def mha_reference_no_custom_vjp(
    q: Array,
    k: Array,
    v: Array,
    ab: Array | None = None,
    segment_ids: SegmentIds | None = None,
    *,
    causal: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE,
    sm_scale: float = 1.0,
    save_residuals: bool = False,
) -> Any:
    """`flash_attention` in jnp; with save_residuals (result, sums of weights, greatest logits)."""
    logits = _masked_logits(q, k, ab, segment_ids, causal, mask_value, sm_scale)
    greatest = logits.max(-1)
    weights = jnp.exp(logits - greatest[..., None])
    total = weights.sum(-1)
    out = jnp.einsum("bhqk,bhkd->bhqd", weights / total[..., None], v).astype(q.dtype)
    return (out, total, greatest) if save_residuals else out


@functools.partial(jit, static_argnames=("causal", "mask_value", "sm_scale"))
def mha_reference(
    q: Array,
    k: Array,
    v: Array,
    ab: Array | None,
    segment_ids: SegmentIds | None = None,
    causal: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE,
    sm_scale: float = 1.0,
) -> Array:
    """`flash_attention` in jnp, by its definition."""
    return mha_reference_no_custom_vjp(
        q, k, v, ab, segment_ids, causal=causal, mask_value=mask_value, sm_scale=sm_scale
    )


@functools.partial(jit, static_argnames=("causal", "mask_value", "sm_scale"))
def mha_reference_bwd(
    q: Array,
    k: Array,
    v: Array,
    ab: Array | None,
    segment_ids: SegmentIds | None,
    o: Array,
    l: Array,
    m: Array,
    do: Array,
    causal: bool = False,
    mask_value: float = DEFAULT_MASK_VALUE,
    sm_scale: float = 1.0,
) -> tuple[Array, Array, Array, Array | None]:
    """The cotangents of q, k, v and ab in jnp, from what the forward pass saved: the result o, the
    sums of weights l, and the greatest logits m."""
    logits = _masked_logits(q, k, ab, segment_ids, causal, mask_value, sm_scale)
    weights = jnp.exp(logits - m[..., None]) / l[..., None]
    ct = do.astype(weights.dtype)
    along = jnp.einsum("bhqd,bhkd->bhqk", ct, v)
    slopes = weights * (along - (o * ct).sum(-1, keepdims=True)) * sm_scale
    return (
        jnp.einsum("bhqk,bhkd->bhqd", slopes, k).astype(q.dtype),
        jnp.einsum("bhqk,bhqd->bhkd", slopes, q).astype(k.dtype),
        jnp.einsum("bhqk,bhqd->bhkd", weights, ct).astype(v.dtype),
        None if ab is None else slopes.astype(ab.dtype),
    )


def _masked_logits(
    q: Array, k: Array, ab: Array | None, segment_ids: SegmentIds | None, causal: bool,
    mask_value: float, sm_scale: float,
) -> Array:  # fmt: skip
    wide = np.promote_types(q.dtype, np.float32)
    logits = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=wide)
    if ab is not None:
        logits = logits + ab
    logits = logits * sm_scale
    if segment_ids is not None:
        same = segment_ids.q[:, None, :, None] == segment_ids.kv[:, None, None, :]
        logits = jnp.where(same, logits, mask_value)
    if causal:
        logits = jnp.where(jnp.tril(jnp.ones(logits.shape[2:], bool)), logits, mask_value)
    return logits


# --- Checks ---------------------------------------------------------------------------------------


def fit(block_name: str, block: int, name: str, size: int) -> None:
    """Raise ValueError if a block does not divide an axis."""
    if block > size:
        raise ValueError(f"{block_name}={block} should be smaller or equal to {name}={size}")
    if size % block:
        raise ValueError(f"{name}={size} should be divisible by {block_name}={block}")


def _check(q: Array, k: Array, v: Array, ab: Array | None, segment_ids: SegmentIds | None) -> None:
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ValueError(
            "flash_attention: q, k and v must be [batch, heads, length, size].\n"
            f"    q: {q.dtype}{list(q.shape)}\n    k: {k.dtype}{list(k.shape)}\n"
            f"    v: {v.dtype}{list(v.shape)}"
        )
    (batch, heads, length, _), keys = q.shape, k.shape[2]
    for what, axis in (("Batch size", 0), ("Head count", 1), ("Model dimension", 3)):
        found = [x.shape[axis] for x in (q, k, v)]
        if len(set(found)) > 1:
            raise ValueError(
                f"{what} mismatch: got {', '.join(map(str, found))} (for q, k, v respectively)"
            )
    if v.shape[2] != keys:
        raise ValueError(f"KV sequence length mismatch: got {keys} and {v.shape[2]}")
    expected = (batch, heads, length, keys)
    if ab is not None and ab.shape != expected:
        raise ValueError(
            f"Attention bias shape mismatch: expected (batch_size={batch}, num_heads={heads}, "
            f"q_seq_len={length}, kv_seq_len={keys}), got {ab.shape}"
        )
    if segment_ids is not None:
        for what, ids, n in (("Q", segment_ids.q, length), ("KV", segment_ids.kv, keys)):
            if ids.shape != (batch, n):
                raise ValueError(
                    f"{what} segment ids shape mismatch: expected (batch_size={batch}, "
                    f"{what.lower()}_seq_len={n},), got {ids.shape}"
                )
