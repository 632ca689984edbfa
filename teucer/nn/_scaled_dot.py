"""Products of arrays that are quantized by blocks, with gradients."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._core.typing import Array
from teucer._derived.custom_vjp import custom_vjp
from teucer.nn._attention import scaled_matmul

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, DTypeLike


@dataclass(frozen=True)
class BlockScaleConfig:
    """How an operand is quantized.

    block_size: how many elements share a scale. data_type, scale_type: of elements and scales.
    global_scale: float[1], a common scale, for "nvfp4". infer_only: whether there are no gradients.
    """

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any = None
    infer_only: bool = False


_MODES: dict[str, tuple[int, Any, Any]] = {
    "mxfp8": (32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu),
    "mxfp4": (32, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu),
    "nvfp4": (16, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn),
}


def get_scaled_dot_general_config(
    mode: str, global_scale: ArrayLike | None = None
) -> BlockScaleConfig:
    """How an operand of `scaled_dot_general` is quantized.

    mode: "mxfp8", "mxfp4" (blocks of 32, scales that are powers of 2), or "nvfp4" (blocks of 16,
    and a scale for all).
    global_scale: float[1], for "nvfp4"; 1 by default.
    Raises ValueError for another mode, and for a global scale that a mode does not have.

    >>> get_scaled_dot_general_config("mxfp8").block_size
    32
    """
    if mode not in _MODES:
        raise ValueError(f"Unsupported mode: {mode}\n  allowed: {', '.join(_MODES)}")
    if mode == "nvfp4":
        global_scale = (
            jnp.ones(1, np.float32)
            if global_scale is None
            else jnp.asarray(global_scale, np.float32)
        )
        if global_scale.size != 1:
            raise ValueError(
                "get_scaled_dot_general_config: global_scale must be one number, got shape "
                f"{global_scale.shape}."
            )
    elif global_scale is not None:
        raise ValueError(f"get_scaled_dot_general_config: mode {mode!r} has no global_scale.")
    return BlockScaleConfig(mode, *_MODES[mode], global_scale=global_scale)


def scaled_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    preferred_element_type: DTypeLike = jnp.float32,
    configs: Sequence[BlockScaleConfig] | None = None,
    implementation: str | None = None,
) -> Array:
    """`jax.lax.dot_general` of operands that are quantized by blocks along the contracted axes, in
    order.

    configs: how lhs, rhs and cotangents are quantized, of `get_scaled_dot_general_config`; None:
    nothing is.
    preferred_element_type: of the result: float32, bfloat16 or float16. implementation: has no
    effect; deprecated. Raises ValueError for another number of configs, TypeError for operands that
    are no floats.

    >>> ones = jnp.ones((2, 32))
    >>> scaled_dot_general(ones, ones, (((1,), (1,)), ((), ())),
    ...     configs=[get_scaled_dot_general_config("mxfp8")] * 3)
    Array([[32., 32.],
           [32., 32.]], dtype=float32)

    Method: "OCP Microscaling Formats (MX) Specification", 2023: a block's scale is the least power
    of 2 that makes it fit.
    """
    if implementation is not None:
        warnings.warn(
            "scaled_dot_general: the argument implementation has no effect.",
            DeprecationWarning,
            stacklevel=2,
        )
    if configs is None:
        return lax.dot_general(
            lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type
        )
    if len(configs) != 3:
        raise ValueError(
            "scaled_dot_general: configs must be those of lhs, rhs and cotangents, got "
            f"{len(configs)}."
        )
    lhs, rhs = jnp.asarray(lhs), jnp.asarray(rhs)
    for name, x in (("lhs", lhs), ("rhs", rhs)):
        if not jnp.issubdtype(x.dtype, np.floating):
            raise TypeError(f"scaled_dot_general: {name} must be of floats, got dtype {x.dtype}.")
    (left_contracted, right_contracted), (left_batch, right_batch) = (
        tuple(
            tuple(int(i) % x.ndim for i in axes) for x, axes in zip((lhs, rhs), pair, strict=True)
        )
        for pair in dimension_numbers
    )
    a, left_free = _as_matrices(lhs, left_contracted, left_batch)
    b, right_free = _as_matrices(rhs, right_contracted, right_batch)
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[2]:
        raise ValueError(
            "scaled_dot_general: contracted and batch axes must have equal sizes\n"
            f"    lhs: {lhs.shape}\n    rhs: {rhs.shape}\n"
            f"    dimension_numbers: {dimension_numbers}"
        )
    scales = tuple(None if c.global_scale is None else c.global_scale for c in configs)
    kinds = tuple(
        (c.mode, c.block_size, np.dtype(c.data_type), np.dtype(c.scale_type)) for c in configs
    )
    product = _product(kinds, np.dtype(preferred_element_type), a, b, scales)
    return product.reshape([lhs.shape[i] for i in left_batch] + left_free + right_free)


def _as_matrices(
    x: Array, contracted: tuple[int, ...], batch: tuple[int, ...]
) -> tuple[Any, list[int]]:
    """x as an array of shape (batch, free, contracted), and the sizes of its free axes."""
    free = [i for i in range(x.ndim) if i not in contracted and i not in batch]
    groups = [[x.shape[i] for i in axes] for axes in (batch, free, contracted)]
    return x.transpose((*batch, *free, *contracted)).reshape(
        [math.prod(g) for g in groups]
    ), groups[1]


@functools.partial(custom_vjp, nondiff_argnums=(0, 1))
def _product(
    kinds: tuple[Any, ...], dtype: Any, a: ArrayLike, b: ArrayLike, scales: tuple[Any, ...]
) -> Any:
    return _quantized_product(kinds[0], kinds[1], a, b, scales[0], scales[1]).astype(dtype)


def _product_fwd(
    kinds: tuple[object, ...], dtype: DTypeLike, a: Array, b: Array, scales: tuple[object, ...]
) -> tuple[Any, Any]:
    return _product(kinds, dtype, a, b, scales), (a, b, scales)


def _product_bwd(kinds: tuple[Any, ...], dtype: Any, residuals: Any, ct: Any) -> tuple[Any, ...]:
    a, b, scales = residuals
    first, second = (jnp.swapaxes(x, 1, 2) for x in (a, b))
    of_a = _quantized_product(kinds[2], kinds[1], ct, second, scales[2], scales[1])
    of_b = _quantized_product(
        kinds[2], kinds[0], jnp.swapaxes(ct, 1, 2), first, scales[2], scales[0]
    )
    return (
        of_a.astype(a.dtype),
        of_b.astype(b.dtype),
        tuple(None if s is None else jnp.zeros_like(s) for s in scales),
    )


_product.defvjp(_product_fwd, _product_bwd)


def _quantized_product(kind: Any, other: Any, a: Any, b: Any, scale: Any, other_scale: Any) -> Any:
    """a @ b^T, batched, of quantized operands, which are continued by zeros to whole blocks."""
    block = math.lcm(kind[1], other[1])
    rest = -a.shape[2] % block
    x, x_scales = _quantize(jnp.pad(a, [(0, 0), (0, 0), (0, rest)]), kind, scale)
    y, y_scales = _quantize(jnp.pad(b, [(0, 0), (0, 0), (0, rest)]), other, other_scale)
    result = scaled_matmul(x, y, x_scales, y_scales, preferred_element_type=jnp.float32)
    for factor in (scale, other_scale):
        result = result if factor is None else result * factor.reshape(())
    return result


def _quantize(x: Any, kind: Any, global_scale: Any) -> tuple[Any, Any]:
    """Elements over scales, and scales, of blocks in the last axis."""
    _, size, data_type, scale_type = kind
    blocks = x.astype(np.float32).reshape(*x.shape[:2], -1, size)
    greatest = float(ml_dtypes.finfo(data_type).max)
    needed = jnp.max(jnp.abs(blocks), axis=-1, keepdims=True) / greatest
    if global_scale is None:
        mantissa, exponent = jnp.frexp(needed)
        power = jnp.where(mantissa == 0.5, exponent - 1, exponent)
        scale = jnp.exp2(jnp.clip(power, -126, 127).astype(np.float32)).astype(scale_type)
        whole = scale.astype(np.float32)
    else:
        least, most = (
            float(getattr(ml_dtypes.finfo(scale_type), name))
            for name in ("smallest_subnormal", "max")
        )
        scale = jnp.clip(needed / global_scale.reshape(()), least, most).astype(scale_type)
        whole = scale.astype(np.float32) * global_scale.reshape(())
    elements = jnp.clip(blocks / whole, -greatest, greatest).astype(data_type)
    return elements.reshape(x.shape), scale[..., 0]
