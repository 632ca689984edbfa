"""Convolutions as StableHLO (docs/convolutions.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._core.types import ShapedArray
from teucer._hlo import rare_hlo
from teucer._hlo.contractions import spread
from teucer._lower import hlo

if TYPE_CHECKING:
    from teucer._lower.context import Context
    from teucer._lower.value import Value


def convolution(
    ctx: Context, lhs: Value, rhs: Value, aval: ShapedArray, options: str, window: Any
) -> Any:
    """A convolution of type `aval`. options: its precision; window: the other parameters of
    `conv_general_dilated_p`.

    Over several devices it is not divided along spatial axes nor, with batch groups, at all: XLA's
    partitioner gives wrong sums where spatial axes and output features are both divided (seen with
    jaxlib 0.10.2).
    """
    if any(p < 0 for pair in window["padding"] for p in pair):
        # XLA's CPU convolution reads out of bounds for negative padding. If one side crops, the
        # other may have to pad first.
        lhs, window = spread(
            ctx, lhs, window, [pads if min(pads) < 0 else (0, 0) for pads in window["padding"]]
        )
    if lhs.dtype.kind == "c":
        return _complex(ctx, lhs, rhs, aval, options, window)
    lhs_spec, rhs_spec, _ = window["dimension_numbers"]
    axes = [None, None] if window["batch_group_count"] > 1 else [lhs_spec[2:], rhs_spec[2:]]
    lhs, rhs = (ctx.whole(x, dims) for x, dims in zip((lhs, rhs), axes, strict=True))
    return rare_hlo.convolution(ctx, lhs, rhs, aval, options, **window)


def _complex(
    ctx: Context, lhs: Value, rhs: Value, aval: ShapedArray, options: str, window: object
) -> Any:
    """Four real convolutions: XLA's complex one takes 26 times as long as a real one on CPU (8
    images of 32 x 32 x 32, kernels of 3 x 3). Three would do, but lose accuracy where the parts
    differ in size."""
    part = np.dtype(np.finfo(lhs.dtype).dtype)
    result = ShapedArray(aval.shape, np.dtype(np.finfo(aval.dtype).dtype))
    (a, b), (c, d) = (
        [
            ctx.op1(f"stablehlo.{name}", (x,), ShapedArray(x.shape, part))
            for name in ("real", "imag")
        ]
        for x in (lhs, rhs)
    )
    ac, bd, ad, bc = (
        convolution(ctx, x, y, result, options, window) for x, y in ((a, c), (b, d), (a, d), (b, c))
    )
    return ctx.op1(
        "stablehlo.complex",
        (hlo.elementwise(ctx, "subtract", ac, bd), hlo.elementwise(ctx, "add", ad, bc)),
        aval,
    )
