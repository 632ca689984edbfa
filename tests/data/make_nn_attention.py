"""Makes nn_attention.json: values of jax.nn's attention and initializers, by running JAX.

Run: python make_nn_attention.py > nn_attention.json
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import nn

CASES = [
    {},
    {"bias": True},
    {"mask": True},
    {"scale": 0.3},
    {"is_causal": True},
    {"query_seq_lengths": [3, 5]},
    {"key_value_seq_lengths": [6, 2]},
    {"local_window_size": 2},
    {"local_window_size": [1, 3]},
    {"is_causal": True, "mask": True, "bias": True},
    {"return_residual": True},
    {"return_residual": True, "mask": True},
]


def attend(kwargs, dtype=np.float32, kv_heads=2):
    r = np.random.default_rng(0)
    q, k, v = (
        r.normal(size=s).astype(np.float32).astype(dtype)
        for s in ((2, 5, 4, 8), (2, 6, kv_heads, 8), (2, 6, kv_heads, 8))
    )
    bias, mask = r.normal(size=(2, 4, 5, 6)).astype(np.float32), r.uniform(size=(2, 1, 5, 6)) < 0.7
    mask[..., 0] = True
    given = {**kwargs}
    for name, value in (("bias", bias), ("mask", mask)):
        if given.get(name):
            given[name] = jnp.asarray(value)
    for name in ("query_seq_lengths", "key_value_seq_lengths"):
        if name in given:
            given[name] = jnp.asarray(given[name], np.int32)
    if isinstance(given.get("local_window_size"), list):
        given["local_window_size"] = tuple(given["local_window_size"])
    out = nn.dot_product_attention(jnp.asarray(q), jnp.asarray(k), jnp.asarray(v), **given)
    return [np.asarray(y, np.float64).tolist() for y in jax.tree.leaves(out)]


def initial(name, shape, dtype, *args, **kwargs):
    make = getattr(nn.initializers, name)
    init = make if name in ("zeros", "ones") else make(*args, **kwargs)
    value = np.asarray(init(jax.random.key(3), tuple(shape), dtype))
    return {
        "name": name,
        "shape": shape,
        "dtype": dtype,
        "args": args,
        "kwargs": kwargs,
        "real": np.real(value).astype(float).tolist(),
        "imag": np.imag(value).astype(float).tolist(),
    }


INITIALIZERS = [
    initial(name, [3, 4], "float32")
    for name in (
        "zeros",
        "ones",
        "uniform",
        "normal",
        "truncated_normal",
        "glorot_uniform",
        "glorot_normal",
        "lecun_uniform",
        "lecun_normal",
        "he_uniform",
        "he_normal",
        "orthogonal",
        "xavier_normal",
        "kaiming_uniform",
    )
]
INITIALIZERS += [
    initial("constant", [3, 4], "float32", 2.5),
    initial("orthogonal", [4, 3], "float32", 2.0),
    initial("orthogonal", [2, 3, 4], "float32", 1.0, 1),
    initial("delta_orthogonal", [3, 2, 3], "float32"),
    initial("delta_orthogonal", [3, 3, 2, 3], "float32"),
]
INITIALIZERS += [
    initial("variance_scaling", [2, 3, 4], dtype, 2.0, mode, distribution)
    for dtype in ("float32", "complex64")
    for mode in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg")
    for distribution in ("truncated_normal", "normal", "uniform")
]
INITIALIZERS += [
    initial(
        "variance_scaling",
        [2, 3, 4],
        "float32",
        1.0,
        "fan_in",
        "normal",
        in_axis=[0, 1],
        out_axis=2,
    ),
    initial("variance_scaling", [2, 3, 4], "float32", 1.0, "fan_in", "normal", batch_axis=0),
]
json.dump(
    {"attention": [{"kwargs": c, "out": attend(c)} for c in CASES], "initializers": INITIALIZERS},
    sys.stdout,
)
