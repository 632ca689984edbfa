"""The rules of Teucer's own primitives.

A table of special rules, and one rule for all other primitives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from teucer._base.lazy import listing
from teucer._core import structure
from teucer._core.jaxpr import Eqn, Jaxpr, jaxprs_in_params
from teucer._experimental import links
from teucer._experimental.rooflines import RooflineResult, RooflineRuleContext, RooflineShape, Rule
from teucer._jax.primitive import LibraryPrimitive
from teucer._optimize.operations import operations
from teucer.lax import GatherScatterMode, cumlogsumexp_p, scatter_p
from teucer.lax._collectives.varying import Collective

__all__ = ["default", "rule_of"]
__dir__ = listing(__name__, __all__)


def _unfused(flops: int, moved: int) -> RooflineResult:
    return RooflineResult(unfused_flops=flops, unfused_hbm_bytes=moved)


def default(eqn: Eqn) -> RooflineResult:
    """An operation for each element, of reductions for each but the first; nothing where elements
    only change place.

    Nothing is known of other libraries' primitives.
    """
    name = eqn.primitive.name
    if (
        type(eqn.primitive) is LibraryPrimitive
        or isinstance(eqn.primitive, Collective)
        or name.startswith("random_")
    ):
        return RooflineResult()
    shapes = [RooflineShape.from_aval(v.aval) for v in (*eqn.invars, *eqn.outvars)]
    flops = int(operations(eqn)) if name not in ("imag", "real") else shapes[-1].size
    if name.startswith("reduce_") and len(eqn.invars) == 1 and name != "reduce_precision":
        flops = shapes[0].size - shapes[-1].size
    moves = flops or name.startswith("reduce_")
    return _unfused(flops, sum(shape.bytes for shape in shapes)) if moves else RooflineResult()


def _moved(ctx: RooflineRuleContext, *operands: RooflineShape) -> int:
    return sum(x.bytes for x in operands) + RooflineShape.total_bytes(ctx.avals_out)


def dot_general(
    ctx: RooflineRuleContext,
    lhs: RooflineShape,
    rhs: RooflineShape,
    *,
    dimension_numbers: Any,
    **params: Any,
) -> RooflineResult:
    (contracted, _), _ = dimension_numbers
    out = RooflineShape.from_aval(ctx.avals_out[0])
    flops = 2 * out.size * math.prod(lhs.shape[i] for i in contracted)
    # A pinned left operand is overwritten by the result, which then stays as well.
    moved = (lhs.bytes + out.bytes) * (not ctx.pin_lhs_in_vmem) + rhs.bytes * (
        not ctx.pin_rhs_in_vmem
    )
    return RooflineResult(
        flops=flops, unfused_flops=flops, hbm_bytes=moved, unfused_hbm_bytes=moved
    )


def conv_general_dilated(
    ctx: RooflineRuleContext,
    lhs: RooflineShape,
    rhs: RooflineShape,
    *,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: Any,
    batch_group_count: int,
    **params: object,
) -> RooflineResult:
    """The number of products with elements: products with padding are left out."""
    batch, _, *spatial = dimension_numbers.lhs_spec
    features, of_each, *windows = dimension_numbers.rhs_spec
    out_axes = dimension_numbers.out_spec[2:]
    out = ctx.avals_out[0].shape
    pairs = [
        _meetings(lhs.shape[i], rhs.shape[j], out[o], *window)
        for i, j, o, *window in zip(
            spatial,
            windows,
            out_axes,
            window_strides,
            [low for low, _ in padding],
            lhs_dilation,
            rhs_dilation,
            strict=True,
        )
    ]
    rest = lhs.shape[batch] // batch_group_count * rhs.shape[features] * rhs.shape[of_each]
    return _unfused(2 * math.prod(pairs) * rest, _moved(ctx, lhs, rhs))


def _meetings(
    size: int, window: int, out: int, stride: int, low: int, dilation: int, window_dilation: int
) -> int:
    """How many elements of a window, over all its places along an axis, meet an element of the
    input.

    The j-th element of the window that begins at s meets one if s + j d is a multiple of the
    input's dilation, and within it.
    """
    begins = np.arange(out, dtype=np.int64) * stride - low
    last = (size - 1) * dilation
    first_j = np.maximum(0, -(begins // window_dilation))
    last_j = np.minimum(window - 1, (last - begins) // window_dilation)
    common = math.gcd(window_dilation, dilation)
    period = dilation // common
    inverse = pow(window_dilation // common, -1, period) if period > 1 else 0
    phase = (-(begins // common) * inverse) % period
    count = (last_j - phase) // period - (first_j - 1 - phase) // period
    return int(np.where((begins % common == 0) & (last_j >= first_j), count, 0).sum())


def cumulative(
    ctx: RooflineRuleContext, x: RooflineShape, *, axis: int, **params: object
) -> RooflineResult:
    """One operation for each place along the axis: places along other axes are done in parallel."""
    each = 2 if ctx.primitive is cumlogsumexp_p else 1
    return _unfused(each * x.shape[axis], _moved(ctx, x))


def gather(
    ctx: RooflineRuleContext,
    operand: RooflineShape,
    indices: RooflineShape,
    *,
    mode: Any,
    **params: object,
) -> RooflineResult:
    """Only the gathered elements are read. With FILL_OR_DROP each index is compared with its
    bounds, and each element selected."""
    out = RooflineShape.from_aval(ctx.avals_out[0])
    filled = GatherScatterMode.from_any(mode) == GatherScatterMode.FILL_OR_DROP
    return _unfused((4 * indices.size + out.size) * filled, 2 * out.bytes + indices.bytes)


def scatter(
    ctx: RooflineRuleContext,
    operand: RooflineShape,
    indices: RooflineShape,
    updates: RooflineShape,
    *,
    update_jaxpr: Any = None,
    **params: object,
) -> RooflineResult:
    """The changed elements are read with the updates, and written."""
    inner: Jaxpr | None = getattr(update_jaxpr, "jaxpr", update_jaxpr)
    each = (
        sum(operations(eqn) for eqn in inner.eqns)
        if inner is not None
        else ctx.primitive is not scatter_p
    )
    return _unfused(int(each * updates.size), 3 * updates.bytes + indices.bytes)


def select_n(
    ctx: RooflineRuleContext, which: RooflineShape, *cases: RooflineShape, **params: object
) -> RooflineResult:
    out = RooflineShape.from_aval(ctx.avals_out[0])
    return _unfused(out.size, which.bytes + out.bytes)


def callback(
    ctx: RooflineRuleContext, *operands: RooflineShape, **params: object
) -> RooflineResult:
    return _unfused(0, _moved(ctx, *operands))


_RULES: dict[str, Rule] = {
    "dot_general": dot_general,
    "conv_general_dilated": conv_general_dilated,
    "gather": gather,
    "select_n": select_n,
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"), cumulative),
    **dict.fromkeys(
        ("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"),
        scatter,
    ),
    **dict.fromkeys(("pure_callback", "io_callback", "debug_callback", "debug_print"), callback),
    **links.RULES,
}


def rule_of(eqn: Eqn) -> Rule | None:
    """The rule of the table for an equation; None where `default` is for it."""
    return None if type(eqn.primitive) is LibraryPrimitive else _RULES.get(eqn.primitive.name)


def inside(eqn: Eqn) -> list[tuple[Jaxpr, int]]:
    """The programs that an equation runs, with how many times. A `while` loop counts once: how
    often it runs is not known."""
    found = (
        list(jaxprs_in_params(eqn.params))
        if eqn.primitive.higher_order and rule_of(eqn) is None
        else []
    )
    if structure.kind_of(eqn.primitive) is structure.Branch:
        found = [max(found, key=lambda jaxpr: sum(map(operations, jaxpr.eqns)))]
    return [(jaxpr, structure.times(eqn)) for jaxpr in found]
