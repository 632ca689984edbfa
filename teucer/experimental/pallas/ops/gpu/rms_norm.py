"""RMS norm as kernels, forward and backward."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from teucer import custom_vjp
from teucer._experimental.unbuilt import unbuilt_names
from teucer.experimental.pallas.ops.gpu import _rows

if TYPE_CHECKING:
    from teucer._core.typing import Array

__all__ = ["rms_norm", "rms_norm_backward", "rms_norm_forward", "rms_norm_reference"]
__getattr__, __dir__ = unbuilt_names(
    __name__,
    "rms_norm_backward_kernel_dw_db rms_norm_backward_kernel_dx rms_norm_forward_kernel",
    "the kernel of one block is not public here.\n  Use rms_norm.",
    tuple(__all__),
)


@functools.partial(custom_vjp, nondiff_argnums=(3, 4, 5, 6, 7))
def rms_norm(
    x: Array,
    weight: Array,
    bias: Array,
    num_warps: int | None = None,
    num_stages: int | None = 3,
    eps: float = 1e-5,
    backward_pass_impl: str = "triton",
    interpret: bool = False,
) -> Array:
    """x / sqrt(mean(x**2) + eps) * weight + bias, along the last axis.

    x: T[..., n]; weight, bias: [n]  ->  T[..., n]; computed in float32 for smaller types.
    backward_pass_impl: 'triton', by kernels; 'xla', by the derivative of `rms_norm_reference`.
    num_warps, num_stages: options of the Triton compiler; interpret: as `pl.pallas_call` takes it.
    Raises ValueError for a weight or bias of another size than n.

    >>> import teucer.numpy as jnp
    >>> rms_norm(jnp.array([[3.0, -3.0]]), jnp.ones(2), jnp.zeros(2), eps=0.0)
    Array([[ 1., -1.]], dtype=float32)

    Method: Zhang & Sennrich, "Root Mean Square Layer Normalization", arXiv:1910.07467 (2019).
    """
    options = _rows.Options(False, num_warps, num_stages, eps, backward_pass_impl, interpret)
    return _rows.forward(x, weight, bias, options)[0]


def rms_norm_forward(
    x: Array,
    weight: Array,
    bias: Array,
    num_warps: int | None = None,
    num_stages: int | None = 3,
    eps: float = 1e-5,
    backward_pass_impl: str = "triton",
    interpret: bool = False,
) -> tuple[Array, tuple[Array, ...]]:
    """(the RMS norm, what `rms_norm_backward` needs)."""
    options = _rows.Options(False, num_warps, num_stages, eps, backward_pass_impl, interpret)
    out, inverse = _rows.forward(x, weight, bias, options)
    return out, (x, weight, bias, inverse)


def rms_norm_backward(
    num_warps: int | None,
    num_stages: int | None,
    eps: float,
    backward_pass_impl: str,
    interpret: bool,
    res: tuple[Any, ...],
    do: Array,
) -> tuple[Array, Array, Array]:
    """The cotangents of x, weight and bias; do: that of the result."""
    options = _rows.Options(False, num_warps, num_stages, eps, backward_pass_impl, interpret)
    x, weight, bias, inverse = res
    return _rows.backward(x, weight, bias, None, inverse, do, options)


rms_norm.defvjp(rms_norm_forward, rms_norm_backward)


def rms_norm_reference(x: Array, weight: Array, bias: Array, *, eps: float = 1e-5) -> Array:
    """RMS norm in jnp, by its definition."""
    return _rows.reference(x, weight, bias, False, eps)
