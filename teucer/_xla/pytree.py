"""jaxlib's C++ pytree registry.

The one registry of the process, which the C++ dispatcher uses too.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from jaxlib import _jax

_pytree: Any = _jax.pytree

# Trees and leaves are values of any type: flattening and unflattening keep them.
PyTree: TypeAlias = Any
Leaf: TypeAlias = Any
Path: TypeAlias = tuple[Any, ...]
Function: TypeAlias = Callable[..., Any]
IsLeaf: TypeAlias = Callable[[Any], bool]
IsLeafAt: TypeAlias = Callable[..., bool]

if TYPE_CHECKING:

    class PyTreeDef:
        """The structure of a tree."""

        num_leaves: int
        num_nodes: int

        def unflatten(self, leaves: Iterable[Any], /) -> Any: ...
        def flatten_up_to(self, tree: Any) -> list[Any]: ...
        def children(self) -> list["PyTreeDef"]: ...
        def compose(self, inner: "PyTreeDef", /) -> "PyTreeDef": ...
        def node_data(self) -> tuple[type, Any] | None: ...

    class SequenceKey:
        """An element of a list or tuple."""

        idx: int

        def __init__(self, idx: int) -> None: ...

    class DictKey:
        """A value of a dictionary."""

        key: Any

        def __init__(self, key: Any) -> None: ...

    class GetAttrKey:
        """An attribute."""

        name: str

        def __init__(self, name: str) -> None: ...

    class FlattenedIndexKey:
        """A child of a class registered without keys."""

        key: int

        def __init__(self, key: int) -> None: ...

else:
    PyTreeDef = _pytree.PyTreeDef
    SequenceKey = _pytree.SequenceKey
    DictKey = _pytree.DictKey
    GetAttrKey = _pytree.GetAttrKey
    FlattenedIndexKey = _pytree.FlattenedIndexKey

Registry: Any = _pytree.PyTreeRegistry
default_registry: Any = _pytree.default_registry()
# A treedef is pickled with its registry, and the registry by reference to these two names.
default_registry.__module__ = __name__
default_registry.__name__ = "default_registry"

# The C++ dispatcher takes arguments apart by this registry. It has all nodes of the other one. It
# also has classes of leaves that are passed to programs in parts.
call_registry: Any = Registry(
    enable_none=True, enable_tuple=True, enable_namedtuple=True, enable_list=True, enable_dict=True
)

# (tree, is_leaf) -> (leaves, treedef), and (tree, is_leaf of path and node) -> (pairs, treedef).
flatten: Callable[..., tuple[list[Any], PyTreeDef]] = default_registry.flatten
flatten_with_path: Callable[..., tuple[list[tuple[tuple[Any, ...], Any]], PyTreeDef]] = (
    default_registry.flatten_with_path
)
# node -> (children, metadata), None for a leaf.
flatten_one_level: Callable[[Any], tuple[Iterable[Any], Any] | None] = (
    default_registry.flatten_one_level
)
is_node: Callable[[type], bool] = default_registry.is_node

_no_tree: Any = default_registry.flatten(None)[1]
# The fields that are part of the structure, of the classes given to `register_dataclass_node` that
# have some.
meta_fields_of: dict[type, tuple[str, ...]] = {}
# The registry does not tell the data fields of a dataclass without an instance; a key path from a
# treedef needs them.
_data_fields: dict[type, tuple[str, ...]] = {}


def make_treedef(node_data: tuple[type, Any], children: Sequence[PyTreeDef]) -> PyTreeDef:
    """The structure of a node: its class and auxiliary data, and the structures of its children."""
    made: PyTreeDef = _no_tree.from_node_data_and_children(default_registry, node_data, children)
    return made


def is_namedtuple(kind: type) -> bool:
    """Whether the registry treats `kind` as a namedtuple; this is its criterion, for want of a
    common base class."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def namedtuple_fields(kind: Any) -> tuple[str, ...]:
    """The names of the children of a namedtuple."""
    return tuple(kind._fields)


def flatten_one_level_with_keys(node: Any) -> tuple[Iterable[tuple[Any, Any]], Any] | None:
    """node -> ((key, child) pairs, metadata); None for a leaf."""
    result: tuple[Iterable[tuple[Any, Any]], Any] | None = (
        default_registry.flatten_one_level_with_keys(node)
    )
    if result is not None and is_namedtuple(type(node)):
        # jaxlib 0.10.2 gives every child the key of the first field.
        pairs, meta = result
        names = namedtuple_fields(type(node))
        return [
            (GetAttrKey(name), child) for name, (_, child) in zip(names, pairs, strict=True)
        ], meta
    return result


def all_leaves(iterable: Iterable[Any]) -> bool:
    """Whether no element of the iterable is a registered node."""
    return bool(_pytree.all_leaves(default_registry, iterable))


def treedef_tuple(treedefs: list[PyTreeDef]) -> PyTreeDef:
    """The treedef of a tuple of trees with these treedefs."""
    result: PyTreeDef = _pytree.treedef_tuple(default_registry, treedefs)
    return result


def register_node(
    kind: type,
    to_children: Callable[[Any], Any],
    from_children: Callable[[Any, Any], Any],
    to_pairs: Callable[[Any], Any] | None,
) -> None:
    """Registers a class by its functions; ValueError if it is registered already."""
    default_registry.register_node(kind, to_children, from_children, to_pairs)
    call_registry.register_node(kind, to_children, from_children, to_pairs)


def register_dataclass_node(
    kind: type, data_fields: Sequence[str], meta_fields: Sequence[str]
) -> None:
    """Registers a class by its attributes; ValueError if it is registered already."""
    default_registry.register_dataclass_node(kind, list(data_fields), list(meta_fields))
    call_registry.register_dataclass_node(kind, list(data_fields), list(meta_fields))
    _data_fields[kind] = tuple(data_fields)
    if meta_fields:
        meta_fields_of[kind] = tuple(meta_fields)


def register_argument(kind: type, to_children: Callable[[Any], Any]) -> None:
    """Registers a class of leaves whose children the dispatcher passes to programs: value ->
    (children, part of the key)."""
    call_registry.register_node(kind, to_children, _no_way_back, None)


def _no_way_back(data: Any, children: Any) -> Any:
    raise TypeError("what the dispatcher takes apart is not put together again")


def data_fields(kind: type) -> tuple[str, ...] | None:
    """The data fields of a class given to `register_dataclass_node`; None for any other."""
    return _data_fields.get(kind)
