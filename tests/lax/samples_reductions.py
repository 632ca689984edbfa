"""Sample inputs of reductions, places of extremes, and cumulative reductions."""

from __future__ import annotations

import numpy as np
import scipy.special
from lax.laws import numbers
from lax.sampling import Sample

from teucer import lax

__all__ = ["SAMPLES"]

NUMERIC = ("float32", "bfloat16", "int32", "uint8", "complex64")
REAL = ("float32", "bfloat16", "int32", "uint8")
LOGICAL = ("int32", "uint8", "bool")
WIDE = {"f": np.float64, "V": np.float64, "c": np.complex128}


def _wide(x):
    return x.astype(WIDE.get(x.dtype.kind, x.dtype))


def _reduced(f):
    return lambda x, axes: f(_wide(x), axis=tuple(axes), **({"dtype": x.dtype} if x.dtype.kind in "iu" and f in (
        np.sum, np.prod) else {}))


def _scanned(f):
    def reference(x, axis=0, reverse=False):
        y = np.flip(_wide(x), axis) if reverse else _wide(x)
        out = f(y, axis)
        return np.flip(out, axis) if reverse else out
    return reference


def _accumulated(ufunc):
    return _scanned(lambda y, axis: ufunc.accumulate(y, axis, dtype=y.dtype))


def _logsumexp(y, axis):
    at = [slice(None)] * y.ndim
    return np.stack([scipy.special.logsumexp(y[(*at[:axis], slice(0, i + 1))], axis=axis) for i in range(y.shape[axis])], axis)


def _in(*axes):
    return lambda r, d: ((numbers(r, d, 3, 4, 2), axes), {})


SAMPLES = [
    Sample("reduce_sum", "lax.reduce_sum", _in(0, 2), NUMERIC, _reduced(np.sum), True),
    Sample("reduce_sum none", "lax.reduce_sum", _in(), ("float32",), lambda x, axes: x, True),
    Sample("reduce_prod", "lax.reduce_prod", _in(1), NUMERIC, _reduced(np.prod), True),
    Sample("reduce_prod all", "lax.reduce_prod", lambda r, d: ((numbers(r, d, 3, 3), (0, 1)), {}), ("float32",),
           _reduced(np.prod), True),
    Sample("reduce_max", "lax.reduce_max", _in(2, 1), (*REAL, "bool"), _reduced(np.max), True),
    Sample("reduce_min", "lax.reduce_min", _in(1), (*REAL, "bool"), _reduced(np.min), True),
    Sample("reduce_and", "lax.reduce_and", _in(0), LOGICAL, lambda x, axes: np.bitwise_and.reduce(x, axes), False),
    Sample("reduce_or", "lax.reduce_or", _in(0, 1), LOGICAL, lambda x, axes: np.bitwise_or.reduce(x, axes), False),
    Sample("reduce_xor", "lax.reduce_xor", _in(2), LOGICAL, lambda x, axes: np.bitwise_xor.reduce(x, axes), False),
    Sample("argmax", "lax.argmax", lambda r, d: ((numbers(r, d, 3, 4), 1, np.int32), {}), (*REAL, "bool"),
           lambda x, axis, _: np.argmax(x, axis), False),
    Sample("argmin", "lax.argmin", lambda r, d: ((numbers(r, d, 3, 4), 0, np.uint8), {}), (*REAL, "bool"),
           lambda x, axis, _: np.argmin(x, axis), False),
    Sample("reduce", "lax.reduce",
           lambda r, d: ((numbers(r, d, 3, 4), numbers(r, d), lambda a, b: lax.add(a, lax.add(b, lax.mul(a, b))), (0,)), {}),
           ("float32",), lambda x, init, f, axes: (1 + init) * np.prod(1 + x, 0) - 1, True),
    Sample("reduce pairs", "lax.reduce",
           lambda r, d: (((numbers(r, d, 3, 4), numbers(r, d, 3, 4)), (numbers(r, d) * 0 + 1, numbers(r, d) * 0),
                          lambda a, b: (lax.mul(a[0], b[0]), lax.add(lax.mul(a[1], b[0]), b[1])), (0,)), {}),
           ("float32",), lambda xs, inits, f, axes: [xs[0].prod(0), (xs[1][0] * xs[0][1] + xs[1][1]) * xs[0][2] + xs[1][2]],
           True),
    Sample("reduce bitwise", "lax.reduce", lambda r, d: ((numbers(r, d, 3, 4), np.int32(0), lax.bitwise_or, (1,)), {}),
           ("int32",), lambda x, init, f, axes: np.bitwise_or.reduce(x, axes), False),
]
SAMPLES += [
    Sample(f"{name} {n} {axis} {reverse}", f"lax.{name}",
           lambda r, d, n=n, axis=axis, reverse=reverse: ((numbers(r, d, n, 3),), {"axis": axis, "reverse": reverse}),
           dtypes if n > 1 else dtypes[:1], _accumulated(ufunc) if name != "cumlogsumexp" else _scanned(ufunc), n == 4 or axis == 1)
    for name, ufunc, dtypes in (("cumsum", np.add, NUMERIC), ("cumprod", np.multiply, NUMERIC), ("cummax", np.maximum, REAL),
                                ("cummin", np.minimum, REAL), ("cumlogsumexp", _logsumexp, ("float32", "bfloat16")))
    for n, axis, reverse in ((4, 0, False), (3, 1, True), (1, 0, True), (19, 0, True))]
