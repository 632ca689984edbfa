"""The operand of one element of a named axis for all."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._core.trace import typeof
from teucer._devices import partition
from teucer._trees import pytrees
from teucer.lax._arithmetic import eq
from teucer.lax._collectives import lowering
from teucer.lax._collectives.movement import Exchange, all_gather
from teucer.lax._collectives.reductions import axis_index, checked, psum, varying_over
from teucer.lax._collectives.varying import names_of, size_of
from teucer.lax._selection import select
from teucer.lax._slicing import index_in_dim
from teucer.lax._structure import broadcast_to, zeros

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, AxisName, Params

__all__ = ["pbroadcast"]


@final
class PBroadcast(Exchange):
    """The operand of element `source`, for all.  (C1) it is an element."""

    __slots__ = ()
    name = "pbroadcast"

    def types(self, x: ShapedArray, *, axis_name: AxisName, source: int) -> Any:
        size = size_of(names_of(axis_name))
        if not 0 <= source < size:
            raise ValueError(
                f"pbroadcast: source must be an element of the axis {axis_name}, of size {size}, "
                f"got {source}."
            )
        return (x,)

    shard = partition.aligned

    def lower(self, ctx: Any, x: Any, *, axis_name: object, source: int) -> Any:
        # CPUs and TPUs have no broadcast.
        everyone = lowering.all_gathered(ctx, x, 0, False, names_of(axis_name))
        return ctx.trace(lambda y: (index_in_dim(y, source, 0, keepdims=False),), everyone)

    def transpose(self, cts: Any, x: Any, *, axis_name: AxisName, source: int) -> Any:
        total = psum(cts[0], axis_name)
        here = broadcast_to(eq(axis_index(axis_name), np.int32(source)), np.shape(total), ())
        return (select(here, total, zeros(typeof(total))),)

    def shifted(self, params: Params) -> dict[str, Any]:
        return params

    def one_by_one(self, x: Array, names: tuple[object, ...], params: Params) -> Any:
        return index_in_dim(all_gather(x, names), params["source"], 0, keepdims=False)

    def on_batch(self, x: Any, params: Params) -> tuple[Any, int | None]:
        return index_in_dim(x, params["source"], 0, keepdims=False), None


pbroadcast_p = PBroadcast()


def pbroadcast(x: object, axis_name: AxisName, source: int) -> Any:
    """The arrays of element `source` of a named axis, for all.

    Raises ValueError if there is no such element, NameError for a name that no axis in force has.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(lambda x: pbroadcast(x, "i", 1), axis_name="i")(jnp.array([1., 3.]))
    Array([3., 3.], dtype=float32)
    """
    at = operator.index(source)
    names = names_of(axis_name)
    return pytrees.tree_map(
        lambda leaf: pbroadcast_p.call(
            varying_over(checked("pbroadcast", leaf), names), axis_name=axis_name, source=at
        )[0],
        x,
    )
