"""The same numbers in another dtype, the same bits in another dtype, the same value where
differentiation stops.

And a symbolic dimension as a number.
"""

from __future__ import annotations

import cmath
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import dtypes, errors
from teucer._core import dialects
from teucer._core.cost import Subnormals
from teucer._core.high import low_values
from teucer._core.primitive import Primitive
from teucer._core.trace import Tracer, typeof
from teucer._core.types import ShapedArray
from teucer._core.typing import Array, ArrayLike, DTypeLike
from teucer._devices import partition
from teucer._devices.partition import Labels, every, whole
from teucer._dimensions.dimensions import Dimension
from teucer._lower import hlo
from teucer._trees import pytrees
from teucer.lax import _structure
from teucer.lax._costs import FUSED, MOVE
from teucer.lax._families import FLOAT, check_dtypes
from teucer.lax._structure import Linear, convert_element_type_p

if TYPE_CHECKING:
    from teucer._core.primitive import Axis, Undefined
    from teucer._core.typing import Arrays, Atom, Avals, Dims, DType
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = [
    "bitcast_convert_type", "bitcast_convert_type_p", "convert_element_type",
    "convert_element_type_p", "copy_p", "reduce_precision", "reduce_precision_p", "stop_gradient",
    "stop_gradient_p",
]  # fmt: skip


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike | DType | None) -> Array:
    """The operand's numbers as another dtype, which is never weak.

    operand: T[shape]; new_dtype: a dtype, its name, or a Python scalar type  ->  new_dtype[shape]
    Floats become integers by rounding towards zero, complex numbers real by dropping the imaginary
    part (with a warning), numbers become booleans by != 0. The result for a float out of the
    integers' range depends on the platform. Raises ValueError if new_dtype is None, or only one of
    the dtypes is of typed keys.

    >>> from teucer import lax
    >>> lax.convert_element_type(2.75, 'int32')
    Array(2, dtype=int32)
    """
    if new_dtype is None:
        raise ValueError("convert_element_type: dtype must be specified.")
    dtype = _checked_dtype(new_dtype, "convert_element_type")
    if type(operand) in (int, complex):
        operand = _of_number(operand, dtype)
    array: Any = operand
    aval = typeof(array)
    if dtypes.is_extended(dtype) or dtypes.is_extended(aval.dtype):
        if dtype == aval.dtype:
            return array
        raise ValueError(
            f"Cannot convert_element_type from {aval.dtype.name} to {dtype.name}.\n"
            "  jax.random.key_data and jax.random.wrap_key_data convert typed keys."
        )
    dtypes.report_dropped(aval.dtype, dtype)
    return _structure.convert_element_type(
        array.as_array() if isinstance(array, Tracer) else array, dtype
    )


def _of_number(x: Any, dtype: DTypeLike) -> Any:
    """A number of Python that its own dtype may not hold, ready to be converted.

    Raises TypeError for a complex number that is to be real, but for one that is not finite, as in
    JAX.
    """
    if type(x) is complex and not cmath.isfinite(x):
        return x
    if type(x) is complex:
        if dtype == np.bool_:
            return bool(x)
        if dtypes.issubdtype(dtype, np.complexfloating):
            return x
        number: Any = x  # int and float raise the TypeError
        return int(number) if dtypes.issubdtype(dtype, np.integer) else float(number)
    if dtypes.issubdtype(dtype, np.inexact):
        return float(x)
    if dtype == np.bool_ or not dtypes.issubdtype(dtype, np.integer):
        return x
    bits = dtypes.iinfo(dtype).bits
    wrapped = x & ((1 << bits) - 1)
    return (
        wrapped - (1 << bits) if dtypes.iinfo(dtype).min < 0 and wrapped >> (bits - 1) else wrapped
    )


def _checked_dtype(dtype: DTypeLike | DType, op: str) -> Any:
    """A dtype that the user gave, at the widths in force."""
    return dtypes.check_user_dtype_supported(dtype, op)


@final
class BitcastConvertType(Primitive):
    """The operand's bits as another dtype.

    (C1) the dtypes are the same, or neither is boolean or complex.  (C2) a narrower dtype adds a
    last axis; for a wider one the operand's last axis holds the parts of one element.
    """

    __slots__ = ()
    name = "bitcast_convert_type"
    cost = MOVE._replace(subnormals=Subnormals.READ)

    def types(self, x: ShapedArray, *, new_dtype: DType) -> Any:
        old, new = dtypes.bit_width(x.dtype), dtypes.bit_width(new_dtype)
        shape = x.shape
        if old > new:
            shape = (*shape, old // new)
        elif old < new:
            if not shape or shape[-1] * old != new:
                held = shape[-1] if shape else 1
                raise ValueError(
                    f"Attempting to convert array of shape {shape} from {x.dtype.name} of size "
                    f"{old} bits to {new_dtype.name} of size {new} bits, but {held} * {old} != "
                    f"{new}.\n  The last axis must have size {new // old}."
                )
            shape = shape[:-1]
        if x.dtype != new_dtype and (_has_no_bits(x.dtype) or _has_no_bits(new_dtype)):
            raise TypeError(
                "lax.bitcast_convert_type does not support bool or complex values unless the "
                f"operand and destination types match. Got operand dtype={x.dtype.name}, "
                f"new_dtype={new_dtype.name}. Consider using the arr.view() method instead."
            )
        return (ShapedArray(shape, new_dtype),)

    def shard(self, x: ShapedArray, **params: object) -> Any:
        same = dtypes.bit_width(x.dtype) >= dtypes.bit_width(params["new_dtype"])
        return Labels([every(x) if same else whole(x, (x.ndim - 1,))], [every(x)])

    def lower(self, ctx: Context, x: Value, *, new_dtype: DTypeLike) -> Any:
        return (hlo.bitcast_convert(ctx, x, ctx.avals_out[0]),)

    def jvp(self, primals: Arrays, tangents: Sequence[object], *, new_dtype: DTypeLike) -> Any:
        outs = self.call(*primals, new_dtype=new_dtype)
        return outs, (typeof(outs[0]).zero,)

    def batch(self, axis: Axis, args: Arrays, dims: Sequence[int], *, new_dtype: DTypeLike) -> Any:
        return self.call(_structure.moveaxis(args[0], dims[0], 0), new_dtype=new_dtype), (0,)

    padded = dialects.through


def _has_no_bits(dtype: DTypeLike | DType) -> bool:
    return dtype == np.bool_ or dtypes.issubdtype(dtype, np.complexfloating)


@final
class ReducePrecision(Linear):
    """x rounded to a floating format of fewer bits, in its own dtype.

    (C1) exponent_bits > 0.  (C2) mantissa_bits >= 0.  (C3) x is floating.
    """

    __slots__ = ()
    name = "reduce_precision"
    cost = FUSED

    def types(self, x: ShapedArray, *, exponent_bits: int, mantissa_bits: int) -> Any:
        check_dtypes("reduce_precision", FLOAT, (x,))
        if exponent_bits < 1:
            raise ValueError(
                f"reduce_precision: exponent_bits must be positive; got {exponent_bits}."
            )
        if mantissa_bits < 0:
            raise ValueError(
                f"reduce_precision: mantissa_bits must be non-negative; got {mantissa_bits}."
            )
        return (x,)

    shard = partition.aligned

    def lower(self, ctx: Context, x: Value, *, exponent_bits: int, mantissa_bits: int) -> Any:
        return (
            ctx.op1(
                "stablehlo.reduce_precision",
                (x,),
                ctx.avals_out[0],
                f"exponent_bits = {exponent_bits} : i32, mantissa_bits = {mantissa_bits} : i32",
            ),
        )

    def transpose(self, cts: Sequence[object], x: ArrayLike | Undefined, **params: object) -> Any:
        return self.call(*cts, **params)

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims, **params: object) -> Any:
        return self.call(*args, **params), dims

    padded = dialects.through


@final
class Copy(Linear):
    """x in a buffer of its own."""

    __slots__ = ()
    name = "copy"
    combines = partition.in_place
    cost = MOVE
    mergeable = False

    def types(self, x: ShapedArray) -> Any:
        return (x,)

    shard = partition.aligned

    def lower(self, ctx: Context, x: Value) -> Any:
        return (x,)  # a result of a program is an array of its own; within one there is no need

    def transpose(self, cts: Sequence[object], x: ArrayLike | Undefined) -> Any:
        return self.call(*cts)

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims) -> Any:
        return self.call(*args), dims

    padded = dialects.through


@final
class StopGradient(Primitive):
    """x, with derivative zero."""

    __slots__ = ()
    name = "stop_gradient"
    combines = partition.in_place
    linear_in = "sum"
    cost = MOVE._replace(subnormals=None)

    def types(self, x: ShapedArray) -> Any:
        return (x,)

    shard = partition.aligned

    @dialects.on_low.rule
    def on_low(self, operands: Sequence[Array], avals: Sequence[ShapedArray]) -> Any:
        return (
            avals[0].raise_val(*[self.call(part)[0] for part in low_values(operands[0], avals[0])]),
        )

    def lower(self, ctx: Context, x: object) -> Any:
        return (x,)

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object]) -> Any:
        outs = self.call(*primals)
        return outs, (typeof(outs[0]).zero,)

    def transpose(self, cts: Sequence[object], x: ArrayLike) -> Any:
        # Here x is a tangent, on which the operation is the identity: differentiation has been
        # done.
        return tuple(cts)

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims) -> Any:
        return self.call(*args), dims

    def simplify(self, known: object, x: Atom) -> Any:
        return x

    padded = dialects.through


@final
class DimAsValue(Primitive):
    """A symbolic dimension as an integer. It is a number only in a program that is being traced."""

    __slots__ = ()
    name = "dim_as_value"

    def types(self, *, dim: Dimension) -> Any:
        return (typeof(dim),)

    def lower(self, ctx: Context, *, dim: Dimension) -> Any:
        return (hlo.size(ctx, dim),)

    def evaluate(self, *, dim: Dimension) -> Any:
        raise errors.InconclusiveDimensionOperation(
            f"the symbolic dimension '{dim}' is used as a number, but no program is being "
            "traced.\n  It has no value here: compute with it in a function that is exported for "
            "shapes with it."
        )

    @dialects.padded.rule
    def padded(
        self, sizes: Sizes, args: Arrays, avals: Avals, outs: Avals, *, dim: Dimension
    ) -> Any:
        return (
            _structure.convert_element_type(sizes.value(dim), outs[0].dtype, outs[0].weak_type),
        )


bitcast_convert_type_p = BitcastConvertType()
reduce_precision_p = ReducePrecision()
copy_p = Copy()
stop_gradient_p = StopGradient()
dim_as_value_p = DimAsValue()
Dimension.as_array = staticmethod(lambda dim: dim_as_value_p.call(dim=dim)[0])


def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The operand's bits as another dtype.

    operand: T[shape]  ->  new_dtype[shape] if the widths are equal; [shape, parts] for a narrower
    dtype; for a
    wider one the last axis, which has one element's parts, goes away. The least significant part
    comes first. Raises TypeError for booleans and complex numbers (C1), ValueError if the last axis
    is not one element's parts (C2).

    >>> from teucer import lax
    >>> lax.bitcast_convert_type(1.0, 'int32')
    Array(1065353216, dtype=int32)
    """
    return bitcast_convert_type_p.call(
        operand, new_dtype=_checked_dtype(new_dtype, "bitcast_convert_type")
    )[0]


def reduce_precision(operand: float | ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """The operand rounded to a floating format of fewer bits, and held in its own dtype.

    operand: T[shape], T in floating  ->  T[shape]; beyond the format's range it becomes infinite.
    Raises ValueError if exponent_bits is not positive (C1) or mantissa_bits is negative (C2).

    >>> from teucer import lax
    >>> lax.reduce_precision(1.01, 8, 3)
    Array(1., dtype=float32, weak_type=True)
    """
    return reduce_precision_p.call(
        operand,
        exponent_bits=operator.index(exponent_bits),
        mantissa_bits=operator.index(mantissa_bits),
    )[0]


def stop_gradient(x: ArrayLike) -> Array:
    """x, with derivative zero: what is computed from it counts as constant in differentiation.

    x: an array, or a pytree of arrays  ->  the same

    >>> from teucer import lax
    >>> lax.stop_gradient(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return pytrees.tree_map(lambda leaf: stop_gradient_p.call(leaf)[0], x)


for _function in (convert_element_type, bitcast_convert_type, reduce_precision, stop_gradient):
    _function.__module__ = "teucer.lax"
