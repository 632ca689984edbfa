"""Many arrays joined eagerly. The time to compile a program grows with the square of its arguments,
and each number of arrays would be another program."""

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
