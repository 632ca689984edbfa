"""Layouts in memory within a program: `with_layout_constraint`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from teucer._arrays.formats import Layout, at_boundary, order_in
from teucer._base import tracebacks
from teucer._core import dialects
from teucer._core.primitive import Primitive
from teucer._core.types import Zero
from teucer._derived.moves import device_put, in_layout
from teucer._devices import partition
from teucer._lower import hlo
from teucer._trees import pytrees

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.primitive import Axis
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Arrays, Cotangent, Tangents, Value, Values
    from teucer._lower.context import Context
    from teucer._lower.value import Value as Written


@final
class LayoutConstraint(Primitive):
    """x unchanged. The compiler keeps it in memory in the given layout."""

    __slots__ = ()
    name = "layout_constraint"
    mergeable = False

    def types(self, x: ShapedArray, *, layout: Layout) -> Any:
        at_boundary([layout], [x], "with_layout_constraint arguments")
        return (x,)

    shard = partition.aligned

    def evaluate(self, x: Value, *, layout: Layout) -> Any:
        return (in_layout(device_put(x), layout, "with_layout_constraint arguments"),)

    def lower(self, ctx: Context, x: Written, *, layout: Layout) -> Any:
        aval = ctx.avals_out[0]
        order = [(order_in(layout, aval) or tuple(range(aval.physical.ndim)))[::-1]]
        return hlo.custom_call(
            ctx,
            "LayoutConstraint",
            [x],
            [aval],
            config='""',
            api_version=1,
            operand_layouts=order,
            result_layouts=order,
        )

    def jvp(self, primals: Arrays, tangents: Tangents, **params: object) -> Any:
        (t,) = tangents
        return self.call(*primals, **params), (t,) if type(t) is Zero else self.call(t, **params)

    def transpose(self, cts: Sequence[Cotangent], x: Value, **params: object) -> Any:
        return self.call(*cts, **params)

    def batch(self, axis: Axis, args: Values, dims: Sequence[int], *, layout: Layout) -> Any:
        (at,) = dims
        inner = tuple([i + (i >= at) for i in layout.major_to_minor])
        return self.call(*args, layout=Layout((at, *inner))), dims

    padded = dialects.through


layout_constraint_p = LayoutConstraint()


@tracebacks.api_boundary
def with_layout_constraint(x: Value, layouts: object) -> Any:
    """A tree of arrays, unchanged, which the compiler keeps in memory as the layouts say.

    layouts: a Layout, or a tree prefix of them. Outside `jit`, arrays that lie so. The tangent and
    the cotangent lie like x; under `vmap` the new axis is the slowest.
    Raises ValueError for an object that is no Layout, or a Layout that does not fit an array's
    shape.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> from teucer.experimental.layout import Layout, with_layout_constraint
    >>> with_layout_constraint(jnp.ones((2, 3)), Layout((1, 0))).format.layout.major_to_minor
    (1, 0)
    """
    leaves, tree = pytrees.tree_flatten(x)
    places = pytrees.flatten_axes("with_layout_constraint layouts", tree, layouts)
    bad = [type(layout) for layout in places if not isinstance(layout, Layout)]
    if bad:
        raise ValueError(
            f"layouts passed to `with_layout_constraint` must be of type `Layout`. Got {bad}"
        )
    return tree.unflatten(
        [
            layout_constraint_p.call(leaf, layout=layout)[0]
            for leaf, layout in zip(leaves, places, strict=True)
        ]
    )
