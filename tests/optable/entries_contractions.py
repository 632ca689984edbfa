"""Entries of products of arrays: dot products, convolutions, Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from optable.table import Draw, Op, Sample, bad, sample

from teucer import lax

F = np.float32
NUMERIC = ("int32", "float32", "float64", "complex64", "complex128")
INEXACT = ("float32", "float64", "complex64", "complex128")
SUM = 8  # a sum of a dozen products, in any order


def dots(draw: Draw) -> Iterable[Sample]:
    yield sample(draw(2, 3), draw(3, 4), dimension_numbers=(((1,), (0,)), ((), ())))
    yield sample(draw(5, 2, 3), draw(3, 5, 2), dimension_numbers=(((2,), (0,)), ((0,), (1,))))
    yield sample(draw(2, 3), draw(2, 3), dimension_numbers=(((0, 1), (0, 1)), ((), ())))
    yield sample(draw(2), draw(3), dimension_numbers=(((), ()), ((), ())))
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


FORMS: dict[str, dict[str, Any]] = {
    "plain": {"window_strides": (1, 1), "padding": "VALID"},
    "same": {"window_strides": (2, 1), "padding": "SAME"},
    "general": {
        "window_strides": (1, 2),
        "padding": ((1, 0), (0, 2)),
        "lhs_dilation": (2, 1),
        "rhs_dilation": (1, 2),
    },
    "negative padding": {"window_strides": (1, 1), "padding": ((-1, 1), (0, -1))},
    "grouped": {"window_strides": (1, 1), "padding": "VALID", "feature_group_count": 2},
    "batch groups": {"window_strides": (1, 1), "padding": "VALID", "batch_group_count": 2},
    "channels last": {
        "window_strides": (1, 1),
        "padding": "VALID",
        "dimension_numbers": ("NHWC", "HWIO", "NHWC"),
    },
}
SHAPES = {
    "grouped": ((1, 4, 4, 3), (4, 2, 2, 2)),
    "batch groups": ((2, 2, 4, 3), (4, 2, 2, 2)),
    "channels last": ((1, 4, 5, 2), (2, 2, 2, 3)),
}


def convolve(x: Any, y: Any, form: str) -> Any:
    return lax.conv_general_dilated(x, y, **FORMS[form])


def convolutions(draw: Draw) -> Iterable[Sample]:
    for form in FORMS:
        a, b = SHAPES.get(form, ((2, 2, 5, 4), (3, 2, 2, 2)))
        yield sample(draw(*a), draw(*b), form=form)


def dilated(x: Any, dilation: Any) -> Any:
    shape = (*x.shape[:2], *((n - 1) * d + 1 for n, d in zip(x.shape[2:], dilation, strict=True)))
    y = np.zeros(shape, x.dtype)
    y[:, :, :: dilation[0], :: dilation[1]] = x
    return y


def ends(n: int, w: int, stride: int, padding: Any) -> tuple[int, int]:
    if padding == "VALID":
        return 0, 0
    if padding == "SAME":
        total = max((-(-n // stride) - 1) * stride + w - n, 0)
        return total // 2, total - total // 2
    return padding


def convolved(x: Any, y: Any, form: str) -> Any:
    """By the definition, window after window."""
    options = FORMS[form]
    if form == "channels last":
        return convolved(x.transpose(0, 3, 1, 2), y.transpose(3, 2, 0, 1), "plain").transpose(
            0, 2, 3, 1
        )
    if form == "batch groups":
        parts = [
            convolved(a, b, "plain") for a, b in zip(np.split(x, 2), np.split(y, 2), strict=True)
        ]
        return np.concatenate(parts, 1)
    if form == "grouped":
        parts = [
            convolved(a, b, "plain") for a, b in zip(np.split(x, 2, 1), np.split(y, 2), strict=True)
        ]
        return np.concatenate(parts, 1)
    x, y = (
        dilated(x, options.get("lhs_dilation", (1, 1))),
        dilated(y, options.get("rhs_dilation", (1, 1))),
    )
    strides, padding = options["window_strides"], options["padding"]
    for axis in (2, 3):
        low, high = ends(
            x.shape[axis],
            y.shape[axis],
            strides[axis - 2],
            padding if isinstance(padding, str) else padding[axis - 2],
        )
        width = [(0, 0)] * 4
        width[axis] = (max(low, 0), max(high, 0))
        x = np.pad(x, width)
        x = x[(slice(None),) * axis + (slice(max(-low, 0), x.shape[axis] - max(-high, 0)),)]
    h, w = y.shape[2:]
    return np.stack(
        [
            np.stack(
                [
                    np.einsum("nihw,oihw->no", x[:, :, i : i + h, j : j + w], y)
                    for j in range(0, x.shape[3] - w + 1, strides[1])
                ],
                -1,
            )
            for i in range(0, x.shape[2] - h + 1, strides[0])
        ],
        -2,
    )


def transposed(x: Any, y: Any, strides: Any, padding: str) -> Any:
    """The transposed convolution of [n, width, channels]: each element spreads over a window."""
    (n, width, _), (w, _, out) = x.shape, y.shape
    full = np.zeros((n, (width - 1) * strides[0] + w, out), x.dtype)
    for i in range(width):
        full[:, i * strides[0] : i * strides[0] + w] += np.einsum("ni,wio->nwo", x[:, i], y[::-1])
    return full


def transform(
    kind: str, reference: Callable[..., Any], dtypes: Any, length: int, **options: Any
) -> Op:
    def samples(draw: Draw) -> Iterable[Sample]:
        n = length // 2 + 1 if kind == "IRFFT" else length
        yield sample(draw(n), fft_type=kind, fft_lengths=(length,))
        yield sample(draw(2, 3, n), fft_type=kind, fft_lengths=(length,))
        yield sample(draw(2, 4, n), fft_type=kind, fft_lengths=(4, length))

    def expected(x: Any, fft_type: str, fft_lengths: Any) -> Any:
        return reference(x, fft_lengths, axes=tuple(range(-len(fft_lengths), 0)))

    return Op(kind.lower(), "lax.fft", samples, dtypes, reference=expected, ulp=SUM, **options)


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
        INEXACT,
        quick=("float32", "complex64"),
        reference=convolved,
        ulp=2 * SUM,
        vmap_calls=7,
        gradient_calls=7,
        errors=[
            bad(
                (TypeError, ValueError),
                "(?s)conv_general_dilated.*(feature|channel)",
                np.ones((1, 2, 4, 4), F),
                np.ones((3, 3, 2, 2), F),
                form="plain",
            ),
            bad(
                TypeError,
                "(?s)conv.*ndim.*3 and 4",
                np.ones((1, 4, 4), F),
                np.ones((3, 4, 2, 2), F),
                form="plain",
            ),
        ],
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
    ),
    Op(
        "conv_without_space",
        lambda x, y: lax.conv_general_dilated(x, y, (), []),
        lambda draw: [sample(draw(2, 3), draw(4, 3))],
        ("float32", "float64", "complex64", "int32"),
        ulp=SUM,
        reference=lambda x, y: x @ y.T,
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
    transform("FFT", np.fft.fftn, ("complex64", "complex128"), 6),
    transform("IFFT", np.fft.ifftn, ("complex64", "complex128"), 5),
    transform("RFFT", np.fft.rfftn, ("float32", "float64"), 6),
    transform("IRFFT", np.fft.irfftn, ("complex64", "complex128"), 6),
    Op(
        "irfft_odd",
        lambda x: lax.fft(x, "IRFFT", (5,)),
        lambda draw: [sample(draw(2, 3))],
        ("complex64", "complex128"),
        reference=lambda x: np.fft.irfft(x, 5),
        ulp=SUM,
    ),
    Op(
        "rfft_odd",
        lambda x: lax.fft(x, "RFFT", (5,)),
        lambda draw: [sample(draw(2, 5))],
        ("float32", "float64"),
        reference=lambda x: np.fft.rfft(x, 5),
        ulp=SUM,
    ),
]
