"""Products of quantized operands are near the products of what they stand for."""

import numpy as np
import pytest

import teucer as jax
from teucer import lax, nn
from teucer import numpy as jnp

# How far results are off, in the norm: elements have 3 bits of mantissa or 1, so that each is off
# by a 16th or a quarter at most.
ERRORS = {"mxfp8": 2**-4, "mxfp4": 2**-2, "nvfp4": 2**-2}
R = np.random.default_rng(0)


def config(mode):
    return nn.get_scaled_dot_general_config(mode, np.float32([0.5]) if mode == "nvfp4" else None)


@pytest.mark.parametrize("mode", list(ERRORS))
@pytest.mark.parametrize(
    ("shapes", "numbers"),
    [
        (((2, 4, 64), (2, 3, 64)), (((2,), (2,)), ((0,), (0,)))),
        (((64, 4), (3, 64)), (((0,), (1,)), ((), ()))),
        (((4, 8, 5), (8, 5, 3)), (((1, 2), (0, 1)), ((), ()))),
    ],
)
def test_values_and_gradients(mode, shapes, numbers):
    a, b = (R.normal(size=s).astype("float32") for s in shapes)
    of = lambda f: lambda a, b: f(a, b, numbers)
    scaled = of(lambda *xs: nn.scaled_dot_general(*xs, configs=[config(mode)] * 3))
    exact = of(lax.dot_general)
    found, expected = scaled(a, b), exact(a, b)
    assert found.shape == expected.shape and found.dtype == np.float32
    assert 0 < np.linalg.norm(found - expected) <= ERRORS[mode] * np.linalg.norm(expected)
    np.testing.assert_allclose(jax.jit(scaled)(a, b), found, rtol=1e-6, atol=1e-6)
    ct = R.normal(size=found.shape).astype("float32")
    for ours, theirs in zip(jax.vjp(scaled, a, b)[1](ct), jax.vjp(exact, a, b)[1](ct), strict=True):
        assert ours.shape == theirs.shape and np.linalg.norm(ours - theirs) <= ERRORS[
            mode
        ] * np.linalg.norm(theirs)


@pytest.mark.parametrize("mode", list(ERRORS))
def test_what_the_type_holds_is_exact(mode):
    a = np.tile(np.array([1, -2, 3, 0.5], "float32"), (2, 16)) * np.float32(2.0**20)
    found = nn.scaled_dot_general(
        a, np.eye(64, dtype="float32"), (((1,), (1,)), ((), ())), configs=[config("mxfp8")] * 3
    )
    np.testing.assert_array_equal(found, a)
    zeros = nn.scaled_dot_general(
        np.zeros_like(a), a, (((1,), (1,)), ((), ())), configs=[config(mode)] * 3
    )
    np.testing.assert_array_equal(zeros, 0)


def test_arguments():
    x = jnp.ones((2, 40), jnp.bfloat16)
    dims = (((1,), (1,)), ((), ()))
    np.testing.assert_array_equal(nn.scaled_dot_general(x, x, dims), 40)
    low = nn.scaled_dot_general(x, x, dims, jnp.bfloat16, [config("mxfp8")] * 3)
    assert low.dtype == jnp.bfloat16 and (low == 40).all()
    with pytest.warns(DeprecationWarning, match="implementation has no effect"):
        nn.scaled_dot_general(x, x, dims, implementation="cudnn")
    for call, error, match in (
        (lambda: nn.get_scaled_dot_general_config("other"), ValueError, "Unsupported mode: other"),
        (lambda: nn.get_scaled_dot_general_config("mxfp8", 1.0), ValueError, "has no global_scale"),
        (
            lambda: nn.get_scaled_dot_general_config("nvfp4", np.ones(2)),
            ValueError,
            "must be one number",
        ),
        (
            lambda: nn.scaled_dot_general(x, x, dims, configs=[config("mxfp8")]),
            ValueError,
            "configs must be those of",
        ),
        (
            lambda: nn.scaled_dot_general(x, x[:, :8], dims, configs=[config("mxfp8")] * 3),
            ValueError,
            "must have equal sizes",
        ),
        (
            lambda: nn.scaled_dot_general(x.astype(int), x, dims, configs=[config("mxfp8")] * 3),
            TypeError,
            "must be of floats",
        ),
    ):
        with pytest.raises(error, match=match):
            call()
