"""Pytrees: nested containers as a list of leaves and a structure, and functions over them."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias, TypeVar, cast

from teucer._trees import tree_errors
from teucer._trees.registry import (
    Partial,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    static,
)
from teucer._trees.structures import (
    check_treedef,
    flatten_one_level,
    flatten_one_level_with_keys,
    is_tree_node,
    treedef_children,
    treedef_is_leaf,
    treedef_is_strict_leaf,
    treedef_tuple,
)
from teucer._trees.tree_errors import (
    KeyEntry,
    KeyPath,
    equality_errors,
    equality_errors_pytreedef,
    keystr,
    leaf_paths,
    prefix_errors,
)
from teucer._xla import pytree as xla
from teucer._xla.pytree import (
    DictKey,
    FlattenedIndexKey,
    Function,
    GetAttrKey,
    IsLeaf,
    IsLeafAt,
    Leaf,
    Path,
    PyTree,
    PyTreeDef,
    SequenceKey,
    default_registry,
)

__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "Partial", "PyTreeDef",
    "SequenceKey", "all_leaves", "broadcast_prefix", "default_registry", "equality_errors",
    "equality_errors_pytreedef", "flatten_axes", "flatten_one_level",
    "flatten_one_level_with_keys", "is_tree_node", "keystr", "leaf_paths", "prefix_errors",
    "register_dataclass", "register_pytree_node", "register_pytree_node_class",
    "register_pytree_with_keys", "register_pytree_with_keys_class", "register_static", "static",
    "tree_all", "tree_broadcast", "tree_flatten", "tree_flatten_with_path", "tree_leaves",
    "tree_leaves_with_path", "tree_map", "tree_map_with_path", "tree_reduce",
    "tree_reduce_associative", "tree_structure", "tree_transpose", "tree_unflatten",
    "treedef_children", "treedef_is_leaf", "treedef_is_strict_leaf", "treedef_tuple",
]  # fmt: skip

T = TypeVar("T")
Pairs: TypeAlias = list[tuple[Path, PyTree]]


class _Unspecified:
    """The type of the default of an argument for which None is a value."""

    def __repr__(self) -> str:
        return "<unspecified>"


_UNSPECIFIED: Final = _Unspecified()


# Leaves and structure


def tree_flatten(tree: PyTree, is_leaf: IsLeaf | None = None) -> tuple[list[Leaf], PyTreeDef]:
    """The leaves of a tree, in order, and its structure.

    Nodes: tuple, list, dict (in the order of its sorted keys), namedtuple, OrderedDict,
    defaultdict, None (no leaves) and registered classes; anything else is a leaf. is_leaf(node)
    true makes a node a leaf.
    Raises ValueError if the keys of a dict cannot be sorted, RecursionError if a tree contains
    itself.

    >>> tree_flatten({"b": (1, 2), "a": None})
    ([1, 2], PyTreeDef({'a': None, 'b': (*, *)}))
    """
    return _flatten("tree_flatten", tree, is_leaf)


def _flatten(op: str, tree: PyTree, is_leaf: IsLeaf | None) -> tuple[list[Leaf], PyTreeDef]:
    try:
        return xla.flatten(tree, is_leaf)
    except (ValueError, TypeError, SystemError) as err:
        reason = tree_errors.flatten_error(op, tree, is_leaf, err)
        if reason is None:
            raise
        raise reason from err


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[PyTree]) -> PyTree:
    """The tree of this structure with these leaves; inverse of `tree_flatten`.

    Raises ValueError if the structure has another number of leaves.

    >>> tree_unflatten(tree_structure({"a": 0, "b": [0]}), [1, 2])
    {'a': 1, 'b': [2]}
    """
    op = "tree_unflatten"
    check_treedef(op, "treedef", treedef)
    if type(leaves) is not list:
        if not isinstance(leaves, Iterable):
            raise TypeError(f"{op}: leaves is not iterable.\n  leaves: {leaves!r}")
        leaves = list(leaves)
    if len(leaves) != treedef.num_leaves:
        raise tree_errors.unflatten_error(op, treedef, len(leaves))
    return treedef.unflatten(leaves)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf | None = None) -> list[Leaf]:
    """The leaves of a tree, in order.

    >>> tree_leaves([1, (2, None), {"a": 3}])
    [1, 2, 3]
    """
    return _flatten("tree_leaves", tree, is_leaf)[0]


def tree_structure(tree: PyTree, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """The structure of a tree: the tree without its leaves.

    >>> tree_structure([1, (2, None)])
    PyTreeDef([*, (*, None)])
    """
    return _flatten("tree_structure", tree, is_leaf)[1]


def tree_map(f: Function, tree: PyTree, *rest: PyTree, is_leaf: IsLeaf | None = None) -> PyTree:
    """The tree of f(leaf, *corresponding subtrees of rest).

    Each further tree has the nodes of the first; where the first has a leaf it may have any
    subtree. Raises ValueError that says where, if it has not.

    >>> tree_map(lambda x, y: x + y, {"a": 1, "b": (2,)}, {"a": 10, "b": (20,)})
    {'a': 11, 'b': (22,)}
    """
    leaves, treedef = _flatten("tree_map", tree, is_leaf)
    if not rest:
        return treedef.unflatten([f(leaf) for leaf in leaves])
    columns = _columns("tree_map", treedef, rest, tree, tree_errors.opener(is_leaf))
    return treedef.unflatten([f(*row) for row in zip(leaves, *columns, strict=True)])


def _columns(
    op: str,
    treedef: PyTreeDef,
    rest: tuple[PyTree, ...],
    tree: PyTree,
    open_one: tree_errors.Opener,
) -> Iterator[list[Leaf]]:
    """The subtrees of each further tree; `tree`, opened by `open_one`, is the first, for the
    error."""
    for position, other in enumerate(rest):
        try:
            yield treedef.flatten_up_to(other)
        except ValueError as err:
            reason = tree_errors.match_error(
                op, ("tree", f"rest[{position}]"), tree, open_one, other
            )
            if reason is None:
                raise
            raise reason from err


def tree_reduce(
    function: Callable[[T, PyTree], T],
    tree: PyTree,
    initializer: T | _Unspecified = _UNSPECIFIED,
    is_leaf: IsLeaf | None = None,
) -> T:
    """The leaves combined from the left: function(... function(initializer, leaf0) ..., leafN).

    Raises TypeError if there is no leaf and no initializer.

    >>> tree_reduce(lambda total, x: total + x, {"a": 1, "b": (2, 3)})
    6
    """
    leaves = _flatten("tree_reduce", tree, is_leaf)[0]
    if not isinstance(initializer, _Unspecified):
        return functools.reduce(function, leaves, initializer)
    if not leaves:
        raise TypeError(
            "tree_reduce: reduce() of empty iterable with no initial value.\nPass an initializer."
        )
    return cast(T, functools.reduce(function, leaves))


def tree_reduce_associative(
    operation: Callable[[T, T], T],
    tree: PyTree,
    *,
    identity: T | _Unspecified = _UNSPECIFIED,
    is_leaf: IsLeaf | None = None,
) -> T:
    """The leaves combined in a balanced tree, of depth log2 of their number; the identity if there
    is none.

    Raises TypeError if there is no leaf and no identity.

    >>> tree_reduce_associative(lambda x, y: f"({x}{y})", ["a", "b", "c", "d"])
    '((ab)(cd))'
    """
    leaves: list[T] = _flatten("tree_reduce_associative", tree, is_leaf)[0]
    if leaves:
        return _balanced(operation, leaves)
    if isinstance(identity, _Unspecified):
        raise TypeError(
            "tree_reduce_associative: Must specify identity for parallel reduction of empty "
            "sequence."
        )
    return identity


def _balanced(operation: Callable[[T, T], T], items: list[T]) -> T:
    if len(items) == 1:
        return items[0]
    half = len(items) // 2
    return operation(_balanced(operation, items[:half]), _balanced(operation, items[half:]))


def tree_all(tree: PyTree, *, is_leaf: IsLeaf | None = None) -> bool:
    """Whether every leaf is true; True for a tree without leaves.

    >>> tree_all({"a": True, "b": [True, False]})
    False
    """
    return all(_flatten("tree_all", tree, is_leaf)[0])


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: PyTree
) -> PyTree:
    """From an outer tree of inner trees to an inner tree of outer trees.

    inner_treedef None: the structure of the first inner tree. Of the tree given, only the number of
    leaves is checked. Raises TypeError if it does not have the leaves of outer times inner.

    >>> tree_transpose(tree_structure([0, 0]), None, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    {'a': [1, 3], 'b': [2, 4]}
    """
    op = "tree_transpose"
    check_treedef(op, "outer_treedef", outer_treedef)
    leaves, treedef = _flatten(op, pytree_to_transpose, None)
    outer_size = outer_treedef.num_leaves
    if inner_treedef is None:
        inner_treedef = _first_inner(op, outer_treedef, pytree_to_transpose)
    check_treedef(op, "inner_treedef", inner_treedef)
    inner_size = inner_treedef.num_leaves
    if len(leaves) != outer_size * inner_size:
        raise tree_errors.transpose_error(outer_treedef.compose(inner_treedef), treedef)
    columns = [outer_treedef.unflatten(leaves[i::inner_size]) for i in range(inner_size)]
    return inner_treedef.unflatten(columns)


def _first_inner(op: str, outer: PyTreeDef, tree: PyTree) -> PyTreeDef:
    if not outer.num_leaves:
        raise ValueError(
            f"{op}: inner_treedef must be given, as outer_treedef has no leaves.\n"
            f"  outer_treedef: {outer}"
        )
    try:
        inner_trees = outer.flatten_up_to(tree)
    except ValueError as err:
        names = ("outer_treedef", "pytree_to_transpose")
        reason = tree_errors.match_error(op, names, outer, tree_errors.open_treedef, tree)
        if reason is None:
            raise
        raise reason from err
    return _flatten(op, inner_trees[0], None)[1]


def all_leaves(iterable: Iterable[PyTree], is_leaf: IsLeaf | None = None) -> bool:
    """Whether every element is a leaf.

    >>> all_leaves([1, 2]), all_leaves([1, (2,)]), all_leaves([None])
    (True, False, False)
    """
    if is_leaf is None:
        return xla.all_leaves(iterable)
    return all(
        treedef_is_strict_leaf(_flatten("all_leaves", item, is_leaf)[1]) for item in iterable
    )


# Paths


def _flatten_with_path(
    op: str, tree: PyTree, is_leaf: IsLeafAt | None, is_leaf_takes_path: bool
) -> tuple[Pairs, PyTreeDef]:
    predicate = is_leaf
    if is_leaf is not None and callable(is_leaf) and not is_leaf_takes_path:
        predicate = _pathless(is_leaf)
    try:
        return xla.flatten_with_path(tree, predicate)
    except (ValueError, TypeError, SystemError) as err:
        reason = tree_errors.flatten_error(op, tree, predicate, err, keyed=True)
        if reason is None:
            raise
        raise reason from err


def _pathless(is_leaf: IsLeaf) -> Callable[[Path, PyTree], bool]:
    return lambda _, node: is_leaf(node)


def tree_flatten_with_path(
    tree: PyTree, is_leaf: IsLeafAt | None = None, is_leaf_takes_path: bool = False
) -> tuple[Pairs, PyTreeDef]:
    """As `tree_flatten`, with a pair (key path, leaf) for each leaf; is_leaf_takes_path:
    is_leaf(path, node).

    >>> pairs, _ = tree_flatten_with_path({"a": [1, 2]})
    >>> [(keystr(path), leaf) for path, leaf in pairs]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return _flatten_with_path("tree_flatten_with_path", tree, is_leaf, is_leaf_takes_path)


def tree_leaves_with_path(
    tree: PyTree, is_leaf: IsLeafAt | None = None, is_leaf_takes_path: bool = False
) -> Pairs:
    """The pairs (key path, leaf) of a tree, in order.

    >>> [(keystr(path), leaf) for path, leaf in tree_leaves_with_path((1, {"a": 2}))]
    [('[0]', 1), ("[1]['a']", 2)]
    """
    return _flatten_with_path("tree_leaves_with_path", tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(
    f: Function,
    tree: PyTree,
    *rest: PyTree,
    is_leaf: IsLeafAt | None = None,
    is_leaf_takes_path: bool = False,
) -> PyTree:
    """As `tree_map`, of f(key path, leaf, *corresponding subtrees of rest).

    >>> tree_map_with_path(lambda path, x: f"{keystr(path)}={x}", {"a": [1]})
    {'a': ["['a'][0]=1"]}
    """
    op = "tree_map_with_path"
    pairs, treedef = _flatten_with_path(op, tree, is_leaf, is_leaf_takes_path)
    if is_leaf_takes_path:
        columns = _columns(op, treedef, rest, treedef, tree_errors.open_treedef)
    else:
        columns = _columns(op, treedef, rest, tree, tree_errors.opener(is_leaf))
    rows = zip(pairs, *columns, strict=True)
    return treedef.unflatten([f(path, leaf, *others) for (path, leaf), *others in rows])


# Prefixes


def broadcast_prefix(
    prefix_tree: PyTree, full_tree: PyTree, is_leaf: IsLeaf | None = None
) -> list[Leaf]:
    """The leaves of the prefix, each as often as the subtree in its place has leaves. is_leaf
    applies to the prefix.

    Raises ValueError that says where, if the first tree is no prefix of the second.

    >>> broadcast_prefix([1, 2], [{"a": 0, "b": 0}, 0])
    [1, 1, 2]
    """
    return _broadcast("broadcast_prefix", prefix_tree, full_tree, is_leaf)[0]


def tree_broadcast(prefix_tree: PyTree, full_tree: PyTree, is_leaf: IsLeaf | None = None) -> PyTree:
    """The full tree with each leaf replaced by the leaf of the prefix above it.

    Raises ValueError that says where, if the first tree is no prefix of the second.

    >>> tree_broadcast([1, 2], [{"a": 0, "b": 0}, 0])
    [{'a': 1, 'b': 1}, 2]
    """
    leaves, treedef = _broadcast("tree_broadcast", prefix_tree, full_tree, is_leaf)
    return treedef.unflatten(leaves)


def _broadcast(
    op: str, prefix_tree: PyTree, full_tree: PyTree, is_leaf: IsLeaf | None
) -> tuple[list[Leaf], PyTreeDef]:
    leaves, prefix = _flatten(op, prefix_tree, is_leaf)
    full = _flatten(op, full_tree, None)[1]
    out: list[Leaf] = []
    if not _spread(prefix, full, iter(leaves), out):
        name = f"{op} prefix_tree"
        for error in prefix_errors(prefix_tree, full_tree, is_leaf):
            raise error(name)
        raise ValueError(
            f"{name}: pytree structure error.\n  prefix pytree: {prefix}\n  full pytree: {full}"
        )
    return out, full


def flatten_axes(
    name: str, treedef: PyTreeDef, axis_tree: PyTree, *, kws: bool = False
) -> list[Leaf]:
    """A prefix tree such as in_axes as one entry a leaf of treedef. None is an entry, for its whole
    subtree.

    name: of the argument, for the error;  kws: treedef is that of (positional arguments, keyword
    arguments) Raises ValueError that says where, if axis_tree is no prefix.

    >>> flatten_axes("vmap in_axes", tree_structure(({"a": 0, "b": 0}, 0)), (None, 1))
    [None, None, 1]
    """
    if axis_tree is None or type(axis_tree) is int:
        return [axis_tree] * treedef.num_leaves
    leaves, prefix = _flatten(name, axis_tree, tree_errors.is_none)
    if prefix == treedef:
        return leaves
    out: list[Leaf] = []
    if not _spread(prefix, treedef, iter(leaves), out):
        raise tree_errors.axes_error(name, treedef, axis_tree, kws=kws)
    return out


def _spread(prefix: PyTreeDef, full: PyTreeDef, leaves: Iterator[PyTree], out: list[Leaf]) -> bool:
    """Appends the leaves of the prefix, repeated, to `out`; False if the structures do not
    match."""
    if treedef_is_strict_leaf(prefix):
        out += [next(leaves)] * full.num_leaves
        return True
    parts, others = prefix.children(), full.children()
    if len(parts) != len(others) or prefix.node_data() != full.node_data():
        return False
    return all(_spread(part, other, leaves, out) for part, other in zip(parts, others, strict=True))
