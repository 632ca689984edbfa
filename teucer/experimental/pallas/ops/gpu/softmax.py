"""Softmax as one kernel: a program of the grid reads a row once, and writes it once."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from teucer import ShapeDtypeStruct, custom_jvp, jit, lax
from teucer import numpy as jnp
from teucer._base.lazy import listing, refusing
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import triton as plgpu

if TYPE_CHECKING:
    from teucer._core.typing import Array
    from teucer.experimental.pallas.ops._types import BlockRef

__all__ = ["softmax"]
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)


@functools.partial(jit, static_argnames=("axis", "num_warps", "interpret", "debug"))
def softmax(
    x: Array, *, axis: int = -1, num_warps: int = 4, interpret: bool = False, debug: bool = False
) -> Array:
    """exp(x) / sum(exp(x)) along an axis, computed in float32 for smaller types.

    x: T[shape], T real floating  ->  T[shape]
    num_warps: how many warps compute a row. interpret, debug: as `pl.pallas_call` takes them.
    A row must fit into the registers of its warps. Forward and reverse derivatives follow from
    the result.
    Raises TypeError for other dtypes, ValueError for an axis out of range.

    >>> softmax(jnp.array([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(f"softmax: x must be of a floating type, got {x.dtype}{list(x.shape)}.")
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"softmax: axis {axis} is out of bounds for x: {x.dtype}{list(x.shape)}.")
    last = jnp.moveaxis(x, axis, -1)
    if not last.size:
        return x
    rows = last.reshape(-1, last.shape[-1])
    out = _of_rows(rows, num_warps, interpret, debug).reshape(last.shape)
    return jnp.moveaxis(out, -1, axis)


@functools.partial(custom_jvp, nondiff_argnums=(1, 2, 3))
def _of_rows(x: Array, num_warps: int, interpret: bool, debug: bool) -> Array:
    rows, n = x.shape
    block = pl.next_power_of_2(n)
    spec = pl.BlockSpec((None, block), lambda i: (i, 0))
    wide = np.promote_types(x.dtype, np.float32)

    def kernel(x_ref: BlockRef, o_ref: BlockRef) -> None:
        row = jnp.where(jnp.arange(block) < n, x_ref[...].astype(wide), -np.inf)
        weights = jnp.exp(row - row.max())
        o_ref[...] = (weights / weights.sum()).astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        ShapeDtypeStruct(x.shape, x.dtype),
        grid=(rows,),
        in_specs=[spec],
        out_specs=spec,
        compiler_params=plgpu.CompilerParams(num_warps=num_warps, num_stages=1),
        interpret=interpret,
        debug=debug,
        name="softmax",
    )(x)


@_of_rows.defjvp
def _tangent(
    num_warps: int, interpret: bool, debug: bool, primals: tuple[Array], tangents: tuple[Array]
) -> tuple[Array, Array]:
    y = _of_rows(*primals, num_warps, interpret, debug)
    wide = y.astype(np.promote_types(y.dtype, np.float32))
    weighted = wide * tangents[0]
    return y, lax.convert_element_type(weighted - wide * weighted.sum(-1, keepdims=True), y.dtype)
