"""Small functions of sizes and arrays, for kernels and their callers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._pallas.kernel import scratch

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, DTypeLike
    from teucer._devices.specs import OutSharding


def cdiv(a: Any, b: Any) -> Any:
    """a / b, rounded up.

    >>> cdiv(7, 2)
    4
    """
    if isinstance(a, int | np.integer) and isinstance(b, int | np.integer):
        return -(-int(a) // int(b))
    return (a + (b - 1)) // b


def align_to(a: ArrayLike, alignment: object) -> Any:
    """a, rounded up to a multiple.

    >>> align_to(5, 4)
    8
    """
    return cdiv(a, alignment) * alignment


def next_power_of_2(x: int) -> int:
    """The least power of two that is no less than x.

    >>> next_power_of_2(5)
    8
    """
    if x < 0:
        raise ValueError("`next_power_of_2` requires a non-negative integer.")
    return 1 if x == 0 else 2 ** (x - 1).bit_length()


def strides_from_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """How many elements lie between neighbours along each axis, row by row.

    >>> strides_from_shape((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def broadcast_to(a: Any, shape: Sequence[int]) -> Any:
    """An array repeated to a shape."""
    return jnp.broadcast_to(a, shape)


def empty(shape: Sequence[int], dtype: DTypeLike, *, out_sharding: OutSharding = None) -> Any:
    """An array whose elements are not said."""
    return lax.empty(tuple(shape), dtype)


def empty_like(x: ArrayLike) -> Any:
    """An array, or a tree of arrays, of the shapes and dtypes of x, whose elements are not said."""
    import teucer as jax  # the package is loaded by now

    return jax.tree.map(lambda a: empty(a.shape, a.dtype), x)


def empty_ref_like(x: ArrayLike) -> Any:
    """A reference to memory of the shape and dtype of x."""
    return scratch(x)


def select_ref(idx: Any, *refs: Any) -> Any:
    """refs[idx], for an index that is known."""
    return refs[int(idx)]
