"""Which classes are pytree nodes: their registration, and the nodes that come with the library."""

import dataclasses
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Self, TypeVar

from teucer._advice.guarding import guarded_class
from teucer._xla import pytree as xla
from teucer._xla.pytree import DictKey, Function, PyTree

T = TypeVar("T")
ClassT = TypeVar("ClassT", bound=type)


def register_pytree_node(
    nodetype: type[T],
    flatten_func: Callable[[T], tuple[PyTree, PyTree]],
    unflatten_func: Callable[[PyTree, PyTree], T],
    flatten_with_keys_func: Callable[[T], tuple[PyTree, PyTree]] | None = None,
) -> None:
    """Makes a class a pytree node; its instances (not instances of subclasses) have children from
    then on.

    flatten_func: instance -> (children, aux_data), aux_data hashable and comparable
    unflatten_func: (aux_data, children) -> instance; it may be given children of any type
    flatten_with_keys_func: instance -> ((key, child) pairs, aux_data), for key paths
    Raises ValueError if the class is registered already, TypeError if an argument is no class or
    function.

    >>> from teucer._trees.pytrees import tree_map
    >>> class Pair(list): pass
    >>> register_pytree_node(Pair, lambda pair: (tuple(pair), None), lambda _,
    ...     children: Pair(children))
    >>> tree_map(lambda x: x + 1, Pair([1, 2]))
    [2, 3]
    """
    op = "register_pytree_node"
    _check_class(op, nodetype)
    _check_function(op, "flatten_func", flatten_func)
    _check_function(op, "unflatten_func", unflatten_func)
    if flatten_with_keys_func is not None:
        _check_function(op, "flatten_with_keys_func", flatten_with_keys_func)
    _register(op, nodetype, flatten_func, unflatten_func, flatten_with_keys_func)


def register_pytree_with_keys(
    nodetype: type[T],
    flatten_with_keys: Callable[[T], tuple[Iterable[tuple[PyTree, PyTree]], PyTree]],
    unflatten_func: Callable[[PyTree, PyTree], T],
    flatten_func: Callable[[T], tuple[Iterable[PyTree], PyTree]] | None = None,
) -> None:
    """As `register_pytree_node`, with the keys of the children.

    flatten_with_keys: instance -> ((key, child) pairs, aux_data)
    flatten_func: instance -> (children, aux_data); derived from flatten_with_keys if absent, and
    faster if given Raises ValueError if the class is registered already, TypeError if an argument
    is no class or function.

    >>> from teucer._trees.pytrees import GetAttrKey, keystr, tree_leaves_with_path
    >>> class Box:
    ...     def __init__(self, item): self.item = item
    >>> register_pytree_with_keys(
    ...     Box, lambda box: (((GetAttrKey("item"), box.item),), None), lambda _,
    ...     children: Box(*children))
    >>> [keystr(path) for path, _ in tree_leaves_with_path([Box(3)])]
    ['[0].item']
    """
    op = "register_pytree_with_keys"
    _check_class(op, nodetype)
    _check_function(op, "flatten_with_keys", flatten_with_keys)
    _check_function(op, "unflatten_func", unflatten_func)
    if flatten_func is None:
        flatten_func = _without_keys(flatten_with_keys)
    _check_function(op, "flatten_func", flatten_func)
    _register(op, nodetype, flatten_func, unflatten_func, flatten_with_keys)


def _without_keys(flatten_with_keys: Callable[[PyTree], PyTree]) -> Callable[[PyTree], PyTree]:
    def flatten(node: PyTree) -> PyTree:
        result = flatten_with_keys(node)
        if not (isinstance(result, tuple) and len(result) == 2):
            # Return the wrong result: the registry raises its error.
            return result
        pairs, aux = result
        return [child for _, child in pairs], aux

    return flatten


def register_pytree_node_class(cls: ClassT) -> ClassT:
    """Class decorator: a pytree node by its methods tree_flatten() and classmethod
    tree_unflatten(aux_data, children).

    Raises AttributeError if a method is absent, ValueError if the class is registered already.

    >>> from teucer._trees.pytrees import tree_leaves
    >>> @register_pytree_node_class
    ... class Interval:
    ...     def __init__(self, low, high): self.low, self.high = low, high
    ...     def tree_flatten(self): return (self.low, self.high), None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux, children): return cls(*children)
    >>> tree_leaves(Interval(1, 2))
    [1, 2]
    """
    op = "register_pytree_node_class"
    _check_class(op, cls)
    flatten, unflatten = _method(op, cls, "tree_flatten"), _method(op, cls, "tree_unflatten")
    _register(op, cls, flatten, unflatten, None)
    return cls


def register_pytree_with_keys_class(cls: ClassT) -> ClassT:
    """Class decorator: a pytree node by tree_flatten_with_keys() and classmethod
    tree_unflatten(aux_data, children).

    A method tree_flatten() is used for flattening without paths if the class has one.
    Raises AttributeError if a method is absent, ValueError if the class is registered already.

    >>> from teucer._trees.pytrees import GetAttrKey, keystr, tree_leaves_with_path
    >>> @register_pytree_with_keys_class
    ... class Slot:
    ...     def __init__(self, item): self.item = item
    ...     def tree_flatten_with_keys(self): return ((GetAttrKey("item"), self.item),), None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux, children): return cls(*children)
    >>> [keystr(path) for path, _ in tree_leaves_with_path(Slot(3))]
    ['.item']
    """
    op = "register_pytree_with_keys_class"
    _check_class(op, cls)
    with_keys, unflatten = (
        _method(op, cls, "tree_flatten_with_keys"),
        _method(op, cls, "tree_unflatten"),
    )
    plain = getattr(cls, "tree_flatten", None) or _without_keys(with_keys)
    _register(op, cls, plain, unflatten, with_keys)
    return cls


def register_dataclass(
    nodetype: ClassT,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> ClassT:
    """Makes a dataclass, or a class with a constructor by keyword, a pytree node; returns the
    class.

    data_fields: the children;  meta_fields: part of the structure, hashable;  drop_fields: neither,
    and lost For a dataclass with neither list given: fields with metadata {"static": True} are
    meta, the others data. Together data_fields and meta_fields must be the fields with init=True,
    without drop_fields. Raises ValueError if they are not, or if the class is registered already;
    TypeError if only one list is given, or none and the class is not a dataclass.

    >>> from teucer._trees.pytrees import tree_leaves
    >>> @register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weight: float
    ...     name: str = static(default="layer")
    >>> tree_leaves(Layer(2.0))
    [2.0]
    """
    op = "register_dataclass"
    _check_class(op, nodetype)
    if data_fields is None and meta_fields is None:
        data_fields, meta_fields = _fields_by_metadata(op, nodetype, drop_fields)
    if data_fields is None or meta_fields is None:
        raise TypeError(
            f"{op}: data_fields and meta_fields must both be specified when either is specified. "
            f"Got {data_fields=} {meta_fields=}.\n  nodetype: {nodetype}\n"
            "Pass an empty list for the other."
        )
    data, meta = tuple(data_fields), tuple(meta_fields)
    overlap = [name for name in data if name in meta]
    if overlap:
        raise ValueError(
            f"{op}: data_fields and meta_fields must not overlap. Overlapping fields: "
            f"{_names(overlap)}.\n  nodetype: {nodetype}"
        )
    if dataclasses.is_dataclass(nodetype):
        _check_fields(op, nodetype, data + meta, drop_fields)
    try:
        xla.register_dataclass_node(nodetype, data, meta)
    except ValueError as err:
        raise _duplicate(op, nodetype, "custom dataclass PyTreeDef type") from err
    return nodetype


def _fields_by_metadata(
    op: str, nodetype: type, drop_fields: Sequence[str]
) -> tuple[list[str], list[str]]:
    if not dataclasses.is_dataclass(nodetype):
        raise TypeError(
            f"{op}: data_fields and meta_fields are required when nodetype is not a dataclass. "
            f"Got {nodetype=}.\nName its fields, or decorate it with @dataclass first."
        )
    fields = [field for field in dataclasses.fields(nodetype) if field.name not in drop_fields]
    is_meta = [bool(field.metadata.get("static", False)) for field in fields]
    data = [field.name for field, meta in zip(fields, is_meta, strict=True) if not meta]
    return data, [field.name for field, meta in zip(fields, is_meta, strict=True) if meta]


def _check_fields(
    op: str, nodetype: PyTree, given: tuple[str, ...], drop_fields: Sequence[str]
) -> None:
    expected = [
        f.name for f in dataclasses.fields(nodetype) if f.init and f.name not in drop_fields
    ]
    missing = [name for name in expected if name not in given]
    unexpected = [name for name in given if name not in expected]
    if not missing and not unexpected:
        return
    text = (
        f"{op}: data_fields and meta_fields must include all dataclass fields with ``init=True`` "
        "and only them."
    )
    if missing:
        text += (
            f" Missing fields: {_names(missing)}. Add them to drop_fields to suppress this error."
        )
    if unexpected:
        text += f" Unexpected fields: {_names(unexpected)}."
    lines = [text, f"  nodetype: {nodetype}"]
    if any(not field.init and field.name in unexpected for field in dataclasses.fields(nodetype)):
        lines.append("A field with init=False cannot be restored; add it to drop_fields.")
    raise ValueError("\n".join(lines))


def static(**kwargs: PyTree) -> PyTree:
    """A dataclass field that `register_dataclass` makes part of the structure; arguments as
    `dataclasses.field`.

    >>> static(default=3).metadata["static"]
    True
    """
    return dataclasses.field(
        metadata={"static": True, **(kwargs.pop("metadata", None) or {})}, **kwargs
    )


def register_static(cls: type[T]) -> type[T]:
    """Class decorator: a node without children, whose instances are part of the structure. They
    must be hashable.

    Raises ValueError if the class is registered already.

    >>> from teucer._trees.pytrees import tree_leaves
    >>> @register_static
    ... class Mode(str): pass
    >>> tree_leaves([Mode("fast"), 1])
    [1]
    """
    _check_class("register_static", cls)
    _register("register_static", cls, lambda node: ((), node), lambda node, _: node, None)
    return cls


def _register(
    op: str,
    nodetype: type,
    flatten: Callable[[PyTree], PyTree],
    unflatten: Callable[[PyTree, PyTree], PyTree],
    with_keys: Callable[[PyTree], PyTree] | None,
) -> None:
    try:
        xla.register_node(nodetype, flatten, unflatten, with_keys)
    except ValueError as err:
        raise _duplicate(op, nodetype, "custom PyTreeDef type") from err


def _duplicate(op: str, nodetype: type, what: str) -> ValueError:
    return ValueError(
        f"{op}: Duplicate {what} registration for {nodetype}.\n"
        "A class can be registered once in a process, and built-in nodes not at all."
    )


def _check_class(op: str, nodetype: PyTree) -> None:
    if not isinstance(nodetype, type):
        raise TypeError(f"{op}: the type to register is not a class.\n  got: {nodetype!r}")


def _check_function(op: str, name: str, function: PyTree) -> None:
    if not callable(function):
        raise TypeError(f"{op}: {name} is not a function.\n  {name}: {function!r}")


def _method(op: str, cls: type, name: str) -> Function:
    method: Function | None = getattr(cls, name, None)
    if method is None:
        raise AttributeError(
            f"{op}: type object {cls.__name__!r} has no attribute {name!r}.\n  cls: {cls}\n"
            "Define the method, or register the class by functions with register_pytree_node."
        )
    return method


def _names(names: Sequence[str]) -> str:
    return "{" + ", ".join(map(repr, names)) + "}"


# The nodes that come with the library


def _flatten_ordered_dict(node: OrderedDict[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
    return tuple(node.values()), tuple(node)


def _flatten_ordered_dict_with_keys(node: OrderedDict[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
    return tuple((DictKey(key), child) for key, child in node.items()), tuple(node)


def _sorted_keys(node: defaultdict[PyTree, PyTree]) -> tuple[PyTree, ...]:
    try:
        return tuple(sorted(node))
    except TypeError as err:
        raise ValueError(
            "Comparator raised exception while sorting pytree dictionary keys."
        ) from err


def _flatten_defaultdict(node: defaultdict[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
    keys = _sorted_keys(node)
    return tuple(node[key] for key in keys), (node.default_factory, keys)


def _flatten_defaultdict_with_keys(node: defaultdict[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
    keys = _sorted_keys(node)
    return tuple((DictKey(key), node[key]) for key in keys), (node.default_factory, keys)


def _unflatten_defaultdict(
    aux: tuple[PyTree, PyTree], children: Iterable[PyTree]
) -> defaultdict[PyTree, PyTree]:
    factory, keys = aux
    return defaultdict(factory, zip(keys, children, strict=True))


register_pytree_node(
    OrderedDict,
    _flatten_ordered_dict,
    lambda keys, children: OrderedDict(zip(keys, children, strict=True)),
    _flatten_ordered_dict_with_keys,
)
register_pytree_node(
    defaultdict, _flatten_defaultdict, _unflatten_defaultdict, _flatten_defaultdict_with_keys
)


@guarded_class
class _Opaque:
    """A partial application as a plain function: functools.partial would merge it into the outer
    one."""

    def __init__(self, function: Function) -> None:
        self.__wrapped__ = function

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        return self.__wrapped__(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return self.__wrapped__ == (other.__wrapped__ if isinstance(other, _Opaque) else other)

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


@guarded_class
class Partial(functools.partial[PyTree]):
    """functools.partial as a pytree node: the bound arguments are children, the function part of
    the structure.

    Structures are equal when the functions compare equal. A partial application as the function is
    kept whole: its own arguments stay part of the structure, and it compares by identity.
    Raises TypeError if the function is not callable.

    >>> from teucer._trees.pytrees import tree_map
    >>> double = Partial(lambda factor, x: factor * x, 2)
    >>> tree_map(lambda factor: factor + 1, double)(10)
    30
    """

    __module__ = "teucer.tree_util"  # Python 3.13 prints it.

    def __new__(cls, func: Function, /, *args: PyTree, **kw: PyTree) -> Self:
        if isinstance(func, functools.partial):
            func = _Opaque(func)
        return super().__new__(cls, func, *args, **kw)


register_pytree_node(
    Partial,
    lambda node: ((node.args, node.keywords), node.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)
