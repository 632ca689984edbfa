"""Classes of libraries that define how `vmap` maps over their objects.

Such an object is a pytree node. Its class gives two functions: one makes an element of a batch, one
makes a batch of elements. Each is handed a function that does so for one array, and leaves unmapped
values alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from teucer._trees import pytrees
from teucer._trees.containers import Vmappable, vmappables


@final
class Mark:
    """An array and the axis along which it is mapped; None if it is not."""

    __slots__ = ("axis", "value")

    def __init__(self, value: Any, axis: Any) -> None:
        self.value, self.axis = value, axis


def _is_vmappable(x: Any) -> bool:
    return type(x) in vmappables


def _is_leaf(x: Any) -> bool:
    return type(x) in vmappables or type(x) is Mark


def marks(tree: Any, axes: Callable[[Any], Sequence[Any]]) -> tuple[list[Any], list[Any], Any]:
    """The leaves of a tree of arguments of elements, as batches; the axis of each; and the
    structure of the tree.

    axes(structure, in which such objects are leaves) -> for each leaf its entry of in_axes.
    """
    leaves, structure = pytrees.tree_flatten(tree, is_leaf=_is_vmappable)
    made = pytrees.tree_unflatten(
        structure, [_element(x, axis) for x, axis in zip(leaves, axes(structure), strict=True)]
    )
    found, structure = pytrees.tree_flatten(made)
    return [m.value for m in found], [m.axis for m in found], structure


def _element(x: Any, axis: Any) -> Any:
    kind = vmappables.get(type(x))
    if kind is None or axis is None:
        return pytrees.tree_map(lambda leaf: Mark(leaf, axis), x)
    made = kind.to_elt(_element, lambda: None, x, axis)
    return pytrees.tree_map(lambda leaf: leaf if type(leaf) is Mark else Mark(leaf, None), made)


def batches(
    tree: Any, axes: Sequence[Any], size: Any, to_axis: Callable[[Any, Any, Any], Any]
) -> Any:
    """A tree of results whose leaves are Marks as one of arrays; objects of such classes become
    batches.

    axes: for each leaf its entry of out_axes. to_axis(array, its axis, wanted axis) -> the array.
    Raises ValueError for a mapped array that a class leaves alone.
    """
    wanted = iter(axes)

    def batch(x: Any) -> Any:
        kind = vmappables.get(type(x))
        if kind is None:
            return to_axis(x.value, x.axis, next(wanted))
        own = [next(wanted) for _ in pytrees.tree_leaves(x)]
        return of_class(kind, x, next(iter(own), 0))

    def of_class(kind: Vmappable, x: Any, axis: Any) -> Any:
        return pytrees.tree_map(_unmapped, kind.from_elt(inner, size, x, axis))

    def inner(_: Any, x: Any, axis: Any) -> Any:
        kind = vmappables.get(type(x))
        return to_axis(x.value, x.axis, axis) if kind is None else of_class(kind, x, axis)

    return pytrees.tree_map(batch, tree, is_leaf=_is_leaf)


def _unmapped(x: Any) -> Any:
    if type(x) is not Mark:
        return x
    if x.axis is not None:
        raise ValueError(
            "vmap: a result of a class that was registered with register_vmappable is mapped, but "
            "its from_elt does not make a batch of it.\n"
            "  Call the function that from_elt is given on it."
        )
    return x.value
