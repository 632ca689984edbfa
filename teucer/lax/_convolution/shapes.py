"""Convolutions: roles of axes, padding, and the sizes that follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from teucer._dimensions.dimensions import dilated, max_dim
from teucer._hlo.contractions import inverse_permutation, taken
from teucer.lax._windows import padtype_to_pads

__all__ = [
    "ConvDimensionNumbers", "ConvGeneralDilatedDimensionNumbers", "conv_dimension_numbers",
    "conv_general_permutations", "conv_general_shape_tuple", "conv_shape_tuple",
    "conv_transpose_shape_tuple",
]  # fmt: skip


class ConvDimensionNumbers(NamedTuple):
    """The axes of the operands and the result of a convolution.

    lhs_spec: (batch, feature, spatial...); rhs_spec: (output feature, input feature, spatial...);
    out_spec as lhs_spec.
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


ConvGeneralDilatedDimensionNumbers = None | ConvDimensionNumbers | tuple[str, str, str]


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: object
) -> ConvDimensionNumbers:
    """Dimension numbers given as None, as three strings such as ('NHWC', 'HWIO', 'NHWC'), or as
    themselves.

    N is the batch, C the feature axis, O and I output and input features; other letters are spatial
    axes, in the order of the kernel's. None means that batch and feature axes (output and input)
    come first.
    Raises TypeError if they do not fit the shapes.

    >>> conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ('NHWC', 'HWIO', 'NHWC'))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if len(lhs_shape) != len(rhs_shape):
        raise TypeError(
            f"convolution requires lhs and rhs ndim to be equal, got {len(lhs_shape)} and "
            f"{len(rhs_shape)}."
        )
    if dimension_numbers is None:
        order = tuple(range(len(lhs_shape)))
        return ConvDimensionNumbers(order, order, order)
    if not isinstance(dimension_numbers, list | tuple):
        raise TypeError(
            "convolution dimension_numbers must be tuple/list or None, got "
            f"{type(dimension_numbers)}."
        )
    if len(dimension_numbers) != 3:
        raise TypeError(
            "convolution dimension_numbers list/tuple must be length 3, got "
            f"{len(dimension_numbers)}."
        )
    if not all(isinstance(spec, str) for spec in dimension_numbers):
        raise TypeError(
            "convolution dimension_numbers elements must be strings, got "
            f"{tuple(map(type, dimension_numbers))}."
        )
    for i, spec in enumerate(dimension_numbers):
        if len(spec) != len(lhs_shape):
            raise TypeError(
                f"convolution dimension_numbers[{i}] must have len equal to the ndim of lhs and "
                f"rhs, got {len(spec)} for lhs and rhs shapes {tuple(lhs_shape)} and "
                f"{tuple(rhs_shape)}."
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


_LETTERS = (("N", "C"), ("O", "I"), ("N", "C"))


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Strings of dimension numbers as axes: the two named axes first, then the spatial ones in the
    order of the kernel's.

    Raises TypeError if a letter is missing or doubled, or the spatial letters differ.

    >>> conv_general_permutations(('NHWC', 'HWIO', 'NHWC'))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    spatial = []
    for i, ((a, b), spec) in enumerate(zip(_LETTERS, dimension_numbers, strict=True)):
        if spec.count(a) != 1 or spec.count(b) != 1:
            raise TypeError(
                f"convolution dimension_numbers[{i}] must contain the characters '{a}' and '{b}' "
                f"exactly once, got {spec}."
            )
        if len(set(spec)) != len(spec):
            raise TypeError(
                f"convolution dimension_numbers[{i}] cannot have duplicate characters, got {spec}."
            )
        spatial.append([c for c in spec if c not in (a, b)])
    if not set(spatial[0]) == set(spatial[1]) == set(spatial[2]):
        raise TypeError(
            "convolution dimension_numbers elements must each have the same set of spatial "
            f"characters, got {tuple(dimension_numbers)}."
        )
    return tuple(
        (spec.index(a), spec.index(b), *(spec.index(c) for c in spatial[1]))
        for (a, b), spec in zip(_LETTERS, dimension_numbers, strict=True)
    )


def canonical_padding(
    op: str,
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
) -> tuple[tuple[int, int], ...]:
    """`padding` of a convolution as pairs of ints.

    Raises ValueError if it is neither a string nor a sequence of pairs.
    """
    if isinstance(padding, str):
        return tuple(padtype_to_pads(in_shape, window_shape, window_strides, padding))
    try:
        return tuple((low.__index__(), high.__index__()) for low, high in padding)
    except (TypeError, ValueError, AttributeError) as err:
        raise ValueError(
            f"padding argument to {op} should be a string or a sequence of (low, high) pairs, got "
            f"{padding}"
        ) from err


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: Any,
    batch_group_count: int = 1,
) -> tuple[int, ...]:
    """The shape of a convolution's result, where batch and feature axes (output and input of the
    kernel) come first.

    Raises TypeError for the wrong number of pads.

    >>> conv_shape_tuple((2, 3, 8, 8), (4, 3, 3, 3), (1, 2), 'SAME')
    (2, 4, 8, 4)
    """
    if isinstance(pads, str):
        pads = padtype_to_pads(lhs_shape[2:], rhs_shape[2:], strides, pads)
    if len(pads) != len(lhs_shape) - 2:
        raise TypeError(
            f"Wrong number of explicit pads for convolution: expected {len(lhs_shape) - 2}, got "
            f"{len(pads)}."
        )
    spatial = [
        max_dim((size + low + high - window) // stride + 1, 0)
        for size, window, stride, (low, high) in zip(
            lhs_shape[2:], rhs_shape[2:], strides, pads, strict=True
        )
    ]
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *spatial)


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: object,
    dimension_numbers: Any,
) -> tuple[int, ...]:
    """The shape of a convolution's result with the given dimension numbers.

    >>> conv_general_shape_tuple((2, 8, 8, 3), (3, 3, 3, 4), (1, 2), 'SAME',
    ...     ('NHWC', 'HWIO', 'NHWC'))
    (2, 8, 4, 4)
    """
    lhs_spec, rhs_spec, out_spec = conv_general_permutations(dimension_numbers)
    out = conv_shape_tuple(
        taken(lhs_shape, lhs_spec), taken(rhs_shape, rhs_spec), window_strides, padding
    )
    return taken(out, inverse_permutation(out_spec))


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: object,
    dimension_numbers: Any,
) -> tuple[int, ...]:
    """The shape of a transposed convolution's result with the given dimension numbers.

    >>> conv_transpose_shape_tuple((2, 8, 8, 3), (3, 3, 3, 4), (1, 2), 'SAME',
    ...     ('NHWC', 'HWIO', 'NHWC'))
    (2, 8, 16, 4)
    """
    lhs_spec, rhs_spec, out_spec = conv_general_permutations(dimension_numbers)
    lhs, rhs = taken(lhs_shape, lhs_spec), taken(rhs_shape, rhs_spec)
    pads = transposed_padding(padding, rhs[2:], window_strides)
    spread = [dilated(size, stride) for size, stride in zip(lhs[2:], window_strides, strict=True)]
    out = conv_shape_tuple((*lhs[:2], *spread), rhs, (1,) * len(spread), pads)
    return taken(out, inverse_permutation(out_spec))


def transposed_padding(padding: Any, window: Sequence[int], strides: Sequence[int]) -> Any:
    """Pads of the convolution that transposes one of padding 'SAME' or 'VALID'; pairs stand as they
    are.

    'SAME' makes stride * size elements, 'VALID' stride * size + max(window - stride, 0).
    """
    if not isinstance(padding, str):
        return tuple(padding)
    pads = []
    for k, stride in zip(window, strides, strict=True):
        total = k + stride - 2
        if padding == "SAME":
            before = k - 1 if stride > k - 1 else -(-total // 2)
        elif padding == "VALID":
            total += max(k - stride, 0)
            before = k - 1
        else:
            raise ValueError(f"Padding mode must be `SAME` or `VALID`, got {padding!r}.")
        pads.append((before, total - before))
    return tuple(pads)
