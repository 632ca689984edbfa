"""Spectra of signals by Fourier transforms of windows, their inverse, and trends."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import signal as host

from teucer import lax
from teucer import numpy as jnp
from teucer._core.typing import Array, ArrayLike
from teucer.lax._structure import canonical_axis
from teucer.numpy._library import fast
from teucer.numpy._promotion import check_arraylike
from teucer.scipy._operands import along_last, matrices

# The argument `boundary` -> the mode of jnp.pad and its arguments.
_EXTENSIONS: dict[str | None, tuple[str, dict[str, str]]] = {
    "even": ("reflect", {}),
    "odd": ("reflect", {"reflect_type": "odd"}),
    "constant": ("edge", {}),
    "zeros": ("constant", {}),
}


def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] = 0,
    overwrite_data: None = None,
) -> Array:
    """A signal without its mean ("constant"), or without the straight line that fits it best
    ("linear").

    data: T[...]. bp: places at which another line begins.
    Raises ValueError for another type, or places that are not along the axis; NotImplementedError
    for overwrite_data.

    >>> detrend(jnp.array([1., 4., 4.])).round(3).tolist()
    [-0.5, 1.0, -0.5]
    """
    if overwrite_data is not None:
        raise NotImplementedError(
            "detrend: overwrite_data argument not implemented: arrays are immutable\n"
            "  Leave it out."
        )
    if type not in ("constant", "linear"):
        raise ValueError(f"detrend: Trend type must be 'linear' or 'constant', got {type!r}.")
    check_arraylike("detrend", data)
    axis = canonical_axis(axis, jnp.ndim(data), "detrend")
    n = jnp.shape(data)[axis]
    breaks = sorted({0, n, *(int(b) for b in np.atleast_1d(np.asarray(bp)))})
    if breaks[0] < 0 or breaks[-1] > n:
        raise ValueError(
            "detrend: Breakpoints must be non-negative and less than length of data along given "
            f"axis, {n}; got {bp}."
        )
    return _detrend(data, axis, type, tuple(breaks))


@fast(static=("axis", "type", "breaks"))
def _detrend(data: ArrayLike, axis: int, type: str, breaks: tuple[int, ...]) -> Any:
    (data,) = matrices("detrend", data)
    x = jnp.moveaxis(data, axis, -1)
    if type == "constant":
        rest = x - jnp.mean(x, axis=-1, keepdims=True)
    else:
        parts = [x[..., start:end] for start, end in itertools.pairwise(breaks)]
        rest = jnp.concatenate([_without_line(part) for part in parts], axis=-1) if parts else x
    return jnp.moveaxis(rest, -1, axis)


def _without_line(x: Array) -> Any:
    """The rest after subtracting the line that fits best: the projection off the constant and the
    centred places, which are orthogonal."""
    places = np.arange(x.shape[-1]) - (x.shape[-1] - 1) / 2
    norm = np.sqrt(np.sum(places**2)) or 1.0
    unit = along_last(jnp.asarray(places / norm, x.real.dtype), x).astype(x.dtype)
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    return centred - jnp.sum(centred * unit, axis=-1, keepdims=True) * unit


class _Windows(NamedTuple):
    """How a signal is cut: the window, its length, how many elements neighbours share, and the
    length of transforms."""

    window: Any
    nperseg: int
    noverlap: int
    nfft: int


def _windows(
    op: str,
    window: object,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    n: int | None,
    default: int = 256,
) -> _Windows:
    """The way to cut a signal of n elements; None where that is not known."""
    if nperseg is not None and int(nperseg) < 1:
        raise ValueError(f"{op}: nperseg must be a positive integer, got {nperseg}.")
    if isinstance(window, str | tuple | float | int):
        length = default if nperseg is None else int(nperseg)
        if n is not None and length > n:
            warnings.warn(
                (
                    f"{op}: nperseg={length} is greater than signal length max(len(x), len(y)) = "
                    f"{n}, using nperseg = {n}"
                ),
                UserWarning,
                stacklevel=3,
            )
            length = n
        window = host.get_window(window, length) if length else np.ones(0)
    else:
        check_arraylike(op, window)
        if jnp.ndim(window) != 1:
            raise ValueError(f"{op}: window must be 1-D, got shape {jnp.shape(window)}.")
        length = jnp.shape(window)[0]
        if n is not None and length > n:
            raise ValueError(f"{op}: window is longer than input signal: {length} and {n}.")
        if nperseg is not None and int(nperseg) != length:
            raise ValueError(
                f"{op}: value specified for nperseg is different from length of window: {nperseg} "
                f"and {length}."
            )
    nfft = length if nfft is None else int(nfft)
    if nfft < length:
        raise ValueError(
            f"{op}: nfft must be greater than or equal to nperseg, got {nfft} and {length}."
        )
    noverlap = length // 2 if noverlap is None else int(noverlap)
    if length and noverlap >= length:
        raise ValueError(f"{op}: noverlap must be less than nperseg, got {noverlap} and {length}.")
    return _Windows(window, length, noverlap, nfft)


def _without_trend(detrend: object) -> Callable[[Any], Any]:
    """The argument `detrend` as a function of windows along the last axis."""
    if not detrend:
        return lambda x: x
    if callable(detrend):
        return detrend
    if detrend not in ("constant", "linear"):
        raise ValueError(f"detrend: Trend type must be 'linear' or 'constant', got {detrend!r}.")
    return lambda x: _detrend(x, x.ndim - 1, detrend, (0, x.shape[-1]))


def _transforms(x: Array, cut: _Windows, detrend: object, is_onesided: bool) -> Any:
    """The Fourier transforms of the windows of a signal in the last axis: T[..., windows,
    frequencies]."""
    step = cut.nperseg - cut.noverlap
    count = max((x.shape[-1] - cut.noverlap) // step, 0)
    places = step * np.arange(count)[:, None] + np.arange(cut.nperseg)
    pieces = _without_trend(detrend)(x[..., places])
    pieces *= along_last(jnp.asarray(cut.window).astype(x.dtype), pieces)
    return jnp.fft.rfft(pieces.real, cut.nfft) if is_onesided else jnp.fft.fft(pieces, cut.nfft)


def _frequencies(n: int, fs: object, is_onesided: bool) -> Any:
    return jnp.asarray(np.fft.rfftfreq(n) if is_onesided else np.fft.fftfreq(n), float) * fs


def csd(
    x: ArrayLike,
    y: ArrayLike | None,
    fs: ArrayLike = 1.0,
    window: str = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: str = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Frequencies, and the density of the cross spectrum of two signals at them, by Welch's method;
    y None: of x with itself.

    x, y: T[...]; the shorter one is continued with zeros. fs: how many samples there are in a unit
    of time.
    window: a name, a name with its parameters (`scipy.signal.get_window`), or an array.
    nperseg: the length of windows, 256 by default; noverlap: how many elements neighbours share,
    half by default; nfft: the length of transforms. detrend: "constant", "linear", False, or a
    function of windows in the last axis.
    return_onesided: for real signals only frequencies that are not negative.
    scaling: "density", power by frequency, or "spectrum", power. average: of windows, "mean" or
    "median". Raises ValueError for other arguments.

    >>> frequencies, density = csd(jnp.arange(8.), jnp.arange(8.), nperseg=4)
    >>> frequencies.tolist()
    [0.0, 0.25, 0.5]

    Method: P. D. Welch, IEEE Trans. Audio Electroacoust. 15 (1967) 70.
    """
    check_arraylike("csd", x, *(() if y is None else (y,)))
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"csd: Unknown scaling: {scaling!r}\n  allowed: 'density', 'spectrum'")
    if average not in ("mean", "median"):
        raise ValueError(f"csd: average must be 'median' or 'mean', got {average}")
    x, *others = matrices("csd", x, *(() if y is None else (y,)))
    y = others[0] if others else x
    axis = canonical_axis(axis, x.ndim, "csd")
    x, y = jnp.moveaxis(x, axis, -1), jnp.moveaxis(y, axis, -1)
    batch = jnp.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    n = max(x.shape[-1], y.shape[-1])
    if not x.size or not y.size:
        empty = jnp.zeros((*batch, min(x.shape[-1], y.shape[-1])), x.real.dtype)
        return jnp.moveaxis(empty, -1, axis), jnp.moveaxis(empty, -1, axis)
    cut = _windows("csd", window, nperseg, noverlap, nfft, n)
    is_onesided = return_onesided and not jnp.iscomplexobj(x)
    x, y = (jnp.pad(v, [(0, 0)] * (v.ndim - 1) + [(0, n - v.shape[-1])]) for v in (x, y))
    first = _transforms(x, cut, detrend, is_onesided)
    second = first if not others else _transforms(y, cut, detrend, is_onesided)
    weights = jnp.asarray(cut.window).astype(x.real.dtype)
    scale = 1 / (fs * jnp.sum(weights**2)) if scaling == "density" else 1 / jnp.sum(weights) ** 2
    power = jnp.conj(first) * second * scale.astype(first.dtype)
    if is_onesided:
        # Each frequency but the first, and the last of an even number, stands also for its
        # opposite.
        end = power.shape[-1] if cut.nfft % 2 else power.shape[-1] - 1
        places = jnp.arange(power.shape[-1])
        power = jnp.where(along_last((places > 0) & (places < end), power), 2 * power, power)
    averaged = jnp.mean(power, axis=-2) if average == "mean" else _median(power)
    return _frequencies(cut.nfft, fs, is_onesided), jnp.moveaxis(averaged, -1, axis)


def _median(power: Any) -> Any:
    """The median over windows, divided by its bias for an exponential distribution.

    B. Allen et al., Phys. Rev. D 85 (2012) 122006.
    """
    odd = np.arange(3, power.shape[-2] + 1, 2)
    bias = 1 + float(np.sum(1 / odd - 1 / (odd - 1)))
    return lax.complex(jnp.median(power.real, axis=-2), jnp.median(power.imag, axis=-2)) / bias


def welch(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: str = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: str = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Frequencies, and the density of the power spectrum of a signal at them, by Welch's method.
    Arguments as of `csd`.

    >>> frequencies, density = welch(jnp.array([1., -1., 1., -1.]), nperseg=4, window="boxcar")
    >>> density.round(3).tolist()
    [0.0, 0.0, 4.0]
    """
    frequencies, density = csd(
        x,
        None,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        scaling,
        axis,
        average,
    )
    return frequencies, density.real


def stft(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: str = "hann",
    nperseg: int | None = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: bool = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """Frequencies, times of windows, and Fourier transforms: complex[..., frequencies, ...,
    windows].

    boundary: how the signal is continued for half a window at both ends: "even", "odd"
    (mirrored, about the point at the end), "constant", "zeros", or None. padded: continue it by
    zeros to a whole number of windows. Other arguments and errors are as for `csd`.

    >>> frequencies, times, transforms = stft(jnp.ones(8), nperseg=4)
    >>> transforms.shape, times.tolist()
    ((3, 5), [0.0, 2.0, 4.0, 6.0, 8.0])
    """
    check_arraylike("stft", x)
    if boundary is not None and boundary not in _EXTENSIONS:
        raise ValueError(
            f"Unknown boundary option '{boundary}', must be one of: {[*_EXTENSIONS, None]}"
        )
    (x,) = matrices("stft", x)
    axis = canonical_axis(axis, x.ndim, "stft")
    x = jnp.moveaxis(x, axis, -1)
    if not x.size:
        empty = jnp.zeros(x.shape, x.real.dtype)
        return empty, empty, empty
    cut = _windows("stft", window, nperseg, noverlap, nfft, x.shape[-1])
    along = [(0, 0)] * (x.ndim - 1)
    half = cut.nperseg // 2
    if boundary is not None:
        if x.shape[-1] <= half and boundary in ("even", "odd"):
            raise ValueError(
                f"stft: the signal must be longer than half a window, {half}, for boundary "
                f"{boundary!r}."
            )
        mode, options = _EXTENSIONS[boundary]
        x = jnp.pad(x, [*along, (half, half)], mode=mode, **options)
    step = cut.nperseg - cut.noverlap
    if padded:
        x = jnp.pad(x, [*along, (0, (-(x.shape[-1] - cut.nperseg) % step) % cut.nperseg)])
    is_onesided = return_onesided and not jnp.iscomplexobj(x)
    transforms = _transforms(x, cut, detrend, is_onesided)
    transforms /= jnp.sum(jnp.asarray(cut.window)).astype(transforms.dtype)
    times = (
        jnp.asarray(np.arange(cut.nperseg / 2, x.shape[-1] - cut.nperseg / 2 + 1, step), float) / fs
    )
    times = times if boundary is None else times - cut.nperseg / 2 / fs
    return (
        _frequencies(cut.nfft, fs, is_onesided),
        times,
        jnp.moveaxis(jnp.swapaxes(transforms, -1, -2), -2, axis),
    )


def istft(
    Zxx: ArrayLike,
    fs: ArrayLike = 1.0,
    window: str = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """Times, and the signal whose `stft` is Zxx, as far as windows overlap.

    Zxx: complex, with frequencies along freq_axis and windows along time_axis. input_onesided:
    without negative frequencies.
    boundary: whether the signal was continued at both ends. Other arguments are as given to `stft`.
    Raises ValueError for arrays of less than two axes, equal axes, and lengths that do not fit.

    >>> _, _, transforms = stft(jnp.arange(8.), nperseg=4)
    >>> istft(transforms)[1].round().tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]

    Method: D. W. Griffin and J. S. Lim, IEEE Trans. Acoust. Speech Signal Process. 32 (1984) 236.
    """
    check_arraylike("istft", Zxx)
    (z,) = matrices("istft", Zxx)
    if z.ndim < 2:
        raise ValueError(f"istft: Input stft must be at least 2d, got shape {z.shape}!")
    frequency, time = (canonical_axis(axis, z.ndim, "istft") for axis in (freq_axis, time_axis))
    if frequency == time:
        raise ValueError("istft: Must specify differing time and frequency axes!")
    z = jnp.moveaxis(z, (frequency, time), (-1, -2))
    default = 2 * (z.shape[-1] - 1) if input_onesided else z.shape[-1]
    length = default if nperseg is None else int(nperseg)
    if nfft is None:
        # A window of an odd length has as many frequencies as one that is one shorter.
        nfft = length if input_onesided and length == default + 1 else default
    if nfft < length:
        raise ValueError(f"istft: FFT length ({nfft}) must be longer than nperseg ({length}).")
    cut = _windows("istft", window, length, noverlap, nfft, None)
    step = cut.nperseg - cut.noverlap
    pieces = jnp.fft.irfft(z, nfft) if input_onesided else jnp.fft.ifft(z, nfft)
    weights = jnp.asarray(cut.window).astype(pieces.real.dtype)
    pieces = pieces[..., : cut.nperseg]
    pieces *= along_last((weights * jnp.sum(weights)).astype(pieces.dtype), pieces)
    count = pieces.shape[-2]
    places = step * np.arange(count)[:, None] + np.arange(cut.nperseg)
    size = cut.nperseg + (count - 1) * step
    total = jnp.zeros((*pieces.shape[:-2], size), pieces.dtype).at[..., places].add(pieces)
    norm = jnp.zeros(size, weights.dtype).at[places].add(jnp.broadcast_to(weights**2, places.shape))
    half = cut.nperseg // 2
    if boundary:
        total, norm = (v[..., half : v.shape[-1] - half] for v in (total, norm))
    signal = total / along_last(jnp.where(norm > 1e-10, norm, 1).astype(total.dtype), total)
    # The axis of time stays where it was, counted without the axis of frequencies.
    at = time - (frequency < time)
    return jnp.arange(signal.shape[-1], dtype=float) / jnp.asarray(fs, float), jnp.moveaxis(
        signal, -1, at
    )
