"""The smallest kernel: each element twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from teucer import ShapeDtypeStruct, jit
from teucer._base.lazy import listing, refusing
from teucer.experimental import pallas as pl

if TYPE_CHECKING:
    from teucer._core.typing import Array
    from teucer.experimental.pallas.ops._types import BlockRef

__all__ = ["double", "double_kernel"]
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)


def double_kernel(x_ref: BlockRef, y_ref: BlockRef) -> None:
    """One block."""
    y_ref[...] = x_ref[...] * 2


@jit
def double(x: Array) -> Array:
    """2 x, by a kernel that sees the whole array.

    >>> import teucer.numpy as jnp
    >>> double(jnp.arange(3.0))
    Array([0., 2., 4.], dtype=float32)
    """
    return pl.pallas_call(double_kernel, ShapeDtypeStruct(x.shape, x.dtype))(x)
