"""Sample inputs of reductions over windows."""

from __future__ import annotations

import numpy as np
from lax.laws import numbers
from lax.sampling import Sample

from teucer import lax

__all__ = ["SAMPLES", "reference"]

WIDE = {"f": np.float64, "V": np.float64, "c": np.complex128}


def reference(ufunc):
    """What reduce_window computes, a window at a time."""
    def f(x, init, computation, window, strides=None, padding=None, base_dilation=None, window_dilation=None):
        ones = (1,) * x.ndim
        strides, base, holes = strides or ones, base_dilation or ones, window_dilation or ones
        padding = padding or ((0, 0),) * x.ndim
        full = np.full([(n - 1) * b + 1 for n, b in zip(x.shape, base, strict=True)], init, WIDE.get(x.dtype.kind, x.dtype))
        full[tuple(slice(None, None, b) for b in base)] = x
        full = np.pad(full, padding, constant_values=init)
        spans = [(w - 1) * d + 1 for w, d in zip(window, holes, strict=True)]
        shape = [(n - s) // t + 1 for n, s, t in zip(full.shape, spans, strides, strict=True)]
        out = np.empty(shape, full.dtype)
        for place in np.ndindex(*shape):
            at = tuple(slice(p * t, p * t + s, d) for p, t, s, d in zip(place, strides, spans, holes, strict=True))
            out[place] = ufunc.reduce(full[at].ravel())
        return out
    return f


PLAIN = ((2, 2),)
STEPS = ((3, 2), (2, 1), ((1, 2), (0, 1)))
HOLES = ((3, 2), (2, 1), ((2, 1), (1, 1)), (2, 1), (1, 2))


def _args(f, init, windows):
    return lambda r, d: ((numbers(r, d, 4, 5), np.asarray(init, numbers(r, d).dtype), f, *windows), {})


SAMPLES = [
    Sample(f"{name} {kind}", "lax.reduce_window", _args(f, init, windows), dtypes, reference(ufunc), True)
    for name, f, init, ufunc, dtypes in (
        ("sum", lax.add, 0, np.add, ("float32", "bfloat16", "int32", "complex64")),
        ("max", lax.max, -np.inf, np.maximum, ("float32", "bfloat16")),
        ("min", lax.min, np.inf, np.minimum, ("float32",)),
        ("product", lax.mul, 1, np.multiply, ("float32", "int32")))
    for kind, windows in (("plain", PLAIN), ("steps", STEPS), ("holes", HOLES))]
SAMPLES += [
    Sample("integers", "lax.reduce_window", lambda r, d: ((numbers(r, d, 4, 5), np.asarray(-2**31, np.int32), lax.max, *STEPS), {}),
           ("int32",), reference(np.maximum), False),
    Sample("booleans", "lax.reduce_window", lambda r, d: ((numbers(r, d, 4, 5), np.asarray(False), lax.bitwise_or, *STEPS), {}),
           ("bool",), reference(np.logical_or), False),
]
