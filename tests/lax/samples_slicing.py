"""Sample inputs of slices, padding, and dynamic slices."""

from __future__ import annotations

import numpy as np
from lax.laws import dtype_of, numbers
from lax.sampling import Sample

__all__ = ["SAMPLES"]

ALL = ("float32", "bfloat16", "int32", "uint8", "bool", "complex64")
FEW = ("float32", "int32")


def _padded(x, value, config):
    for axis, (low, high, interior) in enumerate(config):
        n = x.shape[axis]
        wide = np.full((*x.shape[:axis], n + max(n - 1, 0) * interior, *x.shape[axis + 1:]), value, x.dtype)
        wide[(slice(None),) * axis + (slice(None, None, interior + 1),)] = x
        edges = [(0, 0)] * x.ndim
        edges[axis] = (max(low, 0), max(high, 0))
        wide = np.pad(wide, edges, constant_values=value)
        x = wide[(slice(None),) * axis + (slice(max(-low, 0), wide.shape[axis] - max(-high, 0)),)]
    return x


def _scalar(r, d):
    return np.asarray(1, dtype_of(d))


def _window(x, starts, sizes):
    at = [min(max(s + n if s < 0 else s, 0), n - k) for s, n, k in zip(starts, x.shape, sizes, strict=True)]
    return tuple(slice(a, a + k) for a, k in zip(at, sizes, strict=True))


def _updated(x, update, starts):
    out = x.copy()
    out[_window(x, starts, update.shape)] = update
    return out


SAMPLES = [
    Sample("slice", "lax.slice", lambda r, d: ((numbers(r, d, 4, 5), (1, 0), (4, 5), (2, 3)), {}), ALL,
           lambda x, a, b, s: x[a[0]:b[0]:s[0], a[1]:b[1]:s[1]], True),
    Sample("slice whole", "lax.slice", lambda r, d: ((numbers(r, d, 4, 2), (1, 0), (3, 2)), {}), FEW,
           lambda x, a, b: x[1:3], True),
    Sample("slice empty", "lax.slice", lambda r, d: ((numbers(r, d, 4, 2), (1, 0), (1, 2)), {}), FEW,
           lambda x, a, b: x[1:1], False),
    Sample("slice_in_dim", "lax.slice_in_dim", lambda r, d: ((numbers(r, d, 4, 5), -4, -1, 2), {"axis": 1}), FEW,
           lambda x, a, b, s, axis: x[:, a:b:s], True),
    Sample("index_in_dim", "lax.index_in_dim", lambda r, d: ((numbers(r, d, 4, 5), -2, 1, False), {}), FEW,
           lambda x, i, axis, keep: x[:, i], True),
    Sample("pad", "lax.pad", lambda r, d: ((numbers(r, d, 3, 4), _scalar(r, d), [(1, 2, 0), (0, 1, 2)]), {}), ALL, _padded, True),
    Sample("pad negative", "lax.pad", lambda r, d: ((numbers(r, d, 3, 4), _scalar(r, d), [(-1, 2, 1), (1, -2, 2)]), {}), FEW,
           _padded, True),
    Sample("pad empty", "lax.pad", lambda r, d: ((numbers(r, d, 0, 4), _scalar(r, d), [(1, 2, 3), (-1, -1, 0)]), {}), FEW,
           _padded, False),
    Sample("dynamic_slice", "lax.dynamic_slice",
           lambda r, d: ((numbers(r, d, 4, 5), r.integers(-3, 6, 2).astype(np.int32), (2, 3)), {}), ALL,
           lambda x, starts, sizes: x[_window(x, starts, sizes)], True),
    Sample("dynamic_slice_in_dim", "lax.dynamic_slice_in_dim",
           lambda r, d: ((numbers(r, d, 4, 5), np.asarray(r.integers(-3, 6), np.int32), 2), {"axis": 1}), FEW,
           lambda x, start, size, axis: x[:, _window(x, (0, start), (4, 2))[1]], True),
    Sample("dynamic_index_in_dim", "lax.dynamic_index_in_dim",
           lambda r, d: ((numbers(r, d, 4, 5), np.asarray(r.integers(-4, 4), np.int32), 0, False), {}), FEW,
           lambda x, i, axis, keep: x[i], True),
    Sample("dynamic_update_slice", "lax.dynamic_update_slice",
           lambda r, d: ((numbers(r, d, 4, 5), numbers(r, d, 2, 3), r.integers(-3, 6, 2).astype(np.int32)), {}), ALL,
           _updated, True),
    Sample("dynamic_update_index_in_dim", "lax.dynamic_update_index_in_dim",
           lambda r, d: ((numbers(r, d, 4, 5), numbers(r, d, 4), np.asarray(r.integers(0, 5), np.int32), 1), {}), FEW,
           lambda x, u, i, axis: _updated(x, u[:, None], (0, i)), True),
]
