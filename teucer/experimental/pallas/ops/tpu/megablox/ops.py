"""The grouped product with its derivative."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import custom_vjp
from teucer import numpy as jnp
from teucer._base.lazy import listing, refusing
from teucer.experimental.pallas.ops.tpu.megablox.gmm import LutFn, tgmm
from teucer.experimental.pallas.ops.tpu.megablox.gmm import gmm as _gmm

if TYPE_CHECKING:
    from teucer._core.typing import Array, DTypeLike

__all__ = ["gmm"]
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)


@functools.partial(custom_vjp, nondiff_argnums=(3, 4, 7, 8))
def gmm(
    lhs: Array,
    rhs: Array,
    group_sizes: Array,
    preferred_element_type: DTypeLike = jnp.float32,
    tiling: tuple[int, int, int] | LutFn | None = (128, 128, 128),
    group_offset: Array | None = None,
    existing_out: Array | None = None,
    transpose_rhs: bool = False,
    interpret: bool = False,
) -> Array:
    """`megablox.gmm.gmm` with a derivative in lhs, rhs and existing_out, by the same kernels.

    >>> import teucer as jax
    >>> x, w = jnp.ones((8, 4)), jnp.ones((2, 4, 4))
    >>> f = lambda x, w: gmm(x, w, jnp.array([3, 5]), jnp.float32, (8, 4, 4)).sum()
    >>> jax.grad(f, 1)(x, w)[:, 0, 0]
    Array([3., 5.], dtype=float32)
    """
    return _gmm(
        lhs, rhs, group_sizes, preferred_element_type, tiling, group_offset, existing_out,
        transpose_rhs, interpret,
    )  # fmt: skip


def _forward(
    lhs: Array, rhs: Array, group_sizes: Array, preferred_element_type: DTypeLike,
    tiling: tuple[int, int, int] | LutFn | None, group_offset: Array | None,
    existing_out: Array | None, transpose_rhs: bool, interpret: bool,
) -> tuple[Array, Any]:  # fmt: skip
    out = _gmm(
        lhs, rhs, group_sizes, preferred_element_type, tiling, group_offset, existing_out,
        transpose_rhs, interpret,
    )  # fmt: skip
    return out, (lhs, rhs, group_sizes, group_offset, existing_out is not None)


def _backward(
    preferred_element_type: DTypeLike, tiling: tuple[int, int, int] | LutFn | None,
    transpose_rhs: bool, interpret: bool, saved: Any, ct: Array,
) -> tuple[Any, ...]:  # fmt: skip
    lhs, rhs, group_sizes, group_offset, existing = saved
    if ct.dtype not in (lhs.dtype, np.float32):
        ct = ct.astype(lhs.dtype)
    dlhs = _gmm(
        ct, rhs, group_sizes, lhs.dtype, tiling, group_offset, None, not transpose_rhs, interpret
    )
    drhs = tgmm(
        lhs.T, ct, group_sizes, rhs.dtype, tiling, group_offset, rhs.shape[0], None, interpret
    )
    if transpose_rhs:
        drhs = drhs.swapaxes(1, 2)
    dexisting = None
    if existing:
        # Rows of the groups that were computed do not come from it.
        ends = jnp.cumsum(group_sizes)
        first = 0 if group_offset is None else group_offset
        group = jnp.searchsorted(ends, jnp.arange(lhs.shape[0]), side="right")
        own = (first <= group) & (group < jnp.minimum(first + rhs.shape[0], ends.shape[0]))
        dexisting = jnp.where(own[:, None], 0, ct)
    return dlhs, drhs, None, None, dexisting


gmm.defvjp(_forward, _backward)
