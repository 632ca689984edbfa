"""Trees of bools that say something of each leaf of another tree, or of whole branches of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._trees.pytrees import PyTreeDef


def spread_bools(prefix: Any, tree: PyTreeDef, name: str, op: str) -> list[bool]:
    """One bool for each leaf of a tree.

    Containers of the prefix must have as many children as the tree's; the keys of dicts must agree.
    Raises ValueError for anything else; name and op: the argument and the function that the message
    names.

    >>> from teucer._trees.pytrees import tree_structure
    >>> spread_bools((True, (False,)), tree_structure(((1, 2), {"a": 3})), "saveable_args",
    ...     "jax.vjp")
    [True, True, False]
    """
    return _spread(prefix, tree, name, f"the {name} argument to {op} must")


def _spread(prefix: Any, tree: PyTreeDef, at: str, must: str) -> list[bool]:
    if isinstance(prefix, bool):
        return [prefix] * tree.num_leaves
    parts, structure = pytrees.tree_flatten(prefix, is_leaf=lambda x: x is not prefix)
    data = structure.node_data()
    if data is None and structure.num_nodes == 1 and len(parts) == 1:
        raise ValueError(
            f"{must} be a tree of bools, like a tuple-tree (made of bools and tuples only), but "
            f"{at} is {prefix!r} of type {type(prefix).__name__}"
        )
    own = tree.node_data()
    if own is None and tree.num_leaves == 1:
        raise ValueError(
            f"{must} form a tree prefix of the corresponding values (up to container types), but "
            f"{at} is a container while the corresponding part of the values is a leaf; use a "
            "single bool there instead"
        )
    children = tree.children()
    if len(parts) != len(children):
        raise ValueError(
            f"{must} form a tree prefix of the corresponding values (up to container types, so "
            f"containers need only match in their number of children), but {at} has {len(parts)} "
            f"children while the corresponding container has {len(children)}"
        )
    if data is not None and own is not None and data[0] is own[0] is dict and data[1] != own[1]:
        raise ValueError(
            f"{must} form a tree prefix of the corresponding values, but {at} is a dict with keys "
            f"{data[1]} while the corresponding dict has keys {own[1]}"
        )
    return [
        b
        for i, (part, child) in enumerate(zip(parts, children, strict=True))
        for b in _spread(part, child, f"{at}[{i}]", must)
    ]


def tree_of_bools(tree: PyTreeDef, leaves: Sequence[bool]) -> Any:
    """Bools in the containers of a tree, with tuples for containers other than tuples, lists and
    dicts."""
    data, children = tree.node_data(), tree.children()
    if data is None:
        return leaves[0] if tree.num_leaves else None
    start, parts = 0, []
    for child in children:
        parts.append(tree_of_bools(child, leaves[start : start + child.num_leaves]))
        start += child.num_leaves
    if data[0] is dict:
        return dict(zip(data[1], parts, strict=True))
    return parts if data[0] is list else tuple(parts)
