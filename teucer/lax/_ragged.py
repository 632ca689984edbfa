"""Products of matrices in groups of rows (ragged_dot), and of matrices in blocks with scales
(scaled_dot)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from teucer._base import dtypes, element_types
from teucer._core import array_ops
from teucer._core.primitive import Primitive, Undefined
from teucer._core.stage import stage_flat
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._core.typing import Array, DTypeLike
from teucer._devices.partition import Labels
from teucer._hlo.contractions import remaining
from teucer._transform.batch import batch_flat
from teucer._transform.transpose import backward_pass
from teucer.lax._arithmetic import bitwise_and, le, lt, mul, sub
from teucer.lax._cumulative import cumsum
from teucer.lax._dot import dot_general, dot_general_p, element_type_of, output_dtype
from teucer.lax._precision import canonical_precision
from teucer.lax._selection import select
from teucer.lax._shapes import broadcasted_iota
from teucer.lax._sharding import laid_out
from teucer.lax._structure import (
    broadcast_to,
    convert_element_type,
    expand,
    full,
    moveaxis,
    reshape,
    transpose,
    zeros,
)

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.typing import ArrayLike, Dims, Params, Values
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = [
    "RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general", "ragged_dot_general_p",
    "scaled_dot", "scaled_dot_p",
]  # fmt: skip


class _RaggedFields(NamedTuple):
    dot_dimension_numbers: Any
    lhs_ragged_dimensions: tuple[int, ...]
    rhs_group_dimensions: tuple[int, ...]


class RaggedDotDimensionNumbers(_RaggedFields):
    """The axes of `ragged_dot_general`: those of `dot_general`, the axis of lhs that is divided
    into groups, and the axis of rhs that numbers them."""

    __slots__ = ()

    def __new__(
        cls, dot_dimension_numbers: Any, lhs_ragged_dimensions: Any, rhs_group_dimensions: Any
    ) -> RaggedDotDimensionNumbers:
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dot_dimension_numbers
        numbers = ((tuple(lhs_contract), tuple(rhs_contract)), (tuple(lhs_batch), tuple(rhs_batch)))
        return super().__new__(
            cls, numbers, tuple(lhs_ragged_dimensions), tuple(rhs_group_dimensions)
        )


def _mode(numbers: RaggedDotDimensionNumbers) -> str:
    """The role of the ragged axis of lhs: "contracted", "batch" or, if neither, "outer"."""
    ((lhs_contract, _), (lhs_batch, _)), (ragged,), _ = numbers
    return "contracted" if ragged in lhs_contract else "batch" if ragged in lhs_batch else "outer"


@final
class RaggedDotGeneral(Primitive):
    """dot_general in groups along one axis of lhs, whose sizes are data.

    Where that axis is an outer one (of the result), each group is multiplied by its own matrix of
    rhs, and elements in no group give zero. Where it is contracted, each group gives a result of
    its own, along a new first axis. Along a batch axis groups change nothing. (C1) one ragged axis;
    a group axis of rhs if it is an outer one, none otherwise.  (C2) as many group sizes as groups
    in rhs; they are integers.  (C3) the conditions of dot_general.
    """

    __slots__ = ()
    name = "ragged_dot_general"

    def types(
        self,
        lhs: ShapedArray,
        rhs: ShapedArray,
        group_sizes: ShapedArray,
        *,
        ragged_dot_dimension_numbers: Any,
        precision: object,
        preferred_element_type: Any,
        group_offset: Any = None,
        out_sharding: object = None,
    ) -> Any:
        numbers = ragged_dot_dimension_numbers
        _check_ragged(lhs, rhs, group_sizes, numbers)
        axes, groups = numbers.dot_dimension_numbers, numbers.rhs_group_dimensions
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = axes
        # Without its group axis rhs is an operand of dot_general.
        kept = remaining(rhs.ndim, groups)
        single = rhs.update(shape=tuple(rhs.shape[d] for d in kept))
        inner = (
            (lhs_contract, tuple(kept.index(d) for d in rhs_contract)),
            (lhs_batch, tuple(kept.index(d) for d in rhs_batch)),
        )
        (out,) = dot_general_p.types(
            lhs,
            single,
            dimension_numbers=inner,
            precision=precision,
            preferred_element_type=preferred_element_type,
        )
        shape = out.shape
        if _mode(numbers) == "contracted":
            shape = (group_sizes.shape[-1], *shape)
        return (
            ShapedArray(
                shape,
                output_dtype("ragged_dot_general", lhs.dtype, rhs.dtype, preferred_element_type),
            ),
        )

    def shard(
        self,
        lhs: ShapedArray,
        rhs: ShapedArray,
        group_sizes: ShapedArray,
        *,
        ragged_dot_dimension_numbers: Any,
        **params: object,
    ) -> Any:
        axes, ragged, groups = ragged_dot_dimension_numbers
        left, right, out = _labels(lhs, rhs, axes, ragged, groups)
        if _mode(ragged_dot_dimension_numbers) == "contracted":
            out = (None, *out)
        return Labels([left, right, (None,) * group_sizes.ndim], [out])

    def lower(
        self, ctx: Context, lhs: Value, rhs: Value, group_sizes: Value, **params: object
    ) -> Any:
        return ctx.trace(lambda *xs: (_as_dots(*xs, **params),), lhs, rhs, group_sizes)

    def jvp(self, primals: Sequence[ArrayLike], tangents: Values, **params: object) -> Any:
        lhs, rhs, sizes = primals
        outs = self.call(lhs, rhs, sizes, **params)
        tangent: Any = typeof(outs[0]).zero
        if type(tangents[0]) is not Zero:
            (tangent,) = self.call(tangents[0], rhs, sizes, **params)
        if type(tangents[1]) is not Zero:
            tangent = array_ops.add_cotangents(
                tangent, self.call(lhs, tangents[1], sizes, **params)[0]
            )
        return outs, (tangent,)

    def transpose(
        self,
        cts: Sequence[object],
        lhs: Array | Undefined,
        rhs: Array | Undefined,
        group_sizes: ArrayLike | Undefined,
        **params: object,
    ) -> Any:
        jaxpr, consts = _staged(_as_dots, (lhs, rhs, group_sizes), params)
        return backward_pass(jaxpr, consts, (lhs, rhs, group_sizes), cts)

    def batch(self, axis: Axis, args: Sequence[object], dims: Dims, **params: object) -> Any:
        return batch_flat(lambda *xs: (_as_dots(*xs, **params),), axis, args, dims)


ragged_dot_general_p = RaggedDotGeneral()


def _labels(
    lhs: ShapedArray,
    rhs: ShapedArray,
    axes: Any,
    ragged: Sequence[int] = (),
    groups: Sequence[int] = (),
) -> Any:
    """Labels of the axes of both operands and of the product. Contracted and ragged axes must not
    be partitioned."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = axes
    left: dict[int, Any] = {
        d: ("lhs", d) for d in range(lhs.ndim) if d not in lhs_contract and d not in ragged
    }
    right: dict[int, Any] = {
        d: ("rhs", d) for d in range(rhs.ndim) if d not in rhs_contract and d not in groups
    }
    right.update({r: left.get(l) for l, r in zip(lhs_batch, rhs_batch, strict=True)})
    out = [left.get(d) for d in (*lhs_batch, *remaining(lhs.ndim, (*lhs_contract, *lhs_batch)))]
    out += [right.get(d) for d in remaining(rhs.ndim, (*rhs_contract, *rhs_batch, *groups))]
    return tuple(map(left.get, range(lhs.ndim))), tuple(map(right.get, range(rhs.ndim))), tuple(out)


def _staged(f: Callable[..., object], args: Sequence[ArrayLike | Undefined], params: Params) -> Any:
    """(jaxpr, consts) of a function of arrays, some of which are Undefined."""
    avals = [x.aval if type(x) is Undefined else typeof(x).strengthen() for x in args]
    return stage_flat(lambda *xs: (f(*xs, **params),), avals)


def _check_ragged(
    lhs: ShapedArray, rhs: ShapedArray, group_sizes: Any, numbers: RaggedDotDimensionNumbers
) -> None:
    op = "ragged_dot_general"
    ((_, rhs_contract), (_, rhs_batch)), ragged, groups = numbers
    if not dtypes.issubdtype(group_sizes.dtype, np.integer):
        raise TypeError(
            f"{op} requires that group_sizes.dtype is subtype of np.integer.\n"
            f"    group_sizes: {group_sizes}"
        )
    if group_sizes.ndim < 1:
        raise TypeError(f"expected rank of group_sizes to be >=1.\n    group_sizes: {group_sizes}")
    if len(ragged) != 1:
        raise TypeError(
            f"{op} expects exactly one lhs ragged dimension.\n    lhs_ragged_dimensions: {ragged}"
        )
    if not 0 <= ragged[0] < lhs.ndim:
        raise TypeError(
            f"{op} requires lhs ragged dimension numbers to be nonnegative and less than the "
            f"number of axes of the lhs value, got {ragged[0]} for lhs of rank {lhs.ndim}."
        )
    if _mode(numbers) == "outer":
        if len(groups) != 1:
            raise TypeError(
                f"{op} requires exactly one rhs group dimension when lhs ragged dimension is "
                f"noncontracting.\n    rhs_group_dimensions: {groups}"
            )
        if groups[0] in rhs_contract or groups[0] in rhs_batch:
            raise TypeError(
                f"{op} requires rhs group dimension numbers to be distinct from contracting and "
                f"batch dimensions.\n    rhs_group_dimensions: {groups}"
            )
        if rhs.shape[groups[0]] != group_sizes.shape[-1]:
            raise TypeError(
                f"expected rhs group dimension size to be {group_sizes.shape[-1]}, got "
                f"{rhs.shape[groups[0]]}."
            )
    elif groups:
        raise TypeError(
            f"{op} requires zero group dimensions in the rhs when lhs ragged dimension is "
            f"contracting or batch.\n    rhs_group_dimensions: {groups}"
        )
    expected = (*(lhs.shape[d] for d in _outer_axes(lhs, numbers)), group_sizes.shape[-1])
    if group_sizes.ndim > 1 and group_sizes.shape != expected:
        raise TypeError(f"expected group_sizes to have shape {expected}, got {group_sizes.shape}.")


def _outer_axes(lhs: ShapedArray, numbers: RaggedDotDimensionNumbers) -> tuple[int, ...]:
    """The axes of lhs before the ragged one. group_sizes may have other sizes for each place along
    them."""
    ((contract, _), (batch, _)), (ragged,), _ = numbers
    mode = _mode(numbers)
    if mode == "batch":
        return batch[: batch.index(ragged)]
    others = contract if mode == "contracted" else remaining(lhs.ndim, (*contract, *batch))
    return *batch, *others[: others.index(ragged)]


def _as_dots(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    *,
    ragged_dot_dimension_numbers: Any,
    precision: object,
    preferred_element_type: Any,
    group_offset: Any = None,
    out_sharding: object = None,
) -> Any:
    """The product as one dot_general of lhs repeated for each group, with zeros outside the
    group."""
    numbers = ragged_dot_dimension_numbers
    ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch)), (ragged,), groups = numbers
    options = {
        "precision": precision,
        "preferred_element_type": preferred_element_type,
        "out_sharding": None,
    }
    mode = _mode(numbers)
    if mode == "batch":
        return dot_general_p.call(
            lhs, rhs, dimension_numbers=numbers.dot_dimension_numbers, **options
        )[0]
    lhs = _grouped(lhs, group_sizes, ragged, _outer_axes(typeof(lhs), numbers))
    lhs_contract, lhs_batch = (tuple(d + 1 for d in axes) for axes in (lhs_contract, lhs_batch))
    if mode == "outer":
        # The groups are contracted: of the products with all matrices only the one of the own group
        # is not zero.
        axes = (((0, *lhs_contract), (*groups, *rhs_contract)), (lhs_batch, rhs_batch))
        return dot_general_p.call(lhs, rhs, dimension_numbers=axes, **options)[0]
    (out,) = dot_general_p.call(
        lhs,
        rhs,
        dimension_numbers=((lhs_contract, rhs_contract), (lhs_batch, rhs_batch)),
        **options,
    )
    return moveaxis(out, len(lhs_batch), 0)


def _grouped(lhs: Array, group_sizes: Any, ragged: int, outer: tuple[int, ...]) -> Any:
    """lhs repeated along a new first axis, one entry a group, with zeros outside the group."""
    last = typeof(group_sizes).ndim - 1
    ends = cumsum(group_sizes, last)
    starts = sub(ends, group_sizes)
    count = typeof(group_sizes).shape[-1]
    repeated = expand(lhs, count, 0)
    aval = typeof(repeated)
    # group_sizes has the outer axes, or none, then the groups.
    axes = (*(d + 1 for d in outer[:last]), 0)
    order = sorted(range(len(axes)), key=axes.__getitem__)
    starts, ends = (
        broadcast_to(transpose(x, order), aval.shape, sorted(axes)) for x in (starts, ends)
    )
    place = broadcasted_iota(typeof(group_sizes).dtype, aval.shape, ragged + 1)
    return select(
        bitwise_and(le(starts, place), lt(place, ends)), repeated, zeros(aval.strengthen())
    )


def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None,
    out_sharding: object = None,
) -> Array:
    """`dot_general` in groups along one axis of lhs, whose sizes are data.

    group_sizes: int[groups], or int[outer..., groups], where outer are the batch axes of lhs and
    then, of the outer or contracted axes to which the ragged one belongs, those before it.
    If the ragged axis of lhs is an outer one, rows of group i are multiplied by the i-th matrix of
    rhs along its group axis, and rows in no group give zero. If it is contracted, the result has a
    new first axis, one entry a group. If it is a batch axis, the result is as of dot_general.
    out_sharding: how the result is to lie over Explicit mesh axes.
    Raises TypeError for wrong axes (C1), group sizes (C2) or operands of dot_general (C3);
    NotImplementedError for a group_offset.

    >>> from teucer import lax
    >>> numbers = lax.RaggedDotDimensionNumbers((((1,), (0,)), ((), ())), [1], [])
    >>> lax.ragged_dot_general(np.ones((1, 3), np.float32), np.ones((3, 1), np.float32),
    ...     np.int32([1, 2]), numbers)
    Array([[[1.]],
    <BLANKLINE>
           [[2.]]], dtype=float32)
    """
    if group_offset is not None:
        raise NotImplementedError(
            "ragged_dot_general: group_offset is not implemented.\n"
            "  Slice rhs and group_sizes, and move the rows."
        )
    if out_sharding is not None:
        return laid_out(
            "ragged_dot_general",
            out_sharding,
            lambda x, y, sizes: ragged_dot_general(
                x, y, sizes, ragged_dot_dimension_numbers, precision, preferred_element_type
            ),
            lhs,
            rhs,
            group_sizes,
        )
    return ragged_dot_general_p.call(
        lhs,
        rhs,
        group_sizes,
        ragged_dot_dimension_numbers=RaggedDotDimensionNumbers(*ragged_dot_dimension_numbers),
        precision=canonical_precision(precision),
        group_offset=None,
        out_sharding=None,
        preferred_element_type=element_type_of(preferred_element_type, "ragged_dot_general"),
    )[0]


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None,
    out_sharding: object = None,
) -> Array:
    """Rows of lhs in consecutive groups, each multiplied by the matrix of its group.

    lhs: T[m, k]; rhs: T[groups, k, n]; group_sizes: int[groups]  ->  T[m, n]. Rows after the last
    group give zero.
    Raises TypeError for wrong shapes or dtypes (C2, C3).

    >>> from teucer import lax
    >>> lax.ragged_dot(np.ones((3, 1), np.float32), np.float32([[[2]], [[5]]]), np.int32([1, 2]))
    Array([[2.],
           [5.],
           [5.]], dtype=float32)
    """
    return ragged_dot_general(
        lhs,
        rhs,
        group_sizes,
        RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0]),
        precision,
        preferred_element_type,
        group_offset,
        out_sharding,
    )


@final
class ScaledDot(Primitive):
    """dot_general of operands each multiplied by scales; a scale counts for a block along a
    contracted axis.

    (C1) each scale has the rank of its operand, and its sizes but on contracted axes, where it
    divides them.
    """

    __slots__ = ()
    name = "scaled_dot"

    def types(
        self,
        lhs: ShapedArray,
        rhs: ShapedArray,
        lhs_scale: ShapedArray,
        rhs_scale: ShapedArray,
        *,
        dimension_numbers: Any,
        preferred_element_type: Any,
    ) -> Any:
        for side, x, scale, contract in zip(
            ("LHS", "RHS"), (lhs, rhs), (lhs_scale, rhs_scale), dimension_numbers[0], strict=True
        ):
            _check_scale(side, x, scale, contract)
        operand: dict[str, Any] = dict.fromkeys(("precision", "preferred_element_type"))
        (out,) = dot_general_p.types(
            lhs.update(dtype=np.dtype(np.float32)),
            rhs.update(dtype=np.dtype(np.float32)),
            dimension_numbers=dimension_numbers,
            **operand,
        )
        return (out.update(dtype=preferred_element_type, weak_type=False),)

    def shard(
        self,
        lhs: ShapedArray,
        rhs: ShapedArray,
        *scales: ShapedArray,
        dimension_numbers: Any,
        **params: object,
    ) -> Any:
        left, right, out = _labels(lhs, rhs, dimension_numbers)
        return Labels([left, right, left, right], [out])

    def lower(self, ctx: Context, *xs: Value, **params: Any) -> Any:
        return ctx.trace(lambda *ys: (_scaled(*ys, **params),), *xs)

    def batch(self, axis: Axis, args: Sequence[object], dims: Dims, **params: Any) -> Any:
        return batch_flat(lambda *xs: (_scaled(*xs, **params),), axis, args, dims)


scaled_dot_p = ScaledDot()


def _check_scale(side: str, x: ShapedArray, scale: ShapedArray, contract: Any) -> None:
    if scale.ndim != x.ndim:
        raise TypeError(
            f"scaled_dot: {side} scale must have the rank of its operand.\n    operand: {x}\n"
            f"    scale: {scale}"
        )
    for d, (size, parts) in enumerate(zip(x.shape, scale.shape, strict=True)):
        if d in contract and (parts == 0 or size % parts):
            raise TypeError(
                f"{side} contracting dim {d} of size {size} must be divisible by its scale's dim "
                f"size {parts}."
            )
        if d not in contract and size != parts:
            raise TypeError(f"{side} dim {d} of size {size} does not match scale dim size {parts}.")


def _scaled(
    lhs: ArrayLike,
    rhs: ArrayLike,
    lhs_scale: object,
    rhs_scale: object,
    *,
    dimension_numbers: object,
    preferred_element_type: DTypeLike | None,
) -> Any:
    # bfloat16 holds the products of 8-bit floats and powers of two exactly.
    narrow = all(
        typeof(x).dtype.itemsize == 1 or typeof(x).dtype == dtypes.bfloat16 for x in (lhs, rhs)
    )
    dtype = dtypes.bfloat16 if narrow else np.float32
    scaled = []
    for x, scale in ((lhs, lhs_scale), (rhs, rhs_scale)):
        sizes, parts = typeof(x).shape, typeof(scale).shape
        blocks = [n // k for n, k in zip(sizes, parts, strict=True)]
        spread = broadcast_to(
            scale,
            [m for pair in zip(parts, blocks, strict=True) for m in pair],
            range(0, 2 * len(sizes), 2),
        )
        spread = reshape(spread, sizes)
        scaled.append(mul(convert_element_type(x, dtype), convert_element_type(spread, dtype)))
    left, right = scaled
    return dot_general(
        left, right, dimension_numbers, preferred_element_type=preferred_element_type
    )


def scaled_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    lhs_scale: ArrayLike | None = None,
    rhs_scale: ArrayLike | None = None,
    dimension_numbers: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Product of operands in blocks, each with a scale, as in the microscaling formats.

    lhs: T[m, k], rhs: T[k, n], or with one leading batch axis, or as dimension_numbers says;
    lhs_scale: [m, k / block] and
    rhs_scale: [k / block, n], None being 1  ->  bfloat16[m, n], or preferred_element_type.
    Raises TypeError if a scale does not fit its operand (C1).

    >>> from teucer import lax
    >>> x = np.ones((1, 4), np.float32)
    >>> lax.scaled_dot(x, x.T, lhs_scale=np.float32([[2, 4]]))
    Array([[12]], dtype=bfloat16)
    """
    rank = typeof(lhs).ndim
    if dimension_numbers is None:
        if rank not in (2, 3) or typeof(rhs).ndim != rank:
            raise TypeError(
                "scaled_dot: without dimension_numbers the operands are matrices, or have one "
                f"batch axis.\n    lhs: {typeof(lhs)}\n    rhs: {typeof(rhs)}"
            )
        batch = tuple(range(rank - 2))
        dimension_numbers = (((rank - 1,), (rank - 2,)), (batch, batch))
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    numbers = ((tuple(lhs_contract), tuple(rhs_contract)), (tuple(lhs_batch), tuple(rhs_batch)))
    scales = [
        _ones(x, contract) if scale is None else scale
        for x, scale, contract in zip((lhs, rhs), (lhs_scale, rhs_scale), numbers[0], strict=True)
    ]
    preferred = element_type_of(preferred_element_type, "scaled_dot") or np.dtype(dtypes.bfloat16)
    return scaled_dot_p.call(
        lhs, rhs, *scales, dimension_numbers=numbers, preferred_element_type=preferred
    )[0]


def _ones(x: ArrayLike, contract: Any) -> Any:
    """A scale of 1 for the whole of x."""
    shape = tuple(1 if d in contract else n for d, n in enumerate(typeof(x).shape))
    return full(shape, 1, element_types.as_dtype("float8_e8m0fnu"))
