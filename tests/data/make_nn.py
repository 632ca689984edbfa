"""Makes nn.json: values and derivatives of jax.nn, by running JAX. Run: python make_nn.py > nn.json"""

import json
import sys
import warnings

import jax
import numpy as np
from jax import nn

warnings.simplefilter("ignore")
X = [
    -1000.0,
    -90.0,
    -20.0,
    -6.0,
    -3.0,
    -1.5,
    -1.0,
    -0.5,
    -1e-3,
    -0.0,
    0.0,
    1e-3,
    0.5,
    0.6931472,
    1.0,
    1.5,
    3.0,
    6.0,
    9.0,
    20.0,
    90.0,
    1000.0,
    float("inf"),
    float("-inf"),
    float("nan"),
]
CASES = {
    name: {}
    for name in (
        "celu",
        "elu",
        "gelu",
        "hard_sigmoid",
        "hard_silu",
        "hard_tanh",
        "identity",
        "leaky_relu",
        "log1mexp",
        "log_sigmoid",
        "mish",
        "relu",
        "relu6",
        "selu",
        "sigmoid",
        "silu",
        "soft_sign",
        "softplus",
        "sparse_plus",
        "sparse_sigmoid",
        "squareplus",
        "tanh",
    )
}
KWARGS = [
    ("gelu", {"approximate": False}),
    ("celu", {"alpha": 0.5}),
    ("elu", {"alpha": 2.0}),
    ("leaky_relu", {"negative_slope": 0.2}),
    ("squareplus", {"b": 1.0}),
]


def record(name, kwargs):
    f = lambda x: getattr(nn, name)(x, **kwargs)
    x = np.asarray(X, np.float32)
    out = {"name": name, "kwargs": kwargs, "x": X, "value": np.asarray(f(x), np.float64).tolist()}
    out["grad"] = np.asarray(jax.vmap(jax.grad(f))(x), np.float64).tolist()
    out["forward"] = np.asarray(
        jax.vmap(lambda v: jax.jvp(f, (v,), (np.float32(1),))[1])(x), np.float64
    ).tolist()
    ones = {
        dtype: jax.numpy.ones(2, dtype)
        for dtype in (
            "bool",
            "int8",
            "int32",
            "uint8",
            "float16",
            "bfloat16",
            "float32",
            "complex64",
        )
    }
    out["dtypes"] = {
        kind: dtype_of(f, v) for kind, v in {**ones, "python int": 1, "python float": 1.0}.items()
    }
    return out


def dtype_of(f, x):
    try:
        y = f(x)
    except (TypeError, ValueError) as err:
        return type(err).__name__
    return f"{y.dtype}{'*' if y.weak_type else ''}"


json.dump(
    [record(n, {}) for n in CASES] + [record(n, k) for n, k in KWARGS], sys.stdout, indent=None
)
