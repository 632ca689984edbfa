"""Initializers.

For one key the values are those of jax.nn.initializers (tests/data/make_nn_attention.py).
"""

import json
from pathlib import Path

import numpy as np
import pytest

import teucer as jax
from teucer import nn
from teucer.nn import initializers

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "nn_attention.json").read_text())[
    "initializers"
]


def made(record):
    make, args = getattr(initializers, record["name"]), record["args"]
    kwargs = {k: tuple(v) if isinstance(v, list) else v for k, v in record["kwargs"].items()}
    return make if record["name"] in ("zeros", "ones") else make(*args, **kwargs)


@pytest.mark.parametrize(
    "record",
    GOLDEN,
    ids=lambda r: "-".join([r["name"], r["dtype"], *map(str, r["args"]), *r["kwargs"]]),
)
def test_value(record):
    init, shape = made(record), tuple(record["shape"])
    expected = np.asarray(record["real"]) + (
        1j * np.asarray(record["imag"]) if record["dtype"] == "complex64" else 0
    )
    found = init(jax.random.key(3), shape, record["dtype"])
    assert found.dtype == record["dtype"]
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
    jitted = jax.jit(lambda k: init(k, shape, record["dtype"]))(jax.random.key(3))
    np.testing.assert_allclose(jitted, expected, rtol=2e-5, atol=2e-6)


def test_default_dtypes():
    assert initializers.zeros(None, (2,)).dtype == "float32"
    assert initializers.normal(dtype="float16")(jax.random.key(0), (2,)).dtype == "float16"
    assert (
        initializers.normal(dtype="float16")(jax.random.key(0), (2,), "float32").dtype == "float32"
    )
    assert nn.initializers is initializers


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: initializers.variance_scaling(1.0, "fan", "normal"),
            "invalid mode for variance scaling initializer: fan",
        ),
        (
            lambda: initializers.variance_scaling(1.0, "fan_in", "flat"),
            "invalid distribution for variance scaling initializer: flat",
        ),
        (
            lambda: initializers.he_normal()(jax.random.key(0), (3,)),
            "Can't compute input and output sizes of a 1-dimensional",
        ),
        (
            lambda: initializers.orthogonal()(jax.random.key(0), (3,)),
            "orthogonal initializer requires at least a 2D shape",
        ),
        (
            lambda: initializers.delta_orthogonal()(jax.random.key(0), (3, 3)),
            "Delta orthogonal initializer requires a 3D, 4D or 5D",
        ),
        (
            lambda: initializers.delta_orthogonal()(jax.random.key(0), (3, 3, 2)),
            "`fan_in` must be less or equal than `fan_out`",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "init",
    [
        initializers.zeros,
        initializers.normal(),
        initializers.orthogonal(),
        initializers.he_uniform(),
        initializers.constant(2.0),
    ],
    ids=range(5),
)
def test_out_sharding(init):
    """The values without it, laid out as asked."""
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    found = init(
        jax.random.key(0), (8, 4), np.float32, out_sharding=jax.NamedSharding(mesh, jax.P("x"))
    )
    assert str(jax.typeof(found)) == "float32[8@x,4]"
    np.testing.assert_allclose(
        np.asarray(found), init(jax.random.key(0), (8, 4), np.float32), rtol=1e-5, atol=1e-6
    )
