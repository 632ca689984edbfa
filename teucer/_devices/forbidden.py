"""`no_collectives`: mesh axes along which operations must not communicate.

Communication is read from the types of equations as they are recorded. So it is known along
Explicit and manual axes, but not along Auto axes, where the compiler decides.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NoReturn

from teucer._base.config import JIT, TRACE, Option
from teucer._base.errors import ForbiddenCollectiveError
from teucer._core import dialects
from teucer._core.types import ShapedArray
from teucer._devices.specs import entry_names

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Aval, Params
    from teucer._devices.partition import Labels


def _names(value: object) -> frozenset[Hashable]:
    if not isinstance(value, set | frozenset):
        raise TypeError(
            f"Expected axis name(s) as set or frozenset, got {value} of type {type(value)}\n"
            "  Write no_collectives({'x'})."
        )
    return frozenset(value)


no_collectives = Option(
    "no_collectives",
    _names,
    frozenset(),
    (JIT, TRACE),
    "Within it, operations that communicate along these mesh axes raise ForbiddenCollectiveError.",
)


def check(
    primitive: Primitive, avals: Sequence[Aval], params: Params, outs: Sequence[Aval]
) -> None:
    """Raise ForbiddenCollectiveError if an operation on values of these types communicates along a
    forbidden mesh axis."""
    # Programs that it carries are checked themselves; device_put is there to move data.
    if primitive.higher_order or dialects.relocates[type(primitive)]:
        return
    arrays = [a for a in avals if isinstance(a, ShapedArray)]
    rule = None
    if len(arrays) == len(avals) and any(a.partition is not None for a in arrays):
        rule = primitive.shard(*avals, **params)
    for name in sorted(no_collectives.value, key=str):
        uses = primitive.uses_axis
        if uses is not None and avals and not primitive.cost.cheap and uses(name, params):
            _refuse(primitive, name, "acts on")
        for i, aval in enumerate(arrays):
            for out in outs:
                if isinstance(out, ShapedArray):
                    _check_axis(primitive, name, i, aval, out, rule)


def _check_axis(
    primitive: Primitive,
    name: Hashable,
    i: int,
    aval: ShapedArray,
    out: ShapedArray,
    rule: Labels | None,
) -> None:
    if name in aval.unreduced and name not in out.unreduced:
        _refuse(
            primitive, name, "consumes unreduced", " without keeping it unreduced in the output"
        )
    at = _position(aval, name)
    if at is None or name in out.unreduced or name in out.vma:
        return
    to = _position(out, name)
    label = None if rule is None or at >= len(rule.operands[i]) else rule.operands[i][at]
    if (
        rule is not None
        and not any(label in labels for labels in rule.results)
        and sum(label in labels for labels in rule.operands) > 1
    ):
        _refuse(primitive, name, "contracts over", " without marking it unreduced in the output")
    if to is None:
        _refuse(primitive, name, "loses sharding", " in the output without marking it unreduced")
    if rule is None:
        moves = out.shape == aval.shape and to != at
    else:
        moves = all(to >= len(labels) or labels[to] != label for labels in rule.results)
    if moves and not primitive.rearranges:
        _refuse(primitive, name, "changes the sharded dimension of")


def _position(aval: ShapedArray, name: Hashable) -> int | None:
    """The axis of an array that lies over a mesh axis."""
    if aval.partition is None:
        return None
    return next(
        (i for i, entry in enumerate(aval.partition.spec.partitions) if name in entry_names(entry)),
        None,
    )


def _refuse(primitive: Primitive, name: Hashable, does: str, how: str = "") -> NoReturn:
    said = str(primitive).removesuffix("_invariant")
    raise ForbiddenCollectiveError(
        f"Collective across axis {name!r} is forbidden by `no_collectives`, but `{said}` {does} "
        f"axis {name!r}{how}."
    )
