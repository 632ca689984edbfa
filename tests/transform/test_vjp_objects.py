"""The backward pass as an object: what it has saved, what is left out, and what is given back."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp

W, X = jnp.eye(3) * 2.0, jnp.arange(6.0).reshape(2, 3)


def layer(w, x):
    return jnp.tanh(x @ w)


def test_what_is_saved():
    _, pull = jax.vjp(layer, W, X)
    assert pull.args_res[0] is W and pull.args_res[1] is X
    assert [r.shape for r in pull.opaque_residuals] == [(2, 3), (2, 3)]
    assert len(jax.tree.leaves(pull)) == 4
    _, pull = jax.vjp(jnp.sin, X)
    assert repr(pull.args_res) == "[NotNeeded()]"


def test_what_is_not_saved_is_given_back():
    y, pull = jax.vjp(layer, W, X)
    expected = pull(y)
    _, pull = jax.vjp(layer, W, X, saveable_args=(False, True))
    assert repr(pull.args_res[0]) == "NotSaveable()"
    assert len(jax.tree.leaves(pull)) == 3
    with pytest.raises(
        ValueError,
        match=r"(?s)before restoring its not-saveable residuals.*args\[0\] of layer is NotSaveable",
    ):
        pull(y)
    other = pull.replace(args_res=[W, pull.args_res[1]])
    pull.args_res[0] = W
    for restored in (pull, other):
        for got, want in zip(restored(y), expected, strict=True):
            np.testing.assert_array_equal(got, want)


def test_across_jit():
    fwd = jax.jit(lambda w, x: jax.vjp(layer, w, x, saveable_args=(False, True)))

    @jax.jit
    def bwd(pull, w, ct):
        pull.args_res[0] = w
        return pull(ct)

    for scale in (1.0, 3.0):
        y, pull = fwd(W * scale, X)
        _, whole = jax.vjp(layer, W * scale, X)
        for got, want in zip(bwd(pull, W * scale, y), whole(y), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)
    assert bwd._cache_size() == 1


def test_arguments_are_given_back_in_their_trees():
    d = {"a": jnp.ones((2, 2)), "b": jnp.eye(2), "c": jnp.ones(3)}
    _, pull = jax.vjp(lambda d: d["a"] @ d["b"], d, saveable_args=((True, False, False),))
    assert (
        repr(pull.args_res[0]["b"]) == "NotSaveable()"
        and repr(pull.args_res[0]["c"]) == "NotNeeded()"
    )
    pull.args_res = [d]
    np.testing.assert_array_equal(pull(jnp.ones((2, 2)))[0]["a"], np.ones((2, 2)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([None, X], r"args\[0\] of layer is None"),
        ([W, X[:1]], r"args\[1\] of layer is of type float32\[1,3\], but it was float32\[2,3\]"),
        ([W], "args_res has 1 entries, but layer has 2 arguments"),
    ],
)
def test_what_cannot_be_given_back(given, message):
    y, pull = jax.vjp(layer, W, X)
    pull.args_res = given
    with pytest.raises(ValueError, match=message):
        pull(y)


@pytest.mark.parametrize(
    ("bools", "message"),
    [
        ((True,), r"saveable_args has 1 children while the corresponding container has 2"),
        ((True, 0), r"saveable_args\[1\] is 0 of type int"),
        (
            (True, (True,)),
            (
                r"saveable_args\[1\] is a container while the corresponding part of the values is "
                r"a leaf"
            ),
        ),
    ],
)
def test_trees_of_bools(bools, message):
    with pytest.raises(ValueError, match="saveable_args argument to jax.vjp must.*" + message):
        jax.vjp(layer, W, X, saveable_args=bools)
    with pytest.raises(ValueError, match="keys"):
        jax.linearize(lambda d: d["a"], {"a": X}, in_nzs=({"b": True},))


def test_arguments_that_do_not_move():
    def f(x, y):
        return {"x": 2 * x, "y": 3 * y, "both": [x * y]}

    _, pull = jax.vjp(f, 2.0, 3.0, in_nzs=(True, False))
    assert pull.out_nzs == {"both": [True], "x": True, "y": False}
    assert pull({"x": 1.0, "y": 1.0, "both": [1.0]}) == (5.0, 0.0)
    _, push = jax.linearize(f, 2.0, 3.0, in_nzs=(True, False))
    assert push.out_nzs == pull.out_nzs
    assert push(1.0, 1.0) == {"x": 2.0, "y": 0.0, "both": [3.0]}


def test_the_jaxpr_of_a_linear_map():
    _, push = jax.linearize(jnp.sin, X)
    assert "mul" in str(push.func.args[0])
    assert isinstance(push, jax.tree_util.Partial)
    again = jax.jit(lambda p, t: p(t))(push, X)
    np.testing.assert_allclose(again, jnp.cos(X) * X, rtol=1e-6)


def read(ref):
    return ref[...] ** 2


def overwrite(ref):
    ref[...] = jnp.sin(ref[...])
    return ref[...] ** 2


@pytest.mark.parametrize("start", [0.0, 100.0])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
@pytest.mark.parametrize(
    ("f", "held", "slope", "kept"),
    [(read, 2.0, 4.0, 1.0), (overwrite, np.sin(2.0), 2 * np.sin(2.0) * np.cos(2.0), np.cos(2.0))],
)
def test_gradients_by_references(f, held, slope, kept, wrap, start):
    ref, total = jax.new_ref(2.0), jax.new_ref(start)

    @wrap
    def both(ref, total):
        y, pull = jax.vjp(f, ref)
        pull.with_refs(total)(1.0)
        return y

    np.testing.assert_allclose(both(ref, total), held**2, rtol=1e-6)
    np.testing.assert_allclose(ref[...], held, rtol=1e-6)
    np.testing.assert_allclose(total[...], start * kept + slope, rtol=1e-6)


def test_gradients_by_references_need_one_to_go_to():
    n, ref = jax.new_ref(1), jax.new_ref(jnp.ones(3))

    def f(ref, x, n):
        n[...] += 1
        ref[...] = ref[...] * x
        return ref[0] * x

    y, pull = jax.vjp(f, ref, 2.0, n)
    assert (y, n[...], ref[0]) == (4.0, 2, 2.0)
    for call in (pull, pull.with_refs(jax.ad.GradValue(), jax.ad.GradValue(), jax.ad.DontWant())):
        with pytest.raises(
            ValueError,
            match=r"args\[0\] of f is Ref-typed, so its gradient must be accumulated into a ref",
        ):
            call(1.0)
    total = jax.new_ref(jnp.zeros(3))
    _, x_bar, _ = pull.with_refs(total, jax.ad.GradValue(), jax.ad.DontWant())(1.0)
    assert x_bar == 4.0 and total[...].tolist() == [4.0, 0.0, 0.0]
    assert pull.with_refs(jax.ad.DontWant(), jax.ad.GradValue(), jax.ad.DontWant())(1.0)[1] == 4.0
    with pytest.raises(ValueError, match="linearize with respect to a reference"):
        jax.linearize(read, jax.new_ref(2.0))


class Same:
    """A function around another, equal to all others of its kind, as libraries put them."""

    def __init__(self, fun):
        self.fun = fun

    def __call__(self, *args):
        return self.fun(*args)

    def __eq__(self, other):
        return isinstance(other, Same)

    def __hash__(self):
        return 0


def test_a_library_puts_its_function_around_the_backward_pass():
    y, one = jax.vjp(lambda w, x: jnp.tanh(x @ w), W, X)
    _, other = jax.vjp(lambda w, x: jnp.tanh(x @ w), W, X)
    expected = one(y)
    assert jax.tree.structure(one) != jax.tree.structure(other)  # two functions
    one.fun, other.fun = Same(one.fun), Same(other.fun)
    assert jax.tree.structure(one) == jax.tree.structure(other)
    leaves, tree = jax.tree.flatten(one)
    for pull in (one, tree.unflatten(leaves), one.replace(args_res=one.args_res)):
        assert pull.in_tree == other.in_tree and isinstance(pull.fun, Same)
        for got, want in zip(pull(y), expected, strict=True):
            np.testing.assert_array_equal(got, want)

    @jax.jit
    def forward(w, x):
        out, pull = jax.vjp(layer, w, x)
        pull.fun = Same(pull.fun)
        return out, pull

    for got, want in zip(forward(W, X)[1](y), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
