"""Where two pytrees differ, and where one cannot be flattened.

Key paths and the texts of the errors.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from teucer._xla import pytree as xla
from teucer._xla.arrays import Array
from teucer._xla.pytree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    IsLeaf,
    IsLeafAt,
    Path,
    PyTree,
    PyTreeDef,
    SequenceKey,
)

KeyEntry = TypeVar("KeyEntry", bound=PyTree)
KeyPath: TypeAlias = tuple[KeyEntry, ...]

NONE_REMEDY = (
    "None is a pytree node without leaves; to treat it as a leaf, pass is_leaf=lambda x: x is None."
)


def keystr(keys: KeyPath[PyTree], *, simple: bool = False, separator: str = "") -> str:
    """The key path as text that reads like the access to the leaf.

    With simple=True only the bare key, index or name of each entry; `separator` stands between the
    entries. An entry of a type other than the four key types is shown by `str`.

    >>> path = (SequenceKey(0), DictKey("w"), GetAttrKey("bias"))
    >>> keystr(path)
    "[0]['w'].bias"
    >>> keystr(path, simple=True, separator="/")
    '0/w/bias'
    """
    return separator.join(str(_bare(key)) if simple else str(key) for key in keys)


def _bare(key: PyTree) -> PyTree:
    match key:
        case SequenceKey():
            return key.idx
        case DictKey() | FlattenedIndexKey():
            return key.key
        case GetAttrKey():
            return key.name
        case _:
            return key


class Level(NamedTuple):
    """A node of a pytree, opened by one level."""

    kind: type
    meta: PyTree
    keys: Path
    children: tuple[PyTree, ...]


class Difference(NamedTuple):
    """The root of two subtrees that differ."""

    path: Path
    what: str
    one: str
    other: str
    explanation: str
    involves_none: bool = False


Opener: TypeAlias = Callable[[PyTree], Level | None]


def open_tree(tree: PyTree) -> Level | None:
    """The root node of a tree; None for a leaf."""
    opened = xla.flatten_one_level(tree)
    if opened is None:
        return None
    children, meta = tuple(opened[0]), opened[1]
    keyed = xla.flatten_one_level_with_keys(tree)
    keys = tuple(key for key, _ in keyed[0]) if keyed is not None else ()
    return Level(type(tree), meta, keys, children)


def open_treedef(treedef: PyTreeDef) -> Level | None:
    """The root node of a treedef; None for a leaf."""
    data = treedef.node_data()
    if data is None:
        return None
    kind, meta = data
    children = tuple(treedef.children())
    if kind is dict:
        meta = tuple(meta)
    elif xla.is_namedtuple(kind):
        meta = kind
    return Level(kind, meta, _keys(kind, meta, len(children)), children)


def _keys(kind: type, meta: PyTree, size: int) -> Path:
    """Keys of the children of a node of which only the treedef is known."""
    if kind is list or kind is tuple:
        return tuple(map(SequenceKey, range(size)))
    if kind is dict or kind is OrderedDict:
        return tuple(map(DictKey, meta))
    if kind is defaultdict:
        return tuple(map(DictKey, meta[1]))
    fields = xla.namedtuple_fields(kind) if xla.is_namedtuple(kind) else xla.data_fields(kind)
    # A namedtuple may be registered with children of its own.
    if fields is not None and len(fields) == size:
        return tuple(map(GetAttrKey, fields))
    return tuple(map(FlattenedIndexKey, range(size)))


def is_none(node: PyTree) -> bool:
    """The is_leaf of trees in which None is a value."""
    return node is None


def opener(is_leaf: IsLeaf | None) -> Opener:
    """`open_tree` that stops at the leaves of a predicate."""
    if is_leaf is None:
        return open_tree
    return lambda tree: None if is_leaf(tree) else open_tree(tree)


def leaf_paths(treedef: PyTreeDef) -> Iterator[Path]:
    """Key paths of the leaves of a treedef, in order.

    The keys of a class registered by functions need an instance, which its function makes of
    placeholders. Where it refuses these, its children are named by their number.
    """
    paths = list(_structural_paths(treedef))
    if any(type(key) is FlattenedIndexKey for path in paths for key in path):
        paths = _paths_of_instance(treedef) or paths
    return iter(paths)


def _structural_paths(treedef: PyTreeDef) -> Iterator[Path]:
    level = open_treedef(treedef)
    if level is None:
        yield ()
        return
    for key, child in zip(level.keys, level.children, strict=True):
        for path in _structural_paths(child):
            yield (key, *path)


def _paths_of_instance(treedef: PyTreeDef) -> list[Path] | None:
    marks = [object() for _ in range(treedef.num_leaves)]
    try:
        pairs = xla.flatten_with_path(treedef.unflatten(marks), None)[0]
    except Exception:  # of the class, which may raise anything for unexpected input
        return None
    return [path for path, _ in pairs] if [leaf for _, leaf in pairs] == marks else None


# Differences


def differences(
    one: PyTree,
    other: PyTree,
    open_one: Opener,
    open_other: Opener,
    *,
    prefix: bool,
    path: Path = (),
) -> Iterator[Difference]:
    """The roots of the subtrees that differ. With prefix, a leaf of `one` matches any subtree of
    `other`."""
    a, b = open_one(one), open_other(other)
    if a is None and (prefix or b is None):
        return
    if a is None or b is None or a.kind is not b.kind:
        kind_a, kind_b = _kind(one, a), _kind(other, b)
        has_none = repr(type(None)) in (kind_a, kind_b)
        yield Difference(
            path, "different types", kind_a, kind_b, "their Python types differ", has_none
        )
        return
    if len(a.children) != len(b.children):
        yield _size_difference(path, a, b)
    elif a.meta != b.meta:
        meta_a, meta_b = (f"{level.kind} with pytree metadata {level.meta!r}" for level in (a, b))
        explanation = "the pytree node metadata does not match"
        yield Difference(path, "different pytree metadata", meta_a, meta_b, explanation)
    else:
        for key, x, y in zip(a.keys, a.children, b.children, strict=True):
            yield from differences(x, y, open_one, open_other, prefix=prefix, path=(*path, key))


def _size_difference(path: Path, a: Level, b: Level) -> Difference:
    name, sizes = a.kind.__name__, (len(a.children), len(b.children))
    if a.kind is list or a.kind is tuple:
        one, other = (f"{name} of length {size}" for size in sizes)
        return Difference(
            path, f"different lengths of {name}", one, other, "the lengths do not match"
        )
    one, other = (f"{a.kind} with {size} {'child' if size == 1 else 'children'}" for size in sizes)
    apart = [key for key in a.keys if key not in b.keys] + [
        key for key in b.keys if key not in a.keys
    ]
    shown = ", ".join(repr(_bare(key)) for key in apart)
    explanation = (
        "the numbers of children do not match, with the symmetric difference of key sets: "
        f"{{{shown}}}"
    )
    return Difference(path, "different numbers of pytree children", one, other, explanation)


def _kind(tree: PyTree, level: Level | None) -> str:
    if level is not None:
        return repr(level.kind)
    return "a leaf" if isinstance(tree, PyTreeDef) else repr(type(tree))


def equality_errors(
    tree1: PyTree, tree2: PyTree, is_leaf: IsLeaf | None = None
) -> Iterator[tuple[Path, str, str, str]]:
    """Where two trees differ: (key path, the first's part, the second's part, why they differ).

    >>> list(equality_errors([1, (2,)], [1, (2, 3)]))
    [((SequenceKey(idx=1),), 'tuple of length 1', 'tuple of length 2', 'the lengths do not match')]
    """
    open_one = opener(is_leaf)
    for found in differences(tree1, tree2, open_one, open_one, prefix=False):
        yield found.path, found.one, found.other, found.explanation


def equality_errors_pytreedef(
    tree1: PyTreeDef, tree2: PyTreeDef
) -> Iterator[tuple[Path, str, str, str]]:
    """As `equality_errors`, of two treedefs."""
    for found in differences(tree1, tree2, open_treedef, open_treedef, prefix=False):
        yield found.path, found.one, found.other, found.explanation


# Texts


def _structure_text(root: str, found: Difference, one: str, other: str) -> str:
    lines = [f"pytree structure error: {found.what} at key path", f"    {root}{keystr(found.path)}"]
    lines += [f"  {one}: {found.one}", f"  {other}: {found.other}"]
    if "key sets" in found.explanation:
        lines.append(f"  {found.explanation}")
    return "\n".join(lines)


def prefix_errors(
    prefix_tree: PyTree, full_tree: PyTree, is_leaf: IsLeaf | None = None
) -> list[Callable[[str], ValueError]]:
    """Why the first tree is no prefix of the second: an error a place, made from the argument's
    name.

    is_leaf applies to the prefix. An empty list means that it is a prefix.

    >>> [error] = prefix_errors({"a": [1, 2]}, {"a": [1, 2, 3]})
    >>> print(error("f in_axes"))
    f in_axes: pytree structure error: different lengths of list at key path
        f in_axes['a']
      prefix pytree: list of length 2
      full pytree: list of length 3
    """
    found = differences(prefix_tree, full_tree, opener(is_leaf), open_tree, prefix=True)
    return [_PrefixError(each) for each in found]


class _PrefixError:
    """Makes the error when it is told the name of the argument."""

    def __init__(self, found: Difference) -> None:
        self.found = found

    def __call__(self, name: str) -> ValueError:
        text = f"{name}: {_structure_text(name, self.found, 'prefix pytree', 'full pytree')}"
        return ValueError(f"{text}\n{NONE_REMEDY}" if self.found.involves_none else text)


def axes_error(name: str, treedef: PyTreeDef, axis_tree: PyTree, *, kws: bool) -> ValueError:
    """The error for an argument such as in_axes that is no tree prefix of the value that it
    describes."""
    texts = []
    for found in differences(axis_tree, treedef, opener(is_none), open_treedef, prefix=True):
        root = name
        if kws and found.path:
            part, *rest = found.path
            root = name if part == SequenceKey(0) else f"{name} of the keyword arguments"
            found = found._replace(path=tuple(rest))
        texts.append(_structure_text(root, found, "prefix pytree", "full pytree"))
    head = f"{name} specification must be a tree prefix of the corresponding value"
    if not texts:
        return ValueError(f"{head}.\n  {name}: {axis_tree!r}\n  the value: {treedef}")
    return ValueError("\n".join([f"{head};\n  Mismatch details ({len(texts)} found):", *texts]))


def match_error(
    op: str, names: tuple[str, str], one: PyTree, open_one: Opener, other: PyTree
) -> Exception | None:
    """The error of an operation whose second tree must have the nodes of the first; None if nothing
    is found.

    names: of the two arguments
    """
    try:
        found = next(differences(one, other, open_one, open_tree, prefix=True), None)
    except ValueError as err:
        return flatten_error(op, other, None, err, root=names[1])
    if found is None:
        return None
    text = f"{op}: {_structure_text(names[0], found, *names)}"
    remedy = (
        f"{names[1]} must have the nodes of {names[0]}; only in place of a leaf may it have a "
        "subtree."
    )
    return ValueError(f"{text}\n{NONE_REMEDY if found.involves_none else remedy}")


def unflatten_error(op: str, treedef: PyTreeDef, size: int) -> ValueError:
    """The error for another number of leaves than the treedef has."""
    expected = treedef.num_leaves
    lines = [
        f"{op}: Too many leaves for PyTreeDef; expected {expected}, got {size}.",
        f"  treedef: {treedef}",
    ]
    if size < expected:
        lines[0] = f"{op}: Too few leaves for PyTreeDef; expected {expected}, got {size}."
        first = next(path for i, path in enumerate(leaf_paths(treedef)) if i == size)
        lines.append(f"  first leaf without a value: tree{keystr(first)}")
    return ValueError("\n".join(lines))


def transpose_error(expected: PyTreeDef, actual: PyTreeDef) -> TypeError:
    """The error for a tree that has not the leaves of inner trees inside an outer tree."""
    lines = [
        "tree_transpose: Mismatch between pytree_to_transpose and outer_treedef of inner_treedef."
    ]
    lines += [f"  pytree_to_transpose: {actual}", f"  outer of inner: {expected}"]
    for found in differences(expected, actual, open_treedef, open_treedef, prefix=False):
        where = f"pytree_to_transpose{keystr(found.path)}"
        lines.append(f"  at {where}: expected {found.one}, got {found.other}")
        break
    return TypeError("\n".join(lines))


# Trees that cannot be flattened


def flatten_error(
    op: str,
    tree: PyTree,
    is_leaf: IsLeafAt | None,
    err: Exception,
    *,
    keyed: bool = False,
    root: str = "tree",
) -> Exception | None:
    """The error in our form for one that flattening has raised; None if `err` itself says it best.

    keyed: flattened with paths; is_leaf then takes a path and a node.  root: the name of the tree
    """
    if not _is_predicate(is_leaf):
        return TypeError(
            f"{op}: is_leaf is not a function.\n  is_leaf: {is_leaf!r}\nPass a function or None."
        )
    if isinstance(err, SystemError):
        if not isinstance(err.__cause__, RecursionError):
            return None
        text = f"{op}: the pytree is nested deeper than the recursion limit, or contains itself."
        return RecursionError(f"{text}\n  {root}: {type(tree)}")
    where = _failing_node(tree, (), is_leaf, keyed)
    if where is None:
        return None
    path, node = where
    line = f"  {root}{keystr(path)}: {type(node)}"
    if isinstance(node, dict):
        text = f"{op}: Comparator raised exception while sorting pytree dictionary keys."
        remedy = "Use keys of one type that can be ordered, or an OrderedDict, which is not sorted."
        return ValueError(f"{text}\n{line} with keys {', '.join(map(repr, node))}\n{remedy}")
    # An error raised inside the class's own functions has frames of theirs below ours.
    if err.__traceback__ is None or err.__traceback__.tb_next is not None:
        return None
    said = str(err)
    if not said.startswith("The to_iterable function"):
        said = (
            "The to_iterable_with_keys function for a custom PyTree node should return a "
            "(key_leaf_pairs, aux_data) tuple, whose first item is an iterable of (key, child) "
            "pairs."
        )
    return ValueError(f"{op}: {said}\n{line}")


def static_array(tree: PyTreeDef) -> tuple[type, str] | None:
    """The class and the name of the first static field of a structure with an array in it whose
    comparison gives several answers."""
    data = tree.node_data()
    if data is None:
        return None
    fields = xla.meta_fields_of.get(data[0])
    for name, value in zip(fields, data[1], strict=True) if fields else ():
        leaves = xla.default_registry.flatten(value)[0]
        if any(isinstance(x, Array | np.ndarray) and x.size != 1 for x in leaves):
            return data[0], name
    for child in tree.children():
        found = static_array(child)
        if found is not None:
            return found
    return None


def _is_predicate(is_leaf: object) -> bool:
    return is_leaf is None or callable(is_leaf)


def _failing_node(
    tree: PyTree, path: Path, is_leaf: IsLeafAt | None, keyed: bool
) -> tuple[Path, PyTree] | None:
    if is_leaf is not None and (is_leaf(path, tree) if keyed else is_leaf(tree)):
        return None
    try:
        opened = xla.flatten_one_level_with_keys(tree) if keyed else xla.flatten_one_level(tree)
        level = open_tree(tree)
    except (ValueError, TypeError):
        return path, tree
    if opened is None or level is None:
        return None
    for key, child in zip(level.keys, level.children, strict=True):
        found = _failing_node(child, (*path, key), is_leaf, keyed)
        if found is not None:
            return found
    return None
