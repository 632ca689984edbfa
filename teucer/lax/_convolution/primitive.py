"""conv_general_dilated, the convolution of arrays with kernels, and all of its rules."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, final

import numpy as np

from teucer._base import dtypes
from teucer._core import array_ops, dialects
from teucer._core.cost import Cost, Work
from teucer._core.primitive import Primitive, Undefined
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray
from teucer._core.typing import Array, DTypeLike
from teucer._devices import partition
from teucer._devices.partition import Labels
from teucer._devices.shardings import explicit_sharding, typed
from teucer._dimensions.dimensions import dilated, is_constant, is_symbolic
from teucer._hlo.contractions import inverse_permutation, taken
from teucer.lax._convolution.lowering import convolution
from teucer.lax._convolution.shapes import (
    ConvDimensionNumbers,
    canonical_padding,
    conv_dimension_numbers,
    conv_shape_tuple,
)
from teucer.lax._dot import bilinear_jvp, cotangent_sharding, element_type_of
from teucer.lax._precision import canonical_precision, precision_text
from teucer.lax._shapes import rev
from teucer.lax._structure import convert_element_type, moveaxis, reshape
from teucer.lax._window_shapes import moved_by_padding

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.typing import ArrayLike, Aval, Avals, Dims, Params, Partition, Size
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value

    class ConvGeneralDilatedParams(TypedDict):
        window_strides: Sequence[int]
        padding: Pads
        lhs_dilation: Sequence[int]
        rhs_dilation: Sequence[int]
        dimension_numbers: Any
        feature_group_count: int
        batch_group_count: int
        precision: object
        preferred_element_type: DTypeLike | None
        out_sharding: Partition | None


__all__ = ["conv", "conv_general_dilated", "conv_general_dilated_p", "conv_with_general_padding"]

Pads = Sequence[tuple[int, int]]


def _operations(avals: Avals, out: ShapedArray, params: Params) -> float:
    """Two for each product, were there no padding."""
    kernel = avals[1]
    features = kernel.shape[params["dimension_numbers"].rhs_spec[0]]
    return float(2 * out.size * kernel.size / max(features, 1))


def _moved(lhs: Array, rhs: Array, *, dimension_numbers: Any, **params: object) -> float:
    # XLA's fast code takes the features last.
    lhs_spec, rhs_spec, _ = dimension_numbers
    return sum(x.size for x, last in ((lhs, lhs_spec[1]), (rhs, rhs_spec[0])) if last != x.ndim - 1)


@final
class ConvGeneralDilated(Primitive):
    """Sums of products of a kernel rhs with windows of lhs: cross-correlation, as is usual in
    neural networks.

    (C1) ranks agree, and strides, dilations and pads with the spatial axes.  (C2) strides and
    dilations are positive. (C3) feature sizes fit, and groups divide them; one kind of groups at
    most.  (C4) dtypes agree; the preferred one is of their kind and not narrower.
    """

    __slots__ = ()
    name = "conv_general_dilated"
    cost = Cost(separates=True, moves=_moved, work=Work.CONVOLUTION, operations=_operations)

    def types(
        self,
        lhs: Aval,
        rhs: Aval,
        *,
        window_strides: Sequence[int],
        padding: Any,
        lhs_dilation: Sequence[int],
        rhs_dilation: Sequence[int],
        dimension_numbers: Any,
        feature_group_count: int,
        batch_group_count: int,
        precision: object,
        preferred_element_type: DTypeLike | None,
        out_sharding: object = None,
    ) -> Any:
        if lhs.dtype != rhs.dtype:
            raise TypeError(
                "lax.conv_general_dilated requires arguments to have the same dtypes, got "
                f"{lhs.dtype.name}, {rhs.dtype.name}."
            )
        lhs_spec, rhs_spec, out_spec = dimension_numbers
        lhs_shape, rhs_shape = taken(lhs.shape, lhs_spec), taken(rhs.shape, rhs_spec)
        _check_window(len(lhs_shape) - 2, window_strides, padding, lhs_dilation, rhs_dilation)
        _check_groups(lhs_shape, rhs_shape, feature_group_count, batch_group_count)
        lhs_spatial = tuple(map(dilated, lhs_shape[2:], lhs_dilation))
        rhs_spatial = tuple(map(dilated, rhs_shape[2:], rhs_dilation))
        if any(
            size + low + high < 0 for size, (low, high) in zip(lhs_spatial, padding, strict=True)
        ):
            raise ValueError(
                "Negative padding is larger than the size of the corresponding dimension: got "
                f"padding={tuple(padding)} for lhs_shape[2:]={lhs_spatial}"
            )
        out = conv_shape_tuple(
            (*lhs_shape[:2], *lhs_spatial),
            (*rhs_shape[:2], *rhs_spatial),
            window_strides,
            padding,
            batch_group_count,
        )
        dtype = _result_dtype(lhs.dtype, preferred_element_type)
        return (
            ShapedArray(
                taken(out, inverse_permutation(out_spec)),
                dtype,
                lhs.weak_type and rhs.weak_type,
                sharding=typed(out_sharding, lhs.ndim),
            ),
        )

    def shard(self, lhs: Aval, rhs: ShapedArray, **params: Unpack[ConvGeneralDilatedParams]) -> Any:
        batch_group_count = params["batch_group_count"]
        plain = params["feature_group_count"] == batch_group_count == 1
        lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
        space = tuple(range(lhs.ndim - 2))
        left = dict(
            zip(
                lhs_spec,
                ("batch" if batch_group_count == 1 else None, "feature" if plain else None, *space),
                strict=True,
            )
        )
        right = dict(
            zip(
                rhs_spec,
                ("out" if plain else None, "feature" if plain else None, *(None for _ in space)),
                strict=True,
            )
        )
        out = dict(zip(out_spec, ("batch", "out", *space), strict=True))
        ins, outs = (
            [tuple(labels[i] for i in range(lhs.ndim)) for labels in group]
            for group in ((left, right), (out,))
        )
        return Labels(ins, outs)

    def lower(
        self,
        ctx: Context,
        lhs: Value,
        rhs: Value,
        *,
        precision: object,
        preferred_element_type: DTypeLike | None,
        out_sharding: object = None,
        **window: object,
    ) -> Any:
        (aval,) = ctx.avals_out
        return (convolution(ctx, lhs, rhs, aval, precision_text(precision), window),)

    def jvp(
        self,
        primals: Sequence[ArrayLike],
        tangents: Sequence[object],
        **params: Unpack[ConvGeneralDilatedParams],
    ) -> Any:
        return bilinear_jvp(self, primals, tangents, params)

    def transpose(
        self,
        cts: Sequence[object],
        lhs: object,
        rhs: ArrayLike | Undefined,
        **params: Unpack[ConvGeneralDilatedParams],
    ) -> Any:
        (ct,) = cts
        if type(lhs) is Undefined:
            return _transpose_lhs(ct, lhs.aval, rhs, **params), None
        assert type(rhs) is Undefined
        return None, _transpose_rhs(ct, lhs, rhs.aval, **params)

    def batch(
        self,
        axis: Axis,
        args: Sequence[ArrayLike],
        dims: Dims,
        **params: Unpack[ConvGeneralDilatedParams],
    ) -> Any:
        (lhs, rhs), (lhs_dim, rhs_dim) = args, dims
        if params["out_sharding"] is not None:
            return self._batch_laid_out(axis, args, dims, **params)
        if lhs_dim is not None and rhs_dim is not None:
            return _batch_both(lhs, lhs_dim, rhs, rhs_dim, axis.size, **params)
        if lhs_dim is not None:
            return _batch_lhs(lhs, lhs_dim, rhs, axis.size, **params)
        assert rhs_dim is not None
        return _batch_rhs(lhs, rhs, rhs_dim, axis.size, **params)

    def _batch_laid_out(
        self,
        axis: Axis,
        args: Sequence[ArrayLike],
        dims: Dims,
        **params: Unpack[ConvGeneralDilatedParams],
    ) -> Any:
        """The batch merges with other axes for the convolution. The compiler may divide the merged
        axis as it likes."""
        from teucer.lax._sharding import laid_out  # for arrays over meshes

        free: ConvGeneralDilatedParams = {**params, "out_sharding": None}

        def batched(*args: Array) -> Any:
            (out,), (dim,) = self.batch(axis, args, dims, **free)
            return array_ops.to_axis(out, dim, axis.size, 0)

        where = partition.batched(
            params["out_sharding"], np.ndim(args[0]) - (dims[0] is not None), 0, axis, args, dims
        )
        return (laid_out(self.name, where, batched, *args),), (0,)

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Sequence[Array],
        avals: Sequence[Aval],
        outs: Sequence[ShapedArray],
        *,
        padding: Any,
        dimension_numbers: Any,
        feature_group_count: int,
        batch_group_count: int,
        **params: Any,
    ) -> Any:
        (lhs, rhs), (lhs_aval, rhs_aval) = args, avals
        lhs_spec, rhs_spec, out_spec = dimension_numbers
        grouped = {lhs_spec[1], *(lhs_spec[:1] if batch_group_count > 1 else ())}, {*rhs_spec[:2]}
        if max(feature_group_count, batch_group_count) > 1 and any(
            is_symbolic(aval.shape[a])
            for aval, axes in zip(avals, grouped, strict=True)
            for a in axes
        ):
            sizes.refuse("groups of an axis that is dynamic")
        if not is_constant([rhs_aval.shape[a] for a in rhs_spec[2:]]):
            sizes.refuse("the kernel is dynamic in a spatial axis")
        lhs = sizes.mask(lhs, lhs_aval, 0, lhs_spec[1:])
        lows, spreads = [0] * len(lhs_spec), [1] * len(lhs_spec)
        for a, (low, _), spread in zip(lhs_spec[2:], padding, params["lhs_dilation"], strict=True):
            lows[a], spreads[a] = low, spread
        lhs = moved_by_padding(sizes, lhs, lows, 0, spreads)
        rhs = sizes.mask(rhs, rhs_aval, 0, (rhs_spec[1],))
        windows = []
        for (low, high), a, b, c, stride, spread, holes in zip(
            padding,
            lhs_spec[2:],
            rhs_spec[2:],
            out_spec[2:],
            params["window_strides"],
            params["lhs_dilation"],
            params["rhs_dilation"],
            strict=True,
        ):
            low = 0 if is_symbolic(low) else low
            if is_symbolic(lhs_aval.shape[a]):
                # As many windows as the result is long at most; those behind the elements see
                # zeros.
                needed = (sizes.bounded(outs[0].shape[c]) - 1) * stride + dilated(
                    np.shape(rhs)[b], holes
                )
                high = needed - low - dilated(np.shape(lhs)[a], spread)
            windows.append((low, high))
        return self.call(
            lhs,
            rhs,
            padding=tuple(windows),
            dimension_numbers=dimension_numbers,
            feature_group_count=feature_group_count,
            batch_group_count=batch_group_count,
            **params,
        )


conv_general_dilated_p = ConvGeneralDilated()


def _check_window(
    rank: int,
    strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
) -> None:
    if len(strides) != rank:
        raise ValueError(
            "conv_general_dilated window and window_strides must have the same number of "
            f"dimensions, but got {rank} and {len(strides)}"
        )
    if len(padding) != rank:
        raise TypeError(
            f"Wrong number of explicit pads for convolution: expected {rank}, got {len(padding)}."
        )
    for name, factors in (("lhs_dilation", lhs_dilation), ("rhs_dilation", rhs_dilation)):
        if len(factors) != rank:
            raise ValueError(
                f"conv_general_dilated window and {name} must have the same number of dimensions, "
                f"but got {rank} and {len(factors)}"
            )
        if any(f <= 0 for f in factors):
            raise TypeError(
                f"All dilations must be positive, got {tuple(factors)}.\n"
                f"    {name}: {tuple(factors)}"
            )
    if any(s <= 0 for s in strides):
        raise ValueError(
            f"conv_general_dilated: window_strides must be positive, got {tuple(strides)}."
        )


def _check_groups(lhs_shape: Any, rhs_shape: Any, feature_groups: int, batch_groups: int) -> None:
    op = "conv_general_dilated"
    batch, features = lhs_shape[:2]
    out_features, in_features = rhs_shape[:2]
    # The compiler takes constants only: not those that vmap over a symbolic size makes.
    feature_groups, batch_groups = map(operator.index, (feature_groups, batch_groups))
    for kind, count in (("feature", feature_groups), ("batch", batch_groups)):
        if count <= 0:
            raise ValueError(f"{op} {kind}_group_count must be a positive integer, got {count}.")
    if feature_groups > 1 and batch_groups > 1:
        raise ValueError(
            "At most one of batch_group_count and feature_group_count may be > 1, got "
            f"batch_group_count={batch_groups} and feature_group_count={feature_groups}"
        )
    if features % feature_groups:
        raise ValueError(
            f"{op} feature_group_count must divide lhs feature dimension size, but "
            f"{feature_groups} does not divide {features}."
        )
    if features // feature_groups != in_features:
        raise ValueError(
            f"{op} lhs feature dimension size divided by feature_group_count must equal the rhs "
            f"input feature dimension size, but {features} // {feature_groups} != {in_features}."
        )
    if batch % batch_groups:
        raise ValueError(
            f"{op} batch_group_count must divide lhs batch dimension size, but {batch_groups} "
            f"does not divide {batch}."
        )
    for kind, count in (("feature", feature_groups), ("batch", batch_groups)):
        if out_features % count:
            raise ValueError(
                f"{op} rhs output feature dimension size must be a multiple of "
                f"{kind}_group_count, but {out_features} is not a multiple of {count}."
            )


_COMPATIBLE = {
    ("integral", "integral"),
    ("integral", "floating"),
    ("floating", "floating"),
    ("complex", "complex"),
}


def _kind(dtype: DTypeLike) -> str:
    kinds = (("complex", np.complexfloating), ("floating", np.floating))
    return next((name for name, kind in kinds if dtypes.issubdtype(dtype, kind)), "integral")


def _result_dtype(dtype: np.dtype[Any], preferred: Any) -> Any:
    if preferred is None or preferred == dtype:
        return dtype
    if (_kind(dtype), _kind(preferred)) not in _COMPATIBLE:
        raise TypeError(
            "Input type is incompatible with `preferred_element_type`. The compatible "
            "combinations of (input_type, preferred_element_type) are (integral, integral), "
            "(integral, floating), (floating, floating), (complex, complex).\n"
            f"    input_type: {dtype.name}\n    preferred_element_type: {preferred.name}"
        )
    if _kind(dtype) == _kind(preferred) and preferred.itemsize < dtype.itemsize:
        raise TypeError(
            "`preferred_element_type` must not be narrower than the original type.\n"
            f"    input_type: {dtype.name}\n    preferred_element_type: {preferred.name}"
        )
    return preferred


# Transposition


def _transpose_lhs(
    ct: Any,
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    **params: object,
) -> Any:
    """The cotangent of lhs: a convolution of ct with the reversed kernel, whose input and output
    features change places."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    rhs_aval = typeof(rhs)
    sizes = (
        taken(lhs.shape, lhs_spec)[2:],
        taken(rhs_aval.shape, rhs_spec)[2:],
        taken(typeof(ct).shape, out_spec)[2:],
    )
    groups = feature_group_count * batch_group_count
    rhs = convert_element_type(rhs, typeof(ct).dtype) if rhs_aval.dtype != typeof(ct).dtype else rhs
    if groups > 1:
        # Each group has its own outputs and inputs: the group goes over from the outputs to the
        # inputs.
        rhs = _split_onto(rhs, rhs_spec[0], groups, rhs_spec[1])
    rhs = rev(rhs, rhs_spec[2:])
    (out,) = conv_general_dilated_p.call(
        ct,
        rhs,
        window_strides=lhs_dilation,
        lhs_dilation=window_strides,
        rhs_dilation=rhs_dilation,
        padding=_lhs_pads(*sizes, window_strides, padding, lhs_dilation, rhs_dilation),
        dimension_numbers=ConvDimensionNumbers(
            out_spec, (rhs_spec[1], rhs_spec[0], *rhs_spec[2:]), lhs_spec
        ),
        feature_group_count=groups,
        batch_group_count=1,
        **params
        | {
            "out_sharding": cotangent_sharding(lhs, range(lhs.ndim), (ct, rhs), ((), ()))
            if groups == 1
            else None
        },
    )
    if batch_group_count > 1:
        out = _split_onto(out, lhs_spec[1], batch_group_count, lhs_spec[0])
    return out if typeof(out).dtype == lhs.dtype else convert_element_type(out, lhs.dtype)


def _transpose_rhs(
    ct: Any,
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    **params: object,
) -> Any:
    """The cotangent of rhs: a convolution of lhs with ct as its kernel, in which batch and features
    change places."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    lhs_aval = typeof(lhs)
    sizes = (
        taken(lhs_aval.shape, lhs_spec)[2:],
        taken(rhs.shape, rhs_spec)[2:],
        taken(typeof(ct).shape, out_spec)[2:],
    )
    lhs = convert_element_type(lhs, typeof(ct).dtype) if lhs_aval.dtype != typeof(ct).dtype else lhs

    def swapped(spec: Any) -> tuple[int, ...]:
        return (spec[1], spec[0], *spec[2:])

    (out,) = conv_general_dilated_p.call(
        lhs,
        ct,
        window_strides=rhs_dilation,
        lhs_dilation=lhs_dilation,
        rhs_dilation=window_strides,
        padding=_rhs_pads(*sizes, window_strides, padding, lhs_dilation, rhs_dilation),
        dimension_numbers=ConvDimensionNumbers(
            swapped(lhs_spec), swapped(out_spec), swapped(rhs_spec)
        ),
        feature_group_count=batch_group_count,
        batch_group_count=feature_group_count,
        **params | {"out_sharding": cotangent_sharding(rhs, range(rhs.ndim), (lhs, ct), ((), ()))},
    )
    return out if typeof(out).dtype == rhs.dtype else convert_element_type(out, rhs.dtype)


def _lhs_pads(
    lhs: Any,
    rhs: Any,
    out: Any,
    strides: Sequence[int],
    padding: Pads,
    lhs_dilation: Any,
    rhs_dilation: Any,
) -> Any:
    """Pads for the cotangent of lhs: by axis, how far the kernel overhangs."""
    pads = []
    for n, k, m, stride, (low, _), ld, rd in zip(
        lhs, rhs, out, strides, padding, lhs_dilation, rhs_dilation, strict=True
    ):
        before = dilated(k, rd) - 1 - low
        pads.append((before, dilated(n, ld) + dilated(k, rd) - 1 - dilated(m, stride) - before))
    return tuple(pads)


def _rhs_pads(
    lhs: Any,
    rhs: Any,
    out: Any,
    strides: Sequence[int],
    padding: Pads,
    lhs_dilation: Any,
    rhs_dilation: Any,
) -> Any:
    """Pads for the cotangent of rhs: as many windows as the kernel has elements."""
    pads = []
    for n, k, m, stride, (low, _), ld, rd in zip(
        lhs, rhs, out, strides, padding, lhs_dilation, rhs_dilation, strict=True
    ):
        pads.append((low, dilated(m, stride) + dilated(k, rd) - 1 - dilated(n, ld) - low))
    return tuple(pads)


# Batching


def _batch_lhs(
    lhs: ArrayLike,
    dim: int,
    rhs: ArrayLike,
    size: object,
    *,
    dimension_numbers: Any,
    batch_group_count: int,
    **params: object,
) -> Any:
    """More images: the batch goes into the batch axis, within each group of it."""
    lhs_spec, _, out_spec = dimension_numbers
    lhs = _merge(lhs, dim, lhs_spec[0], batch_group_count)
    outs = conv_general_dilated_p.call(
        lhs, rhs, dimension_numbers=dimension_numbers, batch_group_count=batch_group_count, **params
    )
    return _unmerge(outs[0], out_spec[0], size, 1)


def _batch_rhs(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dim: int,
    size: object,
    *,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    **params: object,
) -> Any:
    """More kernels: the batch goes into the output features, within each group of them."""
    _, rhs_spec, out_spec = dimension_numbers
    groups = feature_group_count * batch_group_count
    rhs = _merge(rhs, dim, rhs_spec[0], groups)
    outs = conv_general_dilated_p.call(
        lhs,
        rhs,
        dimension_numbers=dimension_numbers,
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        **params,
    )
    return _unmerge(outs[0], out_spec[1], size, groups)


def _batch_both(
    lhs: ArrayLike,
    lhs_dim: int,
    rhs: ArrayLike,
    rhs_dim: int,
    size: Size,
    *,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    **params: object,
) -> Any:
    """Images each with their kernel: each element of the batch is a group of its own."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    by_batch = batch_group_count > 1
    lhs = _merge(lhs, lhs_dim, lhs_spec[0 if by_batch else 1], 1)
    rhs = _merge(rhs, rhs_dim, rhs_spec[0], 1)
    outs = conv_general_dilated_p.call(
        lhs,
        rhs,
        dimension_numbers=dimension_numbers,
        feature_group_count=feature_group_count * (1 if by_batch else size),
        batch_group_count=batch_group_count * (size if by_batch else 1),
        **params,
    )
    return _unmerge(outs[0], out_spec[1], size, 1)


def _merge(x: ArrayLike, dim: int, axis: int, groups: int) -> Any:
    """x with its batch dimension merged into an axis (of x without it), within each of so many
    groups."""
    x = array_ops.moveaxis(x, dim, axis)
    shape = typeof(x).shape
    batch, size = shape[axis], shape[axis + 1]
    if groups > 1:
        x = reshape(x, (*shape[: axis + 1], groups, size // groups, *shape[axis + 2 :]))
        x = moveaxis(x, axis, axis + 1)
    return reshape(x, (*shape[:axis], batch * size, *shape[axis + 2 :]))


def _unmerge(x: Array, axis: int, batch: Any, groups: int) -> Any:
    """The inverse of `_merge`: ((x,), (dim of the batch,))."""
    shape = typeof(x).shape
    size = shape[axis] // batch if batch else 0
    if groups > 1:
        x = reshape(x, (*shape[:axis], groups, batch, size // groups, *shape[axis + 1 :]))
        x = moveaxis(x, axis + 1, axis)
    return (reshape(x, (*shape[:axis], batch, size, *shape[axis + 1 :])),), (axis,)


def _split_onto(x: ArrayLike, source: int, groups: int, target: int) -> Any:
    """x with the axis `source` split into (groups, rest), and the groups made the major part of the
    axis `target`."""
    shape = typeof(x).shape
    x = reshape(x, (*shape[:source], groups, shape[source] // groups, *shape[source + 1 :]))
    at = target + (target > source)
    x = moveaxis(x, source, at - (at > source))
    new = list(shape)
    new[source] //= groups
    new[target] *= groups
    return reshape(x, tuple(new))


# Public functions


def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Pads,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: object = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: object = None,
) -> Array:
    """Convolution (without flipping the kernel) of lhs with rhs, over any number of spatial axes.

    lhs: T[batch, features, spatial...]; rhs: T[output features, features / feature_group_count,
    spatial...], or in the order that
    dimension_numbers says  ->  [batch / batch_group_count, output features, spatial...]
    padding: 'SAME', 'SAME_LOWER', 'VALID', or a (low, high) pair an axis, which may be negative.
    lhs_dilation spreads lhs, as in transposed convolutions; rhs_dilation spreads the kernel. Groups
    are convolved each on its own. Raises TypeError or ValueError if ranks (C1), strides and
    dilations (C2), features (C3) or dtypes (C4) are wrong.

    >>> from teucer import lax
    >>> x, w = np.ones((1, 1, 4), np.float32), np.ones((1, 1, 2), np.float32)
    >>> lax.conv_general_dilated(x, w, window_strides=(2,), padding='VALID')
    Array([[[2., 2.]]], dtype=float32)
    """
    op = "conv_general_dilated"
    lhs_shape, rhs_shape = typeof(lhs).shape, typeof(rhs).shape
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    rank = len(lhs_shape) - 2
    if len(lhs_shape) != len(rhs_shape):
        raise ValueError(
            f"{op} lhs and rhs must have the same number of dimensions, but got {lhs_shape} and "
            f"{rhs_shape}."
        )
    if rank < 0:
        raise TypeError(f"{op} requires a batch and a feature axis, got lhs of shape {lhs_shape}.")
    strides = _ints(op, "window_strides", window_strides)
    lhs_dilation = (
        _ints(op, "lhs_dilation", lhs_dilation) if lhs_dilation is not None else (1,) * rank
    )
    rhs_dilation = (
        _ints(op, "rhs_dilation", rhs_dilation) if rhs_dilation is not None else (1,) * rank
    )
    if isinstance(padding, str):
        if any(d != 1 for d in lhs_dilation):
            raise ValueError(
                "String padding is not implemented for transposed convolution using this op. "
                "Please either exactly specify the required padding or use conv_transpose."
            )
        _check_window(rank, strides, ((0, 0),) * rank, lhs_dilation, rhs_dilation)
    window = tuple(map(dilated, taken(rhs_shape, numbers.rhs_spec)[2:], rhs_dilation))
    pads = canonical_padding(op, taken(lhs_shape, numbers.lhs_spec)[2:], window, strides, padding)
    return conv_general_dilated_p.call(
        lhs,
        rhs,
        window_strides=strides,
        padding=pads,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        dimension_numbers=ConvDimensionNumbers(*map(tuple, numbers)),
        feature_group_count=int(feature_group_count),
        batch_group_count=int(batch_group_count),
        precision=canonical_precision(precision),
        preferred_element_type=element_type_of(preferred_element_type, op),
        out_sharding=explicit_sharding("conv_general_dilated", out_sharding, typeof(lhs).ndim),
    )[0]


def _ints(op: str, name: str, values: Any) -> tuple[int, ...]:
    try:
        return tuple(v.__index__() for v in values)
    except (TypeError, AttributeError) as err:
        raise TypeError(f"{op}: {name} must be a sequence of integers, got {values!r}.") from err


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Convolution of lhs[batch, features, spatial...] with rhs[output features, features,
    spatial...].

    >>> from teucer import lax
    >>> lax.conv(np.ones((1, 1, 3), np.float32), np.ones((1, 1, 2), np.float32), (1,), 'SAME')
    Array([[[2., 2., 1.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Pads,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """`conv` with any padding, and dilations.

    >>> from teucer import lax
    >>> lax.conv_with_general_padding(np.ones((1, 1, 2), np.float32),
    ...     np.ones((1, 1, 2), np.float32), (1,), [(1, 1)], (2,), (1,))
    Array([[[1., 1., 1., 1.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )
