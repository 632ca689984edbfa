"""The product of two matrices, block by block, summed in scratch memory."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from teucer import ShapeDtypeStruct, jit
from teucer import numpy as jnp
from teucer._base.lazy import listing, refusing
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import tpu as pltpu

if TYPE_CHECKING:
    from teucer._core.typing import Array, DTypeLike
    from teucer.experimental.pallas.ops._types import BlockRef

__all__ = ["matmul", "matmul_kernel"]
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)


def matmul_kernel(
    x_tile_ref: BlockRef, y_tile_ref: BlockRef, o_tile_ref: BlockRef, acc_ref: BlockRef
) -> None:
    """One block of terms of one block of the result; the last axis of the grid counts the terms."""
    step = pl.program_id(2)

    @pl.when(step == 0)
    def begin() -> None:
        acc_ref[...] = jnp.zeros(acc_ref.shape, acc_ref.dtype)

    acc_ref[...] += jnp.dot(x_tile_ref[...], y_tile_ref[...], preferred_element_type=acc_ref.dtype)

    @pl.when(step == pl.num_programs(2) - 1)
    def end() -> None:
        o_tile_ref[...] = acc_ref[...].astype(o_tile_ref.dtype)


@functools.partial(jit, static_argnames=("block_shape", "block_k", "out_dtype", "debug"))
def matmul(
    x: Array,
    y: Array,
    *,
    block_shape: tuple[int, int],
    block_k: int = 256,
    out_dtype: DTypeLike | None = None,
    debug: bool = False,
) -> Array:
    """x @ y, summed in float32 (in int32, of integers).

    x: T[m, k]; y: T[k, n]  ->  out_dtype[m, n]
    block_shape: rows and columns of a block of the result; block_k: terms of a step. Sizes that
    they do not divide are padded. On a TPU multiples of 8, 128 and 128 fit its memory.
    out_dtype: by default that of x and y. Raises ValueError for shapes that do not fit, TypeError
    for x and y of two dtypes without out_dtype.

    >>> matmul(jnp.ones((8, 256)), jnp.ones((256, 128)), block_shape=(8, 128))[0, 0]
    Array(256., dtype=float32)
    """
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[0]:
        raise ValueError(
            f"matmul: x must be [m, k] and y [k, n].\n    x: {x.dtype}{list(x.shape)}\n"
            f"    y: {y.dtype}{list(y.shape)}"
        )
    if out_dtype is None and x.dtype != y.dtype:
        raise TypeError(
            f"Cannot deduce output dtype for different input dtypes: {x.dtype}, {y.dtype}\n"
            "  Give out_dtype."
        )
    wide = np.promote_types(x.dtype, np.float32)
    if jnp.issubdtype(x.dtype, jnp.integer) and jnp.issubdtype(y.dtype, jnp.integer):
        wide = np.dtype(np.int32)
    (m, k), n = x.shape, y.shape[1]
    dtype = x.dtype if out_dtype is None else out_dtype
    if not m * k * n:
        return jnp.zeros((m, n), dtype)
    block_m, block_n, block_k = (
        min(block, size) for block, size in zip((*block_shape, block_k), (m, n, k), strict=True)
    )
    # What is behind the last terms would be added, so it must be zero.
    lacking = -k % block_k
    if lacking:
        x, y = jnp.pad(x, ((0, 0), (0, lacking))), jnp.pad(y, ((0, lacking), (0, 0)))
    return pl.pallas_call(
        matmul_kernel,
        ShapeDtypeStruct((m, n), dtype),
        grid=(pl.cdiv(m, block_m), pl.cdiv(n, block_n), pl.cdiv(k, block_k)),
        in_specs=[
            pl.BlockSpec((block_m, block_k), lambda i, j, s: (i, s)),
            pl.BlockSpec((block_k, block_n), lambda i, j, s: (s, j)),
        ],
        out_specs=pl.BlockSpec((block_m, block_n), lambda i, j, s: (i, j)),
        scratch_shapes=[pltpu.VMEM((block_m, block_n), wide)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
        debug=debug,
        name="matmul",
    )(x, y)
