"""Jacobians without products by the identity: tangents along the standard basis stay diagonals.

A Jacobian is the derivative of each element of a basis. The basis is a diagonal: of its N elements
the k-th is zero but for place k. It remains one under elementwise operations, and its product with
a matrix is that matrix, scaled. So a trace below `vmap` keeps diagonals as the numbers on them, and
writes them out where an operation has no rule here. A value that is repeated along the basis is
kept once.

Where a derivative is infinite the other places are zero, not the NaN that infinity times zero is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._core import array_ops
from teucer._core.leaks import check_leaks
from teucer._core.primitive import Axis
from teucer._core.trace import Trace, Tracer, current_trace, end, typeof, using
from teucer._derived.rules_table import Rules
from teucer._transform.batch import batch_flat, unmapped_aval
from teucer._transform.library import library
from teucer.lax import _arithmetic as ops
from teucer.lax import _shapes, _structure
from teucer.lax._dot import dot_general_p
from teucer.lax._selection import select_n

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Params, Value


def on_basis(
    f: Callable[[Value], Sequence[Value]], aval: ShapedArray
) -> tuple[list[Any], list[int | None]]:
    """The results of a linear function of one value for the standard basis, in the form of
    `batch_flat`."""
    trace = _Diagonals(current_trace(), aval.size)
    ones = array_ops.ones(aval.tangent_aval())
    basis = _Structured(trace, ones, 0, is_diagonal=True, is_unit=True)
    with using(trace):
        outs, dims = batch_flat(f, Axis(aval.size), [basis], [0])
    outs = [trace.written(y) for y in outs]
    end(trace)
    del basis
    check_leaks(trace)
    return outs, dims


@final
class _Structured(Tracer):
    """An array with an axis more than `value`.

    It holds the elements of `value` on a diagonal, element i at place i of the axis, or `value`
    again at each place.
    is_unit: whether the elements are known to be ones.
    """

    __slots__ = ("axis", "is_diagonal", "is_unit", "value")

    def __init__(
        self, trace: Trace, value: Value, axis: int, *, is_diagonal: bool, is_unit: bool = False
    ) -> None:
        self._trace, self.value, self.axis = trace, value, axis
        self.is_diagonal, self.is_unit = is_diagonal, is_unit

    @property
    def aval(self) -> Any:
        trace: Any = self._trace
        return unmapped_aval(typeof(self.value), self.axis, trace.size)


@final
class _Diagonals(Trace):
    """Keeps diagonals of `size` elements, and gives all else to its parent."""

    __slots__ = ("size",)

    def __init__(self, parent: Trace, size: int) -> None:
        super().__init__(parent)
        self.size = size

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Params
    ) -> tuple[Any, ...]:
        parent = self.parent
        assert parent is not None
        with using(parent):
            rule = _rules.get(primitive)
            found = rule(self, args, params) if rule is not None else None
            if found is not None:
                return (found,)
            return parent.process(primitive, tuple([self.written(x) for x in args]), params)

    def is_own(self, x: Value) -> bool:
        return type(x) is _Structured and x._trace is self

    def written(self, x: Value) -> Any:
        """An array in memory."""
        if type(x) is not _Structured or x._trace is not self:
            return x
        if x.is_diagonal:
            return _diagonal(x.value, x.axis)
        others = [i for i in range(x.ndim) if i != x.axis]
        value: Any = x.value
        return _shapes.broadcast_in_dim(value, x.shape, others)

    def structured(self, like: _Structured, value: Value, *, is_unit: bool = False) -> _Structured:
        """Other elements in the places of `like`."""
        return _Structured(self, value, like.axis, is_diagonal=like.is_diagonal, is_unit=is_unit)

    def __repr__(self) -> str:
        return "the basis of a Jacobian"


@library(static=("axis",))
def _diagonal(x: Any, axis: int) -> Any:
    """The array that has x on its diagonal: element i at place i of an axis more."""
    flat = _structure.reshape(x, (x.size,))
    square = (x.size, x.size)
    places = [_shapes.broadcasted_iota(np.int32, square, i) for i in (0, 1)]
    zeros = array_ops.zeros(typeof(flat).update(shape=square))
    matrix = select_n(ops.eq(*places), zeros, _shapes.broadcast_in_dim(flat, square, (1,)))
    return array_ops.moveaxis(_structure.reshape(matrix, (x.size, *x.shape)), 0, axis)


@library(static=("inner", "dtype"))
def _rows_of(matrix: Any, inner: tuple[int, ...], dtype: Any, scale: Any = None) -> Any:
    """The matrix as rows, one for each index of its inner axes, each scaled by a number."""
    outer = [i for i in range(matrix.ndim) if i not in inner]
    n = math.prod([matrix.shape[i] for i in inner])
    rows = _structure.transpose(matrix, (*inner, *outer))
    rows = _as_type(_structure.reshape(rows, (n, *[matrix.shape[i] for i in outer])), dtype)
    if scale is None:
        return rows
    scale = _as_type(_structure.reshape(scale, (n,)), dtype)
    return ops.mul(rows, _shapes.broadcast_in_dim(scale, rows.shape, (0,)))


def _as_type(x: Any, dtype: Any) -> Any:
    return array_ops.convert(x, typeof(x).update(dtype=dtype, weak_type=False))


Rule = Callable[[_Diagonals, tuple[Any, ...], Any], Any]
# (trace, args, params) -> the result; None if the operands have to be written out.
_rules: Rules[Rule] = Rules("diagonals")


def _elementwise(primitive: Primitive, is_linear: Callable[..., bool]) -> None:
    """A rule for operations that are zero where their diagonal operands are.

    is_linear: (which operands are diagonals) -> whether that holds.
    """

    def rule(trace: _Diagonals, args: tuple[Any, ...], params: Params) -> Any:
        own = [x for x in args if trace.is_own(x)]
        diagonals = [x for x in own if x.is_diagonal]
        first = next(iter(diagonals or own), None)
        if first is None or any(x.axis != first.axis for x in own):
            return None
        if any(np.ndim(x) for x in args if not trace.is_own(x)):
            return None
        if diagonals and not is_linear(*[trace.is_own(x) and x.is_diagonal for x in args]):
            return None
        values = [x.value if trace.is_own(x) else x for x in args]
        if primitive is ops.mul_p and diagonals == [first] and first.is_unit:
            scaled = values[0] if args[1] is first else values[1]
            if typeof(scaled) is typeof(first.value):
                return trace.structured(first, scaled)
        return trace.structured(first, *primitive.call(*values, **params))

    _rules[primitive] = rule


for _unary in (ops.neg_p, ops.real_p, ops.imag_p, ops.conj_p):
    _elementwise(_unary, lambda x: x)
for _sum_p in (ops.add_p, ops.sub_p):
    _elementwise(_sum_p, lambda x, y: x and y)
_elementwise(_structure.add_any_p, lambda x, y: x and y)
_elementwise(ops.mul_p, lambda x, y: x != y)
_elementwise(ops.div_p, lambda x, y: x and not y)


@_rules.define(_structure.convert_element_type_p)
def _convert(trace: _Diagonals, args: tuple[Any, ...], params: Params) -> Any:
    (x,) = args
    if not trace.is_own(x):
        return None
    (y,) = _structure.convert_element_type_p.call(x.value, **params)
    return trace.structured(x, y, is_unit=x.is_unit)


@_rules.define(_structure.broadcast_in_dim_p)
def _broadcast(trace: _Diagonals, args: tuple[Any, ...], params: Params) -> Any:
    """A value that is repeated along one more axis is kept once."""
    x, aval = args[0], typeof(args[0])
    shape, dims = params["shape"], tuple(params["broadcast_dimensions"])
    if len(args) > 1 or trace.is_own(x) or params.get("sharding") is not None:
        return None
    added = [i for i in range(len(shape)) if i not in dims]
    if len(added) != 1 or shape[added[0]] != trace.size or dims != tuple(sorted(dims)):
        return None
    if tuple(shape[i] for i in dims) != aval.shape:
        return None
    return _Structured(trace, x, added[0], is_diagonal=False)


@_rules.define(_structure.reshape_p)
def _reshape(trace: _Diagonals, args: tuple[Any, ...], params: Params) -> Any:
    x, shape = args[0], params["new_sizes"]
    if len(args) > 1 or not trace.is_own(x) or params.get("sharding") is not None:
        return None
    if x.axis or not shape or shape[0] != trace.size or params.get("dimensions") is not None:
        return None
    return trace.structured(x, _structure.reshape(x.value, shape[1:]), is_unit=x.is_unit)


@_rules.define(_structure.transpose_p)
def _transpose(trace: _Diagonals, args: tuple[Any, ...], params: Params) -> Any:
    """Transpose a diagonal. The axis of the basis may move if the other axes keep their order."""
    (x,), permutation = args, params["permutation"]
    if not trace.is_own(x):
        return None
    others = [i for i in permutation if i != x.axis]
    if others != sorted(others):
        return None
    axis = permutation.index(x.axis)
    return _Structured(trace, x.value, axis, is_diagonal=x.is_diagonal, is_unit=x.is_unit)


@_rules.define(_structure.reduce_sum_p)
def _sum(trace: _Diagonals, args: tuple[Any, ...], params: Params) -> Any:
    """A sum over all of each element of a diagonal."""
    (x,) = args
    if not trace.is_own(x) or not x.is_diagonal or params.get("out_sharding") is not None:
        return None
    if sorted([*params["axes"], x.axis]) != list(range(x.ndim)):
        return None
    return _structure.reshape(x.value, (trace.size,))


@_rules.define(dot_general_p)
def _product(trace: _Diagonals, args: tuple[Any, ...], params: Params) -> Any:
    """A matrix scaled, where a product sums over all of each element of a diagonal."""
    x, y = args
    is_left = trace.is_own(x) and x.is_diagonal
    if is_left is (trace.is_own(y) and y.is_diagonal) or params.get("out_sharding") is not None:
        return None
    contracted, batched = params["dimension_numbers"]
    if batched[0]:
        return None
    diagonal, matrix = (x, trace.written(y)) if is_left else (y, trace.written(x))
    over, across = contracted if is_left else contracted[::-1]
    if sorted([*over, diagonal.axis]) != list(range(diagonal.ndim)):
        return None
    # The axes of the matrix, in the order of the axes of the diagonal that they meet.
    _, inner = zip(*sorted(zip(over, across, strict=True)), strict=True)
    (aval,) = dot_general_p.types(typeof(x), typeof(y), **params)
    scale = None if diagonal.is_unit else diagonal.value
    rows = _rows_of(matrix, inner, aval.dtype, scale)
    return rows if is_left else array_ops.moveaxis(rows, 0, aval.ndim - 1)
