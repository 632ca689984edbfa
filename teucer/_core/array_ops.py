"""The few array operations that transformations themselves use.

`lax` states and provides them (`provided`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from teucer._core.provided import provided
from teucer._core.trace import typeof
from teucer._core.types import DEVICE, Zero
from teucer._xla.arrays import ArrayImpl

if TYPE_CHECKING:
    from teucer._core.typing import Aval, Cotangent, Dim, DType, Size, Value


def zeros(aval: Aval) -> Any:
    """An array of zeros of type `aval`, or the zero among the values of a high type."""
    if aval.is_high:
        return aval.vspace_zero()
    x = vary(provided.zeros(aval), aval.vma)
    return x if aval.memory_space is DEVICE else provided.lay_out(x, aval.memory_space)


def ones(aval: Aval) -> Any:
    """An array of ones of type `aval`."""
    return vary(provided.ones(aval), aval.vma)


def identity(n: Size, dtype: DType) -> Any:
    """The identity matrix of size n."""
    return provided.identity(n, dtype)


def instantiate(x: Value) -> Any:
    """A tangent or cotangent, with a symbolic zero made into an array of zeros."""
    return zeros(x.aval) if type(x) is Zero else x


def add_cotangents(x: Cotangent, y: Cotangent) -> Any:
    """The sum of two tangents or cotangents of one type; either may be Zero or None."""
    if x is None or type(x) is Zero:
        return y
    if y is None or type(y) is Zero:
        return x
    if type(x) is not ArrayImpl and typeof(x).is_high:
        return typeof(x).vspace_add(x, y)
    return provided.add(x, y)


def broadcast(x: Value, size: Size, axis: int) -> Any:
    """`x` repeated along a new axis."""
    return provided.broadcast(x, size, axis)


def moveaxis(x: Value, source: int, destination: int) -> Any:
    """`x` with one axis moved."""
    return x if source == destination else provided.moveaxis(x, source, destination)


def to_axis(x: Value, dim: int | None, size: Size, axis: int) -> Any:
    """A batched value with its batch dimension at `axis`; an unbatched one is repeated."""
    if type(x) is not ArrayImpl and typeof(x).is_high:
        return _high_to_axis(x, dim, axis)
    return broadcast(x, size, axis) if dim is None else moveaxis(x, dim, axis)


def _high_to_axis(x: Value, dim: Dim, axis: object) -> Any:
    """A value of a high type is mapped as it is, or not at all."""
    if dim == axis or (axis == 0 and dim is not None and dim == typeof(x).leading_axis_spec()):
        return x
    raise NotImplementedError(
        f"vmap: a value of type {typeof(x)} is mapped by {dim}, where {axis} is wanted.\n"
        "  Its primitives say how results are mapped; give that as out_axes."
    )


def sum_axis(x: Value, axis: int) -> Any:
    """`x` summed over one axis."""
    return provided.sum_axis(x, axis)


def reshape(x: Value, shape: Sequence[Size]) -> Any:
    """`x` in another shape."""
    return provided.reshape(x, shape)


def convert(x: Value, aval: Aval) -> Any:
    """`x` with the dtype and weak type of `aval`."""
    return provided.convert(x, aval)


def read_reference(ref: Value) -> Any:
    """The array of a reference."""
    return provided.references().read(ref)


def write_reference(ref: Value, x: Value) -> None:
    """Let the array of a reference be x."""
    provided.references().write(ref, x)


def add_to_reference(ref: Value, x: Value) -> None:
    """Add x to the array of a reference."""
    provided.references().add(ref, x)


def new_reference(x: Value) -> Any:
    """A reference to a copy of an array."""
    return provided.references().new(x)


def lay_out(x: Value, sharding: object) -> Any:
    """`x` laid out by a sharding, or in another memory; None leaves it."""
    return x if sharding is None else provided.lay_out(x, sharding)


def vary(x: Value, axes: frozenset[object]) -> Any:
    """`x`, cast to vary over manual mesh axes too."""
    if not axes:
        return x
    missing = axes - typeof(x).vma
    return provided.vary(x, missing) if missing else x
