"""Sample inputs of the operations on shapes."""

from __future__ import annotations

import numpy as np
from lax.laws import numbers
from lax.sampling import Sample

__all__ = ["SAMPLES"]

ALL = ("float32", "bfloat16", "int32", "uint8", "bool", "complex64")
FEW = ("float32", "int32")

SAMPLES = [
    Sample("broadcast", "lax.broadcast", lambda r, d: ((numbers(r, d, 2, 3), (4,)), {}), ALL,
           lambda x, s: np.broadcast_to(x, (*s, *x.shape)), True),
    Sample("broadcast_in_dim", "lax.broadcast_in_dim", lambda r, d: ((numbers(r, d, 2, 1), (2, 4, 3), (0, 2)), {}), ALL,
           lambda x, s, _: np.broadcast_to(x[:, None], s), True),
    Sample("broadcast_to_rank", "lax.broadcast_to_rank", lambda r, d: ((numbers(r, d, 2), 3), {}), FEW,
           lambda x, n: x.reshape(1, 1, 2), True),
    Sample("reshape", "lax.reshape", lambda r, d: ((numbers(r, d, 2, 3), (3, 2)), {}), ALL, np.reshape, True),
    Sample("reshape dimensions", "lax.reshape", lambda r, d: ((numbers(r, d, 2, 3), (6,), (1, 0)), {}), FEW,
           lambda x, s, p: x.transpose(p).reshape(s), True),
    Sample("reshape empty", "lax.reshape", lambda r, d: ((numbers(r, d, 0, 3), (3, 0)), {}), FEW, np.reshape, False),
    Sample("transpose", "lax.transpose", lambda r, d: ((numbers(r, d, 2, 3, 4), (1, 2, 0)), {}), ALL, np.transpose, True),
    Sample("rev", "lax.rev", lambda r, d: ((numbers(r, d, 2, 3, 2), (0, 2)), {}), ALL, np.flip, True),
    Sample("squeeze", "lax.squeeze", lambda r, d: ((numbers(r, d, 1, 3, 1), (0, -1)), {}), ALL, np.squeeze, True),
    Sample("squeeze one", "lax.squeeze", lambda r, d: ((numbers(r, d, 2, 1, 3), (1,)), {}), FEW, np.squeeze, True),
    Sample("expand_dims", "lax.expand_dims", lambda r, d: ((numbers(r, d, 2, 3), (0, -1)), {}), ALL, np.expand_dims, True),
    Sample("collapse", "lax.collapse", lambda r, d: ((numbers(r, d, 2, 3, 4), 1), {}), FEW,
           lambda x, _: x.reshape(2, 12), True),
    Sample("concatenate", "lax.concatenate", lambda r, d: (([numbers(r, d, 2, 3), numbers(r, d, 1, 3)], 0), {}), ALL,
           np.concatenate, True),
    Sample("concatenate ends", "lax.concatenate",
           lambda r, d: (([numbers(r, d, 2, 3), numbers(r, d, 2, 0), numbers(r, d, 2, 1)], 1), {}), FEW, np.concatenate, True),
    Sample("stack", "lax.stack", lambda r, d: (([numbers(r, d, 2, 3), numbers(r, d, 2, 3)], -1), {}), ALL, np.stack, True),
    Sample("tile", "lax.tile", lambda r, d: ((numbers(r, d, 2, 3), (2, 3)), {}), ALL, np.tile, True),
    Sample("tile zero", "lax.tile", lambda r, d: ((numbers(r, d, 2, 3), (0, 3)), {}), FEW, np.tile, False),
    Sample("split", "lax.split", lambda r, d: ((numbers(r, d, 2, 5), (2, 0, 3), 1), {}), ALL,
           lambda x, s, axis: np.split(x, np.cumsum(s)[:-1], axis), True),
    Sample("stack of an array", "lax.stack", lambda r, d: ((numbers(r, d, 3, 2), 1), {}), ALL, lambda x, axis: x.T, True),
    Sample("unstack", "lax.unstack", lambda r, d: ((numbers(r, d, 3, 2), 1), {}), ALL, lambda x, axis: list(x.T), True),
    Sample("full_like", "lax.full_like", lambda r, d: ((numbers(r, d, 3, 2), 1), {}), ALL, np.full_like, False),
    Sample("broadcast_like", "lax.broadcast_like", lambda r, d: ((numbers(r, d, 3), numbers(r, d, 2, 3)), {}), FEW,
           lambda x, y: np.broadcast_to(x, y.shape), True),
]
