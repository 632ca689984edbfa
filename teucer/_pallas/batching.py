"""vmap of kernels.

The batch is a further axis of the grid, in front, and each step sees its place of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from teucer._core.jaxpr import ClosedJaxpr, Literal, Var
from teucer._core.types import ShapedArray
from teucer._pallas.records import Block, Kernel
from teucer._pallas.specs import Dim

_INT = ShapedArray((), np.dtype(np.int32))


def batched(kernel: Kernel, size: int, dims: Sequence[int | None]) -> Kernel | None:
    """A kernel over a batch of `size` elements. The batch is the first axis of its arrays.

    dims: the batch axes of the operands, None for operands that all elements of the batch share.
    Returns None if operands beside the inputs are batched.
    """
    first = len(dims) - len(kernel.ins)
    if any(d is not None for d in dims[:first]) or type(size) is not int:
        return None
    ins = [
        _block(kernel, b, size if d is not None else None)
        for b, d in zip(kernel.ins, dims[first:], strict=True)
    ]
    outs = [_block(kernel, b, size) for b in kernel.outs]
    # A result that begins with an argument is batched, so the argument is.
    if any(dims[first + i] is None for i, _ in kernel.aliases):
        return None
    options, cost = kernel.options, kernel.cost
    semantics = getattr(options, "dimension_semantics", None)
    if semantics is not None:
        options = options.replace(dimension_semantics=("parallel", *semantics))
    return dataclasses.replace(
        kernel,
        options=options,
        cost=None if cost is None else cost.times(size),
        jaxpr=_with_place(kernel.jaxpr, kernel.n_consts),
        grid=(size, *kernel.grid),
        ins=tuple(ins),
        outs=tuple(outs),
    )


def _with_place(closed: ClosedJaxpr, at: int) -> ClosedJaxpr:
    """A jaxpr with a further input that it does not use."""
    jaxpr = closed.jaxpr
    return ClosedJaxpr(
        jaxpr.replace(invars=[*jaxpr.invars[:at], Var(_INT), *jaxpr.invars[at:]]), closed.consts
    )


def _block(kernel: Kernel, block: Block, size: int | None) -> Block:
    """A block of an array with the batch in front; for size None, of an array without a batch."""
    if size is None:
        return (
            block
            if block.index is None
            else block._replace(index=_with_place(block.index, block.n_consts))
        )
    index = block.index
    if index is None:
        scalars = kernel.jaxpr.jaxpr.invars[
            -len(kernel.ins) - len(kernel.outs) - len(kernel.scratch) - kernel.n_scalars :
        ]
        place = [Var(_INT) for _ in kernel.grid]
        refs = [Var(v.aval) for v in scalars[: kernel.n_scalars]]
        starts = [Literal(np.int32(0), _INT)] * len(block.dims)
        index = ClosedJaxpr(
            kernel.jaxpr.jaxpr.replace(
                constvars=[], invars=[*place, *refs], eqns=[], outvars=starts, effects=frozenset()
            )
        )
    index = _with_place(index, block.n_consts)
    jaxpr = index.jaxpr
    index = ClosedJaxpr(
        jaxpr.replace(outvars=[jaxpr.invars[block.n_consts], *jaxpr.outvars]), index.consts
    )
    array = block.array.update(shape=(size, *block.array.shape))
    return block._replace(array=array, dims=(Dim(1, squeezed=True), *block.dims), index=index)
