"""Pytree nodes that keep shapes beside their leaves, such as sparse arrays.

How `vmap` maps over an axis of their leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from teucer._trees import pytrees


class Container(NamedTuple):
    """The functions of a class of such nodes.

    element: (node on batches, axis) -> node of one element, whose leaves lack the axis already.
    batch: (node with the shapes of an element, whose leaves are batches, axis, size) -> node on
    batches.
    """

    element: Callable[[Any, int], Any]
    batch: Callable[[Any, int, Any], Any]


class Vmappable(NamedTuple):
    """The registration of a library's class of pytree nodes (`batching.register_vmappable`).

    to_elt(cont, get_index, batch, spec) -> element, where cont(array, axis) is an element of an
    array. from_elt(cont, size, element, spec) -> batch, where cont(size, element of an array, axis)
    is the array.
    spec_type: of the entries of in_axes and out_axes that stand for such objects.
    """

    to_elt: Callable[..., Any]
    from_elt: Callable[..., Any]
    spec_type: type


containers: dict[type, Container] = {}
vmappables: dict[type, Vmappable] = {}


def spec_types() -> tuple[type, ...]:
    """The classes of entries of in_axes and out_axes that stand for objects of `vmappables`."""
    return tuple({kind.spec_type for kind in vmappables.values()})


def has_vmappable(*tree: Any) -> bool:
    """Whether there is an object of `vmappables` in a tree."""
    return bool(vmappables) and any(
        type(x) in vmappables
        for x in pytrees.tree_leaves(tree, is_leaf=lambda x: type(x) in vmappables)
    )


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
    """Results whose leaves are batches, with each node made a node on batches."""

    def batch(x: Any, axis: Any) -> Any:
        mapped = _is_container(x) and _axis(axis) is not None
        return containers[type(x)].batch(x, _axis(axis), size) if mapped else x

    return pytrees.tree_map(batch, out, axes, is_leaf=_is_container)
