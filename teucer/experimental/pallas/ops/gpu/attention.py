"""Attention whose matrix of weights never leaves the chip, forward and backward.

Dao et al., "FlashAttention" (2022); Dao, "FlashAttention-2" (2023).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import ShapeDtypeStruct, custom_vjp, jit, lax, vjp
from teucer import numpy as jnp
from teucer._experimental.unbuilt import unbuilt_names
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import triton as plgpu

if TYPE_CHECKING:
    from teucer._core.typing import Array
    from teucer.experimental.pallas.ops._types import BlockRef

__all__ = ["DEFAULT_MASK_VALUE", "BlockSizes", "mha", "mha_reference", "segment_mask"]
__getattr__, __dir__ = unbuilt_names(
    __name__,
    "mha_backward_kernel mha_forward_kernel",
    "the kernel of one block is not public here.\n  Use mha.",
    tuple(__all__),
)

DEFAULT_MASK_VALUE = -0.7 * float(np.finfo(np.float32).max)
"""The logit of keys that a query does not see."""


@dataclasses.dataclass(frozen=True)
class BlockSizes:
    """How many queries and keys a program of the grid takes at a time: powers of 2.

    block_q, block_k: in the forward pass. block_q_dkv, block_kv_dkv: where the cotangents of keys
    and values are computed. block_q_dq, block_kv_dq: where those of queries are.
    """

    block_q: int
    block_k: int
    block_q_dkv: int | None = None
    block_kv_dkv: int | None = None
    block_q_dq: int | None = None
    block_kv_dq: int | None = None

    def __post_init__(self) -> None:
        for name, size in dataclasses.asdict(self).items():
            if size is not None and (size < 1 or size & (size - 1)):
                raise ValueError(f"BlockSizes: {name} must be a power of 2, got {size}.")

    @classmethod
    def get_default(cls) -> BlockSizes:
        """Blocks of 128, and of 32 in the backward pass."""
        return cls(128, 128, 32, 32, 32, 32)

    @property
    def has_backward_blocks(self) -> bool:
        """Whether the sizes of the backward pass are given."""
        return None not in (
            self.block_q_dkv, self.block_kv_dkv, self.block_q_dq, self.block_kv_dq,
        )  # fmt: skip


class _Options(NamedTuple):
    sm_scale: float
    causal: bool
    block_sizes: BlockSizes
    backward_pass_impl: str
    num_warps: int | None
    num_stages: int
    grid: tuple[int, ...] | None
    interpret: bool
    debug: bool

    def call(
        self, kernel: Callable[..., None], out: object, head_dim: int, name: str, **options: Any
    ) -> Any:
        """pallas_call with these options."""
        return pl.pallas_call(
            kernel,
            out,
            compiler_params=plgpu.CompilerParams(
                num_warps=self.num_warps or (4 if head_dim <= 64 else 8), num_stages=self.num_stages
            ),
            interpret=self.interpret,
            debug=self.debug,
            name=f"mha_{name}",
            **options,
        )


def segment_mask(q_segment_ids: Array, kv_segment_ids: Array) -> Array:
    """Which queries and keys are of one segment: int[..., q], int[..., kv] -> bool[..., q, kv]."""
    return q_segment_ids[..., :, None] == kv_segment_ids[..., None, :]


@functools.partial(custom_vjp, nondiff_argnums=(4, 5, 6, 7, 8, 9, 10, 11, 12, 13))
def mha(
    q: Array,
    k: Array,
    v: Array,
    segment_ids: Array | None,
    sm_scale: float = 1.0,
    causal: bool = False,
    block_sizes: BlockSizes = BlockSizes.get_default(),
    backward_pass_impl: str = "triton",
    num_warps: int | None = None,
    num_stages: int = 2,
    grid: tuple[int, ...] | None = None,
    interpret: bool = False,
    debug: bool = False,
    return_residuals: bool = False,
) -> Any:
    """softmax(sm_scale q k^T) v for each head.

    q: T[batch, queries, heads, size]; k, v: T[batch, keys, heads, size], or of fewer heads, which
    divide those of q  ->  T[batch, queries, heads, size]
    segment_ids: int[batch, keys]; a query sees the keys of its segment. causal: a query sees the
    keys up to its own place.
    backward_pass_impl: 'triton', by kernels, or 'xla', by the derivative of `mha_reference`.
    grid: (blocks of queries, batch, heads), which is what None means.
    num_warps, num_stages: options of the Triton compiler. interpret, debug: as `pl.pallas_call`
    takes them. return_residuals: a pair of the result and the logarithms of the sums of weights,
    f32[batch, heads, queries].
    Raises ValueError for shapes that do not fit, and for a gradient without its block sizes.

    >>> q = jnp.ones((1, 2, 1, 16))
    >>> mha(q, q, q, None, causal=True).shape
    (1, 2, 1, 16)

    Method: Dao et al., "FlashAttention", arXiv:2205.14135 (2022).
    """
    options = _Options(
        sm_scale, causal, block_sizes, backward_pass_impl, num_warps, num_stages, grid, interpret,
        debug,
    )  # fmt: skip
    out, summed = _forward(q, k, v, segment_ids, options)
    return (out, summed) if return_residuals else out


def _mha_forward(q: Array, k: Array, v: Array, segment_ids: Array | None, *given: Any) -> Any:
    *given_options, return_residuals = given
    options = _Options(*given_options)
    out, summed = _forward(q, k, v, segment_ids, options)
    return (out, summed) if return_residuals else out, (q, k, v, segment_ids, out, summed)


def _mha_backward(*given: Any) -> Any:
    *given_options, return_residuals, saved, ct = given
    ct_out, ct_summed = ct if return_residuals else (ct, None)
    return (*_backward(*saved, ct_out, ct_summed, _Options(*given_options)), None)


mha.defvjp(_mha_forward, _mha_backward)


@functools.partial(jit, static_argnames=("sm_scale", "causal"))
def mha_reference(
    q: Array,
    k: Array,
    v: Array,
    segment_ids: Array | None,
    sm_scale: float = 1.0,
    causal: bool = False,
) -> Array:
    """The same in jnp, by its definition."""
    return _reference(q, k, v, segment_ids, sm_scale, causal)[0]


def _reference(
    q: Array, k: Array, v: Array, segment_ids: Array | None, sm_scale: float, causal: bool
) -> tuple[Any, Any]:
    heads = q.shape[2]
    k, v = (jnp.repeat(x, heads // x.shape[2], 2) for x in (k, v))
    wide = np.promote_types(q.dtype, np.float32)
    logits = sm_scale * jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=wide)
    seen = jnp.ones(logits.shape[2:], bool)
    if causal:
        seen = jnp.tril(seen)
    if segment_ids is not None:
        ids = segment_mask(segment_ids[:, : q.shape[1]], segment_ids[:, : k.shape[1]])
        seen = seen & ids[:, None]
    logits = jnp.where(seen, logits, DEFAULT_MASK_VALUE)
    greatest = lax.stop_gradient(logits.max(-1, keepdims=True))
    weights = jnp.exp(logits - greatest)
    total = weights.sum(-1, keepdims=True)
    out = jnp.einsum("bhqk,bkhd->bqhd", weights / total, v, preferred_element_type=wide)
    return out.astype(q.dtype), (jnp.log(total) + greatest)[..., 0]


def _check(q: Array, k: Array, v: Array, segment_ids: Array | None, options: _Options) -> None:
    given = "\n".join(
        f"    {name}: {x.dtype}{list(x.shape)}"
        for name, x in (("q", q), ("k", k), ("v", v), ("segment_ids", segment_ids))
        if x is not None
    )
    if q.ndim != 4 or k.ndim != 4 or k.shape != v.shape:
        raise ValueError(
            f"mha: q, k and v must be [batch, length, heads, size], k and v alike.\n{given}"
        )
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3] or q.shape[2] % k.shape[2]:
        raise ValueError(
            "mha: q and k must have one batch and one size of heads, and the heads of k must "
            f"divide those of q.\n{given}"
        )
    if segment_ids is not None and (
        segment_ids.ndim != 2
        or segment_ids.shape[0] != q.shape[0]
        or segment_ids.shape[1] < max(q.shape[1], k.shape[1])
    ):
        raise ValueError(f"mha: segment_ids must be [batch, length].\n{given}")
    if options.backward_pass_impl not in ("triton", "xla"):
        raise ValueError(
            f"Invalid backward pass implementation: {options.backward_pass_impl}\n"
            "  It is 'triton' or 'xla'."
        )


class _Part(NamedTuple):
    """How a kernel reads rows of an array [rows, size]: `block` at a time, sizes as powers of 2."""

    block: int
    rows: int
    size: int

    @property
    def ragged(self) -> bool:
        """Whether the last block reaches over the end."""
        return self.rows % self.block != 0

    def places(self, i: Array) -> Any:
        """The rows of block i."""
        return i * self.block + jnp.arange(self.block)

    def matrix(self, ref: BlockRef, i: Array) -> Any:
        """Block i of a reference, and zeros beyond its end."""
        columns = jnp.arange(pl.next_power_of_2(self.size))
        if not self.ragged and len(columns) == self.size:
            return ref[pl.ds(i * self.block, self.block), :]
        rows = self.places(i)[:, None]
        mask = (rows < self.rows) & (columns < self.size)
        return plgpu.load(ref.at[rows, columns[None, :]], mask=mask, other=0)

    def vector(self, ref: BlockRef, i: Array) -> Any:
        """The same of a reference of one axis."""
        if not self.ragged:
            return ref[pl.ds(i * self.block, self.block)]
        rows = self.places(i)
        return plgpu.load(ref.at[rows], mask=rows < self.rows, other=0)

    @property
    def count(self) -> int:
        return math.ceil(self.rows / self.block)

    @staticmethod
    def of(x: Array, block: int | None) -> _Part:
        """For an array [batch, rows, heads, size]."""
        assert block is not None
        return _Part(min(block, pl.next_power_of_2(x.shape[1])), x.shape[1], x.shape[3])


class _Logits(NamedTuple):
    """The logits of a block of queries and one of keys."""

    queries: _Part
    keys: _Part
    options: _Options

    def __call__(self, q: Array, k: Array, i: Array, j: Array, segments: Any) -> tuple[Any, Any]:
        """(the logits, which of the keys exist, or None if all do)."""
        logits = self.options.sm_scale * pl.dot(q, k, trans_b=True)
        rows, columns = self.queries.places(i)[:, None], self.keys.places(j)[None, :]
        seen: Any = None
        if self.options.causal:
            seen = rows >= columns
        if segments is not None:
            same = segment_mask(self.queries.vector(segments, i), self.keys.vector(segments, j))
            seen = same if seen is None else seen & same
        if seen is not None:
            logits = jnp.where(seen, logits, DEFAULT_MASK_VALUE)
        return logits, columns < self.keys.rows if self.keys.ragged else None


def _whole(x: Array, of_head: Any) -> pl.BlockSpec:
    """All rows of a head of [batch, rows, heads, size]."""
    return pl.BlockSpec((None, x.shape[1], None, x.shape[3]), lambda _, b, h: (b, 0, of_head(h), 0))


def _rows(part: _Part) -> pl.BlockSpec:
    """A block of rows of a result."""
    return pl.BlockSpec(
        (None, part.block, None, pl.next_power_of_2(part.size)), lambda i, b, h: (b, i, h, 0)
    )


def _segments(segment_ids: Array | None) -> list[pl.BlockSpec]:
    if segment_ids is None:
        return []
    return [pl.BlockSpec((None, segment_ids.shape[1]), lambda _, b, h: (b, 0))]


@functools.partial(jit, static_argnums=4)
def _forward(
    q: Array, k: Array, v: Array, segment_ids: Array | None, options: _Options
) -> tuple[Any, Any]:
    _check(q, k, v, segment_ids, options)
    batch, length, heads, size = q.shape
    wide = np.promote_types(q.dtype, np.float32)
    sums = ShapeDtypeStruct((batch, heads, length), wide)
    if not (q.size and k.size):
        return jnp.zeros_like(q), jnp.full(sums.shape, DEFAULT_MASK_VALUE, wide)
    queries = _Part.of(q, options.block_sizes.block_q)
    keys = _Part.of(k, options.block_sizes.block_k)
    logits, group = _Logits(queries, keys, options), heads // k.shape[2]
    grid = (queries.count, batch, heads)
    if options.grid not in (None, grid):
        raise ValueError(
            f"mha: grid must be (blocks of queries, batch, heads), {grid}, got {options.grid}."
        )

    def kernel(q_ref: BlockRef, k_ref: BlockRef, v_ref: BlockRef, *refs: BlockRef) -> None:
        *segments, o_ref, summed_ref = refs
        i = pl.program_id(0)
        q = queries.matrix(q_ref, i)

        def body(j: Array, state: Any) -> Any:
            out, total, greatest = state
            found, there = logits(q, keys.matrix(k_ref, j), i, j, segments[0] if segments else None)
            if there is not None:
                found = jnp.where(there, found, -np.inf)
            now = jnp.maximum(greatest, found.max(1))
            weights, old = jnp.exp(found - now[:, None]), jnp.exp(greatest - now)
            v = keys.matrix(v_ref, j)
            return (
                out * old[:, None] + pl.dot(weights.astype(v.dtype), v),
                total * old + weights.sum(1),
                now,
            )

        last: Any = keys.count
        if options.causal:
            last = jnp.minimum(last, pl.cdiv((i + 1) * queries.block, keys.block))
        begin = (
            jnp.zeros(q.shape, wide),
            jnp.zeros(queries.block, wide),
            jnp.full(queries.block, -np.inf, wide),
        )
        out, total, greatest = lax.fori_loop(0, last, body, begin)
        o_ref[...] = (out / total[:, None]).astype(o_ref.dtype)
        summed_ref[...] = jnp.log(total) + greatest

    of_kv = lambda h: h // group  # noqa: E731  # a name for it
    return tuple(
        options.call(
            kernel,
            [ShapeDtypeStruct(q.shape, q.dtype), sums],
            size,
            "forward",
            grid=grid,
            in_specs=[
                _whole(q, lambda h: h), _whole(k, of_kv), _whole(v, of_kv),
                *_segments(segment_ids),
            ],
            out_specs=[
                _rows(queries),
                pl.BlockSpec((None, None, queries.block), lambda i, b, h: (b, h, i)),
            ],
        )(q, k, v, *([] if segment_ids is None else [segment_ids]))
    )  # fmt: skip


@functools.partial(jit, static_argnums=8)
def _backward(
    q: Array, k: Array, v: Array, segment_ids: Array | None, out: Array, summed: Array, ct: Array,
    ct_summed: Array | None, options: _Options,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The cotangents of q, k and v."""
    if options.backward_pass_impl == "xla":
        _, pull = vjp(
            lambda q, k, v: _reference(q, k, v, segment_ids, options.sm_scale, options.causal),
            q,
            k,
            v,
        )
        return pull((ct, jnp.zeros_like(summed) if ct_summed is None else ct_summed))
    sizes = options.block_sizes
    if not sizes.has_backward_blocks:
        raise ValueError(
            "Backward block sizes must all be set.\n"
            f"    block_sizes: {sizes}\n  Or ask for backward_pass_impl='xla'."
        )
    if not (q.size and k.size):
        return jnp.zeros_like(q), jnp.zeros_like(k), jnp.zeros_like(v)
    delta = jnp.einsum("bqhd,bqhd->bhq", out, ct, preferred_element_type=summed.dtype)
    if ct_summed is not None:
        delta = delta - ct_summed
    return (
        _ct_of_queries(q, k, v, segment_ids, summed, ct, delta, options),
        *_cts_of_keys(q, k, v, segment_ids, summed, ct, delta, options),
    )


def _ct_of_queries(
    q: Array,
    k: Array,
    v: Array,
    segment_ids: Array | None,
    summed: Array,
    ct: Array,
    delta: Array,
    options: _Options,
) -> Any:
    queries = _Part.of(q, options.block_sizes.block_q_dq)
    keys = _Part.of(k, options.block_sizes.block_kv_dq)
    logits, group = _Logits(queries, keys, options), q.shape[2] // k.shape[2]

    def kernel(
        q_ref: BlockRef,
        k_ref: BlockRef,
        v_ref: BlockRef,
        summed_ref: BlockRef,
        ct_ref: BlockRef,
        delta_ref: BlockRef,
        *refs: BlockRef,
    ) -> None:
        *segments, dq_ref = refs
        i = pl.program_id(0)
        q, ct = queries.matrix(q_ref, i), queries.matrix(ct_ref, i)
        summed, delta = (queries.vector(ref, i)[:, None] for ref in (summed_ref, delta_ref))

        def body(j: Array, dq: Any) -> Any:
            k = keys.matrix(k_ref, j)
            found, there = logits(q, k, i, j, segments[0] if segments else None)
            weights = jnp.exp(found - summed)
            if there is not None:
                weights = jnp.where(there, weights, 0)
            slopes = weights * (pl.dot(ct, keys.matrix(v_ref, j), trans_b=True) - delta)
            return dq + pl.dot(slopes.astype(k.dtype), k)

        last: Any = keys.count
        if options.causal:
            last = jnp.minimum(last, pl.cdiv((i + 1) * queries.block, keys.block))
        dq = lax.fori_loop(0, last, body, jnp.zeros(q.shape, summed.dtype))
        dq_ref[...] = (options.sm_scale * dq).astype(dq_ref.dtype)

    return options.call(
        kernel,
        ShapeDtypeStruct(q.shape, q.dtype),
        q.shape[3],
        "backward_dq",
        grid=(queries.count, q.shape[0], q.shape[2]),
        in_specs=_backward_specs(q, k, segment_ids, group),
        out_specs=_rows(queries),
    )(q, k, v, summed, ct, delta, *([] if segment_ids is None else [segment_ids]))


def _cts_of_keys(
    q: Array,
    k: Array,
    v: Array,
    segment_ids: Array | None,
    summed: Array,
    ct: Array,
    delta: Array,
    options: _Options,
) -> tuple[Any, Any]:
    queries = _Part.of(q, options.block_sizes.block_q_dkv)
    keys = _Part.of(k, options.block_sizes.block_kv_dkv)
    batch, _, heads, size = q.shape
    logits, group = _Logits(queries, keys, options), heads // k.shape[2]

    def kernel(
        q_ref: BlockRef,
        k_ref: BlockRef,
        v_ref: BlockRef,
        summed_ref: BlockRef,
        ct_ref: BlockRef,
        delta_ref: BlockRef,
        *refs: BlockRef,
    ) -> None:
        *segments, dk_ref, dv_ref = refs
        j = pl.program_id(0)
        k, v = keys.matrix(k_ref, j), keys.matrix(v_ref, j)

        def body(i: Array, state: tuple[Any, Any]) -> tuple[Any, Any]:
            dk, dv = state
            q, ct = queries.matrix(q_ref, i), queries.matrix(ct_ref, i)
            found, _ = logits(q, k, i, j, segments[0] if segments else None)
            weights = jnp.exp(found - queries.vector(summed_ref, i)[:, None])
            slopes = weights * (pl.dot(ct, v, trans_b=True) - queries.vector(delta_ref, i)[:, None])
            if queries.ragged:
                inside = queries.places(i)[:, None] < queries.rows
                weights, slopes = jnp.where(inside, weights, 0), jnp.where(inside, slopes, 0)
            return (
                dk + pl.dot(slopes.astype(q.dtype), q, trans_a=True),
                dv + pl.dot(weights.astype(ct.dtype), ct, trans_a=True),
            )

        first = j * keys.block // queries.block if options.causal else 0
        zeros = jnp.zeros(k.shape, summed_ref.dtype)
        dk, dv = lax.fori_loop(first, queries.count, body, (zeros, zeros))
        dk_ref[...] = (options.sm_scale * dk).astype(dk_ref.dtype)
        dv_ref[...] = dv.astype(dv_ref.dtype)

    # Query heads that share a head of k and v are summed behind the kernel, in full precision.
    shape = (batch, k.shape[1], heads, size)
    dtype = k.dtype if group == 1 else summed.dtype
    both = options.call(
        kernel,
        [ShapeDtypeStruct(shape, dtype)] * 2,
        size,
        "backward_dkv",
        grid=(keys.count, batch, heads),
        in_specs=_backward_specs(q, k, segment_ids, group),
        out_specs=[_rows(keys)] * 2,
    )(q, k, v, summed, ct, delta, *([] if segment_ids is None else [segment_ids]))
    if group > 1:
        both = [x.reshape(*k.shape[:3], group, size).sum(3).astype(k.dtype) for x in both]
    return both[0], both[1]


def _backward_specs(
    q: Array, k: Array, segment_ids: Array | None, group: int
) -> list[pl.BlockSpec]:
    """Of queries, keys, values, logarithms of sums, cotangents, and products of these."""
    q_spec, k_spec = _whole(q, lambda h: h), _whole(k, lambda h: h // group)
    numbers = pl.BlockSpec((None, None, q.shape[1]), lambda _, b, h: (b, h, 0))
    return [q_spec, k_spec, k_spec, numbers, q_spec, numbers, *_segments(segment_ids)]
