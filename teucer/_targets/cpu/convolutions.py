"""Convolutions on the CPU.

Those for which XLA has slow code are rewritten into operations with fast code
(docs/convolutions.md).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.types import ShapedArray
from teucer._dimensions.dimensions import dilated
from teucer._hlo import rare_hlo
from teucer._hlo.contractions import inverse_permutation, spread, taken
from teucer._lower import hlo
from teucer._targets.cpu import constants
from teucer._targets.cpu.fourier import by_fourier
from teucer._targets.cpu.rates import of_release
from teucer._xla.client import jaxlib_version

if TYPE_CHECKING:
    from teucer._core.typing import DTypeLike, Params
    from teucer._lower.context import Context
    from teucer._lower.value import Value


def convolution(
    ctx: Context, lhs: Value, rhs: Value, aval: ShapedArray, options: str, **window: object
) -> Any:
    """As `rare_hlo.convolution.plain`."""

    def direct() -> Any:
        return _written(ctx, lhs, rhs, aval, options, window)

    if ctx.module.mesh is not None or any(
        a.symbolic or not a.size for a in (lhs.aval, rhs.aval, aval)
    ):
        return direct()
    found = by_fourier(ctx, lhs, rhs, aval, window, direct)
    return direct() if found is None else found


def by_eigen(
    lhs: ShapedArray, rhs: ShapedArray, out: ShapedArray, **window: Any
) -> tuple[float, float]:
    """(the products of a convolution over two axes, the part of them that Eigen saves: a negative
    one where it takes longer). XLA gives such a convolution to YNNPACK where it is not told
    otherwise (docs/convolutions.md)."""
    (_, features, *_), (_, _, *kernel), (_, found, *places) = (
        taken(x.shape, spec)
        for x, spec in zip((lhs, rhs, out), window["dimension_numbers"], strict=True)
    )
    products = out.size * math.prod(kernel) * features
    if (
        len(kernel) < 2
        or window["feature_group_count"] * window["batch_group_count"] > 1
        or max(window["lhs_dilation"]) > 1
    ):
        return 0, 0  # YNNPACK takes none of these
    if not dtypes.issubdtype(out.dtype, np.inexact) or out.dtype in (np.float64, np.complex128):
        return products, -math.inf  # nor Eigen these
    if products < constants.EIGEN_FEW or max(features, found) <= constants.EIGEN_FEATURES:
        return 0, 0
    rates = eigen_rates()
    if math.prod(kernel) == 1:
        rate = rates.points if features >= constants.EIGEN_COLOURS else rates.colours
    elif math.prod(places) == 1:
        rate = rates.sums
    elif math.prod(kernel) > math.prod(places):  # the gradient of a kernel: features are images
        few = rates.few if features <= constants.EIGEN_IMAGES else rates.many
        rate = rates.single if features <= constants.EIGEN_SINGLE else few
    elif (
        found < constants.EIGEN_NARROW
        or constants.EIGEN_COLOURS <= features < constants.EIGEN_NARROW
        or _are_apart(kernel, window["window_strides"])
    ):
        rate = rates.narrow
    else:
        rate = rates.other
    return products, products * (1 - 1 / rate)


def _are_apart(kernel: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether windows do not overlap."""
    return max(strides) > 1 and all(s >= k for s, k in zip(strides, kernel, strict=True))


@functools.cache
def eigen_rates() -> constants.EigenRates:
    """Those of this jaxlib."""
    return of_release(constants.EIGEN, jaxlib_version)


def _written(
    ctx: Context, lhs: Value, rhs: Value, aval: ShapedArray, options: str, window: Params
) -> Any:
    avals = [lhs.aval, rhs.aval, aval]
    if ctx.module.mesh is not None or any(a.symbolic or not a.size for a in avals):
        return _ordered(ctx, lhs, rhs, aval, options, window)
    (_, _, *image), (_, inner, *kernel), (_, _, *places) = (
        taken(a.shape, spec) for a, spec in zip(avals, window["dimension_numbers"], strict=True)
    )
    groups, features = window["feature_group_count"], rhs.shape[window["dimension_numbers"][1][0]]
    if (groups > 1 or inner == features == 1) and math.prod(
        kernel
    ) * inner <= constants.CONVOLUTION_TERMS:
        return _as_even_terms(ctx, lhs, rhs, aval, window)
    if groups > 1:
        return _by_group(ctx, lhs, rhs, aval, options, window)
    if window["batch_group_count"] > 1:
        if math.prod(places) <= math.prod(kernel):
            return _as_products(ctx, lhs, rhs, aval, options, window)
    elif len(image) > 2 and min(kernel[0], places[0]) <= constants.CONVOLUTION_PLANES:
        return _by_plane(ctx, lhs, rhs, aval, options, window)
    elif dtypes.issubdtype(lhs.dtype, np.floating) and _is_swapped(image, kernel, window):
        # XLA has no fast code for the result.
        lhs, window = spread(ctx, lhs, window, window["padding"])
        (lhs,) = hlo.optimization_barrier(ctx, [lhs])
    return _ordered(ctx, lhs, rhs, aval, options, window)


def _is_swapped(image: Sequence[int], kernel: Sequence[int], window: Params) -> bool:
    """Whether XLA makes the image the kernel: where that has fewer elements. All that one pixel
    reaches counts as the image."""
    reached = [
        size if (n, stride, holes, *pads) == (1, 1, 1, size - 1, size - 1) else n
        for n, size, stride, holes, pads in zip(
            image,
            kernel,
            window["window_strides"],
            window["rhs_dilation"],
            window["padding"],
            strict=True,
        )
    ]
    return math.prod(kernel) > math.prod(reached)


def _ordered(
    ctx: Context, lhs: Value, rhs: Value, aval: ShapedArray, options: str, window: Params
) -> Any:
    """The axes in the order in which XLA has a fast kernel: features last, kernels (spatial, in,
    out).

    XLA's CPU compiler brings the axes of convolutions into this order in the main function only. In
    bodies of loops, and in functions that it does not inline, other orders run up to 100 times
    longer.
    """
    lhs_spec, rhs_spec, out_spec = (tuple(spec) for spec in window["dimension_numbers"])
    order = (lhs_spec[0], *lhs_spec[2:], lhs_spec[1])
    kernel = (*rhs_spec[2:], rhs_spec[1], rhs_spec[0])
    out = (out_spec[0], *out_spec[2:], out_spec[1])
    n = len(order)
    numbers = (
        (0, n - 1, *range(1, n - 1)),
        (n - 1, n - 2, *range(n - 2)),
        (0, n - 1, *range(1, n - 1)),
    )
    found = rare_hlo.convolution.plain(
        ctx,
        hlo.transpose(ctx, lhs, order),
        hlo.transpose(ctx, rhs, kernel),
        aval.update(shape=taken(aval.shape, out)),
        options,
        **window | {"dimension_numbers": numbers},
    )
    return hlo.transpose(ctx, found, inverse_permutation(out))


def _by_group(
    ctx: Context, lhs: Value, rhs: Value, aval: ShapedArray, options: str, window: Params
) -> Any:
    """A convolution for each group of features, one after another."""
    lhs_spec, rhs_spec, out_spec = window["dimension_numbers"]
    groups = window["feature_group_count"]
    shape = list(aval.shape)
    shape[out_spec[1]] //= groups

    def add(i: Value, found: Value, lhs: Value, rhs: Value) -> Any:
        x, w = _group(ctx, lhs, lhs_spec[1], i, groups), _group(ctx, rhs, rhs_spec[0], i, groups)
        out = _written(
            ctx,
            x,
            w,
            aval.update(shape=tuple(shape)),
            options,
            {**window, "feature_group_count": 1},
        )
        at = [ctx.constant(0, np.int32)] * aval.ndim
        at[out_spec[1]] = hlo.elementwise(
            ctx, "multiply", i, ctx.constant(shape[out_spec[1]], np.int32)
        )
        return hlo.dynamic_update_slice(ctx, found, out, at)

    return _filled(ctx, aval, groups, add, lhs, rhs)


def _group(ctx: Context, x: Value, axis: int, i: Value, count: int) -> Any:
    """Part i of so many, along an axis."""
    shape, at = list(x.shape), [ctx.constant(0, np.int32)] * x.aval.ndim
    shape[axis] //= count
    at[axis] = hlo.elementwise(ctx, "multiply", i, ctx.constant(shape[axis], np.int32))
    return hlo.dynamic_slice(ctx, x, at, shape)


def _filled(
    ctx: Context, aval: ShapedArray, count: int, add: Callable[..., Any], *operands: Value
) -> Any:
    """An array of type `aval`, into which `add(i, found, *operands)` has put part after part."""

    def unfinished(i: Value, *_: Value) -> Any:
        return (hlo.compare(ctx, i, ctx.constant(count, np.int32), "LT"),)

    def step(i: Value, found: Value, *operands: Value) -> Any:
        return (
            hlo.elementwise(ctx, "add", i, ctx.constant(1, np.int32)),
            add(i, found, *operands),
            *operands,
        )

    start = hlo.splat(ctx, 0, aval.strengthen())
    return hlo.while_(ctx, [ctx.constant(0, np.int32), start, *operands], unfinished, step)[1]


def _by_plane(
    ctx: Context, lhs: Value, rhs: Value, aval: ShapedArray, options: str, window: Params
) -> Any:
    """A convolution over three axes or more by those over all but the first: XLA has fast code for
    two."""
    lhs_spec, rhs_spec, out_spec = window["dimension_numbers"]
    images, along, space = lhs_spec[0], lhs_spec[2], lhs_spec[3:]
    kernels, across, beside = rhs_spec[0], rhs_spec[2], rhs_spec[3:]
    taps, (batch, features, places, *rest) = rhs.shape[across], taken(aval.shape, out_spec)
    lhs, window = spread(ctx, lhs, window, [window["padding"][0], *[(0, 0)] * len(rest)])
    n = len(rest) + 1
    numbers = ((0, n, *range(1, n)), (n, n - 1, *range(n - 1)), (0, n, *range(1, n)))
    stride, holes = window["window_strides"][0], window["rhs_dilation"][0]
    fields = ("window_strides", "padding", "lhs_dilation", "rhs_dilation")
    window = {**window, "dimension_numbers": numbers, **{name: window[name][1:] for name in fields}}

    def planes(x: Value, axis: int, start: int, count: int, step: int) -> Any:
        at, to, by = [0] * x.aval.ndim, list(x.shape), [1] * x.aval.ndim
        at[axis], to[axis], by[axis] = start, start + dilated(count, step), step
        return hlo.slice(ctx, x, at, to, by)

    def merged(x: Value, order: Sequence[int], at: int) -> Any:
        """x with its axes in an order; then the axis at a place and the next one become one."""
        x = hlo.transpose(ctx, x, order)
        return hlo.reshape(
            ctx, x, (*x.shape[:at], x.shape[at] * x.shape[at + 1], *x.shape[at + 2 :])
        )

    def convolved(x: Value, w: Value) -> Any:
        out = ShapedArray((x.shape[0], *rest, features), _wide(aval.dtype))
        return _written(ctx, x, w, out, options, window)

    if taps <= places:
        # The planes of the result are more images; each plane of the kernel gives a term.
        terms = [
            convolved(
                merged(
                    planes(lhs, along, k * holes, places, stride),
                    (images, along, *space, lhs_spec[1]),
                    0,
                ),
                merged(planes(rhs, across, k, 1, 1), (across, *beside, rhs_spec[1], kernels), 0),
            )
            for k in range(taps)
        ]
        found = terms[0]
        for term in terms[1:]:
            found = hlo.elementwise(ctx, "add", found, term)
    else:
        # The planes of the kernel are more features; each plane of the result is a convolution.
        w = merged(rhs, (*beside, across, rhs_spec[1], kernels), n - 1)
        found = hlo.concatenate(
            ctx,
            [
                hlo.reshape(
                    ctx,
                    convolved(
                        merged(
                            planes(lhs, along, p * stride, taps, holes),
                            (images, *space, along, lhs_spec[1]),
                            n,
                        ),
                        w,
                    ),
                    (batch, 1, *rest, features),
                )
                for p in range(places)
            ],
            1,
        )
    found = hlo.convert(ctx, hlo.reshape(ctx, found, (batch, places, *rest, features)), aval.dtype)
    return hlo.transpose(ctx, found, inverse_permutation((out_spec[0], *out_spec[2:], out_spec[1])))


def _as_even_terms(ctx: Context, lhs: Value, rhs: Value, aval: ShapedArray, window: Params) -> Any:
    """As `_as_terms`, of an even number of elements: XLA's loops over an odd number of so many
    terms take up to 20 times as long. One more place is computed, and cut off."""
    if aval.size % 2 == 0 or aval.size == 1:
        return _as_terms(ctx, lhs, rhs, aval, window)
    axis, (*pads, (low, high)) = window["dimension_numbers"][2][-1], window["padding"]
    shape = list(aval.shape)
    shape[axis] += 1
    longer = {**window, "padding": (*pads, (low, high + window["window_strides"][-1]))}
    found = _as_terms(ctx, lhs, rhs, aval.update(shape=tuple(shape)), longer)
    (found,) = hlo.optimization_barrier(ctx, [found])
    return hlo.slice_at(ctx, found, axis, 0, aval.shape[axis])


def _as_terms(ctx: Context, lhs: Value, rhs: Value, aval: ShapedArray, window: Params) -> Any:
    """A convolution of groups of few features, as a sum of shifted images times an element of each
    kernel."""
    lhs_spec, rhs_spec, out_spec = window["dimension_numbers"]
    groups, (features, inner, *kernel) = window["feature_group_count"], taken(rhs.shape, rhs_spec)
    wide = _wide(aval.dtype)
    lhs, window = spread(ctx, hlo.convert(ctx, lhs, wide), window, window["padding"])
    rhs = hlo.convert(ctx, rhs, wide)
    places = taken(aval.shape, out_spec)[2:]
    axis, each = lhs_spec[1], features // groups
    # The terms: axes as of lhs; the features of each group have an axis of their own behind the
    # axis of groups.
    shape = [groups if a == axis else 0 for a in range(lhs.aval.ndim)]
    for a, n in zip((lhs_spec[0], *lhs_spec[2:]), (lhs.shape[lhs_spec[0]], *places), strict=True):
        shape[a] = n
    several = (each,) if each > 1 else ()
    split = (*shape[: axis + 1], *several, *shape[axis + 1 :])
    kept = [a + len(several) * (a > axis) for a in range(lhs.aval.ndim)]
    total: Any = None
    for tap in np.ndindex(*kernel):
        for feature in range(inner):
            at, to, by = _window(lhs.shape, window, tap, places)
            at[axis], by[axis] = feature, inner
            image = hlo.broadcast_in_dim(ctx, hlo.slice(ctx, lhs, at, to, by), split, kept)
            start = [0] * rhs.aval.ndim
            stop = list(rhs.shape)
            for a, i in zip(rhs_spec[1:], (feature, *tap), strict=True):
                start[a], stop[a] = i, i + 1
            factors = hlo.reshape(
                ctx, hlo.slice(ctx, rhs, start, stop, [1] * len(start)), (groups, *several)
            )
            factors = hlo.broadcast_in_dim(
                ctx, factors, split, range(axis, axis + 1 + len(several))
            )
            term = hlo.elementwise(ctx, "multiply", image, factors)
            total = term if total is None else hlo.elementwise(ctx, "add", total, term)
    merged = hlo.reshape(ctx, total, (*shape[:axis], features, *shape[axis + 1 :]))
    order = taken(lhs_spec, inverse_permutation(out_spec))
    return hlo.convert(ctx, hlo.transpose(ctx, merged, order), aval.dtype)


def _as_products(
    ctx: Context, lhs: Value, rhs: Value, aval: ShapedArray, options: str, window: Params
) -> Any:
    """A convolution of groups of images whose kernels are greater than its result, as one product
    of matrices for each place. Gradients of kernels in groups are such convolutions."""
    lhs_spec, rhs_spec, out_spec = window["dimension_numbers"]
    rank, groups, (features, _, *kernel) = (
        lhs.aval.ndim,
        window["batch_group_count"],
        taken(rhs.shape, rhs_spec),
    )
    wide = _wide(aval.dtype)
    lhs, window = spread(ctx, hlo.convert(ctx, lhs, wide), window, window["padding"])
    rhs = hlo.convert(ctx, rhs, wide)
    batch, _, *places = taken(aval.shape, out_spec)
    each = features // groups
    images, kernels = lhs_spec[0], rhs_spec[0]
    if batch == each == 1:
        # Products of vectors are loops, which run over both arrays in the order of lhs.
        (kernel_of, image_of, *space), (image, feature, *beside) = rhs_spec, lhs_spec
        rhs = hlo.transpose(
            ctx,
            rhs,
            taken((image_of, kernel_of, *space), inverse_permutation((feature, image, *beside))),
        )
    else:
        rhs = hlo.reshape(ctx, rhs, (*rhs.shape[:kernels], groups, each, *rhs.shape[kernels + 1 :]))
    starts = np.zeros((math.prod(places), rank), np.int32)
    starts[:, lhs_spec[2:]] = (
        np.stack(np.unravel_index(np.arange(len(starts)), tuple(places)), 1)
        * window["window_strides"]
    )
    extent = [dilated(n, holes) for n, holes in zip(kernel, window["rhs_dilation"], strict=True)]
    result = ShapedArray((groups, batch, each), wide)

    def product(at: Sequence[Value], lhs: Value, rhs: Value) -> Any:
        shape, by = list(lhs.shape), [1] * rank
        for a, n, holes in zip(lhs_spec[2:], extent, window["rhs_dilation"], strict=True):
            shape[a], by[a] = n, holes
        part = hlo.dynamic_slice(ctx, lhs, at, shape)
        part = part if max(by) == 1 else hlo.slice(ctx, part, [0] * rank, shape, by)
        if batch == each == 1:
            others = [a for a in range(rank) if a != images]
            (sums,) = hlo.reduce(
                ctx,
                [hlo.elementwise(ctx, "multiply", part, rhs)],
                [ctx.constant(0, wide)],
                others,
                lambda x, y: (hlo.elementwise(ctx, "add", x, y),),
            )
            return hlo.reshape(ctx, sums, result.shape)
        part = hlo.reshape(
            ctx, part, (*part.shape[:images], groups, batch, *part.shape[images + 1 :])
        )
        contract = (
            [a + (a > images) for a in lhs_spec[1:]],
            [a + (a > kernels) for a in rhs_spec[1:]],
        )
        return hlo.dot_general.plain(
            ctx, part, rhs, contract, ([images], [kernels]), result, options
        )

    def add(i: Value, found: Value, lhs: Value, rhs: Value, starts: Value) -> Any:
        zero = ctx.constant(0, np.int32)
        row = hlo.dynamic_slice(ctx, starts, [i, zero], (1, rank))
        at = [
            hlo.reshape(ctx, hlo.slice(ctx, row, [0, a], [1, a + 1], [1, 1]), ())
            for a in range(rank)
        ]
        out = hlo.reshape(ctx, product(at, lhs, rhs), (1, *result.shape))
        return hlo.dynamic_update_slice(ctx, found, out, [i, zero, zero, zero])

    all_places = ShapedArray((len(starts), *result.shape), wide)
    found = _filled(ctx, all_places, len(starts), add, lhs, rhs, ctx.constant(starts))
    found = hlo.reshape(ctx, hlo.transpose(ctx, found, (2, 1, 3, 0)), (batch, features, *places))
    return hlo.convert(ctx, hlo.transpose(ctx, found, inverse_permutation(out_spec)), aval.dtype)


def _wide(dtype: DTypeLike) -> Any:
    """The dtype to add numbers in."""
    return np.promote_types(dtype, np.float32) if dtypes.issubdtype(dtype, np.floating) else dtype


def _window(
    shape: Sequence[int], window: Params, start: Sequence[int], counts: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """The slice of lhs that an element of the kernel meets: where it begins and ends, and its
    strides."""
    at, to, by = [0] * len(shape), list(shape), [1] * len(shape)
    for a, i, n, stride, holes in zip(
        window["dimension_numbers"][0][2:],
        start,
        counts,
        window["window_strides"],
        window["rhs_dilation"],
        strict=True,
    ):
        at[a], by[a] = i * holes, stride
        to[a] = at[a] + dilated(n, stride)
    return at, to, by
