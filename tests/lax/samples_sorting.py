"""Sample inputs of sorts and the greatest elements."""

from __future__ import annotations

import numpy as np
from lax.laws import numbers
from lax.sampling import Sample

__all__ = ["SAMPLES"]

REAL = ("float32", "bfloat16", "float16", "int32", "uint8")


def _top(x, k, axis=-1):
    order = np.argsort(-x.astype(np.float64), axis, kind="stable")
    places = np.take(order, np.arange(k), axis)
    return [np.take_along_axis(x, places, axis), places]


def _least(x, k, axis=-1):
    return _top(-x, k, axis)[1:] and [-_top(-x, k, axis)[0], _top(-x, k, axis)[1]]


SAMPLES = [
    Sample("sort", "lax.sort", lambda r, d: ((numbers(r, d, 3, 4),), {}), (*REAL, "bool", "complex64"), np.sort, True),
    Sample("sort first axis", "lax.sort", lambda r, d: ((numbers(r, d, 5, 2), 0, False), {}), REAL,
           lambda x, axis, stable: np.sort(x, axis), True),
    Sample("sort together", "lax.sort", lambda r, d: (((r.integers(0, 2, (3, 4)), numbers(r, d, 3, 4), numbers(r, d, 3, 4)),),
                                                      {"num_keys": 2}), ("float32", "int32"),
           lambda xs, num_keys: [np.take_along_axis(x, np.lexsort((xs[1], xs[0]), axis=-1), -1) for x in xs], True),
    Sample("sort_key_val", "lax.sort_key_val", lambda r, d: ((numbers(r, d, 5), numbers(r, d, 5)), {}), REAL,
           lambda k, v: [np.sort(k), v[np.argsort(k)]], True),
    Sample("top_k", "lax.top_k", lambda r, d: ((numbers(r, d, 3, 5), 2), {}), (*REAL, "bool"), _top, True),
    Sample("top_k first axis", "lax.top_k", lambda r, d: ((numbers(r, d, 5, 3), 3), {"axis": 0}), REAL, _top, True),
    Sample("top_k none", "lax.top_k", lambda r, d: ((numbers(r, d, 3, 5), 0), {}), ("float32",), _top, False),
    Sample("approx_max_k", "lax.approx_max_k", lambda r, d: ((numbers(r, d, 3, 5), 2), {}), ("float32", "bfloat16"), _top, True),
    Sample("approx_min_k", "lax.approx_min_k", lambda r, d: ((numbers(r, d, 5, 3), 2, 0), {}), ("float32",), _least, True),
]
