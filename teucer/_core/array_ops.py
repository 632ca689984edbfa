"""The few array operations that transformations themselves use.

`lax` states and provides them (`provided`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base.dtypes import issubdtype
from teucer._core.provided import provided
from teucer._core.specs import UNCONSTRAINED, PartitionSpec
from teucer._core.trace import typeof
from teucer._core.types import DEVICE, ShapedArray, Zero
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


def as_primal(ct: Value, aval: ShapedArray) -> Any:
    """A cotangent laid out as the value whose cotangent it is."""
    own, wanted = typeof(ct).partition, aval.cotangent_aval().partition
    if own is wanted:
        return ct
    if wanted is None:
        # What is not said to be divided may be: the compiler need not gather a cotangent that is
        # summed next.
        wanted = own.with_spec(() if own.spec.unreduced else (UNCONSTRAINED,) * typeof(ct).ndim)
    return lay_out(ct, wanted)


def lay_out(x: Value, sharding: object) -> Any:
    """`x` laid out by a sharding, or in another memory; None leaves it."""
    return x if sharding is None else provided.lay_out(x, sharding)


def vary(x: Value, axes: frozenset[object]) -> Any:
    """`x`, cast to vary over manual mesh axes too."""
    if not axes:
        return x
    missing = axes - typeof(x).vma
    return provided.vary(x, missing) if missing else x


def alike(xs: tuple[Value, ...]) -> tuple[Any, ...]:
    """Values, each cast to vary over the manual mesh axes over which some of them does.

    Numbers that go with arrays whose cotangents are sums over mesh axes are cast to have such
    cotangents too.
    """
    of_each = [aval.vma if isinstance(aval := typeof(x), ShapedArray) else None for x in xs]
    known = [vma for vma in of_each if vma is not None]
    if any(known):
        union = frozenset().union(*known)
        xs = tuple(
            [
                x if vma is None or vma == union else provided.vary(x, union - vma)
                for x, vma in zip(xs, of_each, strict=True)
            ]
        )
    return _reduced_alike(xs)


def _reduced_alike(xs: tuple[Value, ...]) -> tuple[Any, ...]:
    avals = [typeof(x) for x in xs]
    model = next((a.partition for a in avals if isinstance(a, ShapedArray) and a.reduced), None)
    if model is None or any(isinstance(a, ShapedArray) and a.unreduced for a in avals):
        return xs
    reduced = PartitionSpec(reduced=model.spec.reduced)
    return tuple(
        [
            provided.reduce_cotangents(x, model.with_spec(reduced))
            if isinstance(a, ShapedArray)
            and not a.ndim
            and not a.reduced
            and not a.vma
            and issubdtype(a.dtype, np.inexact)
            else x
            for x, a in zip(xs, avals, strict=True)
        ]
    )
