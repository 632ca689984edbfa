"""Pytree nodes that keep shapes beside their leaves, such as sparse arrays: how `vmap` maps over an axis of their leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from teucer._trees import pytrees

__all__ = ["Container", "batched", "containers", "has_container", "of_elements"]


class Container(NamedTuple):
    """What is known of a class of such nodes.

    element: (node on batches, axis) -> node of one element, whose leaves lack the axis already.
    batch: (node with the shapes of an element, whose leaves are batches, axis, size) -> node on batches.
    """

    element: Callable[[Any, int], Any]
    batch: Callable[[Any, int, Any], Any]


containers: dict[type, Container] = {}


def _is_container(x: Any) -> bool:
    return type(x) in containers


def has_container(*tree: Any) -> bool:
    """Whether there is such a node in a tree."""
    return bool(containers) and any(
        map(_is_container, pytrees.tree_leaves(tree, is_leaf=_is_container))
    )


def _axis(node: Any) -> Any:
    """The axis over which a node is mapped, of the node with axes in the place of its leaves."""
    return next(iter(pytrees.tree_leaves(node)), None)


def of_elements(fun: Callable[..., Any], dims: Any) -> Callable[..., Any]:
    """`fun` on arguments whose leaves are batches; dims: the tree (args, kwargs) of the axes."""

    def element(x: Any, dim: Any) -> Any:
        mapped = _is_container(x) and _axis(dim) is not None
        return containers[type(x)].element(x, _axis(dim)) if mapped else x

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = pytrees.tree_map(element, (args, kwargs), dims, is_leaf=_is_container)
        return fun(*args, **kwargs)

    return wrapped


def batched(out: Any, axes: Any, size: Any) -> Any:
    """Results whose leaves are batches, with nodes made into those of batches."""

    def batch(x: Any, axis: Any) -> Any:
        mapped = _is_container(x) and _axis(axis) is not None
        return containers[type(x)].batch(x, _axis(axis), size) if mapped else x

    return pytrees.tree_map(batch, out, axes, is_leaf=_is_container)
