"""Values that the compiler is to lay out alike: `shard_alike`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from teucer._core import array_ops, dialects
from teucer._core.primitive import Primitive
from teucer._core.types import Zero
from teucer._devices import partition
from teucer._lower import text
from teucer._trees import pytrees
from teucer.lax._control.bodies import avals_of
from teucer.lax._costs import STILL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.primitive import Axis, Undefined
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, Cotangent, Dims, Tangents, Value
    from teucer._lower.context import Context
    from teucer._lower.value import Value as Written


@final
class ShardAlike(Primitive):
    """x and y, which the compiler divides alike.

    (C1) They have one shape.
    """

    __slots__ = ()
    name = "shard_alike"
    multiple_results = True
    cost = STILL
    shard = partition.aligned
    padded = dialects.through

    def types(self, x: ShapedArray, y: ShapedArray) -> Any:
        return x, y

    def evaluate(self, x: Array, y: Array) -> Any:
        """Arrays lie already: y goes where x is, if that is over several devices."""
        sharding = getattr(x, "sharding", None)
        return x, y if sharding is None or sharding.num_devices == 1 else array_ops.lay_out(
            y, sharding
        )

    def lower(self, ctx: Context, x: Written, y: Written) -> Any:
        if ctx.module.mesh is not None and not ctx.all_manual():
            group = next(ctx.module.groups)
            for v in (x, y):
                ctx.lines.append(
                    f"sdy.sharding_group {v.name} group_id={group} : "
                    f"{text.tensor_type(v.aval)}{ctx.location()}"
                )
        return x, y

    def jvp(self, primals: Sequence[Value], tangents: Tangents) -> Any:
        return self.call(*primals), tuple(tangents)

    def transpose(self, cts: Sequence[Cotangent], x: Value, y: Array | Undefined) -> Any:
        return tuple(None if type(ct) is Zero else ct for ct in cts)

    def batch(self, axis: Axis, args: Sequence[Value], dims: Dims) -> Any:
        at = next(d for d in dims if d is not None)
        return self.call(
            *(array_ops.to_axis(x, d, axis.size, at) for x, d in zip(args, dims, strict=True))
        ), (at, at)


shard_alike_p = ShardAlike()


def shard_alike(x: Value, y: Value) -> tuple[Any, Any]:
    """x and y, to be divided alike among devices by the compiler.

    x, y: pytrees of one structure, whose leaves have one shape each. Where types say how values are
    divided (Explicit mesh axes), and in `shard_map`, they stay as they are.
    Raises ValueError for other structures or shapes.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> x, y = jax.jit(shard_alike)(jnp.ones(2), jnp.zeros(2))
    >>> y
    Array([0., 0.], dtype=float32)
    """
    (xs, tree), (ys, other) = pytrees.tree_flatten(x), pytrees.tree_flatten(y)
    if tree != other:
        raise ValueError(f"shard_alike: Trees should match.\n    x: {tree}\n    y: {other}")
    avals = avals_of("shard_alike", [*xs, *ys])
    for a, b in zip(avals, avals[len(xs) :], strict=False):
        if a.shape != b.shape:
            raise ValueError(
                "shard_alike: The leaves shapes of `x` and `y` should match. Got `x` leaf shape: "
                f"{a.shape} and `y` leaf shape: {b.shape}."
            )
    pairs = [shard_alike_p.call(a, b) for a, b in zip(xs, ys, strict=True)]
    return tree.unflatten([a for a, _ in pairs]), tree.unflatten([b for _, b in pairs])
