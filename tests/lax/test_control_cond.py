"""cond and switch: values, every transformation, and the errors of branches that differ."""

import numpy as np
import pytest
from optable.compare import assert_trees_close as assert_close
from optable.laws import SECOND, assert_derivatives, assert_jit, assert_vmap

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.lax import _callbacks


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def choose(p, x):
    return lax.cond(p, lambda x: jnp.sin(x) * x, lambda x: x**3, x)


BRANCHES = [
    lambda x, y: (x, y * 2),
    lambda x, y: (x * y, jnp.cos(y)),
    lambda x, y: (jnp.exp(x), x * x * y),
]


def pick(i, x, y):
    return lax.switch(i, BRANCHES, x, y)


def test_values():
    assert_close(choose(True, 2.0), np.sin(2.0) * 2)
    assert_close(choose(False, 2.0), 8.0)


@pytest.mark.parametrize("pred", [True, 3, -1.5, np.bool_(True), np.int8(1), np.array(2.0)])
def test_predicates(pred):
    assert lax.cond(pred, lambda x: x + 1, lambda x: x, 1) == 2
    assert jax.jit(lambda p: lax.cond(p, lambda x: x + 1, lambda x: x, 1))(pred) == 2
    assert lax.cond(np.asarray(pred) * 0, lambda x: x + 1, lambda x: x, 1) == 1


def test_call_forms():
    inc, dec = (lambda x: x + 1), (lambda x: x - 1)
    assert lax.cond(True, inc, dec, operand=3) == 4
    assert lax.cond(pred=False, true_fun=inc, false_fun=dec, operand=3) == 2
    assert lax.cond(True, 10, inc, 20, dec) == 11
    assert lax.cond(False, 10, inc, 20, dec) == 19
    assert lax.cond(True, lambda: 1, lambda: 2) == 1
    assert lax.cond(True, lambda x: x, lambda x: x, operand=None) is None
    assert lax.switch(1, [inc, dec], operand=3) == 2


@pytest.mark.parametrize(("index", "expected"), [(-1, 10), (0, 10), (1, 20), (2, 30), (3, 30)])
@pytest.mark.parametrize("dtype", [int, np.int8, np.uint8, np.int64, np.uint64])
def test_switch_clamps(index, expected, dtype):
    if index < 0 and np.dtype(dtype).kind == "u":
        return

    def f(i):
        return lax.switch(i, [lambda: 10, lambda: 20, lambda: 30])

    assert f(dtype(index)) == expected == jax.jit(f)(dtype(index))


def test_switch_with_many_branches_and_a_small_index():
    f = jax.jit(lambda i: lax.switch(i, [lambda x, k=k: x + k for k in range(300)], 0))
    assert f(np.uint8(255)) == 255
    assert f(np.int8(-5)) == 0


def test_only_the_chosen_branch_runs():
    assert lax.cond(False, lambda: lax.while_loop(lambda c: True, lambda c: c, 0), lambda: 1) == 1


def test_the_weak_type_is_that_of_the_first_branch():
    def strong(x):
        return x * np.float64(1)

    assert lax.cond(True, lambda x: x, lambda x: 2.0, 1.0).weak_type
    for taken in (True, False):
        # Branch 0 is that for False.
        assert lax.cond(taken, strong, lambda x: 2.0, 1.0).weak_type
        assert not lax.cond(taken, lambda x: 2.0, strong, 1.0).weak_type
    assert lax.switch(1, [lambda: 3.0, lambda: np.float64(1), lambda: 2.0]).weak_type
    assert not lax.switch(1, [lambda: np.float64(3), lambda: 1.0, lambda: 2.0]).weak_type


def test_branches_without_results():
    assert lax.cond(True, lambda x: None, lambda x: None, 1.0) is None


def test_eager_is_jit():
    assert_jit(choose, True, 2.0)
    assert_jit(pick, 1, 2.0, 3.0)


def test_gradients():
    for p in (True, False):
        assert_derivatives(lambda x: choose(p, x), 0.7, laws=SECOND)
    for i in range(3):
        assert_derivatives(lambda x, y: pick(i, x, y), 0.7, 0.9, laws=SECOND)


def test_gradients_under_jit():
    g = jax.jit(jax.grad(lambda i, x: sum(pick(i, x, x)), 1))
    for i in range(3):
        assert_close(g(i, 0.7), jax.grad(lambda x: sum(BRANCHES[i](x, x)))(0.7))


def test_gradient_of_closed_over_values():
    def f(p):
        return lambda a, b: lax.cond(p, lambda: a * jnp.sin(b), lambda: a * a)

    assert_derivatives(f(True), 0.7, 0.9, laws=SECOND)
    assert_derivatives(f(False), 0.7, 0.9, laws=SECOND)


def test_branch_that_does_not_depend():
    def f(p, x):
        return lax.cond(p, lambda x: x * x, lambda x: 3.0, x)

    assert jax.grad(f, 1)(True, 2.0) == 4
    assert jax.grad(f, 1)(False, 2.0) == 0


def test_integers_pass_through():
    def f(p, x):
        n, y = lax.cond(p, lambda n, x: (n + 1, x * n), lambda n, x: (n, x), 3, x)
        return n * y

    assert jax.grad(f, 1)(True, 2.0) == 12
    assert jax.grad(f, 1)(False, 2.0) == 3


def test_residuals_of_one_type_share_their_place():
    def f(x):
        return lax.switch(
            lax.convert_element_type(x, int), [jnp.sin, jnp.exp, lambda x: x * x * x, jnp.cos], x
        )

    known, _staged = [
        e for e in jax.make_jaxpr(jax.grad(f))(1.0).eqns if e.primitive.name == "cond"
    ]
    assert len(known.outvars) == 2


def test_residuals_of_extended_dtype():
    def f(p, x, key):
        def noisy(x):
            return x * lax.convert_element_type(
                lax.reduce_max(jax.random.key_data(jax.random.fold_in(key, 1)), (0,)), float
            )

        return lax.cond(p, jax.checkpoint(noisy), lambda x: x, x)

    key = jax.random.key(0)
    assert_close(jax.grad(f, 1)(True, 1.0, key), f(True, 1.0, key))
    assert jax.grad(f, 1)(False, 1.0, key) == 1.0


def test_key_that_one_branch_makes_is_a_residual():
    key = jax.random.key(0)
    word = lambda k: lax.convert_element_type(
        lax.reduce_max(jax.random.key_data(k) % 5, (0,)), float
    )
    noisy = lambda x: jax.checkpoint(lambda x, k: jnp.sin(x * word(k)))(
        x, jax.random.fold_in(key, 7)
    )
    f = lambda p, x: lax.cond(p, noisy, jnp.cos, x)
    assert_close(jax.grad(f, 1)(True, 1.0), jax.grad(noisy)(1.0))
    assert_close(jax.grad(f, 1)(False, 1.0), -np.sin(1.0))


@pytest.mark.parametrize("in_axes", [(0, 0), (None, 0), (0, None)])
def test_vmap(in_axes):
    p = True if in_axes[0] is None else np.array([True, False, True])
    x = 0.7 if in_axes[1] is None else np.linspace(0, 1, 3)
    assert_vmap(choose, p, x, in_axes=in_axes)


@pytest.mark.parametrize("in_axes", [(0, 0, 0), (0, None, None), (None, None, 0), (0, None, 0)])
def test_vmap_of_switch(in_axes):
    args = [np.arange(-1, 4), np.linspace(0, 1, 5), np.linspace(1, 2, 5)]
    args = [x[1] if a is None else x for x, a in zip(args, in_axes, strict=True)]
    assert_vmap(pick, *args, in_axes=in_axes)


def test_vmap_of_both_of_different_ranks():
    assert_vmap(
        lambda p, x: lax.cond(p, lambda x: (x, lax.reduce_sum(x, (0,))), lambda x: (x * 2, 1.0), x),
        np.array([True, False]),
        np.arange(6.0).reshape(2, 3),
    )


def test_grad_of_vmap_is_finite_where_the_other_branch_is_not():
    def f(x):
        return lax.cond(x > 0, jnp.sqrt, lambda x: x * 0.0, x)

    assert_close(
        jax.grad(lambda xs: lax.reduce_sum(jax.vmap(f)(xs), (0,)))(np.array([-1.0, 0.0, 4.0])),
        np.array([0.0, 0.0, 0.25]),
    )


def test_grad_of_vmap():
    def f(i, xs):
        return lax.reduce_sum(jax.vmap(lambda i, x: sum(pick(i, x, x)))(i, xs), (0,))

    assert_derivatives(lambda xs: f(np.array([0, 1, 2]), xs), np.linspace(0.1, 1, 3), laws=SECOND)


def test_nested():
    def f(p, q, x):
        return lax.cond(
            p,
            lambda x: lax.cond(q, jnp.sin, lambda x: x * x, x),
            lambda x: lax.switch(q, [jnp.cos, jnp.exp], x),
            x,
        )

    for p in (True, False):
        assert_derivatives(lambda x: f(p, 1, x), 0.8, laws=SECOND)
    assert_vmap(f, np.array([True, False, True]), np.array([0, 1, 1]), np.linspace(0, 1, 3))


def test_jvp_of_while_in_cond():
    def f(p, x):
        return lax.cond(
            p, lambda x: lax.while_loop(lambda c: c < 9.0, lambda c: c * c, x), lambda x: x, x
        )

    assert_close(jax.jvp(lambda x: f(True, x), (1.5,), (1.0,))[1], 8 * 1.5**7)


def test_linearize():
    _, push = jax.linearize(lambda x: choose(x > 1, x), 0.5)
    assert_close(push(1.0), 3 * 0.5**2)


def test_disable_jit():
    with jax.disable_jit():
        assert lax.cond(True, float, lambda x: 1 / 0, 2.0) == 2.0
        assert lax.switch(7, [lambda x: 1 / 0, float], 2.0) == 2.0


def f32(x):
    return np.float32(1)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: lax.cond(None, f32, f32, 1.0), "cond predicate is None"),
        (
            lambda: lax.cond(np.array([True]), f32, f32, 1.0),
            r"Pred must be a scalar, got \[ True\] of shape \(1,\)",
        ),
        (
            lambda: lax.cond("abc", f32, f32, 1.0),
            "Pred must be a scalar, got abc of type <class",
        ),
        (
            lambda: lax.cond(lambda: True, f32, f32, 1.0),
            "Pred type must be either boolean or number",
        ),
        (
            lambda: lax.cond(1j, f32, f32, 1.0),
            "Pred type must be either boolean or number, got complex128",
        ),
        (
            lambda: lax.cond(True, 3, f32, 1.0),
            "lax.cond: true_fun and false_fun arguments should be callable",
        ),
        (
            lambda: lax.cond(True, f32, f32, 2, operand=3),
            "if 'operand' keyword is passed then no positional operands",
        ),
        (
            lambda: lax.cond(True, f32, f32, "abc"),
            "Argument 'abc' of type .* is not a valid JAX type",
        ),
        (lambda: lax.switch("abc", [f32, f32], 1.0), "Index type must be an integer, got abc."),
        (lambda: lax.switch(f32, [f32, f32], 1.0), "Index type must be an integer, got <function"),
        (
            lambda: lax.switch((1.0, 1.0), [f32, f32], 1.0),
            r"Branch index must be scalar, got \(1.0, 1.0\) of shape \(2,\).",
        ),
        (
            lambda: lax.cond(True, lambda x: {"a": x, "b": x}, lambda x: {"a": x}, 1.0),
            r"cond branch outputs must have the same pytree structure, but they differ:.*true_fun "
            r"is <lambda> at .*_cond.py:\d+.*symmetric difference of key sets: \{'b'\}",
        ),
        (
            lambda: lax.cond(
                True, lambda x: {"a": x, "b": x}, lambda x: {"a": x, "b": jnp.zeros(3)}, 1.0
            ),
            r"cond branches must have equal output types but they differ.*The output of true_fun "
            r"at path \['b'\] has type float64\[\] but the corresponding output of false_fun has "
            r"type float64\[3\], so the shapes do not match",
        ),
        (
            lambda: lax.cond(True, lambda x: x, lambda x: 3, 1.0),
            r"The output of true_fun has type float64\[\] .* int64\[\], so the d",
        ),
        (
            lambda: lax.switch(1.2, [f32, f32], 1.0),
            "Index type must be an integer, got 1.2 as float64",
        ),
        (
            lambda: lax.switch(True, [f32, f32], 1.0),
            "Index type must be an integer, got True as bool",
        ),
        (
            lambda: lax.switch(np.array([1]), [f32, f32], 1.0),
            r"Branch index must be scalar, got \[1\] of shape \(1,\)",
        ),
        (
            lambda: lax.switch(0, [f32, 3], 1.0),
            "lax.switch: branches argument should be a sequence of callables",
        ),
        (
            lambda: lax.switch(0, [lambda x: x, lambda x: x, lambda x: (x, x)], 1.0),
            (
                r"switch branch outputs must have the same pytree structure.*branch 0 output is a "
                r"pytree leaf but branch 2 output is a"
            ),
        ),
    ],
)
def test_errors(call, match):
    with pytest.raises(TypeError, match="(?s)" + match):
        call()


def test_no_branches():
    with pytest.raises(ValueError, match="Empty branch sequence"):
        lax.switch(0, [], 1.0)


def test_vmap_refuses_io():
    def io(x):
        return _callbacks.io_callback(lambda v: v, jax.ShapeDtypeStruct((), np.float64), x)

    with pytest.raises(NotImplementedError, match="IO effect not supported in vmap-of-cond"):
        jax.vmap(lambda x: lax.cond(x > 0, io, lambda x: x, x))(np.arange(2.0))
    with pytest.raises(NotImplementedError, match="IO effect not supported in vmap-of-while"):
        jax.vmap(lambda x: lax.while_loop(lambda c: c < 3, lambda c: io(c) + 1, x))(np.arange(2.0))


def test_effects_of_the_chosen_branch():
    seen = []
    f = jax.jit(
        lambda p: lax.cond(
            p,
            lambda: jax.debug.callback(seen.append, 1),
            lambda: jax.debug.callback(seen.append, 2),
        )
    )
    f(True), f(False), f(True)
    jax.effects_barrier()
    assert [int(n) for n in seen] == [1, 2, 1]


def test_ordered_effects_keep_their_order():
    seen = []

    def say(n, x):
        jax.debug.callback(lambda x: seen.append((n, int(x))), x, ordered=True)
        jax.debug.callback(lambda x: seen.append((n, -int(x))), x, ordered=True)

    def f(p, x):
        say("start", x)
        x = lax.scan(lambda c, y: (say("scan", y), (c + y, None))[1], x, jnp.arange(1, 3))[0]
        x = lax.while_loop(lambda c: c < 6, lambda c: (say("while", c), c + 1)[1], x)
        x = lax.cond(p, lambda x: (say("cond", x), x + 1)[1], lambda x: x, x)
        say("end", x)
        return x

    assert jax.jit(f)(True, 1) == 7
    jax.effects_barrier()
    steps = [
        ("start", 1),
        ("scan", 1),
        ("scan", 2),
        ("while", 4),
        ("while", 5),
        ("cond", 6),
        ("end", 7),
    ]
    assert seen == [pair for n, x in steps for pair in ((n, x), (n, -x))]


def test_vmap_leaves_what_every_branch_hands_on_unbatched():
    def f(p, shared, x):
        return lax.cond(p, lambda s, x: (s, x + 1), lambda s, x: (s, x), shared, x)

    shared, x = np.float32(7.0), np.arange(3.0, dtype=np.float32)
    same, moved = jax.vmap(f, (0, None, 0), (None, 0))(x > 1, shared, x)
    assert same == 7
    np.testing.assert_array_equal(moved, [0, 1, 3])
