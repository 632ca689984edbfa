"""Discrete Fourier transforms over the last axes."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import dtypes
from teucer._core import array_ops, dialects
from teucer._core.cost import Cost, Work
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray
from teucer._core.typing import Array
from teucer._devices import partition
from teucer._dimensions.dimensions import as_size, is_constant
from teucer._hlo import rare_hlo
from teucer._lower import hlo
from teucer.lax._arithmetic import conj, mul, real
from teucer.lax._slicing import pad
from teucer.lax._structure import Linear, broadcast_to, convert_element_type, number

if TYPE_CHECKING:
    from teucer._core.primitive import Axis, Undefined
    from teucer._core.typing import ArrayLike, Arrays, Aval, Avals, Params
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = ["FftType", "fft", "fft_p"]


class FftType(enum.IntEnum):
    """Which transform: forward, inverse, forward of real numbers, inverse of that."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def _operations(avals: Avals, out: ShapedArray, params: Params) -> float:
    return 5.0 * out.size * math.log2(max(math.prod(params["fft_lengths"]), 2))


@final
class Fft(Linear):
    """The discrete Fourier transform over the last len(fft_lengths) axes.

    (C1) at most three axes, and x has as many.  (C2) their sizes are fft_lengths; of IRFFT the
    last one n // 2 + 1. (C3) RFFT takes float32 or float64, the others complex64 or complex128.
    """

    __slots__ = ()
    name = "fft"
    cost = Cost(work=Work.LIBRARY, operations=_operations)

    def types(self, x: ShapedArray, *, fft_type: FftType, fft_lengths: Sequence[int]) -> Any:
        kind, lengths = fft_type.name, fft_lengths
        if len(lengths) > 3:
            raise ValueError(
                f"FFT over {len(lengths)} axes: rank must be between 1 and 3.\n    x: "
                f"{x.str_short(short_dtypes=True)}, fft_lengths: {lengths}\n"
                "  Transform the last axes first, then the others after moving them to the end."
            )
        if len(lengths) > x.ndim:
            raise ValueError(
                f"FFT input shape {x.shape} must have at least as many input dimensions as "
                f"fft_lengths {lengths}."
            )
        self._check_dtype(kind, x)
        last = x.shape[x.ndim - len(lengths) :]
        if fft_type == FftType.IRFFT:
            if last[:-1] != lengths[:-1]:
                raise ValueError(
                    f"IRFFT input shape {x.shape} minor dimensions must be equal to all except "
                    f"the last fft_length, got fft_lengths={lengths}"
                )
            if lengths[-1] < 0 or last[-1] != (lengths[-1] // 2 + 1 if lengths[-1] else 0):
                raise ValueError(
                    "IRFFT requires innermost dimension to be compatible with "
                    f"fft_length[-1]/2+1. Got: {last[-1]} and {lengths[-1]}\n"
                    f"    x: shape {x.shape}, fft_lengths: {lengths}"
                )
            shape = (*x.shape[:-1], lengths[-1])
            return (ShapedArray(shape, np.dtype(np.finfo(x.dtype).dtype)),)
        if last != lengths:
            raise ValueError(
                f"{kind} input shape {x.shape} minor dimensions must be equal to fft_lengths "
                f"{lengths}"
            )
        if fft_type == FftType.RFFT:
            if lengths[-1] == 0:
                raise ValueError(
                    f"RFFT needs an element to transform.\n    x: shape {x.shape}, fft_lengths: "
                    f"{lengths}"
                )
            return (
                ShapedArray(
                    (*x.shape[:-1], lengths[-1] // 2 + 1), dtypes.to_complex_dtype(x.dtype)
                ),
            )
        return (x.strengthen(),)

    @staticmethod
    def _check_dtype(kind: str, x: ShapedArray) -> None:
        if kind == "RFFT" and x.dtype not in (np.float32, np.float64):
            raise ValueError(f"RFFT input must be float32 or float64, got {x.dtype.name}")
        if kind != "RFFT" and x.dtype not in (np.complex64, np.complex128):
            raise ValueError(f"{kind} input must be complex64 or complex128, got {x.dtype.name}")

    shard = partition.aligned

    def lower(
        self, ctx: Context, x: Value, *, fft_type: FftType, fft_lengths: Sequence[int]
    ) -> Any:
        (aval,) = ctx.avals_out
        # XLA's partitioner aborts the process for some lengths of an axis that is divided over
        # several mesh axes.
        axes = range(aval.ndim - len(fft_lengths), aval.ndim)
        if 0 in aval.shape:
            return (hlo.broadcast_in_dim(ctx, ctx.constant(0, aval.dtype), aval.shape, ()),)
        return (
            ctx.whole(
                rare_hlo.fft(ctx, ctx.whole(x, axes), fft_type.name, fft_lengths, aval), axes
            ),
        )

    def transpose(
        self, cts: Arrays, x: Array | Undefined, *, fft_type: FftType, fft_lengths: Sequence[int]
    ) -> Any:
        (ct,) = cts
        if fft_type in (FftType.FFT, FftType.IFFT):
            # The matrices of these transforms are symmetric.
            return self.call(ct, fft_type=fft_type, fft_lengths=fft_lengths)
        n = fft_lengths[-1]
        if fft_type == FftType.RFFT:
            # RFFT keeps half of a transform of real numbers. So the transpose fills up with zeros,
            # transforms, and drops imaginary parts.
            aval = typeof(ct)
            widths = ((0, 0, 0),) * (aval.ndim - 1) + ((0, n - aval.shape[-1], 0),)
            full = pad(ct, number(0, aval.dtype), widths)
            return (real(self.call(full, fft_type=FftType.FFT, fft_lengths=fft_lengths)[0]),)
        # An element of the half stands for itself and its mirror image, where it has one.
        weights = np.full(n // 2 + 1, 2.0)
        weights[0] = 1
        weights[n - n // 2 :] = 1
        (half,) = self.call(ct, fft_type=FftType.RFFT, fft_lengths=fft_lengths)
        aval = typeof(half)
        scale = (weights / math.prod(fft_lengths)).astype(aval.dtype)
        return (mul(conj(half), broadcast_to(scale, aval.shape, (aval.ndim - 1,))),)

    def batch(self, axis: Axis, args: Arrays, dims: Sequence[int], **params: object) -> Any:
        return self.call(array_ops.moveaxis(args[0], dims[0], 0), **params), (0,)

    @dialects.padded.rule
    def padded(
        self,
        sizes: Sizes,
        args: Sequence[Array],
        avals: Sequence[Aval],
        outs: Sequence[Array],
        *,
        fft_type: object,
        fft_lengths: Sequence[int],
    ) -> Any:
        if not is_constant((*fft_lengths, *avals[0].shape[avals[0].ndim - len(fft_lengths) :])):
            sizes.refuse("the transform of an axis of unknown length")
        return self.call(*args, fft_type=fft_type, fft_lengths=fft_lengths)


fft_p = Fft()


def _kind(fft_type: object) -> FftType:
    if isinstance(fft_type, FftType):
        return fft_type
    if isinstance(fft_type, str):
        if fft_type in FftType.__members__ or (
            fft_type.islower() and fft_type.upper() in FftType.__members__
        ):
            return FftType[fft_type.upper()]
        raise ValueError(
            f"Unknown FFT type '{fft_type}'\n  It is one of {', '.join(FftType.__members__)}."
        )
    raise TypeError(f"Unknown FFT type value '{fft_type}'\n  Give a FftType, or its name.")


def fft(x: ArrayLike, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """Discrete Fourier transform over the last axes.

    x: complex[..., n1, ..., nk] for FFT and IFFT; real[..., nk] for RFFT, which gives complex[...,
    nk // 2 + 1] of the last axis; IRFFT takes that and gives real[..., nk] back. fft_lengths: (n1,
    ..., nk), k <= 3. Other dtypes are converted. The inverses divide by the product of fft_lengths;
    IRFFT takes no notice of imaginary parts that no real numbers have. Raises ValueError if the
    lengths do not fit (C1, C2) or RFFT is given complex numbers (C3).

    >>> from teucer import lax
    >>> lax.fft(np.float32([1, 2, 3, 4]), 'RFFT', (4,))
    Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    kind = _kind(fft_type)
    lengths = tuple(as_size(n) for n in fft_lengths)
    dtype = typeof(x).dtype
    is_complex = dtypes.issubdtype(dtype, np.complexfloating)
    if kind == FftType.RFFT:
        if is_complex:
            raise ValueError("only real valued inputs supported for rfft")
        if not dtypes.issubdtype(dtype, np.floating):
            x = convert_element_type(x, dtypes.to_inexact_dtype(dtype))
    elif not is_complex:
        x = convert_element_type(x, dtypes.to_complex_dtype(dtype))
    if not lengths:
        return convert_element_type(x, typeof(x).dtype)
    return fft_p.call(x, fft_type=kind, fft_lengths=lengths)[0]
