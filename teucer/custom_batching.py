"""Functions with batching rules of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from teucer import lax
from teucer._base.lazy import listing
from teucer._derived.custom_batching import custom_vmap
from teucer._trees import pytrees

__all__ = ["custom_vmap", "sequential_vmap"]
__dir__ = listing(__name__, __all__)


def sequential_vmap(f: Callable[..., object]) -> custom_vmap:
    """`f`, which `vmap` runs on one element after the other (`lax.map`).

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jax.vmap(jax.custom_batching.sequential_vmap(jnp.sin))(jnp.zeros(2))
    Array([0., 0.], dtype=float32)
    """
    custom = custom_vmap(f)

    @custom.def_vmap
    def rule(axis_size: object, in_batched: Sequence[object], *args: object) -> Any:
        leaves, tree = pytrees.tree_flatten(args)
        batched = pytrees.tree_leaves(in_batched)
        mapped = [x for x, b in zip(leaves, batched, strict=True) if b]

        def element(xs: Sequence[Any]) -> Any:
            rest = iter(xs)
            filled = [next(rest) if b else x for x, b in zip(leaves, batched, strict=True)]
            return custom(
                *pytrees.tree_unflatten(tree, filled)
            )  # which a further vmap maps in the same way

        out = lax.map(element, mapped)
        return out, pytrees.tree_map(lambda _: True, out)

    return custom
