"""Classes of libraries that say what `vmap` maps over of their objects."""

import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.interpreters import batching


class Named:
    """An array whose axes have names."""

    def __init__(self, names, x):
        self.names, self.x = names, x


class Along:
    """As in_axes and out_axes: the axis of a name."""

    def __init__(self, name):
        self.name = name


jax.tree_util.register_pytree_node(
    Named, lambda a: ((a.x,), a.names), lambda names, leaves: Named(names, *leaves)
)
X = jnp.arange(6.0).reshape(2, 3)


def to_elt(cont, _, batch, spec):
    i = batch.names.index(spec.name)
    return Named(batch.names[:i] + batch.names[i + 1 :], cont(batch.x, i))


def from_elt(cont, size, element, spec):
    return Named((spec.name, *element.names), cont(size, element.x, 0))


@pytest.fixture(autouse=True)
def registered():
    batching.register_vmappable(Named, Along, int, to_elt, from_elt, None)
    yield
    batching.unregister_vmappable(Named)


def same(named, names, x):
    assert named.names == names
    assert named.x.tolist() == jnp.asarray(x).tolist()


def test_elements_and_batches():
    made, sums = jax.vmap(
        lambda a: (Named(a.names, a.x * 2), a.x.sum()),
        in_axes=(Along("b"),),
        out_axes=(Along("c"), 0),
    )(Named(("a", "b"), X))
    same(made, ("c", "a"), X.T * 2)
    assert (sums == X.sum(0)).all()


def test_an_axis_of_none_and_one_of_an_array():
    made = jax.vmap(lambda a, y: Named(a.names, a.x * y), in_axes=(None, 0), out_axes=Along("c"))(
        Named(("a", "b"), X), X[0]
    )
    same(made, ("c", "a", "b"), X * X[0][:, None, None])


def test_in_trees_nested_and_not_mapped():
    def f(tree):
        return {"r": [Named(tree["q"].names, tree["q"].x + 1), 1.0]}

    made = jax.vmap(f, in_axes=({"q": Along("b")},), out_axes={"r": [Along("c"), None]})(
        {"q": Named(("a", "b"), X)}
    )["r"]
    same(made[0], ("c", "a"), X.T + 1)
    assert made[1] == 1.0
    twice = jax.vmap(
        jax.vmap(lambda a: a, in_axes=(Along("a"),), out_axes=Along("a")),
        in_axes=(Along("b"),),
        out_axes=Along("b"),
    )
    same(twice(Named(("a", "b"), X)), ("b", "a"), X.T)
    same(jax.vmap(lambda: Named((), X[0, 1]), axis_size=2, out_axes=Along("c"))(), ("c",), [1, 1])


def test_under_jit_and_grad():
    def f(x):
        return jax.vmap(lambda a: (a.x**2).sum(), in_axes=(Along("b"),))(Named(("a", "b"), x)).sum()

    assert (jax.jit(jax.grad(f))(X) == 2 * X).all()


def test_what_cannot_be_a_batch():
    batching.register_vmappable(
        Named, Along, int, to_elt, lambda cont, size, element, spec: element, None
    )
    with pytest.raises(ValueError, match="from_elt does not make a batch of it"):
        jax.vmap(lambda a: a, in_axes=(Along("b"),), out_axes=Along("b"))(Named(("a", "b"), X))
    with pytest.raises(NotImplementedError, match="the size of an axis is an int"):
        batching.register_vmappable(Named, Along, float, to_elt, from_elt, None)
