"""The traffic of collectives over the links of a torus.

Each mesh axis is a ring of devices, an axis of two a single link.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._experimental.rooflines import RooflineResult, RooflineRuleContext, RooflineShape, Rule

if TYPE_CHECKING:
    from teucer._core.typing import Axes, AxisName


def _rings(ctx: RooflineRuleContext, names: Any) -> dict[str, int]:
    """The sizes of the axes that the mesh has. Other axes are of `vmap`: nothing is sent along
    them."""
    listed = names if isinstance(names, tuple | list) else (names,)
    return {
        name: ctx.mesh.shape[name]
        for name in listed
        if ctx.mesh is not None and name in ctx.mesh.shape
    }


def _sent(rings: dict[str, int], sent: int, latency: int) -> RooflineResult:
    """The same over the links of all axes."""
    return RooflineResult(
        ici_bytes=dict.fromkeys(rings, sent), ici_latency=dict.fromkeys(rings, latency)
    )


def _gathered(rings: dict[str, int], part: float) -> RooflineResult:
    """Every device gets the parts of all: one axis after another, of each part as much in every
    order of the axes."""
    sizes = [n for n in rings.values() if n > 1]
    if not sizes:
        return _sent(rings, 0, 0)
    return _sent(rings, int(part / len(sizes)) * (math.prod(sizes) - 1), len(sizes) * max(sizes))


def all_gather(
    ctx: RooflineRuleContext, x: RooflineShape, *, axis_name: AxisName, **params: object
) -> RooflineResult:
    return _gathered(_rings(ctx, axis_name), x.bytes)


def reduce_scatter(
    ctx: RooflineRuleContext, x: RooflineShape, *, axis_name: AxisName, **params: object
) -> RooflineResult:
    rings = _rings(ctx, axis_name)
    return _gathered(rings, x.bytes / math.prod(rings.values()))


def psum(
    ctx: RooflineRuleContext, x: RooflineShape, *, axes: Axes, **params: object
) -> RooflineResult:
    """A sum is scattered, and gathered."""
    rings = _rings(ctx, axes)
    return _gathered(rings, x.bytes / math.prod(rings.values())) * 2


def extreme(
    ctx: RooflineRuleContext, x: RooflineShape, *, axes: Axes, **params: object
) -> RooflineResult:
    """The cost for a scalar, since nearly all operands are scalars."""
    return _gathered(_rings(ctx, axes), x.dtype.itemsize)


def all_to_all(
    ctx: RooflineRuleContext, x: RooflineShape, *, axis_name: AxisName, **params: object
) -> RooflineResult:
    """Half of all bytes pass the links that join the halves of the torus."""
    rings = _rings(ctx, axis_name)
    sizes = [n for n in rings.values() if n > 1]
    if not sizes:
        return _sent(rings, 0, 0)
    links = min(sizes) ** (len(sizes) - 1) * (2 if min(sizes) > 2 else 1)
    return _sent(rings, int(x.bytes * math.prod(sizes) / 2 / links), sum(sizes) // 2)


def ppermute(
    ctx: RooflineRuleContext,
    x: RooflineShape,
    *,
    axis_name: AxisName,
    perm: Sequence[tuple[int, int]],
    **params: object,
) -> RooflineResult:
    """Messages go along one axis after another, the last first, the shorter way round; the link
    that most of them pass counts."""
    rings = _rings(ctx, axis_name)
    sizes = tuple(rings.values())
    if math.prod(sizes) <= 1:
        return _sent(rings, 0, 0)
    passed: collections.Counter[Any] = collections.Counter()
    farthest = 0
    for start, end in perm:
        links = list(_way(np.unravel_index(start, sizes), np.unravel_index(end, sizes), sizes))
        passed.update(links)
        farthest = max(farthest, len(links))
    return _sent(rings, x.bytes * max(passed.values(), default=0), farthest)


def _way(start: Sequence[Any], end: Sequence[Any], sizes: Sequence[int]) -> Iterable[Any]:
    """The links from a device to another, each as an axis and the devices at its ends."""
    at = list(map(int, start))
    for axis, n in reversed(list(enumerate(sizes))):
        forward = (int(end[axis]) - at[axis]) % n
        step, count = (1, forward) if forward <= n - forward else (-1, n - forward)
        for _ in range(count):
            here = tuple(at)
            at[axis] = (at[axis] + step) % n
            yield axis, frozenset((here, tuple(at)))


def pbroadcast(
    ctx: RooflineRuleContext, x: RooflineShape, *, axis_name: AxisName, **params: object
) -> RooflineResult:
    """All bytes pass every link, and go half round."""
    rings = _rings(ctx, axis_name)
    many = math.prod(rings.values()) > 1
    return _sent(rings, x.bytes * many, sum(n // 2 for n in rings.values()))


# The rules by the name of the primitive.
RULES: dict[str, Rule] = {
    **dict.fromkeys(("all_gather", "all_gather_invariant", "all_gather_reduced"), all_gather),
    **dict.fromkeys(("reduce_scatter", "unreduced_reduce_scatter"), reduce_scatter),
    **dict.fromkeys(("psum", "psum_invariant", "unreduced_psum"), psum),
    **dict.fromkeys(("pmax", "pmin", "unreduced_pmax", "unreduced_pmin"), extreme),
    "all_to_all": all_to_all, "ppermute": ppermute, "pbroadcast": pbroadcast,
}  # fmt: skip
