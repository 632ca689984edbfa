"""while_loop: values against Python loops, forward mode, vmap, and reverse mode."""

import numpy as np
import pytest
from optable.compare import assert_trees_close as assert_close
from optable.laws import assert_jit, assert_vmap

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._base import config
from teucer.experimental import checkify


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def squared(x):
    return lax.while_loop(lambda c: c < 100.0, lambda c: c * c, x)


def collatz(n):
    return lax.while_loop(
        lambda s: s[0] > 1,
        lambda s: (lax.select(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1),
        (n, 0),
    )[1]


def test_values():
    assert squared(3.0) == 6561.0
    assert squared(200.0) == 200.0
    assert [int(collatz(n)) for n in (1, 2, 7, 27)] == [0, 1, 16, 111]


def test_eager_is_jit():
    assert_jit(squared, 1.5)


def test_trees_and_closures():
    k = jnp.asarray(2.0)
    out = lax.while_loop(
        lambda c: c["i"] < 3,
        lambda c: {"i": c["i"] + 1, "x": [c["x"][0] * k]},
        {"i": 0, "x": [1.0]},
    )
    assert_close(out, {"i": 3, "x": [8.0]})


def test_empty_carry():
    assert lax.while_loop(lambda c: False, lambda c: c, ()) == ()


def test_typed_keys():
    _, key = lax.while_loop(
        lambda s: s[0] < 2,
        lambda s: (s[0] + 1, jax.random.fold_in(s[1], 5)),
        (0, jax.random.key(1)),
    )
    expected = jax.random.fold_in(jax.random.fold_in(jax.random.key(1), 5), 5)
    np.testing.assert_array_equal(jax.random.key_data(key), jax.random.key_data(expected))


def test_weak_carry_takes_the_type_of_the_body():
    assert lax.while_loop(lambda c: c < 3, lambda c: c + np.float16(1), 1).dtype == np.float16
    assert not lax.while_loop(lambda c: c < 3, lambda c: c + np.float64(1), 1.0).weak_type
    a, _b = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1.0, c[1]), (0, 1.0))
    assert a.dtype == np.float64
    assert a == 3


@pytest.mark.parametrize(
    ("cond", "body", "init", "match"),
    [
        (
            lambda c: c["a"] < 3,
            lambda c: {"a": c["a"], "b": jnp.zeros(2)},
            {"a": 0, "b": 1.0},
            r"(?s)while_loop body function carry input and carry output must have equal "
            r"types, but they differ:\n\nThe input carry component c\['b'\] has type float64\[\] "
            r"but .* float64\[2\], so the shapes do not match.*_control_while.py:\d+",
        ),
        (
            lambda c: c < 3,
            lambda c: c * 1.5,
            np.int32(1),
            r"carry c has type int32\[\] but .* float64\[\], so the dtypes do not match",
        ),
        (
            lambda c: c[0] < 3,
            lambda c: [c[0], c[1]],
            (0, 1.0),
            r"carry c is a .*tuple.* but .* is a .*list.*Python types differ",
        ),
        (
            lambda c: c[0] < 3,
            lambda c: (c[0],),
            (0, 1.0),
            r"tuple of length 2 but .* tuple of length 1, so the lengths do not match",
        ),
        (
            lambda c: c,
            lambda c: c,
            1.0,
            r"boolean scalar, but got output type\(s\) \[ShapedArray\(float64\[\], weak",
        ),
        (
            lambda c: c < 3,
            lambda c: c,
            np.zeros(3),
            r"boolean scalar, but got output type\(s\) \[ShapedArray\(bool\[3\]\)\]",
        ),
        (
            lambda c: (c < 3, c),
            lambda c: c,
            1.0,
            r"cond_fun must return a boolean scalar, but got pytree",
        ),
        (
            3,
            lambda c: c,
            1.0,
            r"lax.while_loop: body_fun and cond_fun arguments should be callable",
        ),
        (
            lambda c: c < 3,
            lambda c: c,
            "abc",
            r"Argument 'abc' of type <class 'str'> is not a valid JAX type",
        ),
    ],
)
def test_errors(cond, body, init, match):
    with pytest.raises(TypeError, match="(?s)" + match.removeprefix("(?s)")):
        lax.while_loop(cond, body, init)


# --- Derivatives ---


def test_jvp():
    _out, moved = jax.jvp(squared, (1.5,), (2.0,))
    assert_close(moved, 2 * (squared(1.5 + 1e-6) - squared(1.5 - 1e-6)) / 2e-6, 1e-6)


def test_jvp_of_closed_over_values():
    def f(a, b):
        return lax.while_loop(
            lambda s: s[0] < b * 3, lambda s: (s[0] + 1, s[1] * a + s[2], s[2] * b), (0.0, 1.0, a)
        )[1]

    for i in range(2):
        e = np.eye(2)[i]
        _, moved = jax.jvp(f, (1.3, 0.9), tuple(e))
        step = 1e-6 * e
        assert_close(
            moved, (f(1.3 + step[0], 0.9 + step[1]) - f(1.3 - step[0], 0.9 - step[1])) / 2e-6, 1e-6
        )


def test_second_order_forward():
    def g(x):
        return jax.jvp(squared, (x,), (1.0,))[1]

    assert_close(jax.jvp(g, (1.5,), (1.0,))[1], (g(1.5 + 1e-6) - g(1.5 - 1e-6)) / 2e-6, 1e-5)
    assert_close(jax.jacfwd(squared)(1.5), g(1.5))


def test_linearize():
    y, push = jax.linearize(squared, 1.5)
    assert_close(y, squared(1.5))
    assert_close(push(2.0), jax.jvp(squared, (1.5,), (2.0,))[1])


def test_linearize_computes_the_known_part_once():
    def f(x):
        return lax.while_loop(
            lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] * x, s[2] * 2), (0, x, 3)
        )

    (n, _, m), push = jax.linearize(f, 1.5)
    assert (n, m) == (4, 48)
    assert_close(push(1.0)[1], 5 * 1.5**4)


def test_reverse_mode_is_refused_where_an_option_says_so():
    message = (
        "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with "
        "dynamic start/stop values. Try using lax.scan, or using fori_loop with static start/stop."
    )
    with config.while_reverse("refuse"):
        with pytest.raises(ValueError, match=message):
            jax.grad(squared)(1.5)
        with pytest.raises(ValueError, match=message):
            jax.jit(lambda n: jax.grad(lambda x: lax.fori_loop(0, n, lambda i, c: c * 2, x))(1.0))(
                3
            )
    assert jax.grad(squared)(1.5) == 16 * 1.5**15


def test_reverse_mode_past_a_loop_that_does_not_move():
    assert jax.grad(lambda x: x * collatz(7))(2.0) == 16.0
    assert jax.grad(lambda x: x * squared(lax.stop_gradient(x)))(3.0) == 6561.0


# --- vmap ---


def test_vmap_of_the_condition():
    assert_vmap(squared, np.linspace(1.1, 4, 5))
    assert_vmap(collatz, np.arange(1, 9))


def test_vmap_of_the_body_only():
    def f(x):
        return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2, s[2]), (0, x, x))

    assert_vmap(f, np.arange(4.0))
    jaxpr = jax.make_jaxpr(jax.vmap(f))(np.arange(4.0))
    (eqn,) = [e for e in jaxpr.eqns if e.primitive.name == "while"]
    assert [v.aval.shape for v in eqn.outvars] == [(), (4,), (4,)]


def test_vmap_of_what_the_condition_closes_over():
    assert_vmap(
        lambda n, x: lax.while_loop(
            lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + jnp.arange(2)), (0, x)
        )[1],
        np.arange(4),
        np.ones((4, 2)),
    )


def test_vmap_with_keys():
    def f(n):
        return jax.random.key_data(
            lax.while_loop(
                lambda s: s[0] < n,
                lambda s: (s[0] + 1, jax.random.fold_in(s[1], 5)),
                (0, jax.random.key(1)),
            )[1]
        )

    assert_vmap(f, np.arange(3))


def test_vmap_twice():
    f = jax.vmap(squared)
    assert_vmap(f, np.linspace(1.1, 4, 6).reshape(2, 3))


def test_jvp_of_vmap():
    xs = np.linspace(1.1, 4, 5)
    _, moved = jax.jvp(jax.vmap(squared), (xs,), (np.ones(5),))
    assert_close(moved, np.stack([jax.jvp(squared, (x,), (1.0,))[1] for x in xs]))


def test_disable_jit():
    seen = []
    with jax.disable_jit():
        out = lax.while_loop(lambda c: c < 3, lambda c: (seen.append(c), c + 1)[1], 0)
        assert_close(
            jax.vmap(squared)(np.linspace(1.1, 4, 5)), jax.vmap(squared)(np.linspace(1.1, 4, 5))
        )
    assert out == 3
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("checked", [False, True])
def test_a_carry_that_the_body_leaves_is_not_batched(checked):
    """Also where the number of steps is."""

    def f(n, x, w):
        return lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] @ c[2], c[2]), (0, x, w)
        )[1:]

    xs, w, ns = np.arange(8.0).reshape(4, 2), np.array([[2.0, 1.0], [0.0, 3.0]]), np.arange(4)
    mapped = jax.vmap(f, (0, 0, None), (0, None))
    if checked:
        mapped = lambda *args: checkify.checkify(jax.vmap(f, (0, 0, None), (0, None)))(*args)[1]
    x, same = mapped(ns, xs, w)
    np.testing.assert_array_equal(same, w)
    np.testing.assert_allclose(
        x, [v @ np.linalg.matrix_power(w, n) for v, n in zip(xs, ns, strict=True)]
    )
    both = jax.vmap(mapped, (None, None, 0), (0, 0))(ns, xs, np.stack([w, 2 * w]))
    np.testing.assert_array_equal(both[1], np.stack([w, 2 * w]))


def test_several_components_that_differ_are_a_list():
    with pytest.raises(
        TypeError,
        match=r"they differ:\n\n  \* the input carry component c\[0\] has type int32\[\] .* the "
        r"dtypes do not match, and the shapes do not match;\n  \* the input carry component c\[1\] "
        r".*\.\n\nRevise the function so that all",
    ):
        lax.while_loop(
            lambda c: True,
            lambda c: (c[0] + np.ones(2), c[1] * 1.5),
            (np.int32(1), np.int32(1)),
        )
