"""Grouped products of matrices, whose groups need not end where blocks end.

A block of rows that several groups share is visited once for each, and each writes its own rows.
Which groups and blocks the steps of the grid see is computed before it begins. Gale, Narayanan,
Young & Zaharia, "MegaBlocks: Efficient Sparse Training with Mixture-of-Experts" (2023).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import Array, ShapeDtypeStruct, jit, lax
from teucer import numpy as jnp
from teucer._base.lazy import listing, refusing
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import tpu as pltpu
from teucer.experimental.pallas.ops.tpu.megablox import common

if TYPE_CHECKING:
    from teucer._core.typing import DTypeLike
    from teucer.experimental.pallas.ops._types import BlockRef

__all__ = ["GroupMetadata", "LutFn", "gmm", "make_group_metadata", "tgmm"]
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)

# Sizes (m, k, n) to those of blocks, or None where it knows none.
LutFn = Callable[[int, int, int], tuple[int, int, int] | None]
# Of what `make_group_metadata` gives, the first part: where groups begin, and for each step of the
# grid its group and its block of rows.
GroupMetadata = Any


def make_group_metadata(
    *,
    group_sizes: Array,
    m: int,
    tm: int,
    start_group: Array,
    num_nonzero_groups: int,
    visit_empty_groups: bool = True,
) -> Any:
    """Which group and which block of tm rows each step sees.

    group_sizes: int32[groups]; num_nonzero_groups: so many from start_group on are computed.
    visit_empty_groups: whether a group without rows has a step, too.
    Returns ((offsets int32[groups + 1], groups int32[steps], blocks int32[steps]), how many of
    these steps there are).
    """
    groups, blocks = group_sizes.shape[0], math.ceil(m / tm)
    ends = jnp.cumsum(group_sizes, dtype=np.int32)
    offsets = jnp.concatenate([jnp.zeros(1, np.int32), ends])
    starts = offsets[:-1]
    first = jnp.minimum(starts // tm, max(blocks - 1, 0))
    counts = jnp.where(
        group_sizes > 0, (ends + (tm - 1)) // tm - starts // tm, int(visit_empty_groups)
    )
    numbers = jnp.arange(groups, dtype=np.int32)
    wanted = (numbers >= start_group) & (numbers < start_group + num_nonzero_groups)
    counts = jnp.where(wanted, counts, 0)
    most = blocks + groups - 1
    ids = jnp.repeat(numbers, counts, total_repeat_length=most)
    before = jnp.cumsum(counts) - counts
    places = first[ids] + jnp.arange(most, dtype=np.int32) - before[ids]
    places = jnp.clip(places, 0, max(blocks - 1, 0)).astype(np.int32)
    return (offsets, ids, places), counts.sum().astype(np.int32)


class _Steps(NamedTuple):
    """What a kernel knows of its step, from references to the metadata."""

    offsets: BlockRef
    ids: BlockRef
    places: BlockRef
    step: Array
    tm: int

    def rows(self) -> Any:
        """Which rows of the block belong to the group, a column."""
        group = self.ids[self.step]
        at = self.places[self.step] * self.tm + lax.broadcasted_iota(np.int32, (self.tm, 1), 0)
        return (self.offsets[group] <= at) & (at < self.offsets[group + 1])

    def begins(self, which: BlockRef) -> Any:
        """Whether the step before has another group or block."""
        return (self.step == 0) | (which[jnp.maximum(self.step - 1, 0)] != which[self.step])

    def ends(self, which: BlockRef, count: Array) -> Any:
        """Whether the step behind has another."""
        last = count - 1
        return (self.step == last) | (which[jnp.minimum(self.step + 1, last)] != which[self.step])


def _inside(x: Array, size: int, block: int, place: Array, axis: int) -> Array:
    """A block with zeros behind the end of an axis of the array."""
    if size % block == 0:
        return x
    at = place * block + lax.broadcasted_iota(np.int32, x.shape, axis)
    return jnp.where(at < size, x, 0)


_STATIC = ("preferred_element_type", "tiling", "transpose_rhs", "interpret")


@functools.partial(jit, static_argnames=_STATIC)
def gmm(
    lhs: Array,
    rhs: Array,
    group_sizes: Array,
    preferred_element_type: DTypeLike = jnp.float32,
    tiling: tuple[int, int, int] | LutFn | None = (128, 128, 128),
    group_offset: Array | None = None,
    existing_out: Array | None = None,
    transpose_rhs: bool = False,
    interpret: bool = False,
) -> Array:
    """Products of consecutive groups of rows of lhs with a matrix each.

    lhs: T[m, k]; rhs: T[groups, k, n], or T[groups, n, k] with transpose_rhs; group_sizes:
    int32[all groups]  ->  preferred_element_type[m, n]
    tiling: blocks of (m, k, n), or a function that gives them; the first divides m.
    group_offset: int32, the group whose matrix is the first of rhs; rows of groups that rhs lacks,
    and those behind all groups, are zero, or as in existing_out.
    Raises ValueError for shapes and types that do not fit. Without a derivative of its own: that is
    `megablox.gmm`.

    >>> x, w = jnp.ones((8, 4)), jnp.stack([jnp.eye(4), 2 * jnp.eye(4)])
    >>> gmm(x, w, jnp.array([3, 4]), tiling=(8, 4, 4))[:, 0]
    Array([1., 1., 1., 2., 2., 2., 2., 0.], dtype=float32)

    Method: Gale et al., arXiv:2211.15841 (2022).
    """
    shape = rhs.shape if not transpose_rhs else (rhs.shape[0], *rhs.shape[:0:-1])
    (m, k), n = lhs.shape, shape[-1]
    _check("gmm", lhs, rhs, group_sizes, group_offset, lhs.shape[1] == shape[1] and rhs.ndim == 3)
    tm, tk, tn = _tiles(tiling, m, k, n)
    if existing_out is None:
        existing_out = jnp.zeros((m, n), preferred_element_type)
    _check_existing("gmm", existing_out, (m, n), preferred_element_type)
    if not existing_out.size or not rhs.shape[0]:
        return existing_out
    offset = jnp.zeros((), np.int32) if group_offset is None else group_offset
    metadata, count = make_group_metadata(
        group_sizes=group_sizes,
        m=m,
        tm=tm,
        start_group=offset,
        num_nonzero_groups=rhs.shape[0],
        visit_empty_groups=False,
    )
    dtype = common.select_input_dtype(lhs, rhs)

    def kernel(
        offsets: BlockRef, ids: BlockRef, places: BlockRef, first: BlockRef,
        lhs_ref: BlockRef, rhs_ref: BlockRef, existing_ref: BlockRef, out_ref: BlockRef,
        acc_ref: BlockRef,
    ) -> None:  # fmt: skip
        at, part = _Steps(offsets, ids, places, pl.program_id(1), tm), pl.program_id(2)

        @pl.when(part == 0)
        def begin() -> None:
            acc_ref[...] = jnp.zeros(acc_ref.shape, acc_ref.dtype)

        axis = 1 if transpose_rhs else 0
        x = _inside(lhs_ref[...], k, tk, part, 1).astype(dtype)
        y = _inside(rhs_ref[...], k, tk, part, axis).astype(dtype)
        acc_ref[...] += lax.dot_general(
            x, y, (((1,), (axis,)), ((), ())), preferred_element_type=np.float32
        )

        @pl.when(part == pl.num_programs(2) - 1)
        def end() -> None:
            own = acc_ref[...].astype(out_ref.dtype)
            # The first group that sees a block finds nothing in it.
            before = jnp.where(at.begins(places), existing_ref[...], out_ref[...])
            out_ref[...] = jnp.where(at.rows(), own, before)

    def of_group(j: Array, t: Array, s: Array, *refs: BlockRef) -> Any:
        group = refs[1][t] - refs[3][0]
        return (group, j, s) if transpose_rhs else (group, s, j)

    result = pl.BlockSpec((tm, tn), lambda j, t, s, offsets, ids, places, first: (places[t], j))
    return pl.pallas_call(
        kernel,
        ShapeDtypeStruct((m, n), preferred_element_type),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=(pl.cdiv(n, tn), count, pl.cdiv(k, tk)),
            in_specs=[
                pl.BlockSpec((tm, tk), lambda j, t, s, offsets, ids, places, first: (places[t], s)),
                pl.BlockSpec((None, *((tn, tk) if transpose_rhs else (tk, tn))), of_group),
                result,
            ],
            out_specs=result,
            scratch_shapes=[pltpu.VMEM((tm, tn), jnp.float32)],
        ),
        input_output_aliases={6: 0},
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary")
        ),
        interpret=interpret,
        name="gmm",
    )(*metadata, offset.reshape(1), lhs, rhs, existing_out)


@functools.partial(jit, static_argnames=(*_STATIC[:2], "num_actual_groups", "interpret"))
def tgmm(
    lhs: Array,
    rhs: Array,
    group_sizes: Array,
    preferred_element_type: DTypeLike = jnp.float32,
    tiling: tuple[int, int, int] | LutFn | None = (128, 128, 128),
    group_offset: Array | None = None,
    num_actual_groups: int | None = None,
    existing_out: Array | None = None,
    interpret: bool = False,
) -> Array:
    """For each group, the product of its columns of lhs with its rows of rhs.

    lhs: T[k, m]; rhs: T[m, n]; group_sizes: int32[all groups]
    ->  preferred_element_type[groups, k, n]
    num_actual_groups: how many groups are computed, from group_offset on; by default all.
    existing_out: an array whose memory the result takes.
    Raises ValueError for shapes and types that do not fit.

    >>> tgmm(jnp.ones((1, 8)), jnp.ones((8, 1)), jnp.array([3, 5]), tiling=(8, 1, 1))[:, 0, 0]
    Array([3., 5.], dtype=float32)
    """
    (k, m), n = lhs.shape, rhs.shape[-1]
    _check("tgmm", lhs, rhs, group_sizes, group_offset, rhs.ndim == 2 and rhs.shape[0] == m)
    tm, tk, tn = _tiles(tiling, m, k, n)
    groups = group_sizes.shape[0] if num_actual_groups is None else num_actual_groups
    out = ShapeDtypeStruct((groups, k, n), preferred_element_type)
    if existing_out is not None:
        _check_existing("tgmm", existing_out, out.shape, preferred_element_type)
    if not m * k * n * groups:
        return jnp.zeros(out.shape, out.dtype)
    offset = jnp.zeros((), np.int32) if group_offset is None else group_offset
    metadata, count = make_group_metadata(
        group_sizes=group_sizes,
        m=m,
        tm=tm,
        start_group=offset,
        num_nonzero_groups=groups,
        visit_empty_groups=True,
    )
    dtype = common.select_input_dtype(lhs, rhs)

    def kernel(
        offsets: BlockRef, ids: BlockRef, places: BlockRef, first: BlockRef,
        lhs_ref: BlockRef, rhs_ref: BlockRef, *refs: BlockRef,
    ) -> None:  # fmt: skip
        *_, out_ref, acc_ref = refs
        at = _Steps(offsets, ids, places, pl.program_id(2), tm)

        @pl.when(at.begins(ids))
        def begin() -> None:
            acc_ref[...] = jnp.zeros(acc_ref.shape, acc_ref.dtype)

        own = at.rows()
        x = jnp.where(own, lhs_ref[...], 0).astype(dtype)
        y = jnp.where(own, rhs_ref[...], 0).astype(dtype)
        acc_ref[...] += jnp.dot(x.T, y, preferred_element_type=np.float32)

        @pl.when(at.ends(ids, pl.num_programs(2)))
        def end() -> None:
            out_ref[...] = acc_ref[...].astype(out_ref.dtype)

    result = pl.BlockSpec(
        (None, tk, tn),
        lambda j, s, t, offsets, ids, places, first: (ids[t] - first[0], s, j),
    )
    existing = [] if existing_out is None else [existing_out]
    return pl.pallas_call(
        kernel,
        out,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=(pl.cdiv(n, tn), pl.cdiv(k, tk), count),
            in_specs=[
                pl.BlockSpec((tm, tk), lambda j, s, t, offsets, ids, places, first: (places[t], s)),
                pl.BlockSpec((tm, tn), lambda j, s, t, offsets, ids, places, first: (places[t], j)),
                *[pl.BlockSpec(memory_space=pl.ANY)] * len(existing),
            ],
            out_specs=result,
            scratch_shapes=[pltpu.VMEM((tk, tn), jnp.float32)],
        ),
        input_output_aliases={6: 0} if existing else {},
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
        interpret=interpret,
        name="tgmm",
    )(*metadata, offset.reshape(1), lhs.T, rhs, *existing)


def _tiles(
    tiling: tuple[int, int, int] | LutFn | None, m: int, k: int, n: int
) -> tuple[int, int, int]:
    found = tiling(m, k, n) if callable(tiling) else tiling
    if found is None:
        raise ValueError(f"No tuned tiling found for (m, k, n) = {(m, k, n)}\n  Give tiling.")
    tm, tk, tn = found
    if m % tm:
        raise ValueError(f"{m} must be divisible by x-dimension tile size ({tm}).")
    return tm, min(tk, k), min(tn, n)


def _check_existing(name: str, x: Array, shape: tuple[int, ...], dtype: DTypeLike) -> None:
    if x.shape != shape or x.dtype != jnp.dtype(dtype):
        raise ValueError(
            f"{name}: existing_out must be {jnp.dtype(dtype)}{list(shape)}, got "
            f"{x.dtype}{list(x.shape)}."
        )


def _check(
    name: str, lhs: Array, rhs: Array, sizes: Array, offset: Array | None, fits: bool
) -> None:
    common.assert_is_supported_dtype(lhs.dtype)
    common.assert_is_supported_dtype(rhs.dtype)
    if lhs.ndim != 2 or sizes.ndim != 1 or not fits:
        raise ValueError(
            f"{name}: operands do not fit.\n    lhs: {lhs.dtype}{list(lhs.shape)}\n"
            f"    rhs: {rhs.dtype}{list(rhs.shape)}\n"
            f"    group_sizes: {sizes.dtype}{list(sizes.shape)}"
        )
    if sizes.dtype != np.int32:
        raise ValueError(f"Expected 32-bit integer 'group_sizes' but got {sizes.dtype}.")
    if offset is not None and offset.shape:
        raise ValueError(f"group_offset must be a ()-shaped array. Got: {offset.shape}.")
