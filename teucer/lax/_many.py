"""Many arrays joined, and an array taken apart, eagerly. The time to compile a program grows with
the square of its arguments and results, and each number of arrays would be another program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays import transfer
from teucer._arrays.arrays import ArrayImpl
from teucer._base import config
from teucer._core.provided import provided
from teucer._core.trace import typeof
from teucer._core.types import KeyCarrier
from teucer._devices.placement import IncompatibleDevices, Placement, placement_of

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Value

# As many arrays are joined by one program.
SEVERAL = 32


def join(
    xs: Sequence[Value], primitive: Primitive, params: dict[str, int], concatenate: Primitive
) -> tuple[Any, ...]:
    """Arrays joined along an axis, which is the parameter of the primitive.

    On a CPU NumPy joins the memory of the arrays. Elsewhere programs of up to 32 arrays join them,
    then their results.
    """
    whole = provided.runner(primitive, params)
    if len(xs) <= SEVERAL or any(typeof(x).is_high for x in xs):
        return whole(*xs)
    (axis,) = params.values()
    (aval,) = primitive.types(*map(typeof, xs), **params)
    try:
        where = placement_of(xs)
    except IncompatibleDevices:
        return whole(*xs)  # its error names the arguments
    if lie_in_host_memory(xs, where):
        values = [np.asarray(x, aval.dtype) for x in xs]
        value = (np.concatenate if primitive is concatenate else np.stack)(values, axis)
        with config.transfer_guard("allow"):
            out = transfer.put(value, where.device, committed=where.committed, aval=aval)
        return (out,)
    parts = [out for i in range(0, len(xs), SEVERAL) for out in whole(*xs[i : i + SEVERAL])]
    return join(parts, concatenate, {"dimension": axis}, concatenate)


def part(
    x: Value, primitive: Primitive, params: dict[str, Any], limits: Sequence[int], axis: int
) -> tuple[Any, ...]:
    """An array taken apart along an axis, at the limits between the parts.

    On a CPU NumPy copies many parts out of the memory of the array. Elsewhere a program does it.
    """
    if len(limits) < SEVERAL or typeof(x).is_high:
        return provided.runner(primitive, params)(x)
    where = placement_of((x,))
    if not lie_in_host_memory((x,), where):
        return provided.runner(primitive, params)(x)
    pieces = np.split(np.asarray(x), limits, axis)
    avals = primitive.types(typeof(x), **params)
    # Copies: a part must not change when the memory of x is donated.
    with config.transfer_guard("allow"):
        return tuple(
            transfer.put(
                np.array(piece).reshape(aval.shape),
                where.device,
                committed=where.committed,
                aval=aval,
            )
            for piece, aval in zip(pieces, avals, strict=True)
        )


def lie_in_host_memory(xs: Sequence[Value], where: Placement) -> bool:
    """Whether NumPy can read all operands where they are, and the result lies there too."""
    if where.mesh is not None or not provided.target(where.platform).in_host_memory:
        return False
    for x in xs:
        if isinstance(x, ArrayImpl):
            if type(x._carried) is KeyCarrier or typeof(x).placed or len(x.devices()) != 1:
                return False
        elif not isinstance(x, np.ndarray | np.generic | bool | int | float | complex):
            return False
    return True
