"""dot_general, the product of arrays along contracted and batch axes, and the functions made of
it."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, final

import numpy as np

from teucer._base import dtypes
from teucer._base.errors import ShardingTypeError
from teucer._core import array_ops, dialects
from teucer._core.cost import Cost, Subnormals, Work
from teucer._core.primitive import Primitive, Undefined
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, Zero
from teucer._core.typing import Array, ArrayLike, DTypeLike
from teucer._devices.partition import Labels, batched, every
from teucer._devices.shardings import explicit_sharding, typed
from teucer._devices.specs import AS_IN_0_12, entry_names
from teucer._hlo.contractions import roles_of
from teucer._lower import hlo
from teucer.lax import _precision
from teucer.lax._structure import convert_element_type, transpose

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.typing import Arrays, Aval, Avals, Dims, DType, Params, Partition, Values
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value

    class DotGeneralParams(TypedDict):
        dimension_numbers: DotDimensionNumbers
        precision: object
        preferred_element_type: DTypeLike | None
        out_sharding: Partition | None


__all__ = ["DotDimensionNumbers", "batch_matmul", "dot", "dot_general", "dot_general_p"]

DotDimensionNumbers = tuple[tuple[Any, Any], tuple[Any, Any]]


def output_dtype(name: str, lhs: Any, rhs: Any, preferred: Any) -> Any:
    """dtype of a product: the preferred one, or the wider of the operands' own in the order of
    kinds.

    Raises TypeError if the preferred one is an integer that is narrower than the operands, or of
    other signedness.
    """
    common = max(lhs, rhs, key=_rank) if lhs != rhs else lhs
    if preferred is None:
        return common
    integers = np.issubdtype(common, np.integer) and np.issubdtype(preferred, np.integer)
    if integers and preferred.itemsize < common.itemsize:
        raise TypeError(
            "`preferred_element_type` must not be narrower than the original type, got "
            f"preferred_element_type of {preferred.name} for result type of {common.name}.\n"
            f"  {name}: of lhs {lhs.name} and rhs {rhs.name}"
        )
    if np.issubdtype(common, np.complexfloating) and not np.issubdtype(
        preferred, np.complexfloating
    ):
        raise TypeError(
            f"`preferred_element_type` of complex operands must be complex, got {preferred.name} "
            f"for {common.name}.\n  {name}: take lax.real of the product."
        )
    return preferred


_KINDS = (np.bool_, np.unsignedinteger, np.signedinteger, np.floating, np.complexfloating)


def _rank(dtype: DType) -> tuple[Any, ...]:
    """The order of dtypes that meet in a product: by kind, then size, then name."""
    kind = next(i for i, k in enumerate(_KINDS) if dtypes.issubdtype(dtype, k))
    if kind in (1, 2):
        return 1, dtypes.bit_width(dtype), kind, ""
    # Of two floats of one size the one of greater range: bfloat16 before float16, float8_e5m2
    # before float8_e4m3fn.
    return (
        kind and kind - 1,
        dtypes.bit_width(dtype),
        dtypes.finfo(dtype).maxexp if kind == 3 else 0,
        dtype.name,
    )


def _check(lhs: Any, rhs: Any, dimension_numbers: Any) -> None:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    problem = None
    for side, aval, batch, contract in (
        ("lhs", lhs, lhs_batch, lhs_contract),
        ("rhs", rhs, rhs_batch, rhs_contract),
    ):
        if not all(0 <= d < aval.ndim for d in (*batch, *contract)):
            problem = (
                f"{side} dimension numbers to be nonnegative and less than the number of axes of "
                f"the {side} value, got {side}_batch of {batch} and {side}_contracting of "
                f"{contract} for {side} of rank {aval.ndim}"
            )
        elif len(set(batch)) != len(batch):
            problem = f"{side} batch dimensions to be distinct, got {side}_batch {batch}."
        elif len(set(contract)) != len(contract):
            problem = (
                f"{side} contracting dimensions to be distinct, got {side}_contracting {contract}."
            )
        elif set(batch) & set(contract):
            problem = (
                f"{side} batch dimensions to be disjoint from contracting dimensions, got "
                f"{side}_batch {batch} and {side}_contracting {contract}."
            )
        if problem:
            break
    else:
        problem = _mismatch(lhs, rhs, dimension_numbers)
    if problem:
        raise TypeError(
            f"dot_general requires {problem}\n    lhs: {lhs.str_short(short_dtypes=True)}\n"
            f"    rhs: {rhs.str_short(short_dtypes=True)}\n"
            f"    dimension_numbers: {dimension_numbers}"
        )


def _mismatch(lhs: ShapedArray, rhs: ShapedArray, dimension_numbers: Any) -> str | None:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    if len(lhs_batch) != len(rhs_batch):
        return (
            f"equal numbers of lhs_batch and rhs_batch dimensions, got lhs_batch {lhs_batch} and "
            f"rhs_batch {rhs_batch}."
        )
    sizes = [
        tuple(aval.shape[d] for d in axes)
        for aval, axes in (
            (lhs, lhs_batch),
            (rhs, rhs_batch),
            (lhs, lhs_contract),
            (rhs, rhs_contract),
        )
    ]
    if sizes[0] != sizes[1]:
        return (
            "lhs batch dimensions and rhs batch dimensions to have the same shape, got "
            f"{sizes[0]} and {sizes[1]}."
        )
    if sizes[2] != sizes[3]:
        return f"contracting dimensions to have the same shape, got {sizes[2]} and {sizes[3]}."
    return None


def _operations(avals: Avals, out: ShapedArray, params: Params) -> float:
    """Two for each product."""
    (contracted, _), _ = params["dimension_numbers"]
    return 2.0 * out.size * float(math.prod(avals[0].shape[i] for i in contracted))


def _moved(
    lhs: ShapedArray, rhs: ShapedArray, *, dimension_numbers: Any, **params: object
) -> float:
    # XLA takes axes in the order batch, kept, contracted (rhs: contracted, kept); of matrices in
    # either order. Other operands it copies.
    left, right = roles_of((lhs.ndim, rhs.ndim), dimension_numbers)
    return sum(
        x.size
        for x, batch, first, last in (
            (lhs, left.batch, left.kept, left.contract),
            (rhs, right.batch, right.contract, right.kept),
        )
        if x.ndim
        and (*batch, *first, *last)[-1] != x.ndim - 1
        and not (len(first) == len(last) == 1 and first[0] == x.ndim - 1)
    )


@final
@dialects.drops_reduced.mark
class DotGeneral(Primitive):
    """Sum over the contracted axes of products of elements that agree on batch axes.

    dimension_numbers: ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch)). The result has the
    batch axes, then the other axes of lhs, then the other axes of rhs.
    (C1) axes are within their operand, distinct, and contracted or batch axes.  (C2) corresponding
    axes agree in size. (C3) no operand is unreduced.  (C4) a result may be, over the mesh axes over
    which both operands are contracted.
    """

    __slots__ = ()
    name = "dot_general"
    cost = Cost(
        moves=_moved, work=Work.PRODUCT, subnormals=Subnormals.ROUND, operations=_operations
    )

    def types(
        self,
        lhs: ShapedArray,
        rhs: ShapedArray,
        *,
        dimension_numbers: DotDimensionNumbers,
        precision: object,
        preferred_element_type: DTypeLike | None,
        out_sharding: Partition | None = None,
    ) -> Any:
        _check(lhs, rhs, dimension_numbers)
        _check_sums(lhs, rhs, dimension_numbers, out_sharding)
        left, right = roles_of((lhs.ndim, rhs.ndim), dimension_numbers)
        shape = (
            *(lhs.shape[d] for d in left.batch + left.kept),
            *(rhs.shape[d] for d in right.kept),
        )
        dtype = output_dtype("dot_general", lhs.dtype, rhs.dtype, preferred_element_type)
        weak = lhs.weak_type and rhs.weak_type and preferred_element_type is None
        return (ShapedArray(shape, dtype, weak, sharding=typed(out_sharding, len(shape))),)

    def shard(self, lhs: Aval, rhs: Aval, **params: Unpack[DotGeneralParams]) -> Any:
        dimension_numbers = params["dimension_numbers"]
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
        shared = dict(zip((*rhs_contract, *rhs_batch), (*lhs_contract, *lhs_batch), strict=True))
        right = tuple(shared.get(i, ("rhs", i)) for i in range(rhs.ndim))
        left_roles, right_roles = roles_of((lhs.ndim, rhs.ndim), dimension_numbers)
        out = (*left_roles.batch, *left_roles.kept, *(right[i] for i in right_roles.kept))
        return Labels([every(lhs), right], [out], alike=_unlike(lhs, rhs, lhs_batch, rhs_batch))

    def lower(
        self,
        ctx: Context,
        lhs: Value,
        rhs: Value,
        *,
        dimension_numbers: Any,
        precision: object,
        preferred_element_type: DTypeLike | None,
        out_sharding: object = None,
    ) -> Any:
        (aval,) = ctx.avals_out
        result = aval.dtype
        if lhs.dtype != rhs.dtype and not (_is_float8(lhs.dtype) and _is_float8(rhs.dtype)):
            lhs, rhs = hlo.convert(ctx, lhs, result), hlo.convert(ctx, rhs, result)
        if isinstance(precision, _precision.DotAlgorithm | _precision.DotAlgorithmPreset):
            storage = _precision.storage_of(precision, lhs.dtype, rhs.dtype, result)
            lhs, rhs = hlo.convert(ctx, lhs, storage[0]), hlo.convert(ctx, rhs, storage[1])
            result = storage[2]
        options = _precision.precision_text(precision) + _precision.algorithm_text(
            precision, lhs.dtype, rhs.dtype, ctx.platform
        )
        contract, batch = dimension_numbers
        out = hlo.dot_general(
            ctx, lhs, rhs, contract, batch, ShapedArray(aval.shape, result), options
        )
        return (hlo.convert(ctx, out, aval.dtype),)

    def jvp(self, primals: Arrays, tangents: Values, **params: Unpack[DotGeneralParams]) -> Any:
        return bilinear_jvp(self, primals, tangents, params)

    def transpose(
        self,
        cts: Sequence[object],
        lhs: object,
        rhs: Array | Undefined,
        *,
        dimension_numbers: Any,
        **params: object,
    ) -> Any:
        (ct,) = cts
        if type(lhs) is Undefined:
            return self._transpose_lhs(ct, lhs.aval, rhs, dimension_numbers, params), None
        return None, self._transpose_rhs(ct, lhs, rhs.aval, dimension_numbers, params)

    def _transpose_lhs(
        self, ct: Any, lhs: Any, rhs: Any, dimension_numbers: Any, params: Params
    ) -> Any:
        left, right = roles_of((lhs.ndim, np.ndim(rhs)), dimension_numbers)
        n_batch, ndim = len(left.batch), np.ndim(ct)
        ct_batch, ct_right = tuple(range(n_batch)), tuple(range(ndim - len(right.kept), ndim))
        # The result's last axes are the contracted ones of rhs, in the order of rhs.
        order = (*left.batch, *left.kept, *(left.contract[i] for i in np.argsort(right.contract)))
        (out,) = self.call(
            ct,
            rhs,
            dimension_numbers=((ct_right, right.kept), (ct_batch, right.batch)),
            **params
            | {"out_sharding": cotangent_sharding(lhs, order, (ct, rhs), (ct_right, right.kept))},
        )
        return _as_operand(out, lhs, order)

    def _transpose_rhs(
        self, ct: Any, lhs: Any, rhs: Any, dimension_numbers: Any, params: Params
    ) -> Any:
        left, right = roles_of((np.ndim(lhs), rhs.ndim), dimension_numbers)
        n_batch = len(left.batch)
        ct_batch, ct_left = tuple(range(n_batch)), tuple(range(n_batch, n_batch + len(left.kept)))
        # lhs first: the cotangent of w in x @ w then comes out as x.T @ ct, with no transposition
        # after it.
        order = (*right.batch, *(right.contract[i] for i in np.argsort(left.contract)), *right.kept)
        (out,) = self.call(
            lhs,
            ct,
            dimension_numbers=((left.kept, ct_left), (left.batch, ct_batch)),
            **params
            | {"out_sharding": cotangent_sharding(rhs, order, (lhs, ct), (left.kept, ct_left))},
        )
        return _as_operand(out, rhs, order)

    def batch(
        self, axis: Axis, args: Arrays, dims: Dims, *, dimension_numbers: Any, **params: Any
    ) -> Any:
        (lhs_dim, rhs_dim), (lhs, rhs) = dims, args
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
        left, right = roles_of(
            (np.ndim(lhs) - (lhs_dim is not None), np.ndim(rhs) - (rhs_dim is not None)),
            dimension_numbers,
        )
        ndim = len(left.batch) + len(left.kept) + len(right.kept)
        precision = params["precision"]
        if (
            lhs_dim is None
            and rhs_dim is not None
            and not right.kept
            and rhs_dim < min(_past(rhs_dim, rhs_contract), default=0)
            and (precision is None or isinstance(precision, tuple))
        ):
            # A matrix times vectors that are rows of an array: the products are rows too, so that
            # the axis of vmap stays in front, where operations after this one have it.
            params["precision"] = precision and precision[::-1]
            (lhs, rhs), (lhs_dim, rhs_dim) = (rhs, lhs), (rhs_dim, lhs_dim)
            left, right = right, left
            lhs_contract, rhs_contract = rhs_contract, lhs_contract
            lhs_batch, rhs_batch = rhs_batch, lhs_batch
        lhs_contract, lhs_batch = _past(lhs_dim, lhs_contract), _past(lhs_dim, lhs_batch)
        rhs_contract, rhs_batch = _past(rhs_dim, rhs_contract), _past(rhs_dim, rhs_batch)
        if lhs_dim is not None and rhs_dim is not None:
            lhs_batch, rhs_batch, out_dim = (lhs_dim, *lhs_batch), (rhs_dim, *rhs_batch), 0
        elif lhs_dim is not None:
            out_dim = len(lhs_batch) + sum(d < lhs_dim for d in _past(lhs_dim, left.kept))
        else:
            assert rhs_dim is not None
            out_dim = (
                len(lhs_batch)
                + len(left.kept)
                + sum(d < rhs_dim for d in _past(rhs_dim, right.kept))
            )
        params["out_sharding"] = batched(params["out_sharding"], ndim, out_dim, axis, args, dims)
        outs = self.call(
            lhs,
            rhs,
            dimension_numbers=((lhs_contract, rhs_contract), (lhs_batch, rhs_batch)),
            **params,
        )
        return outs, (out_dim,)

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Sequence[object],
        avals: Sequence[Aval],
        outs: Sequence[Array],
        **params: Unpack[DotGeneralParams],
    ) -> Any:
        # Both, since zero times the padding of the other may be NaN.
        xs = [
            sizes.mask(x, aval, 0, axes)
            for x, aval, axes in zip(args, avals, params["dimension_numbers"][0], strict=True)
        ]
        return self.call(*xs, **params)


def _unlike(lhs: Aval, rhs: Aval, lhs_batch: Sequence[int], rhs_batch: Sequence[int]) -> str:
    """The error for axes that correspond but lie over different mesh axes."""
    left, right = lhs.partition, rhs.partition
    if left is not None and right is not None:
        batches = [(left.spec[i], right.spec[j]) for i, j in zip(lhs_batch, rhs_batch, strict=True)]
        if any(a != b and None not in (a, b) for a, b in batches):
            return (
                "dot_general requires lhs batch dimensions and rhs batch dimensions to have the "
                f"{'same' if AS_IN_0_12 else 'consistent'} sharding"
            )
    return (
        "Contracting dimensions are sharded and it is ambiguous how the output should be sharded. "
        "dot_general requires contracting dimensions to have consistent sharding"
    )


def _check_sums(lhs: Any, rhs: Any, dimension_numbers: Any, out_sharding: Partition | None) -> None:
    """Check that no operand is parts of a sum (C3), and that a result which is has the parts of the
    contraction (C4)."""
    if lhs.unreduced or rhs.unreduced:
        raise ShardingTypeError(
            f"lhs or rhs passed to dot_general cannot be unreduced. Got lhs={lhs.str_short()} and "
            f"rhs={rhs.str_short()}\n  Sum first, with jax.reshard."
        )
    wanted = out_sharding.spec.unreduced if out_sharding is not None else None
    if out_sharding is None or not wanted:
        return
    given = f"Got lhs={lhs.str_short()}, rhs={rhs.str_short()} and out_sharding={out_sharding.spec}"
    names = [
        _names_along(x, axes) for x, axes in zip((lhs, rhs), dimension_numbers[0], strict=True)
    ]
    if wanted not in names:
        raise ShardingTypeError(
            f"out_sharding's unreduced axes should be equal to the contracting specs. {given}"
        )
    if names[0] != names[1]:
        raise ShardingTypeError(
            "lhs and rhs contracting dims should be sharded identically when out_sharding "
            f"provided to dot_general mentions unreduced_axes. {given}"
        )


dot_general_p = DotGeneral()


def bilinear_jvp(
    primitive: Primitive,
    primals: Sequence[ArrayLike],
    tangents: Sequence[object],
    params: Mapping[str, Any],
) -> Any:
    """The forward rule of a primitive that is linear in each of its two operands."""
    outs = primitive.call(*primals, **params)
    (x, y), (tx, ty) = primals, tangents
    tangent: Any = typeof(outs[0]).zero
    if not dtypes.issubdtype(typeof(outs[0]).dtype, np.inexact):
        return outs, (tangent,)
    if type(tx) is not Zero:
        (tangent,) = primitive.call(tx, y, **params)
    if type(ty) is not Zero:
        tangent = array_ops.add_cotangents(tangent, primitive.call(x, ty, **params)[0])
    return outs, (tangent,)


def _names_along(aval: ShapedArray, axes: Sequence[int]) -> frozenset[Any]:
    """The mesh axes over which some axes of an array lie."""
    return (
        frozenset(n for i in axes for n in entry_names(aval.partition.spec[i]))
        if aval.partition is not None
        else frozenset()
    )


def cotangent_sharding(
    aval: ShapedArray,
    order: Sequence[int],
    operands: Sequence[Array],
    contracted: Sequence[Sequence[int]],
) -> Any:
    """The sharding of a product that is the cotangent of an operand of type `aval`, whose axis i is
    axis order[i] of it.

    contracted: the axes of each factor that the product contracts.
    """
    if aval.partition is not None:
        wanted = aval.partition.permuted(order)
        if not wanted.spec.reduced:
            return wanted
        # If both operands are partitioned along the contraction, devices have parts of its sum.
        over = [_names_along(typeof(x), axes) for x, axes in zip(operands, contracted, strict=True)]
        parts = (
            over[0] if over[0] == over[1] and over[0] <= wanted.spec.reduced else frozenset[Any]()
        )
        return wanted.with_spec(wanted.spec.update(unreduced=parts, reduced=()))
    own = [s for s in (typeof(x).partition for x in operands) if s is not None]
    return own[0].with_spec(()) if own else None


def _as_operand(out: Any, aval: ShapedArray, axes: Sequence[int]) -> Any:
    """A cotangent whose axis i is axis axes[i] of the operand, as the operand has them, in its
    dtype."""
    out = transpose(out, tuple(int(i) for i in np.argsort(axes)))
    return (
        out
        if typeof(out).dtype == aval.dtype
        else convert_element_type(out, aval.dtype, aval.weak_type)
    )


def _past(dim: int | None, axes: Sequence[int]) -> tuple[int, ...]:
    """Axes of an unbatched operand as axes of the batched one."""
    return tuple(axes) if dim is None else tuple(d + (d >= dim) for d in axes)


def _is_float8(dtype: DType) -> bool:
    return str(dtype.name).startswith("float8")


def _axes(groups: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    lhs, rhs = groups
    return _positions(lhs), _positions(rhs)


def _positions(axes: Any) -> tuple[int, ...]:
    """Axes as a tuple of ints. One int is one axis."""
    try:
        return (operator.index(axes),)
    except TypeError:
        return tuple(map(operator.index, axes))


def element_type_of(preferred: object, op: str) -> Any:
    """The parameter preferred_element_type as a dtype of the enabled precision, or None."""
    return None if preferred is None else dtypes.check_user_dtype_supported(preferred, op)


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    *,
    out_sharding: object = None,
) -> Array:
    """Product of lhs and rhs along contracted and batch axes.

    dimension_numbers: ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch)), axes counted from the
    front, sequences or ints. The result has the batch axes, then the other axes of lhs, then the
    other axes of rhs. Operands of different dtypes meet in the wider one; preferred_element_type is
    the dtype of the result.
    Raises TypeError if axes are wrong (C1) or differ in size (C2).

    >>> from teucer import lax
    >>> lax.dot_general(np.ones((2, 3), np.float32), np.ones((4, 3), np.float32),
    ...     (((1,), (1,)), ((), ()))).shape
    (2, 4)
    """
    contract, batch = (_axes(pair) for pair in dimension_numbers)
    if out_sharding is not None:
        ndim = typeof(lhs).ndim + typeof(rhs).ndim - len(batch[0]) - 2 * len(contract[0])
        out_sharding = explicit_sharding("dot_general", out_sharding, ndim)
    return dot_general_p.call(
        lhs,
        rhs,
        dimension_numbers=(contract, batch),
        precision=_precision.canonical_precision(precision),
        preferred_element_type=element_type_of(preferred_element_type, "dot_general"),
        out_sharding=out_sharding,
    )[0]


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: object = None,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: object = None,
) -> Array:
    """Vector-vector, matrix-vector or matrix-matrix product; with dimension_numbers, `dot_general`.

    Raises ValueError for other ranks without dimension_numbers, TypeError if contracted axes differ
    in size.

    >>> from teucer import lax
    >>> lax.dot(np.array([1., 2.], np.float32), np.array([3., 4.], np.float32))
    Array(11., dtype=float32)
    """
    if dimension_numbers is None:
        lhs_shape, rhs_shape = typeof(lhs).shape, typeof(rhs).shape
        if (
            not (1 <= len(lhs_shape) <= 2 and 1 <= len(rhs_shape) <= 2)
            or lhs_shape[-1] != rhs_shape[0]
        ):
            raise ValueError(
                "jax.lax.dot: dimension_numbers must be specified when not performing simple "
                "un-batched matrix-matrix, matrix-vector, or vector-vector products; got "
                f"lhs_shape={lhs_shape} rhs_shape={rhs_shape}"
            )
        dimension_numbers = (((len(lhs_shape) - 1,), (0,)), ((), ()))
    return dot_general(
        lhs, rhs, dimension_numbers, precision, preferred_element_type, out_sharding=out_sharding
    )


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: object = None) -> Array:
    """Products of matrices in the last two axes; the axes before them agree.

    Raises ValueError for operands of fewer than two axes or of different numbers of axes.

    >>> from teucer import lax
    >>> lax.batch_matmul(np.ones((5, 2, 3), np.float32), np.ones((5, 3, 4), np.float32)).shape
    (5, 2, 4)
    """
    lhs_ndim, rhs_ndim = typeof(lhs).ndim, typeof(rhs).ndim
    if lhs_ndim < 2 or rhs_ndim < 2:
        raise ValueError(
            f"Arguments to batch_matmul must be at least 2D, got {lhs_ndim}, {rhs_ndim}"
        )
    if lhs_ndim != rhs_ndim:
        raise ValueError(
            f"Arguments to batch_matmul must have same ndim, got {lhs_ndim}, {rhs_ndim}"
        )
    batch = tuple(range(lhs_ndim - 2))
    return dot_general(lhs, rhs, (((lhs_ndim - 1,), (lhs_ndim - 2,)), (batch, batch)), precision)
