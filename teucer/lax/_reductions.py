"""Many elements made into one: sums, products, extremes, and reduction by any computation."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, Unpack, final

import numpy as np

from teucer._base import dtypes
from teucer._core import array_ops, dialects
from teucer._core.cost import Cost, of_operand
from teucer._core.jaxpr import ClosedJaxpr, eval_jaxpr
from teucer._core.primitive import Axis, Primitive
from teucer._core.stage import stage_flat, stage_jaxpr
from teucer._core.trace import Tracer, typeof
from teucer._core.types import ShapedArray
from teucer._core.typing import Array, ArrayLike
from teucer._devices import partition
from teucer._devices.partition import Labels, every, kept
from teucer._devices.shardings import explicit_sharding, typed
from teucer._devices.specs import UnreducedKind
from teucer._dimensions.dimensions import is_symbolic
from teucer._lower import hlo
from teucer._transform.batch import batch_flat
from teucer._transform.jvp import jvp_flat
from teucer._trees import pytrees
from teucer.lax import _elementwise, _structure
from teucer.lax._associative import total
from teucer.lax._costs import REDUCED
from teucer.lax._families import BOOL_OR_INT, NUMERIC, Accepts
from teucer.lax._identities import identity_of
from teucer.lax._shapes import bumped
from teucer.lax._structure import check_axes, reduce_sum_p

if TYPE_CHECKING:
    from teucer._core.typing import Arrays, Aval, Axes, Dims, Params, Partition, Values
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value
    from teucer._xla.pytree import PyTreeDef

    class ReduceParams(TypedDict):
        computation: Callable[..., object]
        jaxpr: ClosedJaxpr
        dimensions: Sequence[int]


__all__ = [
    "reduce", "reduce_and", "reduce_and_p", "reduce_max", "reduce_max_p", "reduce_min",
    "reduce_min_p", "reduce_or", "reduce_or_p", "reduce_p", "reduce_prod", "reduce_prod_p",
    "reduce_sum", "reduce_xor", "reduce_xor_p",
]  # fmt: skip

ORDERED = Accepts((np.number, np.bool_))


def scalar_body(ctx: Context, op: str) -> Callable[..., Any]:
    """The body of a reduction by a StableHLO operation; complex numbers are ordered by real part,
    then imaginary."""

    def body(a: Any, b: Any) -> Any:
        if op in ("maximum", "minimum") and a.dtype.kind == "c":
            f = _elementwise.max if op == "maximum" else _elementwise.min
            return ctx.trace(lambda x, y: (f(x, y),), a, b)
        return (hlo.elementwise(ctx, op, a, b),)

    return body


class Reduction(Primitive):
    """x reduced over axes by an associative operation.  (C1) axes are distinct and within x.  (C2)
    the dtype is accepted."""

    __slots__ = ()
    cost = REDUCED

    def __init__(self, name: str, op: str, accepts: Accepts, refusal: str = "") -> None:
        self.name, self.op, self.accepts, self.refusal = name, op, accepts, refusal

    def types(self, x: ShapedArray, *, axes: Sequence[int]) -> Any:
        check_axes(x, axes)
        if x.dtype not in self.accepts:
            raise TypeError(
                f"{self.refusal}, got {x.dtype}."
                if self.refusal
                else (
                    f"{self.name} does not accept dtype {x.dtype}. Accepted dtypes are subtypes "
                    "of number."
                )
            )
        return (
            ShapedArray(
                tuple(d for i, d in enumerate(x.shape) if i not in axes), x.dtype, x.weak_type
            ),
        )

    def shard(self, x: ShapedArray, *, axes: Sequence[int], **params: object) -> Any:
        return Labels([every(x)], [kept(x, axes)])

    def lower(self, ctx: Context, x: Value, *, axes: Sequence[int]) -> Any:
        init = ctx.constant(identity_of(self.op, x.dtype), x.dtype)
        bits = self.op in ("and", "or", "xor") and (self.op == "xor" or x.dtype != np.bool_)
        if bits or (x.dtype.kind == "c" and self.op in ("maximum", "minimum")):
            x = ctx.whole(x, axes)  # devices have no such reductions between them
        if self.op in ("maximum", "minimum") and x.dtype.kind != "c":
            return (hlo.extreme(ctx, x, init, axes, self.op),)
        return hlo.reduce(ctx, [x], [init], axes, scalar_body(ctx, self.op))

    def batch(self, axis: object, args: Arrays, dims: Sequence[int], *, axes: Sequence[int]) -> Any:
        (dim,) = dims
        return self.call(*args, axes=bumped(axes, dim)), (dim - sum(a < dim for a in axes),)

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Sequence[object],
        avals: Sequence[Aval],
        outs: Sequence[Array],
        *,
        axes: Sequence[int],
    ) -> Any:
        return self.call(
            sizes.mask(args[0], avals[0], identity_of(self.op, avals[0].dtype), axes), axes=axes
        )


@final
class Extreme(Reduction):
    """The greatest or least element. Its tangent is the mean of the tangents of all elements equal
    to it."""

    __slots__ = ()

    @partition.combines.rule
    def combines(self, kind: UnreducedKind) -> bool:
        return bool(self.op == f"{kind.name}imum")

    def jvp(self, primals: Arrays, tangents: Arrays, *, axes: Sequence[int]) -> Any:
        (x,), (t,) = primals, tangents
        outs = self.call(x, axes=axes)
        shape = [1 if i in axes else d for i, d in enumerate(np.shape(x))]
        same = _structure.broadcast_to(
            _structure.reshape(outs[0], shape), np.shape(x), range(len(shape))
        )
        chosen = _structure.convert_element_type(_elementwise.eq(x, same), typeof(t).dtype)
        total = _structure.reduce_sum(_elementwise.mul(t, chosen), axes)
        return outs, (_elementwise.div(total, _structure.reduce_sum(chosen, axes)),)


@final
class ExtremeOfParts(Primitive):
    """The greatest or least element of each device's part of x, over mesh axes along which x is
    divided and the extreme is still to be taken.

    (C1) axes are distinct and within x.  (C2) the dtype is ordered.  (C3) out_sharding is unreduced
    over mesh axes of the axes that are reduced, and of the kind that the reduction is.
    """

    __slots__ = ()
    cost = REDUCED

    def __init__(self, whole: Extreme, kind: UnreducedKind) -> None:
        self.name, self.whole, self.kind = whole.name, whole, kind

    def types(self, x: ShapedArray, *, axes: Axes, out_sharding: Partition) -> Any:
        partition.check_parts(x, axes, out_sharding, self.name, self.kind)
        (y,) = self.whole.types(x, axes=axes)
        return (y.update(sharding=typed(out_sharding, y.ndim)),)

    def shard(self, x: ShapedArray, *, axes: Axes, **params: object) -> Any:
        return self.whole.shard(x, axes=axes)

    @partition.combines.rule
    def combines(self, kind: UnreducedKind) -> bool:
        return kind is self.kind

    def lower(self, ctx: Context, x: Value, *, axes: Axes, out_sharding: Partition) -> Any:
        return self.whole.lower(ctx, x, axes=axes)

    def jvp(self, primals: Sequence[Array], tangents: object, **params: Any) -> NoReturn:
        raise NotImplementedError(
            f"{self.name} with the out_sharding {params['out_sharding'].spec} cannot be "
            f"differentiated: no tangents belong to parts of which the {self.kind.name} is still "
            f"to be taken.\n    operand: {typeof(primals[0]).str_short()}\n  Leave out the "
            "unreduced axes."
        )

    def batch(
        self, axis: Axis, args: Arrays, dims: Sequence[int], *, axes: Axes, out_sharding: Partition
    ) -> Any:
        (x,), (dim,) = args, dims
        at, ndim = dim - sum(a < dim for a in axes), typeof(x).ndim - 1 - len(axes)
        return self.call(
            x,
            axes=bumped(axes, dim),
            out_sharding=partition.batched(out_sharding, ndim, at, axis, args, dims),
        ), (at,)


@final
class Product(Reduction):
    """The product. Its tangent is computed without division, so that zeros among the factors do no
    harm."""

    __slots__ = ()

    def jvp(self, primals: Arrays, tangents: Arrays, *, axes: Sequence[int]) -> Any:
        (x,), (t,) = primals, tangents
        outs = self.call(x, axes=axes)
        if not axes:
            return outs, (t,)

        def combine(a: Any, b: Any) -> Any:
            mul, add = _elementwise.mul, _elementwise.add
            return [mul(a[0], b[0]), add(mul(a[1], b[0]), mul(a[0], b[1]))]

        found = total(combine, [x, t], axes, (1, 0))
        return outs, ((typeof(outs[0]).zero if found is None else found[1]),)


@final
class Reduce(Primitive):
    """Arrays reduced together by a computation on scalars, which is taken to be associative.

    Operands are the arrays, then their initial values.  (C1) arrays have one shape.  (C2) initial
    values are scalars of the arrays' dtypes.  (C3) axes are distinct and within them.  (C4) the
    computation returns the types that it takes.
    """

    __slots__ = ()
    name = "reduce"
    cost = Cost(operations=of_operand)
    multiple_results = True

    def types(
        self,
        *operands: ShapedArray,
        computation: Callable[..., object],
        jaxpr: ClosedJaxpr,
        dimensions: Sequence[int],
    ) -> Any:
        n = len(operands) // 2
        xs, inits = operands[:n], operands[n:]
        if any(init.shape for init in inits):
            raise ValueError(
                f"reduce found non-scalar initial value: {[init.shape for init in inits]}"
            )
        if any(x.shape != xs[0].shape for x in xs):
            raise ValueError(
                f"reduce: operands differ in shape.\n    operands: {', '.join(map(str, xs))}"
            )
        for x, init in zip(xs, inits, strict=True):
            check_axes(x, dimensions)
            if x.dtype != init.dtype:
                raise TypeError(
                    "reduce: an initial value has not the dtype of its operand.\n"
                    f"    operand: {x.str_short(True)}\n    initial value: {init.str_short(True)}"
                )
        check_computation("reduce", jaxpr, xs)
        shape = tuple(d for i, d in enumerate(xs[0].shape) if i not in dimensions)
        return tuple(ShapedArray(shape, x.dtype, x.weak_type) for x in xs)

    def shard(self, *operands: ShapedArray, **params: Unpack[ReduceParams]) -> Any:
        return Labels([every(x) for x in operands], [kept(operands[0], params["dimensions"])])

    def lower(self, ctx: Context, *values: Value, **params: Unpack[ReduceParams]) -> Any:
        jaxpr, dimensions = params["jaxpr"], params["dimensions"]
        n = len(values) // 2
        op = extreme_of(jaxpr)
        if op is not None and values[0].dtype.kind != "c":
            x, init = values
            none = ctx.constant(identity_of(op, x.dtype), x.dtype)
            y = hlo.extreme(ctx, x, none, dimensions, op)
            return (hlo.elementwise(ctx, op, hlo.broadcast_in_dim(ctx, init, y.shape, ()), y),)
        xs = [
            ctx.whole(x, dimensions) for x in values[:n]
        ]  # devices have no reductions of any kind between them
        return hlo.reduce(ctx, xs, values[n:], dimensions, lambda *ab: ctx.inline(jaxpr, *ab))

    def jvp(
        self, primals: Sequence[ArrayLike], tangents: Values, **params: Unpack[ReduceParams]
    ) -> Any:
        outs = self.call(*primals, **params)
        _, moved = jvp_flat(
            lambda *zs: _reduce_by_halves(params["jaxpr"], zs, params["dimensions"]),
            primals,
            tangents,
        )
        return outs, tuple(moved)

    def batch(
        self, axis: Axis, args: Sequence[ArrayLike], dims: Dims, **params: Unpack[ReduceParams]
    ) -> Any:
        dimensions = params["dimensions"]
        n = len(args) // 2
        if any(d is not None for d in dims[n:]):
            outs, out_dims = batch_flat(
                lambda *zs: _reduce_by_halves(params["jaxpr"], zs, dimensions), axis, args, dims
            )
            return tuple(outs), tuple(out_dims)
        at = next(d for d in dims if d is not None)
        xs = [
            array_ops.to_axis(x, d, axis.size, at) for x, d in zip(args[:n], dims[:n], strict=True)
        ]
        reduced = self.call(*xs, *args[n:], **{**params, "dimensions": bumped(dimensions, at)})
        return reduced, (at - sum(d < at for d in dimensions),) * n

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Sequence[Array],
        avals: Sequence[Aval],
        outs: Sequence[Array],
        **params: Unpack[ReduceParams],
    ) -> Any:
        n = len(args) // 2
        inside = sizes.inside(avals[0].shape, params["dimensions"])
        if inside is None:
            return self.call(*args, **params)
        return self.call(
            *args[:n],
            inside,
            *args[n:],
            np.bool_(True),
            **{**params, "jaxpr": guarded(params["jaxpr"])},
        )[:n]


def extreme_of(jaxpr: ClosedJaxpr) -> str | None:
    """ "maximum" or "minimum" if a computation is this function of two numbers; else None."""
    if len(jaxpr.eqns) != 1 or len(jaxpr.in_avals) != 2:
        return None
    (eqn,), (a, b) = jaxpr.eqns, jaxpr.jaxpr.invars
    both = list(eqn.invars) in ([a, b], [b, a])
    both = both and list(jaxpr.jaxpr.outvars) == list(eqn.outvars)
    return _EXTREMES.get(eqn.primitive) if both else None


_EXTREMES: dict[Primitive, str] = {_elementwise.max_p: "maximum", _elementwise.min_p: "minimum"}


def _reduce_by_halves(
    jaxpr: ClosedJaxpr, operands: Sequence[Any], dimensions: Sequence[int]
) -> list[Any]:
    """`reduce` by operations on whole arrays, which can be transformed."""
    n = len(operands) // 2

    def combine(a: Any, b: Any) -> Any:
        return apply_scalar_jaxpr(jaxpr, [*a, *b])

    found = total(combine, operands[:n], dimensions, operands[n:])
    if any(is_symbolic(np.shape(operands[0])[d]) for d in dimensions):
        assert found is not None
        return found  # the initial values came first
    shape = [d for i, d in enumerate(np.shape(operands[0])) if i not in dimensions]
    inits = [_structure.broadcast_to(init, shape, ()) for init in operands[n:]]
    return inits if found is None else combine(inits, found)


def apply_scalar_jaxpr(jaxpr: ClosedJaxpr, xs: Sequence[Array]) -> list[Any]:
    """A jaxpr of scalars applied to the corresponding elements of arrays."""
    shape = np.shape(xs[0])
    if not shape:
        return list(eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *xs))
    size = math.prod(shape)
    flat = [_structure.reshape(x, (size,)) for x in xs]
    outs, dims = batch_flat(
        lambda *s: eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *s), Axis(size), flat, [0] * len(flat)
    )
    return [
        _structure.reshape(array_ops.to_axis(y, d, size, 0), shape)
        for y, d in zip(outs, dims, strict=True)
    ]


def guarded(jaxpr: ClosedJaxpr) -> ClosedJaxpr:
    """A reduction's computation on marked elements, where a mark says whether the element counts.

    If only one of two elements counts, the result is that element.
    """
    n = len(jaxpr.in_avals) // 2

    def both(*xs: Any) -> list[Any]:
        a, p, b, q = xs[:n], xs[n], xs[n + 1 : -1], xs[-1]
        combined = eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *a, *b)
        outs = [
            _elementwise.select(p, _elementwise.select(q, c, x), y)
            for c, x, y in zip(combined, a, b, strict=True)
        ]
        return [*outs, _elementwise.bitwise_or(p, q)]

    mark = ShapedArray((), np.dtype(bool))
    made: ClosedJaxpr = jaxpr.kept(
        "guarded", lambda: stage_jaxpr(both, [*jaxpr.in_avals[:n], mark, *jaxpr.in_avals[n:], mark])
    )
    return made


def check_computation(op: str, jaxpr: ClosedJaxpr, avals: Sequence[ShapedArray]) -> None:
    """Raise if a reduction's computation does not return scalars of the dtypes that it takes."""
    outs = jaxpr.out_avals
    if len(outs) != len(avals):
        raise ValueError(
            f"{op}: the computation returns {len(outs)} values for {len(avals)} operands."
        )
    for i, (out, x) in enumerate(zip(outs, avals, strict=True)):
        if out.shape or out.dtype != x.dtype:
            raise TypeError(
                f"{op}: the computation does not return a scalar of its operand's dtype.\n"
                f"    operand {i}: {x.str_short(True)}\n    returned: {out.str_short(True)}"
            )


def scalar_computation(
    op: str, f: Callable[..., Sequence[object]], avals: Sequence[ShapedArray]
) -> ClosedJaxpr:
    """A function of flat scalars as a jaxpr, for the region of a reduction.

    Raises NotImplementedError if it uses traced values from outside.
    """
    jaxpr, consts = stage_flat(f, [ShapedArray((), a.dtype) for a in avals])
    if any(isinstance(c, Tracer) for c in consts):
        raise NotImplementedError(
            f"{op}: Reduction computations can't close over Tracers.\n"
            "  The computation uses a value that is being traced; give it as part of the "
            "operands."
        )
    return ClosedJaxpr(jaxpr, consts)


def tree_computation(
    op: str, computation: Callable[..., object], tree: PyTreeDef, avals: Sequence[ShapedArray]
) -> tuple[ClosedJaxpr, Any]:
    """A computation on two trees of scalars as a jaxpr, and the tree of its results."""
    out_trees = []

    def flat(*ab: object) -> Any:
        leaves, out_tree = pytrees.tree_flatten(
            computation(
                pytrees.tree_unflatten(tree, ab[: len(avals)]),
                pytrees.tree_unflatten(tree, ab[len(avals) :]),
            )
        )
        out_trees.append(out_tree)
        return leaves

    return scalar_computation(op, flat, [*avals, *avals]), out_trees[-1]


reduce_max_p = Extreme("reduce_max", "maximum", ORDERED)
reduce_min_p = Extreme("reduce_min", "minimum", ORDERED)
_OF_PARTS: dict[Primitive, Primitive] = {
    reduce_max_p: ExtremeOfParts(reduce_max_p, UnreducedKind.max),
    reduce_min_p: ExtremeOfParts(reduce_min_p, UnreducedKind.min),
}
reduce_prod_p = Product("reduce_prod", "multiply", NUMERIC)
_LOGICAL = "logical reduction requires operand dtype bool or int"
reduce_and_p = Reduction("reduce_and", "and", BOOL_OR_INT, _LOGICAL)
reduce_or_p = Reduction("reduce_or", "or", BOOL_OR_INT, _LOGICAL)
reduce_xor_p = Reduction("reduce_xor", "xor", BOOL_OR_INT, _LOGICAL)
reduce_p = Reduce()


def _axes(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(operator.index(a) for a in axes)


def reduce_sum(operand: ArrayLike, axes: Sequence[int], *, out_sharding: object = None) -> Array:
    """The sum of elements over axes, which are counted from the front.

    Raises ValueError if they are out of bounds or repeated, TypeError if elements are not numbers.

    >>> reduce_sum(np.float32([[1, 2], [3, 4]]), (0,))
    Array([4., 6.], dtype=float32)
    """
    axes = _axes(axes)
    return reduce_sum_p.call(
        operand,
        axes=axes,
        out_sharding=explicit_sharding(
            "reduce_sum", out_sharding, typeof(operand).ndim - len(axes)
        ),
    )[0]


def reduce_max(operand: ArrayLike, axes: Sequence[int], *, out_sharding: object = None) -> Array:
    """The greatest element over axes; NaN if one is NaN, the least value of the dtype if there is
    none.

    >>> reduce_max(np.float32([[1, 2], [3, 4]]), (0,))
    Array([3., 4.], dtype=float32)
    """
    return _laid_out(reduce_max_p, "reduce_max", operand, axes, out_sharding)


def reduce_min(operand: ArrayLike, axes: Sequence[int], *, out_sharding: object = None) -> Array:
    """The least element over axes; NaN if one is NaN, the greatest value of the dtype if there is
    none.

    >>> reduce_min(np.float32([[1, 2], [3, 4]]), (0,))
    Array([1., 2.], dtype=float32)
    """
    return _laid_out(reduce_min_p, "reduce_min", operand, axes, out_sharding)


def _laid_out(
    primitive: Primitive, name: str, operand: ArrayLike, axes: Sequence[int], out_sharding: object
) -> Array:
    where = explicit_sharding(name, out_sharding, typeof(operand).ndim - len(axes))
    if where is not None and where.spec.unreduced:
        return _OF_PARTS[primitive].call(operand, axes=_axes(axes), out_sharding=where)[0]
    result = primitive.call(operand, axes=_axes(axes))[0]
    return result if where is None else array_ops.lay_out(result, where)


def reduce_prod(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The product of elements over axes.

    >>> reduce_prod(np.float32([[1, 2], [3, 4]]), (0,))
    Array([3., 8.], dtype=float32)
    """
    return reduce_prod_p.call(operand, axes=_axes(axes))[0]


def reduce_and(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The bitwise and of booleans or integers over axes.

    >>> reduce_and(np.array([[True, True], [False, True]]), (0,))
    Array([False,  True], dtype=bool)
    """
    return reduce_and_p.call(operand, axes=_axes(axes))[0]


def reduce_or(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The bitwise or of booleans or integers over axes.

    >>> reduce_or(np.int32([1, 2]), (0,))
    Array(3, dtype=int32)
    """
    return reduce_or_p.call(operand, axes=_axes(axes))[0]


def reduce_xor(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The bitwise exclusive or of booleans or integers over axes.

    >>> reduce_xor(np.int32([1, 3]), (0,))
    Array(2, dtype=int32)
    """
    return reduce_xor_p.call(operand, axes=_axes(axes))[0]


def reduce(
    operands: Sequence[ArrayLike] | ArrayLike,
    init_values: object,
    computation: Callable[..., object],
    dimensions: Sequence[int],
    out_sharding: object = None,
) -> Any:
    """Arrays reduced together over axes by any associative computation on scalars.

    operands, init_values: trees of one structure; computation takes two such trees of scalars and
    returns one with as many leaves, the tree of the result.
    The initial value may enter the result any number of times, so it should be the computation's
    identity.
    out_sharding: how the results are to lie over Explicit mesh axes.
    Raises ValueError if structures, shapes or axes do not fit.

    >>> from teucer import lax
    >>> reduce(np.float32([1, 2, 3]), np.float32(0), lambda a, b: lax.add(a, b), (0,))
    Array(6., dtype=float32)
    """
    if out_sharding is not None:
        where = explicit_sharding("reduce", out_sharding, None)
        outs = reduce(operands, init_values, computation, dimensions)
        return pytrees.tree_map(lambda y: array_ops.lay_out(y, where), outs)
    xs, tree = pytrees.tree_flatten(operands)
    inits, init_tree = pytrees.tree_flatten(init_values)
    if tree != init_tree:
        raise ValueError(
            f"Operands must have the same tree structure as init_values: {tree} vs. {init_tree}"
        )
    axes = _axes(dimensions)
    avals = [typeof(x) for x in xs]
    if len(xs) == 1:
        named = monoid(computation, inits[0], avals[0], _NAMED)
        if named is not None:
            return named(xs[0], axes)
    jaxpr, out_tree = tree_computation("reduce", computation, tree, avals)
    outs = reduce_p.call(*xs, *inits, computation=computation, jaxpr=jaxpr, dimensions=axes)
    return pytrees.tree_unflatten(out_tree, outs)


_NAMED: dict[str, Callable[..., Any]] = {
    "add": reduce_sum,
    "multiply": reduce_prod,
    "maximum": reduce_max,
    "minimum": reduce_min,
    "and": reduce_and,
    "or": reduce_or,
    "xor": reduce_xor,
}


def monoid(
    computation: Callable[..., object], init: ArrayLike, aval: ShapedArray, named: Params
) -> Any:
    """The named reduction that equals a computation with its initial value; None if there is
    none."""
    lax = _elementwise
    names = {
        lax.add: "add",
        lax.mul: "multiply",
        lax.max: "maximum",
        lax.min: "minimum",
        lax.bitwise_and: "and",
        lax.bitwise_or: "or",
        lax.bitwise_xor: "xor",
    }
    try:
        op = names.get(computation)
    except TypeError:
        return None
    if op is None or isinstance(init, Tracer) or np.ndim(init):
        return None
    if aval.dtype == np.bool_:
        op = {"maximum": "or", "minimum": "and"}.get(op, op)
    if not dtypes.issubdtype(aval.dtype, np.number) and aval.dtype != np.bool_:
        return None
    given, identity = np.asarray(init), np.asarray(identity_of(op, aval.dtype))
    # An infinity that the dtype does not have stands for the end of its range.
    beyond = (
        op in ("maximum", "minimum") and np.isinf(given) and np.sign(given) == np.sign(identity)
    )
    return named.get(op) if given == identity or beyond else None
