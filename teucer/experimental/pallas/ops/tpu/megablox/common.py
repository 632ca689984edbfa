"""What the device is, and which types the grouped products take."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

import teucer as jax
from teucer import numpy as jnp
from teucer._base.lazy import listing, refusing

if TYPE_CHECKING:
    from teucer._core.typing import Array, DTypeLike

__all__ = [
    "assert_is_supported_dtype", "is_tpu", "select_input_dtype", "supports_bfloat16_matmul",
    "tpu_generation", "tpu_kind",
]  # fmt: skip
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)


def is_tpu() -> bool:
    """Whether the first device is a TPU."""
    return "TPU" in tpu_kind()


def tpu_kind() -> str:
    """The kind of the first device, such as 'TPU v5 lite'."""
    return str(jax.devices()[0].device_kind)


def tpu_generation() -> int:
    """The generation of the TPU, 5 of 'TPU v5 lite'. Raises NotImplementedError where there is
    none."""
    found = re.match(r"TPU v?(\d+)", tpu_kind())
    if found is None:
        raise NotImplementedError(f"the first device is no TPU, but {tpu_kind()!r}.")
    return int(found[1])


def supports_bfloat16_matmul() -> bool:
    """Whether the device multiplies matrices of bfloat16."""
    return not is_tpu() or tpu_generation() >= 4


def assert_is_supported_dtype(dtype: DTypeLike) -> None:
    """Raises ValueError for types other than bfloat16 and float32."""
    if jnp.dtype(dtype) not in (jnp.dtype(jnp.bfloat16), np.dtype(np.float32)):
        raise ValueError(f"Expected bfloat16 or float32 array but got {jnp.dtype(dtype)}.")


def select_input_dtype(lhs: Array, rhs: Array) -> Any:
    """The type in which blocks are multiplied: bfloat16 where both are, and the device can."""
    both = lhs.dtype == rhs.dtype == jnp.bfloat16
    return jnp.bfloat16 if both and supports_bfloat16_matmul() else jnp.float32
