"""Entries of products of arrays: dot products, convolutions, Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.signal
from optable.table import Draw, Op, Sample, bad, sample

from teucer import lax
from teucer.lax import conv_dimension_numbers

F = np.float32
NUMERIC = ("int32", "float32", "float64", "complex64", "complex128")
INEXACT = ("float32", "float64", "complex64", "complex128")
SUM = 8  # a sum of a dozen products, in any order
GROUPS = {
    "dynamic": "kernels that differ from one element of the batch to the next are groups of "
    "features, whose number is static"
}


def dots(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(2, 3), draw(3, 4), dimension_numbers=(((1,), (0,)), ((), ())))
    yield sample(draw(5, 2, 3), draw(3, 5, 2), dimension_numbers=(((2,), (0,)), ((0,), (1,))))
    yield sample(draw(2, 3), draw(2, 3), dimension_numbers=(((0, 1), (0, 1)), ((), ())))
    yield sample(draw(2), draw(3), dimension_numbers=(((), ()), ((), ())))
    yield sample(draw(3, 2), draw(2, 3), dimension_numbers=(((0,), (1,)), ((1,), (0,))))
    yield sample(
        draw(2, 2, 3, 4), draw(4, 2, 5, 3), dimension_numbers=(((3, 2), (0, 3)), ((0,), (1,)))
    )
    yield sample(draw(2, 3, 4), draw(4, 2, 3), dimension_numbers=(((1,), (2,)), ((2, 0), (0, 1))))
    yield sample(draw(2, 0), draw(0, 3), dimension_numbers=(((1,), (0,)), ((), ())))


def contracted(x: Any, y: Any, dimension_numbers: Any) -> Any:
    (cx, cy), (bx, by) = dimension_numbers
    letters = iter("abcdefghij")
    of_y = [next(letters) for _ in y.shape]
    of_x = [""] * x.ndim
    for i, j in zip((*cx, *bx), (*cy, *by), strict=True):
        of_x[i] = of_y[j]
    of_x = [a or next(letters) for a in of_x]
    batch = [of_x[i] for i in bx]
    out = (
        batch
        + [a for i, a in enumerate(of_x) if i not in (*cx, *bx)]
        + [a for i, a in enumerate(of_y) if i not in (*cy, *by)]
    )
    return np.einsum(f"{''.join(of_x)},{''.join(of_y)}->{''.join(out)}", x, y)


# Options, shape of the left and of the right operand.
FORMS: dict[str, tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]] = {
    "same": ({"padding": "SAME", "window_strides": (1, 1)}, (2, 3, 5, 4), (4, 3, 3, 2)),
    "valid": ({"padding": "VALID", "window_strides": (2, 3)}, (2, 3, 7, 6), (4, 3, 3, 2)),
    "same_lower": (
        {"padding": "SAME_LOWER", "window_strides": (2, 1), "rhs_dilation": (2, 1)},
        (2, 3, 7, 4),
        (2, 3, 3, 2),
    ),
    "dilated": (
        {"padding": [(1, 2), (-1, 0)], "window_strides": (2, 1), "lhs_dilation": (2, 3)},
        (2, 3, 5, 4),
        (2, 3, 3, 2),
    ),
    "negative": (
        {
            "padding": [(-2, 3), (1, -1)],
            "window_strides": (3, 2),
            "lhs_dilation": (2, 1),
            "rhs_dilation": (1, 2),
        },
        (2, 3, 5, 4),
        (2, 3, 3, 2),
    ),
    "negative beyond the image": (
        {"padding": [(-2, 4), (3, -2)], "window_strides": (1, 1), "lhs_dilation": (2, 1)},
        (2, 3, 1, 1),
        (4, 3, 3, 2),
    ),
    "feature_groups": (
        {"padding": "SAME", "window_strides": (2, 1), "feature_group_count": 2},
        (2, 6, 5, 4),
        (4, 3, 3, 2),
    ),
    "batch_groups": (
        {"padding": "SAME", "window_strides": (2, 1), "batch_group_count": 2},
        (4, 3, 5, 4),
        (6, 3, 3, 2),
    ),
    "channels_last": (
        {
            "padding": "SAME",
            "window_strides": (2, 1),
            "feature_group_count": 2,
            "dimension_numbers": ("NHWC", "HWIO", "NWCH"),
        },
        (2, 5, 4, 6),
        (3, 2, 3, 4),
    ),
    "mixed_axes": (
        {
            "padding": "SAME",
            "window_strides": (2, 1),
            "batch_group_count": 2,
            "dimension_numbers": ("HNCW", "OHWI", "CNHW"),
        },
        (5, 4, 3, 4),
        (6, 3, 2, 3),
    ),
    "depthwise": (
        {
            "padding": "SAME",
            "window_strides": (2, 1),
            "feature_group_count": 3,
            "rhs_dilation": (1, 2),
        },
        (2, 3, 5, 4),
        (3, 1, 3, 2),
    ),
    "depthwise, several each": (
        {
            "padding": [(2, 1)],
            "window_strides": (1,),
            "feature_group_count": 3,
            "lhs_dilation": (2,),
            "dimension_numbers": ("NWC", "WIO", "NWC"),
        },
        (2, 5, 3),
        (3, 1, 6),
    ),
    "group by group": (
        {
            "padding": "SAME",
            "window_strides": (1,),
            "feature_group_count": 2,
            "dimension_numbers": ("WNC", "OWI", "CWN"),
        },
        (6, 2, 80),
        (4, 5, 40),
    ),
    "batch_groups of one": (
        {
            "padding": [(1, 1), (0, 0)],
            "window_strides": (1, 2),
            "batch_group_count": 3,
            "rhs_dilation": (2, 1),
            "dimension_numbers": ("CHWN", "IHWO", "NHWC"),
        },
        (2, 6, 5, 3),
        (2, 3, 3, 3),
    ),
    "kernel over image": (
        {
            "padding": "SAME",
            "window_strides": (1, 1),
            "dimension_numbers": ("NHWC", "HWIO", "NHWC"),
        },
        (2, 2, 2, 3),
        (3, 3, 3, 4),
    ),
    "kernel over dilated image": (
        {"padding": [(2, 3)], "window_strides": (2,), "lhs_dilation": (2,), "rhs_dilation": (2,)},
        (2, 3, 3),
        (4, 3, 4),
    ),
    "0d": ({"padding": [], "window_strides": ()}, (2, 3), (4, 3)),
    "1d": ({"padding": "SAME", "window_strides": (1,)}, (2, 3, 5), (4, 3, 2)),
    "3d": ({"padding": "SAME", "window_strides": (1, 2, 1)}, (1, 2, 4, 3, 3), (2, 2, 2, 1, 3)),
}


def convolve(x: Any, y: Any, form: str) -> Any:
    return lax.conv_general_dilated(x, y, **FORMS[form][0])


def convolutions(draw: Draw) -> Iterable[Sample]:
    for form, (_, lhs, rhs) in FORMS.items():
        yield sample(draw(*lhs), draw(*rhs), form=form)


def spread(x: Any, axis: int, factor: int) -> Any:
    """x with factor - 1 zeros between neighbours along an axis."""
    shape = list(x.shape)
    shape[axis] = (shape[axis] - 1) * factor + 1
    out = np.zeros(shape, x.dtype)
    out[(slice(None),) * axis + (slice(None, None, factor),)] = x
    return out


def correlated(
    x: Any,
    w: Any,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
) -> Any:
    """The convolution by SciPy's correlate, channel by channel."""
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    x, w = x.transpose(numbers.lhs_spec), w.transpose(numbers.rhs_spec)
    rank = x.ndim - 2
    for i in range(rank):
        x = spread(x, i + 2, (lhs_dilation or (1,) * rank)[i])
        w = spread(w, i + 2, (rhs_dilation or (1,) * rank)[i])
    for i, stride in enumerate(window_strides):
        n, k = x.shape[i + 2], w.shape[i + 2]
        total = max((-(-n // stride) - 1) * stride + k - n, 0)
        low, high = (
            {
                "VALID": (0, 0),
                "SAME": (total // 2, total - total // 2),
                "SAME_LOWER": (total - total // 2, total // 2),
            }[padding]
            if isinstance(padding, str)
            else padding[i]
        )
        width = [(0, 0)] * x.ndim
        width[i + 2] = (max(low, 0), max(high, 0))
        x = np.pad(x, width)
        x = x[(slice(None),) * (i + 2) + (slice(max(-low, 0), x.shape[i + 2] - max(-high, 0)),)]
    groups = feature_group_count * batch_group_count
    xs = np.split(x, groups, 0 if batch_group_count > 1 else 1)
    ws = np.split(w, groups, 0)
    parts = [
        np.stack(
            [
                np.stack(
                    [
                        sum(
                            scipy.signal.correlate(image[c], kernel[c].conj(), "valid")
                            if rank
                            else image[c] * kernel[c]
                            for c in range(len(kernel))
                        )
                        for kernel in w
                    ]
                )
                for image in x
            ]
        )
        for x, w in zip(xs, ws, strict=True)
    ]
    out = np.concatenate(parts, 1)[
        (slice(None),) * 2 + tuple(slice(None, None, s) for s in window_strides)
    ]
    return out.transpose(np.argsort(numbers.out_spec))


def convolved(x: Any, y: Any, form: str) -> Any:
    return correlated(x, y, **FORMS[form][0])


def transposed(x: Any, y: Any, strides: Any, padding: str) -> Any:
    """The transposed convolution of [n, width, channels]: each element spreads over a window."""
    (n, width, _), (w, _, out) = x.shape, y.shape
    full = np.zeros((n, (width - 1) * strides[0] + w, out), x.dtype)
    for i in range(width):
        full[:, i * strides[0] : i * strides[0] + w] += np.einsum("ni,wio->nwo", x[:, i], y[::-1])
    return full


# Of a batch of two: the lengths of the axes that are transformed, the last of which is odd or even.
LENGTHS = (5,), (6,), (1,), (2,), (3, 4), (2, 3, 5)


def transform(kind: str, reference: Callable[..., Any], dtypes: Any) -> Op:
    def samples(draw: Draw) -> Iterable[Sample]:
        for lengths in LENGTHS:
            n = lengths[-1] // 2 + 1 if kind == "IRFFT" else lengths[-1]
            yield sample(draw(2, *lengths[:-1], n), fft_type=kind, fft_lengths=lengths)

    def expected(x: Any, fft_type: str, fft_lengths: Any) -> Any:
        return reference(x, fft_lengths, axes=tuple(range(-len(fft_lengths), 0)))

    return Op(
        kind.lower(),
        "lax.fft",
        samples,
        dtypes,
        reference=expected,
        ulp=SUM,
        vmap_calls=len(LENGTHS),
        gradient_calls=len(LENGTHS),
        errors=[
            bad(
                ValueError,
                rf"(?s){kind}.*\(2, 3\).*fft_lengths.*(7|8)",
                np.ones((2, 3), dtypes[0]),
                fft_type=kind,
                fft_lengths=(8,) if kind == "IRFFT" else (7,),
            )
        ],
    )


def patches(x: Any, filter_shape: Any, window_strides: Any, padding: str) -> Any:
    n, c, width = x.shape
    (w,) = filter_shape
    return np.stack([x[:, :, i : i + w].reshape(n, c * w) for i in range(width - w + 1)], -1)


OPS = [
    Op(
        "dot_general",
        "lax.dot_general",
        dots,
        NUMERIC,
        reference=contracted,
        ulp=SUM,
        vmap_calls=7,
        gradient_calls=7,
        errors=[
            bad(
                TypeError,
                r"(?s)dot_general.*(3|\(2, 3\)).*(4|\(4, 5\))",
                np.ones((2, 3), F),
                np.ones((4, 5), F),
                dimension_numbers=(((1,), (0,)), ((), ())),
            ),
            bad(
                TypeError,
                "(?s)dot_general.*batch",
                np.ones((2, 3), F),
                np.ones((4, 3), F),
                dimension_numbers=(((1,), (1,)), ((0,), (0,))),
            ),
            bad(
                (TypeError, ValueError),
                "(?s)dot_general.*dimension",
                np.ones((2, 3), F),
                np.ones((3, 4), F),
                dimension_numbers=(((2,), (0,)), ((), ())),
            ),
        ],
    ),
    Op(
        "dot",
        "lax.dot",
        lambda draw: [
            sample(draw(2, 3), draw(3)),
            sample(draw(3), draw(3)),
            sample(draw(2, 3), draw(3, 2)),
        ],
        NUMERIC,
        reference=np.dot,
        ulp=SUM,
        errors=[bad(ValueError, r"(?s)dot.*\(2, 3\).*\(2,\)", np.ones((2, 3), F), np.ones(2, F))],
    ),
    Op(
        "dot_preferred",
        lambda x, y: lax.dot(x, y, preferred_element_type=np.dtype(np.float32)),
        lambda draw: [sample(draw(2, 3), draw(3, 2))],
        ("bfloat16", "float16"),
        quick=("bfloat16",),
        reference=np.dot,
        ulp=SUM,
        gradients=(),
    ),
    Op(
        "ragged_dot",
        "lax.ragged_dot",
        lambda draw: [sample(draw(5, 3), draw(2, 3, 4), np.array([2, 3], np.int32))],
        ("float32", "float64"),
        ulp=SUM,
        reference=lambda x, y, sizes: np.concatenate([x[: sizes[0]] @ y[0], x[sizes[0] :] @ y[1]]),
    ),
    Op(
        "ragged_dot_with_rows_left",
        "lax.ragged_dot",
        lambda draw: [sample(draw(7, 4), draw(3, 4, 5), np.array([2, 0, 3], np.int32))],
        ("float32", "complex64", "float64"),
        reference=lambda x, y, sizes: np.concatenate(
            [x[:2] @ y[0], x[2:5] @ y[2], np.zeros((2, 5))]
        ),
        ulp=SUM,
    ),
    Op(
        "scaled_dot",
        lambda x, y, a, b: lax.scaled_dot(
            x, y, lhs_scale=a, rhs_scale=b, preferred_element_type=np.dtype(F)
        ),
        lambda draw: [
            sample(
                draw(3, 4),
                draw(4, 2),
                draw.index(3, 3, 2).astype(F) + 1,
                draw.index(3, 2, 2).astype(F) + 1,
            )
        ],
        ("float32",),
        reference=lambda x, y, a, b: (x * np.repeat(a, 2, 1)) @ (y * np.repeat(b, 2, 0)),
        ulp=SUM,
        gradients=(),
    ),
    Op(
        "batch_matmul",
        "lax.batch_matmul",
        lambda draw: [sample(draw(2, 3, 4), draw(2, 4, 3))],
        INEXACT,
        reference=np.matmul,
        ulp=SUM,
    ),
    Op(
        "conv_general_dilated",
        convolve,
        convolutions,
        NUMERIC,
        quick=("float32", "complex64", "int32"),
        reference=convolved,
        ulp=2 * SUM,
        vmap_calls=len(FORMS),
        gradient_calls=len(FORMS),
        errors=[
            bad(
                (TypeError, ValueError),
                "(?s)conv_general_dilated.*(feature|channel)",
                np.ones((1, 2, 4, 4), F),
                np.ones((3, 3, 2, 2), F),
                form="same",
            ),
            bad(
                TypeError,
                "(?s)conv.*ndim.*3 and 4",
                np.ones((1, 4, 4), F),
                np.ones((3, 4, 2, 2), F),
                form="same",
            ),
        ],
        exceptions=GROUPS,
    ),
    Op(
        "conv",
        lambda x, y: lax.conv(x, y, (1,), "VALID"),
        lambda draw: [sample(draw(2, 3, 5), draw(4, 3, 2))],
        ("float32", "float64"),
        ulp=SUM,
        reference=lambda x, y: np.stack(
            [np.einsum("niw,oiw->no", x[:, :, i : i + 2], y) for i in range(4)], -1
        ),
        exceptions=GROUPS,
    ),
    Op(
        "conv_without_space",
        lambda x, y: lax.conv_general_dilated(x, y, (), []),
        lambda draw: [sample(draw(2, 3), draw(4, 3))],
        ("float32", "float64", "complex64", "int32"),
        ulp=SUM,
        reference=lambda x, y: x @ y.T,
        exceptions=GROUPS,
    ),
    Op(
        "conv_general_dilated_local",
        lambda x, y: lax.conv_general_dilated_local(x, y, (1,), "VALID", (2,)),
        lambda draw: [sample(draw(2, 3, 5), draw(4, 6, 4))],
        ("float32", "float64", "complex64"),
        ulp=SUM,
        reference=lambda x, y: np.stack(
            [x[:, :, i : i + 2].reshape(2, 6) @ y[:, :, i].T for i in range(4)], -1
        ),
    ),
    Op(
        "conv_transpose",
        "lax.conv_transpose",
        lambda draw: [sample(draw(2, 4, 3), draw(3, 3, 2), strides=(2,), padding="VALID")],
        ("float32", "float64"),
        reference=transposed,
        ulp=SUM,
        exceptions=GROUPS,
    ),
    Op(
        "conv_general_dilated_patches",
        "lax.conv_general_dilated_patches",
        lambda draw: [
            sample(draw(2, 3, 5), filter_shape=(2,), window_strides=(1,), padding="VALID")
        ],
        ("float32", "float64"),
        reference=patches,
    ),
    transform("FFT", np.fft.fftn, ("complex64", "complex128")),
    transform("IFFT", np.fft.ifftn, ("complex64", "complex128")),
    transform("RFFT", np.fft.rfftn, ("float32", "float64")),
    transform("IRFFT", np.fft.irfftn, ("complex64", "complex128")),
]
