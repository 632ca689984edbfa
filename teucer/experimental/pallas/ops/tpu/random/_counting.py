"""The cipher text of the places of an array's elements, block by block."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import ShapeDtypeStruct
from teucer import numpy as jnp
from teucer.experimental import pallas as pl
from teucer.experimental.pallas import tpu as pltpu
from teucer.experimental.pallas.ops.tpu.random import prng_utils

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike
    from teucer.experimental.pallas.ops._types import BlockRef

Words = tuple[Any, Any]
# (the words of a key, places) -> two words for each place.
Cipher = Callable[[Words, Any], Words]


def text(
    cipher: Cipher,
    key: Array,
    shape: Sequence[int],
    unpadded_shape: Sequence[int],
    block_size: tuple[int, int],
    offset: ArrayLike,
    *,
    fuse_output: bool,
    name: str,
) -> Array:
    """The words of the elements of a matrix of the padded shape: uint32[2, *shape], or their
    exclusive or, uint32[shape]."""
    rows, columns = shape
    if math.prod(unpadded_shape) > 2**32:
        raise NotImplementedError(f"{name}: an array of more than 2**32 elements.")
    if rows % block_size[0] or columns % block_size[1]:
        raise ValueError(f"{name}: blocks of {block_size} do not divide {tuple(shape)}.")

    def kernel(key_ref: BlockRef, offset_ref: BlockRef, *out_refs: BlockRef) -> None:
        first = prng_utils.compute_scalar_offset(
            [pl.program_id(0), pl.program_id(1)], unpadded_shape, block_size
        )
        places = prng_utils.blocked_iota(block_size, unpadded_shape)
        places = places + jnp.asarray(first).astype(np.uint32) + offset_ref[0]
        high, low = cipher((key_ref[0], key_ref[1]), places)
        found = [high ^ low] if fuse_output else [high, low]
        for ref, words in zip(out_refs, found, strict=True):
            ref[...] = words

    count = 1 if fuse_output else 2
    scalars = pl.BlockSpec(memory_space=pltpu.SMEM)
    outs = pl.pallas_call(
        kernel,
        [ShapeDtypeStruct((rows, columns), np.uint32)] * count,
        grid=(rows // block_size[0], columns // block_size[1]),
        in_specs=[scalars, scalars],
        out_specs=[pl.BlockSpec(block_size, lambda i, j: (i, j))] * count,
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
        name=name,
    )(key, jnp.asarray(offset, np.uint32).reshape(1))
    return outs[0] if fuse_output else jnp.stack(outs)


def of_shape(
    cipher: Cipher,
    key: Array,
    shape: Sequence[int],
    most: tuple[int, int],
    offset: ArrayLike = 0,
    *,
    fuse_output: bool = True,
    name: str,
) -> Array:
    """The same for an array of any shape: uint32[shape], or uint32[2, *shape]."""
    ahead = () if fuse_output else (2,)
    if 0 in shape:
        return jnp.zeros((*ahead, *shape), np.uint32)
    matrix = (math.prod(shape[:-1]), shape[-1] if shape else 1)
    block = (
        min(most[0], prng_utils.round_up(matrix[0], 8)),
        min(most[1], prng_utils.round_up(matrix[1], 128)),
    )
    padded = tuple(prng_utils.round_up(n, b) for n, b in zip(matrix, block, strict=True))
    found = text(cipher, key, padded, matrix, block, offset, fuse_output=fuse_output, name=name)
    return found[..., : matrix[0], : matrix[1]].reshape(*ahead, *shape)


def bits(
    cipher: Cipher, key: Array, bit_width: int, shape: Sequence[int], most: tuple[int, int],
    name: str,
) -> Array:  # fmt: skip
    """Unsigned integers of 8, 16, 32 or 64 bits; those of 64 are both words of a place, the others
    the low bits of their exclusive or."""
    if bit_width not in (8, 16, 32, 64):
        raise TypeError(f"{name}: bit_width must be 8, 16, 32 or 64, got {bit_width}.")
    if bit_width < 64:
        found = of_shape(cipher, key, shape, most, name=name)
        return found.astype(f"uint{bit_width}")
    words = of_shape(cipher, key, shape, most, fuse_output=False, name=name).astype(np.uint64)
    return (words[0] << np.uint64(32)) | words[1]
