"""`vmap`: axes, trees, names, errors, nestings."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

A = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_axes():
    np.testing.assert_array_equal(jax.vmap(jnp.sum)(A), A.sum(1))
    np.testing.assert_array_equal(jax.vmap(jnp.sum, in_axes=1)(A), A.sum(0))
    np.testing.assert_array_equal(jax.vmap(jnp.sum, in_axes=-1)(A), A.sum(0))
    np.testing.assert_array_equal(jax.vmap(lambda x: x * 2, out_axes=1)(A), 2 * A.T)
    np.testing.assert_array_equal(jax.vmap(lambda x: x * 2, out_axes=-1)(A), 2 * A.T)
    np.testing.assert_array_equal(
        jax.vmap(lambda x, y: x + y, in_axes=(0, None))(A, A[0]), A + A[0]
    )
    np.testing.assert_array_equal(jax.vmap(lambda x: 7.0, axis_size=3)(jnp.zeros(3)), [7, 7, 7])
    assert jax.vmap(lambda x: 7.0, out_axes=None)(A) == 7.0


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("out_axis", range(-5, 5))
@pytest.mark.parametrize("in_axis", range(-4, 4))
def test_every_axis(in_axis, out_axis):
    """Every axis in and out, from either end; those that do not exist are refused."""
    mapped = jax.vmap(lambda x, y: (x * y, y * 2), (in_axis, None), (out_axis, out_axis))
    if not -3 <= in_axis < 3:
        with pytest.raises(ValueError, match=f"along axis {in_axis}, which implies that its rank"):
            mapped(X, 2.0)
        return
    parts = np.moveaxis(X, in_axis, 0)
    y = np.arange(parts[0].size, dtype=np.float32).reshape(parts[0].shape)
    if not -3 <= out_axis < 3:
        with pytest.raises(ValueError, match=f"axis {out_axis} is out of bounds for array of dim"):
            mapped(X, y)
        return
    products, twice = mapped(X, y)
    np.testing.assert_array_equal(products, np.stack([x * y for x in parts], out_axis))
    np.testing.assert_array_equal(twice, np.stack([y * 2] * len(parts), out_axis))


def test_trees_of_axes():
    def f(d, x):
        return {"s": d["a"] * x, "t": (d["b"], x)}

    d = {"a": jnp.arange(3.0), "b": jnp.ones((2, 3))}
    out = jax.vmap(f, in_axes=({"a": 0, "b": 1}, None), out_axes={"s": 0, "t": (1, None)})(d, 2.0)
    np.testing.assert_array_equal(out["s"], [0, 2, 4])
    assert out["t"][0].shape == (2, 3)
    assert out["t"][1] == 2.0
    np.testing.assert_array_equal(
        jax.vmap(lambda x, y=0: x + y)(jnp.arange(2.0), y=jnp.arange(2.0)), [0, 2]
    )


def test_nested_and_transposed():
    outer = jax.vmap(jax.vmap(lambda x, y: x * y, (None, 0)), (0, None))
    np.testing.assert_array_equal(outer(A[0], A[1]), np.outer(A[0], A[1]))
    np.testing.assert_allclose(
        jax.jit(jax.vmap(jax.grad(lambda x: jnp.sin(x) ** 2)))(A[0]), np.sin(2 * A[0]), atol=1e-6
    )
    np.testing.assert_allclose(
        jax.grad(lambda x: jax.vmap(jnp.sin)(x).sum())(A[0]), np.cos(A[0]), atol=1e-6
    )


def test_per_example_gradients():
    w = jnp.ones(3)
    loss = lambda w, x, y: (jnp.dot(w, x) - y) ** 2
    g = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(w, A, jnp.zeros(2))
    expected = np.stack([2 * x.sum() * x for x in A])
    np.testing.assert_allclose(g, expected)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: jax.vmap(lambda x, y: x)(jnp.ones(3), jnp.ones(4)),
            ValueError,
            r"inconsistent sizes.*\n  \* one axis had size 3: axis 0 of argument x of type "
            r"float32\[3\];\n  \* one axis had size 4: axis 0 of argument y of type float32\[4\]",
        ),
        (
            lambda: jax.vmap(lambda *a: 0)(
                jnp.ones(3), jnp.ones(2), jnp.ones(2), jnp.ones(3), jnp.ones(3)
            ),
            ValueError,
            (
                r"\* most axes \(3 of them\) had size 3, e.g. axis 0 of argument a\w*\[0\] .*\* "
                r"some axes \(2 of them\) had size 2"
            ),
        ),
        (
            lambda: jax.vmap(lambda x: x, axis_size=2)(A[0]),
            ValueError,
            r"\* the `axis_size` argument was 2;\n  \* one axis had size 3",
        ),
        (
            lambda: jax.vmap(lambda x: x, in_axes=2)(A),
            ValueError,
            r"rank should be at least 3, but is only 2",
        ),
        (
            lambda: jax.vmap(lambda x: x)(1.0),
            ValueError,
            "rank should be at least 1, but is only 0",
        ),
        (lambda: jax.vmap(lambda x: x, in_axes=(0, 0))(A), ValueError, "in_axes"),
        (lambda: jax.vmap(lambda x: x, in_axes="a")(A), TypeError, "in_axes must be an int, None"),
        (
            lambda: jax.vmap(lambda x: x, in_axes=None)(A),
            ValueError,
            "at least one non-None value in in_axes",
        ),
        (lambda: jax.vmap(lambda: 1)(), ValueError, "at least one argument"),
        (
            lambda: jax.vmap(lambda x: x, out_axes=None)(A),
            ValueError,
            "at vmap out_axes, got axis spec None but output was",
        ),
        (lambda: jax.vmap(lambda x: x, out_axes=5)(A), ValueError, "out of bounds"),
        (lambda: jax.vmap(lambda x: x, out_axes=(0, 0))(A), ValueError, "out_axes"),
        (lambda: jax.vmap(lambda x: x, in_axes=({"a": 0},))({"b": A}), ValueError, "in_axes"),
        (lambda: jax.vmap(lambda x: x)("a"), TypeError, "argument x"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        call()


def test_bool_of_batched_value():
    with pytest.raises(jax.errors.TracerBoolConversionError):
        jax.vmap(lambda x: x if x > 0 else -x)(A[0])


def test_custom_vmap():
    @jax.custom_batching.custom_vmap
    def f(x, y):
        return x + y

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        assert axis_size == 3
        assert in_batched == [True, False]
        return x * 10 + y, True

    assert f(1.0, 2.0) == 3.0
    for wrap in (lambda g: g, jax.jit):
        np.testing.assert_array_equal(
            wrap(jax.vmap(f, in_axes=(0, None)))(jnp.arange(3.0), 1.0), [1, 11, 21]
        )
    y, t = jax.jvp(
        lambda x: jax.vmap(f, in_axes=(0, None))(x, 1.0), (jnp.arange(3.0),), (jnp.ones(3),)
    )
    np.testing.assert_array_equal(t, [10, 10, 10])
    np.testing.assert_array_equal(
        jax.vmap(lambda x: jax.jvp(lambda x: f(x, 1.0), (x,), (1.0,)))(jnp.arange(3.0))[0],
        [1, 11, 21],
    )
    assert jax.grad(f)(1.0, 2.0) == 1.0


def test_custom_vmap_errors():
    g = jax.custom_batching.custom_vmap(lambda x: x)
    for f in (g, jax.vmap(g), jax.jit(g)):
        with pytest.raises(AttributeError, match="def_vmap"):
            f(jnp.ones(2))
    g.def_vmap(lambda n, b, x: x)
    with pytest.raises(TypeError, match="pair"):
        jax.vmap(g)(jnp.ones(2))


@pytest.mark.parametrize("again", [lambda g: g, jax.jit, lambda g: lambda x: jax.jvp(g, [x], [x])])
@pytest.mark.parametrize(
    ("out", "out_batched", "message"),
    [
        (lambda x: [x, x], [True], r"value and output batching .*rule \(rule\) do not match"),
        (lambda x: x, [True], r"value and output batching .*rule \(rule\) do not match"),
        (lambda x: [x], [True], r"output returned by custom vmap rule \(rule\) does not match"),
        (lambda x: (x, x), (True, True), r"returned by custom vmap rule \(rule\) does not match"),
    ],
)
def test_a_custom_vmap_rule_returns_what_its_function_does(out, out_batched, message, again):
    """Also where the function itself never runs, as under vmap."""
    f = jax.custom_batching.custom_vmap(lambda x: x)

    @f.def_vmap
    def rule(axis_size, in_batched, x):
        return out(x), out_batched

    with pytest.raises(ValueError, match=message):
        again(jax.vmap(f))(jnp.arange(3.0))


def test_sequential_vmap():
    f = jax.custom_batching.sequential_vmap(lambda x, y: x @ y)
    np.testing.assert_allclose(jax.vmap(f, (0, None))(A, jnp.ones(3)), A.sum(1))
    assert "scan" in str(jax.make_jaxpr(jax.vmap(f, (0, None)))(A, jnp.ones(3)))


def test_sequential_vmap_under_several_vmaps_is_a_loop_for_each():
    f = jax.custom_batching.sequential_vmap(lambda x, y: x * y)
    x, y = jnp.arange(3.0), jnp.arange(2.0)
    for depth, (mapped, args, expected) in enumerate(
        [
            (f, (x[1], y[1]), x[1] * y[1]),
            (jax.vmap(f, (0, None)), (x, y[1]), x * y[1]),
            (jax.vmap(jax.vmap(f, (0, None)), (None, 0)), (x, y), x * y[:, None]),
        ]
    ):
        np.testing.assert_array_equal(jax.jit(mapped)(*args), expected)
        assert str(jax.make_jaxpr(mapped)(*args)).count("scan[") == depth


@pytest.mark.parametrize(
    ("names", "known"), [((), "none"), (("i",), "'i'"), (("i", "j"), "'i', 'j'")]
)
def test_what_names_there_are_is_said(names, known):
    f = lambda x: lax.psum(x, "k")
    for name in names[::-1]:
        f = jax.vmap(f, axis_name=name)
    with pytest.raises(NameError, match=rf"unbound axis name: k\.(?s:.*)are available: {known}\."):
        f(np.ones((1,) * len(names)))


def test_arguments_given_by_name_are_called_so():
    with pytest.raises(ValueError, match=r"one axis had size 1: axis 0 of kwargs\['z'\]\['a'\] of"):
        jax.vmap(lambda x, y, z: x)(jnp.ones(2), y=jnp.ones(2), z={"a": jnp.ones(1)})


def test_values_of_a_batch():
    """As JAX's: libraries read what a mapped value stands for."""
    seen = []

    def row(x):
        seen.append((x.val, x.aval.shape))
        return x

    xs = jnp.arange(6.0).reshape(2, 3)
    jax.vmap(row)(xs)
    jax.jit(jax.vmap(row))(xs)
    assert seen[0][0] is xs and seen[0][1] == (3,)
    assert jax.typeof(seen[1][0]).shape == (2, 3)
