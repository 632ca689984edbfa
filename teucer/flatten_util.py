"""Pytrees of arrays as one vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer import numpy as jnp
from teucer._base import dtypes
from teucer._base.lazy import listing
from teucer._core.trace import typeof
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray

__all__ = ["ravel_pytree"]
__dir__ = listing(__name__, __all__)


def ravel_pytree(pytree: object) -> tuple[Any, Callable[[Any], Any]]:
    """A pytree of arrays as one vector, and the function that turns such a vector into a pytree.

    The vector has the dtype to which the leaves promote; the function gives each leaf its own
    dtype back. If all leaves have one dtype, the function gives leaves of the vector's dtype. The
    function raises ValueError for a vector of another shape, and TypeError for another dtype where
    leaves differ in theirs.

    >>> import teucer.numpy as jnp
    >>> flat, unravel = ravel_pytree({"a": jnp.ones(2), "b": jnp.zeros(1)})
    >>> flat
    Array([1., 1., 0.], dtype=float32)
    >>> unravel(flat)["b"]
    Array([0.], dtype=float32)
    """
    leaves, tree = pytrees.tree_flatten(pytree)
    avals = tuple([typeof(x) for x in leaves])
    dtype = dtypes.result_type(*avals) if avals else dtypes.canonicalize_dtype(np.float64)
    # Weakly typed if all leaves are, of one dtype.
    parts = [
        jnp.ravel(x) if a.dtype == dtype else jnp.ravel(x).astype(dtype)
        for x, a in zip(leaves, avals, strict=True)
    ]
    flat = jnp.concatenate(parts) if parts else jnp.zeros(0, dtype)
    return flat, _Unravel(tree, avals, dtype)


@final
@dataclass(frozen=True)
class _Unravel:
    """A function that turns a vector into a pytree. Equal for trees of one structure and types of
    leaves, so that it can be a static argument."""

    tree: Any
    avals: tuple[Any, ...]
    dtype: Any

    def __call__(self, vector: Any) -> Any:
        got = typeof(vector)
        ends = np.cumsum([a.size for a in self.avals])
        total = int(ends[-1]) if len(ends) else 0
        if got.shape != (total,):
            raise ValueError(
                f"unravel function expected input of shape {(total,)} but got {got.shape}"
            )
        alike = all(a.dtype == self.dtype for a in self.avals)
        if got.dtype != self.dtype and not alike:
            raise TypeError(
                f"unravel function given array of dtype {got.dtype.name}, but expected dtype "
                f"{self.dtype.name}"
            )
        parts = jnp.split(vector, ends[:-1]) if len(ends) else []
        return pytrees.tree_unflatten(
            self.tree,
            [
                jnp.reshape(p, a.shape) if alike else _as_leaf(p, a)
                for p, a in zip(parts, self.avals, strict=True)
            ],
        )


def _as_leaf(part: object, aval: ShapedArray) -> Any:
    """A part of the vector as the leaf that it was; of complex numbers a real leaf is the real
    part."""
    x = jnp.reshape(part, aval.shape)
    drops = dtypes.issubdtype(x.dtype, np.complexfloating) and not dtypes.issubdtype(
        aval.dtype, np.complexfloating
    )
    return (jnp.real(x) if drops else x).astype(aval.dtype)
