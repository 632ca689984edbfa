"""Structures of pytrees, and nodes opened by one level."""

from collections.abc import Hashable, Iterable

from teucer._xla import pytree as xla
from teucer._xla.pytree import PyTree, PyTreeDef


def flatten_one_level(tree: PyTree) -> tuple[Iterable[PyTree], Hashable]:
    """The children of a node and its metadata. Raises ValueError for a leaf.

    >>> flatten_one_level({"b": [1], "a": 2})
    ((2, [1]), ('a', 'b'))
    """
    return _opened("flatten_one_level", tree, xla.flatten_one_level(tree))


def flatten_one_level_with_keys(tree: PyTree) -> tuple[Iterable[tuple[PyTree, PyTree]], Hashable]:
    """The (key, child) pairs of a node and its metadata. Raises ValueError for a leaf.

    >>> flatten_one_level_with_keys([1, (2,)])
    (((SequenceKey(idx=0), 1), (SequenceKey(idx=1), (2,))), None)
    """
    return _opened("flatten_one_level_with_keys", tree, xla.flatten_one_level_with_keys(tree))


def _opened(op: str, tree: PyTree, opened: tuple[PyTree, PyTree] | None) -> tuple[PyTree, PyTree]:
    if opened is None:
        raise ValueError(
            f"{op}: can't tree-flatten type: {type(tree)}.\n"
            "It is a leaf, unless its class is registered."
        )
    return opened


def is_tree_node(typ: type) -> bool:
    """Whether instances of a class are pytree nodes.

    >>> is_tree_node(list), is_tree_node(float)
    (True, False)
    """
    return xla.is_node(typ)


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether a structure has no children: it is a leaf, or a node such as None or ().

    >>> from teucer._trees.pytrees import tree_structure
    >>> treedef_is_leaf(tree_structure(1)), treedef_is_leaf(tree_structure([1]))
    (True, False)
    """
    check_treedef("treedef_is_leaf", "treedef", treedef)
    return bool(treedef.num_nodes == 1)


def treedef_is_strict_leaf(treedef: PyTreeDef) -> bool:
    """Whether a structure is a leaf, and not a node without children.

    >>> from teucer._trees.pytrees import tree_structure
    >>> treedef_is_strict_leaf(tree_structure(1)), treedef_is_strict_leaf(tree_structure(None))
    (True, False)
    """
    return bool(treedef.num_nodes == 1 and treedef.num_leaves == 1)


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the children; none for a leaf.

    >>> from teucer._trees.pytrees import tree_structure
    >>> treedef_children(tree_structure([1, {"a": 2}]))
    [PyTreeDef(*), PyTreeDef({'a': *})]
    """
    check_treedef("treedef_children", "treedef", treedef)
    children: list[PyTreeDef] = treedef.children()
    return children


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees of these structures.

    >>> from teucer._trees.pytrees import tree_structure
    >>> treedef_tuple([tree_structure(1), tree_structure([1])])
    PyTreeDef((*, [*]))
    """
    treedefs = list(treedefs)
    for i, treedef in enumerate(treedefs):
        check_treedef("treedef_tuple", f"treedefs[{i}]", treedef)
    return xla.treedef_tuple(treedefs)


def check_treedef(op: str, name: str, treedef: PyTree) -> None:
    """TypeError if the argument of this name is not a structure."""
    if not isinstance(treedef, PyTreeDef):
        raise TypeError(
            f"{op}: {name} is not a PyTreeDef.\n  {name}: {type(treedef)}\n"
            "tree_structure gives the one of a tree."
        )
