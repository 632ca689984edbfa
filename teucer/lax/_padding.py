"""Dynamic dimensions.

Sizes that are values, and the operations on padded buffers that rules share
(`_dynamic.padding`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import dtypes
from teucer._core import dialects
from teucer._core.primitive import Primitive
from teucer._core.provided import Buffers, provided
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray
from teucer._dynamic import dynamic
from teucer.lax import _dynamic, _elementwise, _shapes, _slicing, _structure
from teucer.lax._indexing import gather as _gather
from teucer.lax._indexing.numbers import GatherDimensionNumbers, GatherScatterMode

if TYPE_CHECKING:
    from collections.abc import Callable

    from teucer._core.primitive import Axis
    from teucer._core.typing import Array, ArrayLike, Arrays, Avals, Dim, Dims, DTypeLike, Values
    from teucer._dynamic.padding import Sizes


INT = np.dtype(np.int32)


@final
class DynamicSize(Primitive):
    """A value becomes the size that a symbolic dimension stands for.

    (C1) value is an int32 scalar.  (C2) dim is a variable, which no other equation defines.
    checked: whether the value may be beyond the bound of dim: then the call that compiled the
    program raises.
    """

    __slots__ = ()
    name = "dynamic_size"

    def types(self, value: ShapedArray, *, dim: Dim, checked: bool) -> Any:
        if value != ShapedArray((), INT):
            raise TypeError(f"dynamic_size: the value must be an int32 scalar, got {value}.")
        return (value,)

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object], **params: object) -> Any:
        outs = self.call(*primals, **params)
        return outs, (typeof(outs[0]).zero,)

    def batch(self, axis: Axis, args: Sequence[Array], dims: Dims, **params: object) -> Any:
        raise NotImplementedError(
            "vmap: a size that depends on values would differ from one element of the batch to "
            "the next.\n  Give the function that has it a size of its own (size=...), or loop "
            "over the batch."
        )

    @dialects.padded.rule
    def padded(
        self, sizes: Sizes, args: Values, avals: Avals, outs: Arrays, *, dim: Any, checked: bool
    ) -> Any:
        sizes.define(dim, *args, checked=checked)
        return args


dynamic_size_p = DynamicSize()


def dynamic_size(count: Any, bound: object = None) -> Any:
    """A symbolic dimension that stands for an int32 scalar, at most `bound`; None if the program
    allows no such size.

    bound: a size; None for the bound of `jit(dynamic_results=...)`, against which the value is
    checked.
    """
    dim = dynamic.new_size(bound)
    if dim is not None:
        dynamic_size_p.call(
            _structure.convert_element_type(count, INT), dim=dim, checked=bound is None
        )
    return dim


def _iota(shape: Sequence[int], axis: int) -> Any:
    return _shapes.broadcasted_iota(INT, shape, axis)


def _fill(value: ArrayLike, shape: Sequence[int], dtype: DTypeLike) -> Any:
    if dtypes.is_extended(dtype):
        return _structure.broadcast_to(value, shape, ())
    return _structure.full(shape, value, dtype)


def _broadcast(value: Array, shape: Sequence[int], like: object) -> Any:
    scalar = _structure.convert_element_type(value, typeof(like).dtype)
    return _structure.broadcast_to(scalar, shape, ())


def _extend(x: ArrayLike, high: Sequence[int], fill: ArrayLike) -> Any:
    if not any(high):
        return x
    dtype = typeof(x).dtype
    if dtypes.is_extended(dtype):
        # There is no key to fill with: any will do.
        fill = _structure.reshape(_slicing.slice(x, (0,) * len(high), (1,) * len(high)), ())
    elif isinstance(fill, int):
        fill = _structure.full((), fill, dtype)
    return _slicing.pad(x, fill, [(0, h, 0) for h in high])


def _window(x: Array, starts: Sequence[Any], shape: Sequence[int]) -> Any:
    shape = tuple(shape)
    if all(isinstance(s, np.int32) for s in starts):
        begin = [int(s) for s in starts]
        return _slicing.slice(x, begin, [b + n for b, n in zip(begin, shape, strict=True)])
    return _dynamic.dynamic_slice(x, starts, shape)


def _take(x: Array, places: Any, axis: int) -> Any:
    shape = np.shape(x)
    numbers = GatherDimensionNumbers(
        tuple(a for a in range(len(shape)) if a != axis), (axis,), (axis,)
    )
    sizes = tuple(1 if a == axis else n for a, n in enumerate(shape))
    return _gather.gather(
        x,
        _structure.reshape(places, (*np.shape(places), 1)),
        numbers,
        sizes,
        mode=GatherScatterMode.CLIP,
    )


def _places(shape: Sequence[tuple[int, Any]], target: Sequence[tuple[int, Any]]) -> Any:
    buffer = tuple(n for n, _ in target)
    number: Any = _structure.full(buffer, 0, INT)
    for axis, (_, size) in enumerate(target):
        number = _elementwise.add(_elementwise.mul(number, size), _iota(buffer, axis))
    place, stride = _structure.full(buffer, 0, INT), 1
    for bound, size in reversed(shape):
        step = _elementwise.mul(_elementwise.rem(number, size), np.int32(stride))
        place, number, stride = (
            _elementwise.add(place, step),
            _elementwise.div(number, size),
            stride * bound,
        )
    return _structure.reshape(place, (math.prod(buffer),))


def _clamped(start: Array, limit: Any) -> Any:
    kind = typeof(start).dtype
    if dtypes.bit_width(kind) < 32:
        start, kind = _structure.convert_element_type(start, INT), INT
    limit = _structure.convert_element_type(limit, kind)
    return _structure.convert_element_type(
        _elementwise.clamp(_structure.number(0, kind), start, limit), INT
    )


def _identity(shape: Sequence[int], dtype: DTypeLike) -> Any:
    n = len(shape)
    return _structure.convert_element_type(
        _elementwise.eq(_iota(shape, n - 2), _iota(shape, n - 1)), dtype
    )


def _value(kind: str, x: ArrayLike, y: ArrayLike) -> Any:
    # Sizes are not negative, but differences of them may be: division rounds down.
    if kind in ("floordiv", "mod"):
        zero, rest = np.int32(0), _elementwise.rem(x, y)
        across = _elementwise.ne(_elementwise.lt(rest, zero), _elementwise.lt(y, zero))
        shift = _structure.convert_element_type(
            _elementwise.bitwise_and(_elementwise.ne(rest, zero), across), INT
        )
        if kind == "mod":
            return _elementwise.add(rest, _elementwise.mul(shift, y))
        return _elementwise.sub(_elementwise.div(x, y), shift)
    return _ARITHMETIC[kind](x, y)


_ARITHMETIC: dict[str, Callable[[ArrayLike, ArrayLike], Array]] = {
    "add": _elementwise.add,
    "subtract": _elementwise.sub,
    "multiply": _elementwise.mul,
    "max": _elementwise.max,
    "min": _elementwise.min,
}

provided.fill(
    identity=lambda n, dtype: _identity((n, n), dtype),
    buffers=Buffers(
        iota=_iota,
        less=_elementwise.lt,
        both=_elementwise.bitwise_and,
        select=_elementwise.select,
        fill=_fill,
        broadcast=_broadcast,
        extend=_extend,
        window=_window,
        put=_dynamic.dynamic_update_slice,
        take=_take,
        places=_places,
        clamped=_clamped,
        identity=_identity,
        value=_value,
    ),
)
