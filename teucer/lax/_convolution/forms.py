"""Functions made of convolutions.

Transposed convolution, patches, and kernels that differ from place to place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike, DTypeLike
from teucer._dimensions.dimensions import dilated
from teucer._hlo.contractions import inverse_permutation, taken
from teucer.lax._convolution.primitive import conv_general_dilated
from teucer.lax._convolution.shapes import (
    ConvDimensionNumbers,
    conv_dimension_numbers,
    transposed_padding,
)
from teucer.lax._dot import dot_general
from teucer.lax._precision import Precision, canonical_precision
from teucer.lax._shapes import rev
from teucer.lax._structure import transpose

__all__ = ["conv_general_dilated_local", "conv_general_dilated_patches", "conv_transpose"]

# Dimension numbers of a transposed convolution that names none, by rank.
_CHANNELS_LAST = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: Any,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: object = None,
    transpose_kernel: bool = False,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    use_consistent_padding: bool = False,
) -> Array:
    """Transposed convolution: the convolution of lhs, spread by strides, with rhs.

    lhs: T[batch, spatial..., features]; rhs: T[spatial..., features, output features], or as
    dimension_numbers says.
    padding: 'SAME' gives strides * size elements; 'VALID' all that the kernel reaches; pairs pad
    the spread lhs, or with use_consistent_padding they are the padding of the convolution that is
    transposed.
    transpose_kernel: flip the kernel's spatial axes and exchange its features, which makes this the
    gradient of that convolution. Raises ValueError for unknown padding, or more than three spatial
    axes without dimension_numbers.

    >>> from teucer import lax
    >>> lax.conv_transpose(np.ones((1, 2, 1), np.float32), np.ones((2, 1, 1), np.float32), (2,),
    ...     'VALID').shape
    (1, 4, 1)
    """
    lhs_shape, rhs_shape = typeof(lhs).shape, typeof(rhs).shape
    rank = len(lhs_shape)
    if dimension_numbers is None:
        if rank not in _CHANNELS_LAST:
            raise ValueError(
                f"conv_transpose: no dimension numbers are the default for {rank - 2} spatial "
                f"axes.\n    lhs: shape {lhs_shape}\n  Give dimension_numbers."
            )
        dimension_numbers = _CHANNELS_LAST[rank]
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    dilation = tuple(rhs_dilation) if rhs_dilation is not None else (1,) * (rank - 2)
    window = tuple(map(dilated, taken(rhs_shape, numbers.rhs_spec)[2:], dilation))
    if not isinstance(padding, str) and use_consistent_padding:
        pads: Any = tuple(
            (k - 1 - low, k - 1 - high) for k, (low, high) in zip(window, padding, strict=True)
        )
    else:
        pads = transposed_padding(padding, window, strides)
    if transpose_kernel:
        rhs = rev(rhs, numbers.rhs_spec[2:])
        order = list(range(rank))
        out_features, in_features = numbers.rhs_spec[:2]
        order[out_features], order[in_features] = in_features, out_features
        rhs = transpose(rhs, order)
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * (rank - 2),
        pads,
        tuple(strides),
        dilation,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: object = None,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The windows that a convolution sees, as features.

    lhs: T[batch, features, spatial...], or as dimension_numbers says  ->  [batch, features *
    prod(filter_shape), spatial...]
    Each feature's window is contiguous, in row-major order.

    >>> from teucer import lax
    >>> lax.conv_general_dilated_patches(np.float32([[[1, 2, 3]]]), (2,), (1,), 'VALID')
    Array([[[1., 2.],
            [2., 3.]]], dtype=float32)
    """
    aval = typeof(lhs)
    filter_shape = tuple(filter_shape)
    if len(filter_shape) != aval.ndim - 2:
        raise TypeError(
            f"convolution requires lhs and rhs ndim to be equal, got {aval.ndim} and "
            f"{len(filter_shape) + 2}."
        )
    numbers = conv_dimension_numbers(aval.shape, (1, 1, *filter_shape), dimension_numbers)
    features = aval.shape[numbers.lhs_spec[1]]
    size = math.prod(filter_shape)
    # One kernel a place of the window, with a one there, for each feature.
    kernel = np.tile(np.eye(size, dtype=aval.dtype), (features, 1)).reshape(
        features * size, 1, *filter_shape
    )
    pair = canonical_precision(precision)
    # The kernel is exact in any precision; lhs is to be.
    pair = (pair[0], Precision.DEFAULT) if type(pair) is tuple else pair
    return conv_general_dilated(
        lhs,
        kernel.transpose(inverse_permutation(numbers.rhs_spec)),
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        feature_group_count=features,
        precision=pair,
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: object = None,
    precision: object = None,
) -> Array:
    """Convolution whose kernel differs at each place of the result.

    lhs: T[batch, features, spatial...]; rhs: T[output features, features * prod(filter_shape),
    output spatial...], or as
    dimension_numbers says  ->  T[batch, output features, output spatial...]
    Raises TypeError if rhs does not fit the windows.

    >>> from teucer import lax
    >>> lax.conv_general_dilated_local(np.float32([[[1, 2]]]), np.float32([[[3, 4]]]), (1,),
    ...     'VALID', (1,))
    Array([[[3., 8.]]], dtype=float32)
    """
    numbers: ConvDimensionNumbers = conv_dimension_numbers(
        typeof(lhs).shape, typeof(rhs).shape, dimension_numbers
    )
    pair = canonical_precision(precision)
    patches = conv_general_dilated_patches(
        lhs,
        filter_shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        precision=pair,
    )
    _, rhs_spec, out_spec = numbers
    axes = (((out_spec[1],), (rhs_spec[1],)), (tuple(out_spec[2:]), tuple(rhs_spec[2:])))
    out = dot_general(patches, rhs, axes, pair)
    # Its axes are the spatial ones, batch, features.
    rank = len(out_spec) - 2
    order = (rank, rank + 1, *range(rank))
    return transpose(out, tuple(order[i] for i in inverse_permutation(out_spec)))
