"""Pytrees: the laws of flattening, every form of registration, prefixes, and the text of every
error.

Values marked golden were observed by running JAX 0.10.2 on the same input.
"""

import dataclasses
import functools
import itertools
import pickle
import subprocess
import sys
from collections import OrderedDict, defaultdict, namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import teucer as jax
import teucer.numpy as jnp
from teucer import tree as tree_face
from teucer import tree_util
from teucer._trees import pytrees
from teucer._trees.pytrees import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    Partial,
    SequenceKey,
    all_leaves,
    broadcast_prefix,
    equality_errors,
    equality_errors_pytreedef,
    flatten_axes,
    flatten_one_level,
    flatten_one_level_with_keys,
    is_tree_node,
    keystr,
    leaf_paths,
    prefix_errors,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    static,
    tree_all,
    tree_broadcast,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_leaves_with_path,
    tree_map,
    tree_map_with_path,
    tree_reduce,
    tree_reduce_associative,
    tree_structure,
    tree_transpose,
    tree_unflatten,
    treedef_children,
    treedef_is_leaf,
    treedef_is_strict_leaf,
    treedef_tuple,
)

Point = namedtuple("Point", "x y")
Other = namedtuple("Other", "x y")


@register_dataclass
@dataclasses.dataclass
class Layer:
    weight: object
    name: str = static(default="layer")
    bias: object = 0


@register_pytree_node_class
@dataclasses.dataclass
class Box:
    items: tuple
    tag: object = None

    def tree_flatten(self):
        return self.items, self.tag

    @classmethod
    def tree_unflatten(cls, tag, children):
        return cls(tuple(children), tag)


@register_static
class Mode(str):
    pass


def pair(x, y):
    return (x, y)


def none_is_leaf(node):
    return node is None


def trees(*more):
    return st.recursive(
        st.integers() | st.none() | st.text(max_size=2),
        lambda sub: st.one_of(
            st.lists(sub, max_size=3),
            st.lists(sub, max_size=3).map(tuple),
            st.dictionaries(st.text(max_size=2), sub, max_size=3),
            st.dictionaries(st.text(max_size=2), sub, max_size=3).map(OrderedDict),
            st.dictionaries(st.integers(), sub, max_size=3).map(lambda d: defaultdict(list, d)),
            st.builds(Point, sub, sub),
            st.builds(Layer, sub, st.sampled_from(["a", "b"]), sub),
            st.builds(Box, st.lists(sub, max_size=3).map(tuple), st.integers(0, 2)),
            *(node(sub) for node in more),
            st.sampled_from([Mode("fast"), Mode("slow")]),
        ),
        max_leaves=12,
    )


plain_nodes = trees()
nodes = trees(lambda sub: st.builds(Partial, st.just(pair), sub, y=sub))


def same(a, b):
    """Equality of trees by leaves and structure: a Partial does not compare equal to its copy."""
    return tree_flatten(a) == tree_flatten(b)


# Laws


@given(nodes)
def test_unflatten_inverts_flatten(tree):
    leaves, treedef = tree_flatten(tree)
    assert same(tree_unflatten(treedef, leaves), tree)
    assert len(leaves) == treedef.num_leaves
    assert tree_flatten(tree_unflatten(treedef, range(len(leaves))))[0] == list(range(len(leaves)))


@given(nodes)
def test_leaves_and_structure_are_the_parts_of_flatten(tree):
    assert (tree_leaves(tree), tree_structure(tree)) == tree_flatten(tree)


@given(nodes)
def test_map_composes(tree):
    f, g = (lambda x: (1, x)), (lambda x: [x])
    once = tree_map(lambda x: repr(g(f(x))), tree)
    inner = tree_unflatten(tree_structure(tree), [f(x) for x in tree_leaves(tree)])
    assert same(once, tree_map(lambda _, x: repr(g(x)), tree, inner))
    assert same(tree_map(lambda x: x, tree), tree)


@given(nodes)
def test_with_path_agrees_with_plain(tree):
    pairs, treedef = tree_flatten_with_path(tree)
    assert ([leaf for _, leaf in pairs], treedef) == tree_flatten(tree)
    assert pairs == tree_leaves_with_path(tree)
    assert len({path for path, _ in pairs}) == len(pairs)
    assert tree_leaves(
        tree_map_with_path(lambda path, x: (keystr(path), x), tree), is_leaf=is_str_pair
    ) == [(keystr(path), leaf) for path, leaf in pairs]


def is_str_pair(node):
    return type(node) is tuple and len(node) == 2 and type(node[0]) is str


@given(nodes)
def test_leaf_paths_need_no_instance(tree):
    assert list(leaf_paths(tree_structure(tree))) == [
        path for path, _ in tree_leaves_with_path(tree)
    ]


class Named:
    """A node with keys of its own, which takes numbers alone unless it is told otherwise."""

    def __init__(self, value, strict=False):
        if strict and not isinstance(value, int):
            raise TypeError(value)
        self.value, self.strict = value, strict


register_pytree_with_keys(
    Named,
    lambda x: (((GetAttrKey("value"), x.value),), x.strict),
    lambda strict, children: Named(*children, strict),
)


@pytest.mark.parametrize(
    "node, expected",
    [(Named([1]), "['a'].value[0]"), (Named(1, strict=True), "['a'][<flat index 0>]")],
)
def test_leaf_paths_have_the_keys_of_classes(node, expected):
    (path,) = leaf_paths(tree_structure({"a": node}))
    assert keystr(path) == expected


@given(nodes, nodes)
def test_differences_are_found_exactly_when_structures_differ(a, b):
    equal = tree_structure(a) == tree_structure(b)
    found = list(equality_errors(tree_map(str, a), tree_map(str, b)))
    assert (not found) == equal
    of_treedefs = list(equality_errors_pytreedef(tree_structure(a), tree_structure(b)))
    assert [error[0] for error in of_treedefs] == [error[0] for error in found]


@given(nodes, nodes)
def test_prefix_errors_are_found_exactly_when_broadcasting_fails(a, b):
    if prefix_errors(a, b):
        with pytest.raises(ValueError, match="pytree structure error"):
            broadcast_prefix(a, b)
    else:
        assert len(broadcast_prefix(a, b)) == tree_structure(b).num_leaves
        assert tree_structure(tree_broadcast(a, b)) == tree_structure(b)


# Without Partial, which cannot be built from a leaf in place of its arguments.
@given(plain_nodes, st.lists(st.booleans(), min_size=1))
def test_a_pruned_tree_is_a_prefix(tree, cuts):
    choices = itertools.cycle(cuts)
    pruned = tree_map(repr, tree, is_leaf=lambda _: next(choices))
    assert prefix_errors(pruned, tree) == []
    spread = broadcast_prefix(pruned, tree)
    assert len(spread) == len(tree_leaves(tree))
    assert flatten_axes(
        "f in_axes", tree_structure(tree), pruned, kws=True
    ) == spread or none_is_a_node_in(pruned)
    assert tree_leaves(tree_map(lambda x, sub: [x] * len(tree_leaves(sub)), pruned, tree)) == spread


def none_is_a_node_in(tree):
    return None in tree_leaves(tree, none_is_leaf)


@given(nodes)
def test_every_tree_is_a_prefix_of_itself(tree):
    assert broadcast_prefix(tree, tree) == tree_leaves(tree)
    assert same(tree_broadcast(tree, tree), tree)
    assert broadcast_prefix("all", tree) == ["all"] * len(tree_leaves(tree))
    assert prefix_errors(tree, tree) == [] == list(equality_errors(tree, tree))


@given(nodes)
def test_one_level_agrees_with_the_structure(tree):
    treedef = tree_structure(tree)
    if treedef_is_strict_leaf(treedef):
        assert not is_tree_node(type(tree))
        return
    children, _ = flatten_one_level(tree)
    keyed, _ = flatten_one_level_with_keys(tree)
    assert [tree_structure(child) for child in children] == treedef_children(treedef)
    assert [child for _, child in keyed] == list(flatten_one_level(tree)[0])


@given(nodes)
def test_treedef_survives_pickle(tree):
    treedef = tree_structure(tree)
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    assert hash(treedef) == hash(tree_structure(tree))


@given(st.integers(1, 4), st.integers(1, 4))
def test_transpose_is_an_involution(n, m):
    outer, inner = tree_structure([0] * n), tree_structure({str(i): 0 for i in range(m)})
    tree = [{str(j): (i, j) for j in range(m)} for i in range(n)]
    tree = tree_map(str, tree, is_leaf=lambda node: isinstance(node, tuple))
    turned = tree_transpose(outer, inner, tree)
    assert tree_structure(turned) == inner.compose(outer)
    assert tree_transpose(inner, outer, turned) == tree


# Values, golden


PATHS = [
    ([1, 2], ["[0]", "[1]"]),
    ((1, (2, None)), ["[0]", "[1][0]"]),
    ({"b": 1, "a": 2}, ["['a']", "['b']"]),
    (Point(1, [2]), [".x", ".y[0]"]),
    (OrderedDict(b=1, a=2), ["['b']", "['a']"]),
    (defaultdict(int, b=1, a=2), ["['a']", "['b']"]),
    (Layer(1, "n", 2), [".weight", ".bias"]),
    (Box((1, 2)), ["[<flat index 0>]", "[<flat index 1>]"]),
    (Partial(pair, 1, y=2), ["[<flat index 0>][0]", "[<flat index 1>]['y']"]),
    (None, []),
    (3, [""]),
]


@pytest.mark.parametrize(("tree", "paths"), PATHS, ids=lambda value: type(value).__name__)
def test_paths_golden(tree, paths):
    assert [keystr(path) for path, _ in tree_leaves_with_path(tree)] == paths


TREEDEFS = [
    ({"b": (1, 2), "a": None}, "PyTreeDef({'a': None, 'b': (*, *)})"),
    (Point(1, 2), "PyTreeDef(CustomNode(namedtuple[Point], [*, *]))"),
    (OrderedDict(b=1, a=2), "PyTreeDef(CustomNode(OrderedDict[('b', 'a')], [*, *]))"),
    (
        defaultdict(int, b=1, a=2),
        "PyTreeDef(CustomNode(defaultdict[(<class 'int'>, ('a', 'b'))], [*, *]))",
    ),
    (Layer(1), "PyTreeDef(CustomNode(Layer[('layer',)], [*, *]))"),
    (
        Partial(len, 1, a=2),
        "PyTreeDef(CustomNode(Partial[<built-in function len>], [(*,), {'a': *}]))",
    ),
]


@pytest.mark.parametrize(("tree", "text"), TREEDEFS, ids=lambda value: type(value).__name__)
def test_treedef_text_golden(tree, text):
    assert str(tree_structure(tree)) == text


KEYS = (SequenceKey(1), DictKey("a"), DictKey(3), GetAttrKey("n"), FlattenedIndexKey(2), "str", 7)


def test_keystr_golden():
    assert keystr(KEYS) == "[1]['a'][3].n[<flat index 2>]str7"
    assert keystr(KEYS, separator="/") == "[1]/['a']/[3]/.n/[<flat index 2>]/str/7"
    assert keystr(KEYS, simple=True) == "1a3n2str7"
    assert keystr(KEYS, simple=True, separator="/") == "1/a/3/n/2/str/7"
    assert keystr(()) == ""


def test_keys_compare_hash_and_pickle():
    for key in KEYS[:5]:
        copy = pickle.loads(pickle.dumps(key))
        assert copy == key
        assert hash(copy) == hash(key)
    assert SequenceKey(1) != FlattenedIndexKey(1)


def test_reduce_golden():
    assert tree_reduce(pair, [1, 2, 3]) == ((1, 2), 3)
    assert tree_reduce(pair, [1, 2, 3], None) == (((None, 1), 2), 3)
    assert tree_reduce(pair, [], 0) == 0


BALANCED = {
    1: 0,
    3: (0, (1, 2)),
    5: ((0, 1), (2, (3, 4))),
    7: ((0, (1, 2)), ((3, 4), (5, 6))),
    8: (((0, 1), (2, 3)), ((4, 5), (6, 7))),
    13: (((0, (1, 2)), (3, (4, 5))), ((6, (7, 8)), ((9, 10), (11, 12)))),
}


@pytest.mark.parametrize("size", BALANCED)
def test_reduce_associative_golden(size):
    assert tree_reduce_associative(pair, list(range(size))) == BALANCED[size]
    assert tree_reduce_associative(pair, list(range(size)), identity="i") == BALANCED[size]


def test_reduce_associative_of_nothing_is_the_identity():
    assert tree_reduce_associative(pair, [], identity=None) is None


def test_all():
    assert tree_all({"a": True, "b": [1]})
    assert not tree_all([1, 0])
    assert tree_all([])
    assert not tree_all([[], 1], is_leaf=lambda node: node == [])


def test_map_takes_subtrees_in_place_of_leaves():
    assert tree_map(lambda _, sub: sub, {"a": 1}, {"a": [1, 2]}) == {"a": [1, 2]}
    assert tree_map(lambda _, sub: sub, {"a": 1}, {"a": None}) == {"a": None}
    assert tree_map(lambda *xs: xs, [None, 1], [2, 3], is_leaf=none_is_leaf) == [(None, 2), (1, 3)]


def test_is_leaf_with_path():
    def stop(path, _):
        return path == (DictKey("b"),)

    tree = {"a": [1, 2], "b": [3]}
    pairs = tree_leaves_with_path(tree, is_leaf=stop, is_leaf_takes_path=True)
    assert [(keystr(path), leaf) for path, leaf in pairs] == [
        ("['a'][0]", 1),
        ("['a'][1]", 2),
        ("['b']", [3]),
    ]
    assert (
        tree_map_with_path(lambda _, x: repr(x), tree, is_leaf=stop, is_leaf_takes_path=True)["b"]
        == "[3]"
    )
    assert tree_leaves_with_path([1, [2]], is_leaf=lambda node: node == [2])[1][1] == [2]


def test_broadcast_golden():
    assert tree_broadcast([1, 2], [{"a": 1, "b": 2}, (3, 4)]) == [{"a": 1, "b": 1}, (2, 2)]
    assert tree_broadcast([None, 2], [None, (3, 4)]) == [None, (2, 2)]
    assert tree_broadcast([None, 2], [{"a": 1}, (3, 4)], is_leaf=none_is_leaf) == [
        {"a": None},
        (2, 2),
    ]
    assert broadcast_prefix([1, None], [{"a": 1, "b": 2}, None], is_leaf=none_is_leaf) == [1, 1]
    is_tuple = functools.partial(is_instance, tuple)
    full = [{"a": 1, "b": (2,)}, ((3,), (4,))]
    assert tree_broadcast([1, (3,)], full, is_leaf=is_tuple) == [
        {"a": 1, "b": (1,)},
        (((3,),), ((3,),)),
    ]


def is_instance(kind, node):
    return isinstance(node, kind)


def test_transpose_golden():
    outer, inner = tree_structure([0, 0]), tree_structure({"a": 0, "b": 0})
    assert tree_transpose(outer, None, [{"a": 1, "b": 2}, {"a": 3, "b": 4}]) == {
        "a": [1, 3],
        "b": [2, 4],
    }
    assert tree_transpose(outer, inner, ({"a": 1, "c": 2}, {"a": 3, "c": 4})) == {
        "a": [1, 3],
        "b": [2, 4],
    }
    assert tree_transpose(outer, tree_structure([]), [[], []]) == []
    assert tree_transpose(tree_structure([]), inner, []) == {"a": [], "b": []}


def test_structures():
    treedef = tree_structure([1, {"a": 2}])
    assert treedef_is_leaf(tree_structure(1))
    assert treedef_is_leaf(tree_structure(None))
    assert not treedef_is_leaf(treedef)
    assert treedef_tuple(iter([treedef])) == tree_structure(([1, {"a": 2}],))
    assert treedef_tuple(()) == tree_structure(())
    assert treedef_children(tree_structure(1)) == []


def test_all_leaves():
    assert all_leaves([1, 2])
    assert all_leaves([])
    assert not all_leaves([1, [2]])
    assert not all_leaves([None])
    assert all_leaves([[2], 3], is_leaf=functools.partial(is_instance, list))
    assert not all_leaves([[2], (3,)], is_leaf=functools.partial(is_instance, list))


def test_one_level_golden():
    assert flatten_one_level_with_keys(Point(1, 2)) == (
        [(GetAttrKey("x"), 1), (GetAttrKey("y"), 2)],
        Point,
    )
    assert flatten_one_level({"b": 1, "a": 2}) == ((2, 1), ("a", "b"))
    assert flatten_one_level(Layer(1, "n", 2)) == ([1, 2], ("n",))
    assert [is_tree_node(kind) for kind in (list, type(None), Point, OrderedDict, int)] == [
        True
    ] * 4 + [False]


# Registration


def test_node_by_functions():
    class Pair:
        def __init__(self, *items):
            self.items = items

    register_pytree_node(
        Pair, lambda node: (iter(node.items), "aux"), lambda aux, items: (aux, *items)
    )
    assert tree_map(lambda x: x + 1, Pair(1, 2)) == ("aux", 2, 3)
    assert [keystr(path) for path, _ in tree_leaves_with_path(Pair(1))] == ["[<flat index 0>]"]


@pytest.mark.parametrize("with_plain", [False, True])
def test_node_with_keys(with_plain):
    class Slot:
        item = 5

    plain = (lambda node: ((node.item,), "plain")) if with_plain else None
    register_pytree_with_keys(
        Slot, lambda node: (((GetAttrKey("item"), node.item),), "keyed"), lambda aux, _: aux, plain
    )
    assert [keystr(path) for path, _ in tree_leaves_with_path([Slot()])] == ["[0].item"]
    assert tree_map(lambda x: x, Slot()) == ("plain" if with_plain else "keyed")


def test_node_by_functions_with_keys():
    class Slot:
        item = 5

    register_pytree_node(
        Slot,
        lambda node: ((node.item,), None),
        lambda *_: Slot(),
        lambda node: ((("k", node.item),), None),
    )
    assert tree_leaves_with_path(Slot()) == [(("k",), 5)]


@pytest.mark.parametrize("with_plain", [False, True])
def test_class_with_keys(with_plain):
    class Slot:
        def tree_flatten_with_keys(self):
            return ((GetAttrKey("item"), 5),), "keyed"

        @classmethod
        def tree_unflatten(cls, aux, children):
            return cls, aux, *children

    if with_plain:
        Slot.tree_flatten = lambda self: ((5,), "plain")
    assert register_pytree_with_keys_class(Slot) is Slot
    assert keystr(tree_leaves_with_path(Slot())[0][0]) == ".item"
    assert tree_map(lambda x: x, Slot()) == (Slot, "plain" if with_plain else "keyed", 5)


def test_static_is_structure():
    assert tree_flatten(Mode("fast"))[0] == []
    assert (
        tree_structure(Mode("fast")) == tree_structure(Mode("fast")) != tree_structure(Mode("slow"))
    )
    assert tree_unflatten(tree_structure(Mode("fast")), []) == "fast"


def test_static_field():
    assert static(default=3, metadata={"x": 1}).metadata == {"static": True, "x": 1}
    assert static().metadata == {"static": True}


def make_dataclass():
    @dataclasses.dataclass
    class Record:
        a: int
        b: int
        c: int = dataclasses.field(default=7, init=False)
        d: int = 9

    return Record


def test_dataclass_by_metadata():
    layer = Layer(1, "n", 2)
    assert tree_leaves(layer) == [1, 2]
    assert tree_map(lambda x: x + 1, layer) == Layer(2, "n", 3)
    assert tree_structure(layer) != tree_structure(Layer(1, "m", 2))


@pytest.mark.parametrize(
    ("data", "meta", "drop", "leaves"),
    [
        (["a", "b"], [], ["d"], [1, 2]),
        (["a"], ["b"], ["d"], [1]),
        (["d", "a"], ["b"], [], [5, 1]),
        (["a", "b", "d"], (), ["c"], [1, 2, 5]),
        (["a", "b", "d"], (), ["unknown"], [1, 2, 5]),
        (None, None, ["c", "d"], [1, 2]),
    ],
)
def test_dataclass_by_lists(data, meta, drop, leaves):
    record = make_dataclass()
    assert register_dataclass(record, data, meta, drop) is record
    assert tree_leaves(record(1, 2, 5)) == leaves
    copy = tree_map(lambda x: x, record(1, 2, 5))
    assert copy == record(1, 2, 9 if "d" in drop else 5)


def test_dataclass_decorator_with_arguments():
    record = functools.partial(register_dataclass, data_fields=["a"], meta_fields=["b", "d"])(
        make_dataclass()
    )
    assert tree_leaves(record(1, 2)) == [1]


def test_plain_class_as_dataclass():
    class Plain:
        def __init__(self, a, b):
            self.a, self.b = a, b

    register_dataclass(Plain, ["a"], ["b"])
    copy = tree_map(lambda x: x + 1, Plain(1, 2))
    assert (copy.a, copy.b) == (2, 2)


def test_subclass_is_a_leaf_and_a_subclass_of_a_namedtuple_is_a_node():
    class Boxes(Box):
        pass

    class Points(Point):
        pass

    assert len(tree_leaves(Boxes((1, 2)))) == 1
    assert tree_leaves(Points(1, 2)) == [1, 2]


# Partial

# Since Python 3.13 a functools.partial says the module of its class.
PARTIAL = "teucer.tree_util.Partial" if sys.version_info >= (3, 13) else "Partial"


def test_partial_is_a_tree_and_a_function():
    bound = Partial(pair, 1)
    assert isinstance(bound, functools.partial)
    assert bound(2) == (1, 2)
    assert repr(Partial(len, 1, a=2)) == f"{PARTIAL}(<built-in function len>, 1, a=2)"
    assert tree_map(lambda x: x + 1, Partial(pair, 1, y=2))() == (2, 3)


def test_partial_structures_compare_by_function():
    assert tree_structure(Partial(pair, 1)) == tree_structure(Partial(pair, 2))
    assert hash(tree_structure(Partial(pair, 1))) == hash(tree_structure(Partial(pair, 2)))
    assert tree_structure(Partial(pair, 1)) != tree_structure(Partial(same, 1))
    box = Box((1,))
    assert tree_structure(Partial([].append, 1)) != tree_structure(Partial(box.tree_flatten, 1))


@pytest.mark.parametrize("inner_kind", [functools.partial, Partial])
def test_partial_keeps_a_partial_function_whole(inner_kind):
    inner = inner_kind(pair, 1)
    outer = Partial(inner, 3)
    assert tree_leaves(outer) == [3]
    assert outer() == (1, 3)
    assert tree_structure(Partial(inner, 3)) == tree_structure(Partial(inner, 4))
    assert tree_structure(Partial(inner, 3)) != tree_structure(Partial(inner_kind(pair, 1), 3))
    assert tree_map(lambda x: x + 1, outer)() == (1, 4)
    assert repr(outer) == f"{PARTIAL}({inner!r}, 3)"
    assert pickle.loads(pickle.dumps(outer))() == (1, 3)


# Differences and prefixes, golden


DIFFERENCES = [
    ([1, 2], [1, 2, 3], "", "list of length 2", "list of length 3", "the lengths do not match"),
    ([1, 2], (1, 2), "", "<class 'list'>", "<class 'tuple'>", "their Python types differ"),
    (
        {"a": 1},
        {"a": 1, "b": 2},
        "",
        "<class 'dict'> with 1 child",
        "<class 'dict'> with 2 children",
        "the numbers of children do not match, with the symmetric difference of key sets: {'b'}",
    ),
    (
        {"a": 1, "c": 2},
        {"a": 1, "b": 2},
        "",
        "<class 'dict'> with pytree metadata ('a', 'c')",
        "<class 'dict'> with pytree metadata ('a', 'b')",
        "the pytree node metadata does not match",
    ),
    (
        {"x": [1, {"q": (1, 2)}]},
        {"x": [1, {"q": (1, 2, 3)}]},
        "['x'][1]['q']",
        "tuple of length 2",
        "tuple of length 3",
        "the lengths do not match",
    ),
    ([None], [1], "[0]", "<class 'NoneType'>", "<class 'int'>", "their Python types differ"),
    (1, [1, 2], "", "<class 'int'>", "<class 'list'>", "their Python types differ"),
    (
        Layer([1]),
        Layer((1,)),
        ".weight",
        "<class 'list'>",
        "<class 'tuple'>",
        "their Python types differ",
    ),
]


@pytest.mark.parametrize(("one", "other", "path", "thing1", "thing2", "why"), DIFFERENCES)
def test_equality_errors_golden(one, other, path, thing1, thing2, why):
    [(keys, *rest)] = equality_errors(one, other)
    assert (keystr(keys), *rest) == (path, thing1, thing2, why)
    [(keys, *_, why_treedef)] = equality_errors_pytreedef(
        tree_structure(one), tree_structure(other)
    )
    assert (keystr(keys), why_treedef) == (path, why)


def test_equality_errors_finds_all():
    found = equality_errors({"a": [1], "b": (2,), "c": 3}, {"a": (1,), "b": [2], "c": 4})
    assert [keystr(error[0]) for error in found] == ["['a']", "['b']"]
    assert list(equality_errors([None], [1], is_leaf=none_is_leaf)) == []


PREFIX_ERRORS = [
    ([1, 2], [1, 2, 3], "different lengths of list", ""),
    ({"x": [1, (1, 2)]}, {"x": [1, (1, 2, 3)]}, "different lengths of tuple", "['x'][1]"),
    ([1], 1, "different types", ""),
    (None, 1, "different types", ""),
    (Point(1, 2), Other(1, 2), "different types", ""),
    ((1, 2), Point(1, 2), "different types", ""),
    (Box((1, [2])), Box((1, (2,))), "different types", "[<flat index 1>]"),
    (Layer([1]), Layer((1,)), "different types", ".weight"),
    ({"a": 1}, {"a": 1, "b": 2}, "different numbers of pytree children", ""),
    (Box((1, 2)), Box((1, 2, 3)), "different numbers of pytree children", ""),
    ({"a": 1, "c": 2}, {"a": 1, "b": 2}, "different pytree metadata", ""),
    (Layer(1, "n"), Layer(1, "m"), "different pytree metadata", ""),
    (OrderedDict(a=1, b=2), OrderedDict(b=1, a=2), "different pytree metadata", ""),
    (defaultdict(int, a=1), defaultdict(list, a=1), "different pytree metadata", ""),
]


@pytest.mark.parametrize(("prefix", "full", "what", "path"), PREFIX_ERRORS)
def test_prefix_errors_golden(prefix, full, what, path):
    [make] = prefix_errors(prefix, full)
    error = make("f in_axes")
    assert type(error) is ValueError
    lines = str(error).splitlines()
    assert lines[0] == f"f in_axes: pytree structure error: {what} at key path"
    assert lines[1] == f"    f in_axes{path}"
    assert lines[2].startswith("  prefix pytree: ")
    assert lines[3].startswith("  full pytree: ")


@pytest.mark.parametrize(
    ("prefix", "full"), [(1, None), (1, [1, 2]), ([1], [None]), ([1, 2], [(1, 2), 2])]
)
def test_prefixes_golden(prefix, full):
    assert prefix_errors(prefix, full) == []


def test_prefix_errors_finds_all_and_obeys_is_leaf():
    errors = prefix_errors({"a": [1], "b": (2,)}, {"a": (1,), "b": [2]})
    assert ["['a']" in str(error("x")) for error in errors] == [True, False]
    [error] = prefix_errors([None, (1,)], [[1, 2], 3], is_leaf=none_is_leaf)
    assert "x[1]" in str(error("x"))


def test_prefix_error_of_none_names_the_remedy():
    [error] = prefix_errors([None], [1])
    assert "is_leaf=lambda x: x is None" in str(error("x"))


TREEDEF = tree_structure(({"a": 1, "b": [2, 3]}, 4))


@pytest.mark.parametrize(
    ("axes", "flat"),
    [
        (0, [0, 0, 0, 0]),
        (None, [None] * 4),
        ((None, 1), [None, None, None, 1]),
        (({"a": None, "b": 2}, 1), [None, 2, 2, 1]),
        (({"a": 0, "b": [1, None]}, "x"), [0, 1, None, "x"]),
    ],
)
def test_flatten_axes_golden(axes, flat):
    assert flatten_axes("vmap in_axes", TREEDEF, axes) == flat


def test_flatten_axes_over_none_nodes():
    assert flatten_axes("x", tree_structure((None, 1)), (0, 1)) == [1]
    assert flatten_axes("x", tree_structure((None, 1)), (None, 1)) == [1]


@pytest.mark.parametrize(
    ("axes", "what", "path"),
    [
        ([0, 1], "different types", ""),
        ((0, 1, 2), "different lengths of tuple", ""),
        (({"a": 0}, 1), "different numbers of pytree children", "[0]"),
        (({"a": 0, "b": (1, 2)}, 1), "different types", "[0]['b']"),
        ((0, (1,)), "different types", "[1]"),
    ],
)
def test_flatten_axes_error_golden(axes, what, path):
    with pytest.raises(
        ValueError, match=r"^vmap in_axes specification must be a tree prefix"
    ) as info:
        flatten_axes("vmap in_axes", TREEDEF, axes)
    assert f"pytree structure error: {what} at key path\n    vmap in_axes{path}\n" in str(
        info.value
    )


def test_flatten_axes_of_keywords():
    treedef = tree_structure(((1, 2), {"k": 3}))
    assert flatten_axes("jit in_shardings", treedef, ((0, 1), {"k": 2}), kws=True) == [0, 1, 2]
    assert flatten_axes("jit in_shardings", treedef, (0, 1), kws=True) == [0, 0, 1]
    with pytest.raises(ValueError, match=r"at key path\n    jit in_shardings\n.*tuple of length 3"):
        flatten_axes("jit in_shardings", treedef, ((0, 1, 2), {"k": 2}), kws=True)
    with pytest.raises(ValueError, match="jit in_shardings of the keyword arguments"):
        flatten_axes("jit in_shardings", treedef, ((0, 1), {}), kws=True)


def test_flatten_axes_builds_no_instance():
    class Picky:
        def __init__(self, item):
            assert item == 1
            self.item = item

    register_pytree_node(Picky, lambda node: ((node.item,), None), lambda _, items: Picky(*items))
    assert flatten_axes("x", tree_structure([Picky(1), 2]), [0, 1]) == [0, 1]
    with pytest.raises(ValueError, match="tree prefix"):
        flatten_axes("x", tree_structure([Picky(1), 2]), [[0], 1])


# Errors


@pytest.mark.parametrize(
    ("first", "second", "what", "path"),
    [
        ([1, 2], [1, 2, 3], "different lengths of list", "tree"),
        ([1, 2], (1, 2), "different types", "tree"),
        (
            {"a": [1, {"z": 1}]},
            {"a": [1, {"y": 1}]},
            "different pytree metadata",
            r"tree\['a'\]\[1\]",
        ),
        ({"a": 1, "b": 2}, {"a": 1}, "different numbers of pytree children", "tree"),
        ({"a": None}, {"a": 1}, "different types", r"tree\['a'\]"),
        (Layer(1, "n"), Layer(1, "m"), "different pytree metadata", "tree"),
        ([1], 1, "different types", "tree"),
    ],
)
def test_map_mismatch(first, second, what, path):
    text = rf"pytree structure error: {what} at key path\n    {path}\n  tree: .*\n  rest\[1\]: "
    with pytest.raises(ValueError, match=r"^tree_map: " + text):
        tree_map(lambda *xs: xs, first, first, second)
    with pytest.raises(ValueError, match=r"^tree_map_with_path: " + text):
        tree_map_with_path(lambda *xs: xs, first, first, second)


def test_map_mismatch_obeys_is_leaf():
    is_tuple = functools.partial(is_instance, tuple)
    with pytest.raises(ValueError, match=r"    tree\[1\]\n"):
        tree_map(lambda *xs: xs, [(3,), [1]], [((3,), (4,)), []], is_leaf=is_tuple)
    with pytest.raises(ValueError, match=r"    tree\[1\]\n"):
        tree_map_with_path(
            lambda *xs: xs,
            [(3,), [1]],
            [((3,), (4,)), []],
            is_leaf=lambda _, x: is_tuple(x),
            is_leaf_takes_path=True,
        )


@pytest.mark.parametrize(
    "flatten",
    [
        tree_leaves,
        tree_flatten,
        functools.partial(tree_map, id),
        tree_leaves_with_path,
        tree_flatten_with_path,
        functools.partial(tree_map_with_path, print),
    ],
)
def test_a_node_that_cannot_be_flattened_is_named(flatten):
    """Unless it is within what is_leaf says is a leaf."""
    bad = {1: 0, "a": 0}
    tree, is_tuple = [(bad,), {"x": bad}], functools.partial(is_instance, tuple)
    with pytest.raises(ValueError, match=r"Comparator raised exception.*\n  tree\[0\]\[0\]: "):
        flatten(tree)
    with pytest.raises(ValueError, match=r"Comparator raised exception.*\n  tree\[1\]\['x'\]: "):
        flatten(tree, is_leaf=is_tuple)
    if "path" in str(flatten):
        text = r"Comparator raised exception.*\n  tree\[1\]\['x'\]: "
        with pytest.raises(ValueError, match=text):
            flatten(tree, is_leaf=lambda _, x: is_tuple(x), is_leaf_takes_path=True)


def test_errors_of_the_mapped_function_pass_through():
    with pytest.raises(ValueError, match=r"^mine(\n|$)"):
        tree_map(fails_with(ValueError("mine")), [1], [2])


def fails_with(error):
    def function(*_):
        raise error

    return function


def test_unflatten_with_a_wrong_number_of_leaves():
    treedef = tree_structure({"a": 0, "b": [0, 0]})
    text = r"(?s)^tree_unflatten: Too few leaves for PyTreeDef; expected 3, got 1.*\['b'\]\[0\]"
    with pytest.raises(ValueError, match=text):
        tree_unflatten(treedef, iter([1]))
    with pytest.raises(
        ValueError, match=r"^tree_unflatten: Too many leaves for PyTreeDef; expected 3, got 4\."
    ):
        tree_unflatten(treedef, [1] * 4)
    with pytest.raises(TypeError, match=r"(?s)^tree_unflatten: leaves is not iterable.*leaves: 5"):
        tree_unflatten(treedef, 5)
    with pytest.raises(
        TypeError, match=r"(?s)^tree_unflatten: treedef is not a PyTreeDef.*<class 'list'>"
    ):
        tree_unflatten([1], treedef)


OPS = [
    (tree_flatten, "tree_flatten"),
    (tree_leaves, "tree_leaves"),
    (tree_structure, "tree_structure"),
    (tree_all, "tree_all"),
    (tree_flatten_with_path, "tree_flatten_with_path"),
    (tree_leaves_with_path, "tree_leaves_with_path"),
    (functools.partial(tree_map, str), "tree_map"),
    (functools.partial(tree_map_with_path, pair), "tree_map_with_path"),
    (functools.partial(tree_reduce, pair), "tree_reduce"),
    (functools.partial(tree_reduce_associative, pair), "tree_reduce_associative"),
]


@pytest.mark.parametrize(("op", "name"), OPS, ids=[name for _, name in OPS])
@pytest.mark.parametrize(
    "kind", [dict, functools.partial(defaultdict, int)], ids=["dict", "defaultdict"]
)
def test_unsortable_keys(op, name, kind):
    text = (
        rf"(?s)^{name}: Comparator raised exception while sorting pytree dictionary "
        r"keys.*tree\[1\]\['q'\].*1, 'a'"
    )
    with pytest.raises(ValueError, match=text):
        op([0, {"q": kind({1: 1, "a": 2})}])


def test_unsortable_keys_in_a_further_tree():
    with pytest.raises(
        ValueError, match=r"(?s)^tree_map: Comparator raised exception.*rest\[0\]\['q'\].*1, 'a'"
    ):
        tree_map(pair, {"q": {1: 1}}, {"q": {1: 1, "a": 2}})
    assert tree_map(lambda _, sub: len(sub), {"q": 0}, {"q": {1: 1, "a": 2}}) == {"q": 2}


@pytest.mark.parametrize(("op", "name"), OPS, ids=[name for _, name in OPS])
def test_tree_that_contains_itself(op, name):
    tree = []
    tree.append(tree)
    with pytest.raises(RecursionError, match=f"^{name}: .*contains itself"):
        op(tree)


@pytest.mark.parametrize(("op", "name"), OPS, ids=[name for _, name in OPS])
def test_is_leaf_that_is_no_function(op, name):
    with pytest.raises(TypeError, match=rf"(?s)^{name}: is_leaf is not a function.*is_leaf: 3"):
        op([1], is_leaf=3)


def test_is_leaf_that_returns_no_bool():
    with pytest.raises(ValueError, match="non-boolean value 'yes'"):
        tree_leaves([1], is_leaf=lambda _: "yes")
    with pytest.raises(ZeroDivisionError):
        tree_leaves([1], is_leaf=lambda _: 1 / 0)


def bad_node(result, with_keys=None):
    class Bad:
        pass

    keyed = None if with_keys is None else lambda _: with_keys
    register_pytree_node(Bad, lambda _: result, lambda *_: None, keyed)
    return Bad()


@pytest.mark.parametrize("result", [3, (1, 2, 3), (1, 2), [(1,), 2]])
def test_flatten_function_with_a_wrong_result(result):
    text = (
        r"(?s)^tree_leaves: The to_iterable .*should return a \(children, aux_data\) "
        r"tuple.*tree\['a'\]: .*Bad"
    )
    with pytest.raises(ValueError, match=text):
        tree_leaves({"a": bad_node(result)})


@pytest.mark.parametrize("result", [3, ((1,), 2), ((("k", 1, 3),), 2)])
def test_flatten_with_keys_function_with_a_wrong_result(result):
    text = (
        r"(?s)to_iterable_with_keys function .*should return a \(key_leaf_pairs, aux_data\) "
        r"tuple.*tree\[0\]: .*Bad"
    )
    with pytest.raises(ValueError, match=text):
        tree_flatten_with_path([bad_node(((1,), 2), result)])


def test_derived_flatten_function_with_a_wrong_result():
    class Bad:
        pass

    register_pytree_with_keys(Bad, lambda _: 3, lambda *_: None)
    with pytest.raises(ValueError, match=r"should return a \(children, aux_data\) tuple"):
        tree_leaves(Bad())


def test_errors_of_flatten_functions_pass_through():
    class Bad:
        pass

    register_pytree_node(Bad, fails_with(ValueError("mine")), lambda *_: None)
    with pytest.raises(ValueError, match=r"^mine(\n|$)"):
        tree_leaves([Bad()])


def test_registering_twice():
    text = "Duplicate custom PyTreeDef type registration for <class "
    with pytest.raises(ValueError, match=r"^register_pytree_node: " + text):
        register_pytree_node(Box, len, len)
    with pytest.raises(ValueError, match=r"^register_pytree_node: " + text):
        register_pytree_node(list, len, len)
    with pytest.raises(ValueError, match=r"^register_pytree_with_keys: " + text):
        register_pytree_with_keys(Box, len, len)
    with pytest.raises(ValueError, match=r"^register_pytree_node_class: " + text):
        register_pytree_node_class(Box)
    with pytest.raises(ValueError, match=r"^register_static: " + text):
        register_static(Mode)
    with pytest.raises(
        ValueError, match=r"^register_dataclass: Duplicate custom dataclass PyTreeDef type"
    ):
        register_dataclass(Layer)


@pytest.mark.parametrize(
    "register",
    [
        lambda it: register_pytree_node(it, len, len),
        lambda it: register_pytree_with_keys(it, len, len),
        register_pytree_node_class,
        register_pytree_with_keys_class,
        register_static,
        register_dataclass,
    ],
)
def test_registering_what_is_no_class(register):
    with pytest.raises(
        TypeError, match=r"(?s)^register_\w+: the type to register is not a class.*got: 3"
    ):
        register(3)


def test_registering_without_functions():
    class Plain:
        pass

    for name, arguments in [("flatten_func", (1, len)), ("unflatten_func", (len, 2))]:
        with pytest.raises(TypeError, match=f"^register_pytree_node: {name} is not a function"):
            register_pytree_node(Plain, *arguments)
    with pytest.raises(TypeError, match=r"flatten_with_keys_func is not a function"):
        register_pytree_node(Plain, len, len, 3)
    with pytest.raises(
        TypeError, match=r"^register_pytree_with_keys: flatten_with_keys is not a function"
    ):
        register_pytree_with_keys(Plain, 1, len)
    with pytest.raises(
        TypeError, match=r"^register_pytree_with_keys: flatten_func is not a function"
    ):
        register_pytree_with_keys(Plain, len, len, 4)
    with pytest.raises(
        AttributeError, match=r"^register_pytree_node_class: .*no attribute 'tree_flatten'"
    ):
        register_pytree_node_class(Plain)
    with pytest.raises(AttributeError, match="has no attribute 'tree_flatten_with_keys'"):
        register_pytree_with_keys_class(Plain)
    assert not is_tree_node(Plain)


@pytest.mark.parametrize(
    ("lists", "kind", "text"),
    [
        (
            (["a"], ["b"]),
            ValueError,
            r"Missing fields: \{'d'\}\. Add them to drop_fields to suppress this error",
        ),
        ((["a", "q"], ["b", "d"]), ValueError, r"Unexpected fields: \{'q'\}"),
        (
            (["a", "c"], ["b", "d"]),
            ValueError,
            r"Unexpected fields: \{'c'\}.*init=False cannot be restored",
        ),
        ((["a", "b"], ["b", "d"]), ValueError, r"must not overlap\. Overlapping fields: \{'b'\}"),
        ((["a", "b", "d"], [], ["d"]), ValueError, r"Unexpected fields: \{'d'\}"),
        (
            (),
            ValueError,
            r"must include all dataclass fields with ``init=True``.*Unexpected fields: \{'c'\}",
        ),
        ((["a", "b", "d"],), TypeError, "must both be specified when either is specified"),
        ((None, ["a", "b", "d"]), TypeError, "must both be specified when either is specified"),
    ],
)
def test_dataclass_with_wrong_fields(lists, kind, text):
    with pytest.raises(kind, match=f"(?s)^register_dataclass: .*{text}"):
        register_dataclass(make_dataclass(), *lists)


def test_plain_class_as_dataclass_needs_lists():
    class Plain:
        pass

    text = (
        "^register_dataclass: data_fields and meta_fields are required when nodetype is not a "
        "dataclass"
    )
    with pytest.raises(TypeError, match=text):
        register_dataclass(Plain)


def test_reductions_of_nothing():
    with pytest.raises(
        TypeError, match=r"^tree_reduce: reduce\(\) of empty iterable with no initial value"
    ):
        tree_reduce(pair, [])
    with pytest.raises(TypeError, match=r"^tree_reduce_associative: Must specify identity"):
        tree_reduce_associative(pair, [])


def test_transpose_mismatch():
    outer, inner = tree_structure([0, 0]), tree_structure({"a": 0, "b": 0})
    text = (
        r"(?s)^tree_transpose: Mismatch.*pytree_to_transpose\[0\]\['b'\]: expected a leaf, got "
        r"<class 'list'>"
    )
    with pytest.raises(TypeError, match=text):
        tree_transpose(outer, inner, [{"a": 1, "b": [2, 2]}, {"a": 3, "b": 4}])
    with pytest.raises(
        ValueError, match=r"(?s)different types at key path.*pytree_to_transpose: <class 'tuple'>"
    ):
        tree_transpose(outer, None, ({"a": 1, "b": 2}, {"a": 3, "b": 4}))
    with pytest.raises(ValueError, match="inner_treedef must be given"):
        tree_transpose(tree_structure([]), None, [])
    with pytest.raises(TypeError, match="outer_treedef is not a PyTreeDef"):
        tree_transpose([0], inner, [])
    with pytest.raises(TypeError, match="inner_treedef is not a PyTreeDef"):
        tree_transpose(outer, [0], [])


def test_broadcast_mismatch():
    with pytest.raises(
        ValueError, match=r"^tree_broadcast prefix_tree: .*\n    tree_broadcast prefix_tree\[1\]\n"
    ):
        tree_broadcast([1, {"a": 3}], [0, (3, 4)])
    with pytest.raises(
        ValueError, match=r"^broadcast_prefix prefix_tree: .*different lengths of list"
    ):
        broadcast_prefix([1, 2, 3], [0, (3, 4)])


def test_one_level_of_a_leaf():
    with pytest.raises(
        ValueError, match=r"^flatten_one_level: can't tree-flatten type: <class 'int'>"
    ):
        flatten_one_level(3)
    with pytest.raises(
        ValueError, match=r"^flatten_one_level_with_keys: can't tree-flatten type: <class 'int'>"
    ):
        flatten_one_level_with_keys(3)


def test_structures_of_other_kinds():
    with pytest.raises(TypeError, match=r"^treedef_tuple: treedefs\[1\] is not a PyTreeDef"):
        treedef_tuple([tree_structure(1), 1])
    with pytest.raises(TypeError, match=r"^treedef_children: treedef is not a PyTreeDef"):
        treedef_children([1])
    with pytest.raises(TypeError, match=r"^treedef_is_leaf: treedef is not a PyTreeDef"):
        treedef_is_leaf([1])


def test_partial_of_no_function():
    with pytest.raises(TypeError, match="the first argument must be callable"):
        Partial(3)


# Public modules


def test_faces_hand_on_the_mechanism():
    for name in tree_face.__all__:
        source = name if name == "static" else f"tree_{name}"
        assert getattr(tree_face, name) is vars(pytrees)[source]
    for name in tree_util.__all__:
        assert getattr(tree_util, name) is vars(pytrees)[name]


def test_no_module_named_jax_is_loaded():
    code = (
        "import sys, pickle; from teucer import tree; t = tree.structure([1, {'a': "
        "2}]);pickle.loads(pickle.dumps(t)); assert not [m for m in sys.modules if "
        "m.split('.')[0] == 'jax']"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_paths_of_a_namedtuple_registered_with_other_children():
    Wrapped = namedtuple("Wrapped", "a b")
    tree_util.register_pytree_node(
        Wrapped, lambda w: ((w.a,), w.b), lambda b, children: Wrapped(*children, b)
    )
    treedef = tree_util.tree_structure({"x": Wrapped(1, 2)})
    assert [tree_util.keystr(path) for path in pytrees.leaf_paths(treedef)] == [
        "['x'][<flat index 0>]"
    ]


@pytest.mark.parametrize(
    "value", [jnp.arange(3), np.arange(3), ("a", jnp.arange(2))], ids=["jax", "numpy", "within"]
)
def test_an_array_as_a_static_field_is_refused_by_name(value):
    """At every call, also at those that C++ would answer."""

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Layer:
        weight: object
        table: object = dataclasses.field(metadata={"static": True})

    f = jax.jit(lambda tree: tree["layer"].weight * 2)
    for _ in range(3):
        with pytest.raises(ValueError, match=r"(?s)static field.*Layer\.table.*test_pytrees"):
            f({"layer": Layer(1.0, value)})
    assert f({"layer": Layer(1.0, "fixed")}) == 2.0
    assert f({"layer": Layer(1.0, jnp.float32(2))}) == 2.0  # which is equal to itself
