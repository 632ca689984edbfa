"""Operands of functions that move elements about: as arrays, and broadcast to a given shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._base import dtypes, errors
from teucer._core.trace import Tracer, typeof
from teucer._devices import processes
from teucer._dimensions.dimensions import is_symbolic
from teucer.lax import _shapes, _structure
from teucer.numpy._creation import asarray
from teucer.numpy._promotion import broadcast_axes, check_arraylike, promote_dtypes

if TYPE_CHECKING:
    from teucer._core.typing import Array, Axis, DTypeLike, Size, Value


canonical_axis = _structure.canonical_axis


def operand(name: str, x: Value, at: int = 0) -> Array:
    """An argument as an array. Raises TypeError for lists and other objects that are no arrays."""
    if isinstance(x, ArrayImpl | Tracer):
        array: Any = x
        return array
    check_arraylike(name, x, at=at)
    return asarray(x)


def positions(n: Any) -> Any:
    """0, ..., n - 1 as int32; on the host where n is known."""
    return _shapes.iota(np.int32, n) if is_symbolic(n) else np.arange(n, dtype=np.int32)


def size_as(n: Any, dtype: DTypeLike) -> Any:
    """A size as a number of a dtype; on the host where it is known."""
    return (
        _structure.number(n, dtype) if type(n) is int else _structure.convert_element_type(n, dtype)
    )


def operands(name: str, *xs: Value) -> list[Array]:
    """Arguments as arrays."""
    return [operand(name, x, i) for i, x in enumerate(xs)]


def promoted(name: str, kind: str, *xs: Value) -> list[Any]:
    """Arguments as arrays of one dtype; their shapes stay."""
    return [operand(name, x) for x in promote_dtypes(name, kind, *xs)]


def several(given: Any) -> tuple[Any, ...]:
    """One value or several, as a tuple."""
    return tuple(given) if np.ndim(given) else (given,)


def axis_of(x: Any, axis: Any) -> int:
    """An axis of x counted from the front."""
    return canonical_axis(axis, np.ndim(x))


def axes_of(x: Any, axes: Axis) -> tuple[int, ...]:
    """One axis or several of x, or all for None, counted from the front."""
    if axes is None:
        return tuple(range(np.ndim(x)))
    return tuple(
        axis_of(x, a) for a in (axes if isinstance(axes, Sequence | np.ndarray) else (axes,))
    )


def broadcast_value(value: Any, shape: Sequence[Size]) -> Any:
    """A value broadcast to a shape.

    Raises ValueError if it does not fit.
    """
    own, shape = np.shape(value), tuple(shape)
    if own == shape:
        return value
    if len(own) > len(shape):
        raise ValueError(
            f"Cannot broadcast to shape with fewer dimensions: arr_shape={own} shape={shape}\n"
            f"    value: {typeof(value)}"
        )
    ahead = len(shape) - len(own)
    fits = [m == n for m, n in zip(own, shape[ahead:], strict=True)]
    if not all(fit or m == 1 for m, fit in zip(own, fits, strict=True)):
        requested = typeof(value).update(shape=shape, weak_type=False)
        raise ValueError(
            f"Incompatible types for broadcasting: input type={typeof(value).str_short()} and "
            f"requested type={requested.str_short()}\n  Sizes must agree from the last axis on, "
            "or be 1."
        )
    kept = tuple(m for m, fit in zip(own, fits, strict=True) if fit)
    return broadcast_axes(value, kept, shape, tuple(i + ahead for i, fit in enumerate(fits) if fit))


def is_unknown(x: Any) -> bool:
    """Whether x is traced and its values are not known."""
    return isinstance(x, Tracer) and x.concrete() is None


def concrete(x: Any, op: str, what: str) -> np.ndarray[Any, Any]:
    """The values of an argument that must be known while tracing."""
    return np.asarray(_concrete(x, op, what))


def _concrete(x: Any, op: str, what: str) -> Any:
    if isinstance(x, Tracer):
        known = x.concrete()
        if known is None:
            raise errors.ConcretizationTypeError(x, f"{op}: {what}")
        return readable(known)
    if isinstance(x, list | tuple):
        return [_concrete(part, op, what) for part in x]
    return readable(x)


def readable(x: Any) -> Any:
    """A concrete value that this process can read: of an array over several processes, which all
    ask for it, each gets a copy."""
    if processes.state.client is None or not isinstance(x, ArrayImpl) or x.is_fully_addressable:
        return x
    from teucer._derived.exchange import everywhere  # for arrays over several processes

    return everywhere(x)


def index_dtype() -> Any:
    """The dtype of places: the dtype of Python's int."""
    return dtypes.canonicalize_dtype(int)
