"""Convolutions with large kernels by the Fourier transform (docs/convolutions.md, "By the Fourier
transform").

A convolution of n places with a kernel of k takes n k products as it is written, and n log n
through the transform. Transforms are of float64: the error of an element is 2^-52 times the norms
of the image and of the kernel, where sums of float32 have 2^-24 times the sum of the terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from teucer._base import dtypes
from teucer._core.types import ShapedArray
from teucer._hlo import rare_hlo
from teucer._hlo.contractions import inverse_permutation, taken
from teucer._lower import hlo
from teucer._targets.cpu import constants

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.typing import Params
    from teucer._lower.context import Context
    from teucer._lower.value import Value


_WIDE, _SPECTRUM = np.dtype(np.float64), np.dtype(np.complex128)


class _Axis(NamedTuple):
    """An axis of space: the length of its transform; how many of its sums with a negative shift are
    in the result, and how many others; zeros around them (negative: sums cut off)."""

    length: int
    before: int
    behind: int
    pads: tuple[int, int]


class _Sizes(NamedTuple):
    """The operands: groups, each of images and kernels of so many features."""

    groups: int
    images: int
    kernels: int
    features: int


def by_fourier(
    ctx: Context,
    lhs: Value,
    rhs: Value,
    aval: ShapedArray,
    window: Params,
    direct: Callable[[], Value],
) -> Value | None:
    """A convolution by the Fourier transform, if that is less work than `direct` writes.

    Numbers that are not finite, or whose products are not, take the direct way: their sums show
    only where the kernel meets them.
    """
    sizes = _sizes(lhs.aval, rhs.aval, window)
    axes = _axes(lhs.aval, rhs.aval, window)
    if (
        axes is None
        or not dtypes.issubdtype(lhs.dtype, np.floating)
        or not _gains(sizes, axes, rhs.aval, aval, window)
    ):
        return None
    is_tame = hlo.elementwise(ctx, "and", *(_is_tame(ctx, x) for x in (lhs, rhs)))
    (found,) = rare_hlo.case(
        ctx,
        hlo.convert(ctx, is_tame, np.dtype(np.int32)),
        [lambda: (direct(),), lambda: (_transformed(ctx, lhs, rhs, aval, window, sizes, axes),)],
        [aval.strengthen()],
    )
    return found


def _sizes(lhs: ShapedArray, rhs: ShapedArray, window: Params) -> _Sizes:
    lhs_spec, rhs_spec, _ = window["dimension_numbers"]
    grouped = window["batch_group_count"]
    groups = window["feature_group_count"] * grouped
    return _Sizes(
        groups,
        lhs.shape[lhs_spec[0]] // grouped,
        rhs.shape[rhs_spec[0]] // groups,
        rhs.shape[rhs_spec[1]],
    )


def _axes(lhs: ShapedArray, rhs: ShapedArray, window: Params) -> list[_Axis] | None:
    """The plan for each spatial axis; None where the transform does not apply."""
    lhs_spec, rhs_spec, _ = window["dimension_numbers"]
    steps = (*window["window_strides"], *window["lhs_dilation"], *window["rhs_dilation"])
    if not 1 <= len(lhs_spec) - 2 <= 3 or max(steps) > 1:
        return None
    axes = []
    for n, k, (low, high) in zip(
        taken(lhs.shape, lhs_spec)[2:],
        taken(rhs.shape, rhs_spec)[2:],
        window["padding"],
        strict=True,
    ):
        before, after = (min(max(pad, 0), k - 1) for pad in (low, high))
        behind = n + after - k + 1
        if behind < 0:
            return None
        axes.append(
            _Axis(
                _fast_length(n + max(before, after)), before, behind, (low - before, high - after)
            )
        )
    return axes


def _fast_length(n: int) -> int:
    """The least product of 2, 3 and 5 that is not below n."""
    odds: list[int] = [3**i * 5**j for i in range(8) for j in range(6)]
    return min([odd << (-(-n // odd) - 1).bit_length() for odd in odds])


def _gains(
    sizes: _Sizes, axes: Sequence[_Axis], rhs: ShapedArray, out: ShapedArray, window: Params
) -> bool:
    """Whether transforms take clearly less time than products."""
    kernel = math.prod(taken(rhs.shape, window["dimension_numbers"][1])[2:])
    products = out.size * kernel * sizes.features
    groups, images, kernels, features = sizes
    arrays = groups * (images * features + kernels * features + images * kernels)
    length = math.prod([axis.length for axis in axes])
    if arrays * length > constants.FOURIER_MOST:
        return False
    block = _block_length(taken(rhs.shape, window["dimension_numbers"][1])[2:], axes) or length
    terms = groups * images * kernels * features * length
    dense = min(features, kernels) >= constants.FOURIER_RATES.few
    rate = constants.FOURIER_RATES.dense if dense else constants.FOURIER_RATES.product
    spent = arrays * length * math.log2(block + 1) * constants.FOURIER_RATES.transform + terms
    return bool(spent + constants.FOURIER_RATES.start < products * rate)


def _is_tame(ctx: Context, x: Value) -> Value:
    """Whether all elements are finite, and small enough for sums of products."""
    bound = 2.0**480 if x.dtype == _WIDE else float(dtypes.finfo(x.dtype).max)
    held = hlo.compare(
        ctx, hlo.elementwise(ctx, "abs", x), hlo.splat(ctx, bound, x.aval.strengthen()), "LE"
    )
    return hlo.reduce(
        ctx,
        [held],
        [ctx.constant(True, np.dtype(bool))],
        range(x.aval.ndim),
        lambda a, b: (hlo.elementwise(ctx, "and", a, b),),
    )[0]


def _transformed(
    ctx: Context,
    lhs: Value,
    rhs: Value,
    aval: ShapedArray,
    window: Params,
    sizes: _Sizes,
    axes: Sequence[_Axis],
) -> Value:
    groups, images, kernels, features = sizes
    lhs_spec, rhs_spec, out_spec = window["dimension_numbers"]
    x = hlo.transpose(ctx, hlo.convert(ctx, lhs, _WIDE), lhs_spec)
    space = x.shape[2:]
    if window["batch_group_count"] > 1:
        x = hlo.reshape(ctx, x, (groups, images, features, *space))
    else:
        x = hlo.reshape(ctx, x, (images, groups, features, *space))
        x = hlo.transpose(ctx, x, (1, 0, *range(2, x.aval.ndim)))
    w = hlo.transpose(ctx, hlo.convert(ctx, rhs, _WIDE), rhs_spec)
    w = hlo.reshape(ctx, w, (groups, kernels, features, *w.shape[2:]))
    block = _block_length(w.shape[3:], axes)
    sums = _sums(ctx, x, w, axes) if block is None else _by_blocks(ctx, x, w, axes[0], block)
    low, high = ([axis.pads[end] for axis in axes] for end in (0, 1))
    places = taken(aval.shape, out_spec)[2:]
    sums = hlo.pad(
        ctx,
        sums,
        ctx.constant(0, _WIDE),
        [0, 0, 0, *low],
        [0, 0, 0, *high],
        [0] * sums.aval.ndim,
        ShapedArray((*sums.shape[:3], *places), _WIDE),
    )
    # (groups, images, kernels, ...) -> (images, groups of kernels, ...)
    sums = hlo.transpose(ctx, sums, (1, 0, *range(2, sums.aval.ndim)))
    sums = hlo.reshape(ctx, sums, (images, groups * kernels, *places))
    return hlo.transpose(ctx, hlo.convert(ctx, sums, aval.dtype), inverse_permutation(out_spec))


def _sums(ctx: Context, x: Value, w: Value, axes: Sequence[_Axis]) -> Value:
    """For each group, image and kernel the sums over features and places of the kernel, of x:
    (groups, images, features, ...) and w: (groups, kernels, features, ...)."""
    lengths = [axis.length for axis in axes]
    # No sum is greater than the product of the norms. A sum below the rounding of that bound is 0.
    norms = [_energy(ctx, v) for v in (x, w)]
    product = _product(ctx, *(_spectrum(ctx, v, lengths) for v in (x, w)))
    sums = rare_hlo.fft(
        ctx, product, "IRFFT", lengths, ShapedArray((*product.shape[:3], *lengths), _WIDE)
    )
    for at, axis in enumerate(axes, 3):
        sums = _shifted(ctx, sums, at, axis)
    shape = sums.shape[:3]
    energies = [hlo.broadcast_in_dim(ctx, norm, shape, (0, at)) for at, norm in enumerate(norms, 1)]
    bound = hlo.elementwise(
        ctx,
        "multiply",
        hlo.elementwise(ctx, "sqrt", hlo.elementwise(ctx, "multiply", *energies)),
        hlo.splat(ctx, 2.0**-52 * math.log2(2 * math.prod(lengths)), energies[0].aval),
    )
    is_noise = hlo.compare(
        ctx,
        hlo.elementwise(ctx, "abs", sums),
        hlo.broadcast_in_dim(ctx, bound, sums.shape, range(3)),
        "LE",
    )
    return hlo.select(ctx, is_noise, hlo.splat(ctx, 0, sums.aval), sums)


def _block_length(kernel: Sequence[int], axes: Sequence[_Axis]) -> int | None:
    """How long the blocks are in which an axis is convolved, if it is so much longer than the
    kernel that blocks take less time. Their transforms stay in the cache."""
    if len(axes) > 1:
        return None
    length = _fast_length(max(constants.FOURIER_KERNELS * kernel[0], constants.FOURIER_BLOCK))
    return length if constants.FOURIER_BLOCKS * length <= axes[0].length else None


def _by_blocks(ctx: Context, x: Value, w: Value, axis: _Axis, length: int) -> Value:
    """As `_sums` along one axis, of blocks that overlap by all but one place of the kernel."""
    kernel = w.shape[3]
    step, count = length - kernel + 1, axis.before + axis.behind
    blocks = -(-count // step)
    groups, images, features, n = x.shape
    total = step * (blocks + 1)
    x = hlo.pad(
        ctx,
        x,
        ctx.constant(0, _WIDE),
        [0, 0, 0, axis.before],
        [0, 0, 0, total - n - axis.before],
        [0] * 4,
        ShapedArray((groups, images, features, total), _WIDE),
    )
    rows = hlo.reshape(ctx, x, (groups, images, features, blocks + 1, step))
    here, next_ = (hlo.slice_at(ctx, rows, 3, start, blocks) for start in (0, 1))
    whole = hlo.concatenate(ctx, [here, hlo.slice_at(ctx, next_, 4, 0, kernel - 1)], 4)
    whole = hlo.transpose(ctx, whole, (0, 1, 3, 2, 4))
    whole = hlo.reshape(ctx, whole, (groups, images * blocks, features, length))
    sums = _sums(ctx, whole, w, [_Axis(length, 0, step, (0, 0))])
    kernels = sums.shape[2]
    sums = hlo.reshape(ctx, sums, (groups, images, blocks, kernels, step))
    sums = hlo.transpose(ctx, sums, (0, 1, 3, 2, 4))
    sums = hlo.reshape(ctx, sums, (groups, images, kernels, blocks * step))
    return hlo.slice_at(ctx, sums, 3, 0, count)


def _energy(ctx: Context, x: Value) -> Value:
    """The sum of squares of each image, or kernel, of each group."""
    return hlo.reduce(
        ctx,
        [hlo.elementwise(ctx, "multiply", x, x)],
        [ctx.constant(0, _WIDE)],
        range(2, x.aval.ndim),
        lambda a, b: (hlo.elementwise(ctx, "add", a, b),),
    )[0]


def _spectrum(ctx: Context, x: Value, lengths: Sequence[int]) -> Value:
    """The transform of real arrays, with zeros behind them."""
    more = [n - m for n, m in zip(lengths, x.shape[3:], strict=True)]
    none = [0] * x.aval.ndim
    x = hlo.pad(
        ctx,
        x,
        ctx.constant(0, _WIDE),
        none,
        [0, 0, 0, *more],
        none,
        ShapedArray((*x.shape[:3], *lengths), _WIDE),
    )
    shape = (*x.shape[:-1], x.shape[-1] // 2 + 1)
    return rare_hlo.fft(ctx, x, "RFFT", lengths, ShapedArray(shape, _SPECTRUM))


def _product(ctx: Context, x: Value, w: Value) -> Value:
    """x times the conjugate of w, for each image and each kernel, summed over features."""
    shape = (*x.shape[:2], w.shape[1], *x.shape[2:])
    rest = range(3, len(shape))
    parts = [
        ctx.op1(f"stablehlo.{name}", (w,), ShapedArray(w.shape, _WIDE)) for name in ("real", "imag")
    ]
    w = ctx.op1("stablehlo.complex", (parts[0], hlo.elementwise(ctx, "negate", parts[1])), w.aval)
    terms = hlo.elementwise(
        ctx,
        "multiply",
        hlo.broadcast_in_dim(ctx, x, shape, (0, 1, *rest)),
        hlo.broadcast_in_dim(ctx, w, shape, (0, 2, *rest)),
    )
    return hlo.reduce(
        ctx,
        [terms],
        [ctx.constant(0, _SPECTRUM)],
        [3],
        lambda a, b: (hlo.elementwise(ctx, "add", a, b),),
    )[0]


def _shifted(ctx: Context, sums: Value, at: int, axis: _Axis) -> Value:
    """The sums of an axis in the order of their shifts; sums of negative shifts stand last."""
    parts = [
        hlo.slice_at(ctx, sums, at, start, count)
        for start, count in ((axis.length - axis.before, axis.before), (0, axis.behind))
        if count
    ]
    return parts[0] if len(parts) == 1 else hlo.concatenate(ctx, parts, at)
