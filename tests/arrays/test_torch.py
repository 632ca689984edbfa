"""PyTorch's tensors as arrays and arrays as tensors.

PyTorch is no dependency of the tests: they are skipped without it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed; its wheel for the CPU has 200 MB"
)

BOTH = [
    "bool",
    "int8",
    "int16",
    "int32",
    "uint8",
    "uint16",
    "uint32",
    "float16",
    "bfloat16",
    "float32",
    "complex64",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]
WIDE = ["int64", "uint64", "float64", "complex128"]


def bits(x: Any) -> bytes:
    return bytes(np.asarray(x).tobytes())


@pytest.mark.parametrize("dtype", BOTH + WIDE)
def test_every_dtype_both_ways(dtype: str) -> None:
    with jax.enable_x64(True):
        t = torch.tensor([1, 0, 2, 4]).to(getattr(torch, dtype)).reshape(2, 2)
        x = jax.dlpack.from_dlpack(t)
        assert (x.dtype, x.shape) == (jnp.dtype(dtype), (2, 2))
        assert bits(x) == t.contiguous().view(torch.uint8).numpy().tobytes()
        assert bits(jnp.asarray(t)) == bits(x)
        back = torch.from_dlpack(x)
        assert back.dtype == t.dtype and back.data_ptr() == x.unsafe_buffer_pointer()


@pytest.mark.parametrize(
    "of",
    [
        lambda t: t.T,
        lambda t: t[:, ::2],
        lambda t: t[1],
        lambda t: t[1, 2],
        lambda t: t[:0],
        lambda t: t[:, None].expand(3, 5, 4),
        lambda t: t.flip(0),
        lambda t: t.to(torch.bfloat16)[:, 1:3],
    ],
)
def test_strides(of: Any) -> None:
    t = of(torch.arange(12.0).reshape(3, 4))
    np.testing.assert_array_equal(np.asarray(jnp.from_dlpack(t), np.float32), t.float().numpy())


def test_memory_is_shared() -> None:
    t = torch.zeros(1000)
    x = jnp.from_dlpack(t)
    assert x.unsafe_buffer_pointer() == t.data_ptr()
    assert jnp.from_dlpack(t, copy=True).unsafe_buffer_pointer() != t.data_ptr()
    del t
    assert float(x.sum()) == 0
    y = jnp.arange(3.0)
    u = torch.from_dlpack(y)
    y.delete()
    assert u.tolist() == [0, 1, 2]


def test_what_torch_refuses_to_hand_out() -> None:
    with pytest.raises(BufferError, match="detach"):
        jnp.from_dlpack(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="detach"):
        jnp.asarray(torch.ones(2, requires_grad=True))


@pytest.mark.parametrize(
    "call", [jnp.sin, jax.jit(lambda x: x + 1), lambda x: jnp.stack([x, x]), jax.lax.sin]
)
def test_tensors_as_arguments_are_refused_with_what_to_do(call: Any) -> None:
    """As in JAX: a function that is differentiated or compiled would otherwise hide a copy."""
    with pytest.raises(TypeError, match=r"(?s)torch\.Tensor.*jnp\.asarray\("):
        call(torch.ones(3))
