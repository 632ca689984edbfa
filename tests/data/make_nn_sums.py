"""Makes nn_sums.json: values and derivatives of jax.nn's softmax and its like, by running JAX.

Run: python make_nn_sums.py > nn_sums.json
"""

import json
import sys

import jax
import numpy as np
from jax import nn

INF = float("inf")
A = np.asarray(
    [
        [1.0, -2.0, 3.0],
        [0.5, 0.5, -100.0],
        [-INF, -INF, -INF],
        [INF, 0.0, 1.0],
        [-INF, 2.0, 1000.0],
    ],
    np.float32,
)
WHERE = np.asarray(
    [
        [True, False, True],
        [False, False, False],
        [True, True, True],
        [False, True, True],
        [True, True, False],
    ]
)
B = np.asarray(
    [[1.0, -2.0, 0.0], [1.0, -1.0, 3.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [2.0, -1.0, 0.0]],
    np.float32,
)
CASES = [
    ("softmax", {}),
    ("softmax", {"axis": 0}),
    ("softmax", {"axis": [0, 1]}),
    ("softmax", {"where": True}),
    ("log_softmax", {}),
    ("log_softmax", {"axis": 0}),
    ("log_softmax", {"where": True}),
    ("logsumexp", {}),
    ("logsumexp", {"axis": 1}),
    ("logsumexp", {"axis": -1, "keepdims": True}),
    ("logsumexp", {"axis": [0, 1]}),
    ("logsumexp", {"axis": 1, "where": True}),
    ("logsumexp", {"axis": 1, "b": True}),
    ("logmeanexp", {"axis": 1}),
    ("logmeanexp", {}),
    ("logmeanexp", {"axis": 1, "keepdims": True, "where": True}),
    ("standardize", {}),
    ("standardize", {"axis": 0}),
    ("standardize", {"algorithm": "stable"}),
    ("standardize", {"where": True}),
    ("standardize", {"mean": 0.5, "variance": 2.0, "epsilon": 0.0}),
]
WEIGHTS = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)


def run(name, kwargs):
    given = {**kwargs}
    for key, value in (("where", WHERE), ("b", B)):
        if given.get(key) is True:
            given[key] = value
    if isinstance(given.get("axis"), list):
        given["axis"] = tuple(given["axis"])
    f = lambda a: getattr(nn, name)(a, **given)
    finite = np.where(np.isfinite(A), A, 1.5 + np.arange(3)).astype(np.float32)
    loss = lambda a: (f(a) * np.resize(WEIGHTS, f(a).shape)).sum()
    listed = lambda y: np.asarray(y, np.float64).tolist()
    return {
        "name": name,
        "kwargs": kwargs,
        "value": listed(f(A)),
        "finite": listed(f(finite)),
        "grad": listed(jax.grad(loss)(finite)),
        "grad_extreme": listed(jax.grad(loss)(A)),
    }


json.dump(
    {"a": A.tolist(), "where": WHERE.tolist(), "b": B.tolist(), "cases": [run(*c) for c in CASES]},
    sys.stdout,
)
