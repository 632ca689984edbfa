"""Trees of values: mapping, paths, transposition, classes that are nodes."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import teucer as jax
import teucer.numpy as jnp
from teucer import tree_util as tu
from teucer.flatten_util import ravel_pytree

tree = [1, {"k1": 2, "k2": (3, 4)}, 5, None]
leaves, td = jax.tree.flatten(tree)
print(leaves, td)
print(jax.tree.unflatten(td, [10, 20, 30, 40, 50]))
print(jax.tree.map(lambda x: x * 2, tree), jax.tree.leaves(tree), jax.tree.structure(tree))
print(jax.tree.map(lambda x, y: x + y, [1, (2, 3)], [10, (20, 30)]))
print(jax.tree.reduce(lambda a, b: a + b, tree), jax.tree.all([True, (True,)]))
Pt = namedtuple("Pt", "x y")
print(jax.tree.map(lambda v: v + 1, Pt(1, 2)), jax.tree.structure(Pt(1, [2])))
print(
    jax.tree.transpose(
        jax.tree.structure([0, 0]),
        jax.tree.structure({"a": 0, "b": 0}),
        [{"a": 1, "b": 2}, {"a": 3, "b": 4}],
    )
)


class Special:
    def __init__(self, x, y):
        self.x, self.y = (x, y)

    def __repr__(self):
        return f"Special({self.x}, {self.y})"


tu.register_pytree_node(Special, lambda s: ((s.x, s.y), None), lambda aux, ch: Special(*ch))
print(jax.tree.map(lambda v: v + 1, Special(1, (2, 3))), jax.tree.structure(Special(1, 2)))


@tu.register_pytree_node_class
class Box:
    def __init__(self, v, n):
        self.v, self.n = (v, n)

    def tree_flatten(self):
        return ((self.v,), self.n)

    @classmethod
    def tree_unflatten(cls, aux, ch):
        return cls(*ch, aux)


print(
    jax.tree.structure(Box(1, "nm")), jax.jit(lambda b: Box(b.v * 2, b.n))(Box(jnp.ones(2), "q")).n
)


@tu.register_dataclass
@dataclass
class DC:
    a: float
    b: float


print(jax.grad(lambda d: d.a * d.b)(DC(2.0, 3.0)))
print(
    jax.tree.leaves_with_path({"a": [1, (2,)], "b": Pt(3, 4)})
    if hasattr(jax.tree, "leaves_with_path")
    else 0
)
for p, l in tu.tree_flatten_with_path(
    {"a": [1, (2,)], "b": Pt(3, 4), "s": Special(5, 6), "d": DC(1.0, 2.0)}
)[0]:
    print(tu.keystr(p), l, tu.keystr(p, simple=True, separator="/"))
print(tu.tree_map_with_path(lambda p, x: tu.keystr(p) + str(x), {"a": 1, "b": [2]}))
print(
    jax.tree.map(lambda x: x, {"b": 1, "a": 2}),
    jax.tree.leaves({"b": 1, "a": 2}),
    jax.tree.leaves(OrderedDict([("b", 1), ("a", 2)])),
)
print(jax.tree.map(lambda x: x is None, [None, 1], is_leaf=lambda x: x is None))
print(
    td == jax.tree.structure(tree),
    td.num_leaves,
    td.num_nodes,
    jax.tree.structure([1]).compose(jax.tree.structure((1, 2))),
)
v, un = ravel_pytree({"w": jnp.ones((2, 2)), "b": jnp.arange(2)})
print(v, un(v * 2))
p = tu.Partial(lambda a, b: a + b, 1.0)
print(jax.jit(lambda f, x: f(x))(p, 2.0))
print(
    tu.tree_leaves([None, 1]),
    tu.tree_structure(None),
    tu.all_leaves([1, 2]),
    tu.all_leaves([[1], 2]),
)
print(jax.tree.broadcast(1, [1, 2]) if hasattr(jax.tree, "broadcast") else "")
print(
    jax.tree.structure({"a": (1, [2, None])}),
    str(tu.SequenceKey(0)),
    repr(tu.DictKey("a")),
    tu.GetAttrKey("q"),
    tu.FlattenedIndexKey(3),
)
