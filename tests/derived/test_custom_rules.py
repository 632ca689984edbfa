"""`custom_jvp`, `custom_vjp`, `custom_gradient`, `checkpoint`: rules, nestings, errors."""

import functools

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._base.config import disable_bwd_checks
from teucer._core.primitive import Primitive
from teucer.ad_checkpoint import checkpoint_name

X = jnp.array([0.5, 1.0, 2.0])


def doubled():
    """sin with twice its derivative."""

    @jax.custom_jvp
    def f(x):
        return jnp.sin(x)

    @f.defjvp
    def f_jvp(primals, tangents):
        return f(*primals), 2.0 * jnp.cos(primals[0]) * tangents[0]

    return f


def tripled():
    """sin with three times its cotangent."""

    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (3.0 * jnp.cos(x) * ct,))
    return f


@pytest.mark.parametrize(("make", "factor"), [(doubled, 2.0), (tripled, 3.0)])
@pytest.mark.parametrize(
    "nest",
    [
        lambda f: jax.vmap(jax.grad(f)),
        lambda f: jax.grad(lambda x: f(x).sum()),
        lambda f: jax.jit(jax.vmap(jax.grad(f))),
        lambda f: jax.vmap(jax.jit(jax.grad(f))),
        lambda f: jax.grad(lambda x: jax.jit(f)(x).sum()),
        lambda f: jax.grad(lambda x: jax.vmap(f)(x).sum()),
        lambda f: jax.grad(lambda x: jax.jit(jax.vmap(f))(x).sum()),
        lambda f: jax.grad(lambda x: jax.checkpoint(f)(x).sum()),
        lambda f: jax.grad(lambda x: jax.lax.map(f, x).sum()),
        lambda f: jax.jit(
            jax.grad(lambda x: jax.lax.scan(lambda c, a: (c + f(a), None), 0.0, x)[0])
        ),
        lambda f: jax.jacrev(lambda x: f(x).sum()),
    ],
    ids=range(11),
)
def test_rule_is_used_in_every_nesting(make, factor, nest):
    f = make()
    np.testing.assert_allclose(f(X), np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(nest(f)(X), factor * np.cos(X), rtol=1e-6)


def test_custom_jvp_forward_mode_and_second_order():
    f = doubled()
    np.testing.assert_allclose(jax.jvp(f, (X,), (X,))[1], 2 * np.cos(X) * X, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.grad(jax.grad(f)))(X), -2 * np.sin(X), rtol=1e-6)


def test_custom_jvp_python_control_flow():
    @jax.custom_jvp
    def f(x):
        return x if x > 0 else -x

    f.defjvp(lambda p, t: (f(p[0]), t[0] * (1.0 if p[0] > 0 else -1.0)))
    assert jax.grad(f)(-2.0) == -1.0


def test_defjvps_and_nondiff():
    @jax.custom_jvp
    def f(x, y):
        return x * y

    f.defjvps(lambda t, out, x, y: 10.0 * t, None)
    assert jax.grad(f, (0, 1))(2.0, 3.0) == (10.0, 0.0)

    @functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
    def apply(g, x):
        return g(x)

    @apply.defjvp
    def _(g, primals, tangents):
        return apply(g, *primals), 5.0 * tangents[0]

    assert jax.grad(lambda x: apply(jnp.sin, x))(1.0) == 5.0
    assert jax.jit(jax.grad(lambda x: apply(jnp.sin, x)))(1.0) == 5.0


def test_symbolic_zeros():
    seen = []

    @jax.custom_jvp
    def f(x, y):
        return x * y

    @functools.partial(f.defjvp, symbolic_zeros=True)
    def _(primals, tangents):
        seen.append([type(t) is jax.custom_derivatives.SymbolicZero for t in tangents])
        return f(*primals), tangents[0]

    assert jax.grad(f)(2.0, 3.0) == 1.0
    assert seen[-1] == [False, True]

    @jax.custom_vjp
    def g(x, y):
        return x * y, x

    def fwd(x, y):
        seen.append((x.perturbed, y.perturbed))
        return g(x.value, y.value), y.value

    def bwd(y, cts):
        seen.append(type(cts[1]) is jax.custom_derivatives.SymbolicZero)
        return cts[0] * y, None

    g.defvjp(fwd, bwd, symbolic_zeros=True)
    assert jax.grad(lambda x: g(x, 3.0)[0])(2.0) == 3.0
    assert seen[-2:] == [(True, False), True]


def test_custom_vjp_trees_and_none():
    @jax.custom_vjp
    def f(p, n):
        return {"out": p["a"] * n}

    f.defvjp(
        lambda p, n: (f(p, n), (p, n)),
        lambda res, ct: ({"a": ct["out"] * res[1] * 7, "b": None}, None),
    )
    g = jax.grad(lambda p: f(p, 2)["out"])({"a": 1.0, "b": 5.0})
    assert g == {"a": 14.0, "b": 0.0}


def test_custom_vjp_nondiff_argnums():
    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def f(g, x):
        return g(x)

    f.defvjp(lambda g, x: (f(g, x), x), lambda g, x, ct: (g(x) * ct,))
    assert jax.grad(lambda x: f(lambda y: y * y, x))(3.0) == 9.0


def test_custom_vjp_cotangent_of_unbatched_argument_is_summed():
    f = tripled()
    w = 2.0
    g = jax.grad(lambda w: jax.vmap(lambda x: f(w * x))(X).sum())(w)
    np.testing.assert_allclose(g, np.sum(3 * np.cos(w * X) * X), rtol=1e-5)


def test_custom_gradient():
    @jax.custom_gradient
    def f(x):
        y = jnp.sin(x)
        return y, lambda ct: ct * y

    np.testing.assert_allclose(jax.grad(f)(1.0), np.sin(1.0), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(f)))(X), np.sin(X), rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: jax.grad(jax.custom_jvp(jnp.sin))(1.0),
            AttributeError,
            "No JVP defined for custom_jvp function",
        ),
        (
            lambda: jax.custom_vjp(jnp.sin)(1.0),
            AttributeError,
            "No VJP defined for custom_vjp function",
        ),
        (lambda: jax.jvp(tripled(), (1.0,), (1.0,)), TypeError, "forward-mode autodiff"),
        (
            lambda: jax.jit(lambda x: jax.jvp(tripled(), (x,), (x,)))(1.0),
            TypeError,
            "forward-mode autodiff",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda p, t: p[0], "pair"),
        (lambda p, t: (p[0], (t[0],)), "container"),
        (lambda p, t: (p[0], jnp.ones(3)), r"float32\[\].*float32\[3\]"),
    ],
)
def test_bad_jvp_rules(rule, message):
    f = jax.custom_jvp(lambda x: x)
    f.defjvp(rule)
    with pytest.raises(TypeError, match=f"(?s){message}"):
        jax.grad(f)(1.0)


@pytest.mark.parametrize(
    ("fwd", "bwd", "message"),
    [
        (lambda x: x, lambda r, ct: (ct,), "pair"),
        (
            lambda x: (x, x),
            lambda r, ct: ct,
            r"bwd output structure PyTreeDef\(\*\) for primal input structure PyTreeDef\(\(\*,\)\)",
        ),
        (lambda x: (x, x), lambda r, ct: None, r"bwd output structure PyTreeDef\(None\)"),
        (
            lambda x: (x, x),
            lambda r, ct: (ct, ct),
            "tuple of length equal to the number of arguments",
        ),
        (
            lambda x: (x, x),
            lambda r, ct: (jnp.ones(3),),
            r"at output\[0\] .*float32\[3\] .*float32\[\], so the shapes",
        ),
        (lambda x: (x, x), lambda r, ct: (jnp.ones((), int),), "so the dtypes do not match"),
    ],
)
def test_bad_vjp_rules(fwd, bwd, message):
    f = jax.custom_vjp(lambda x: x)
    f.defvjp(fwd, bwd)
    with pytest.raises((TypeError, ValueError), match=f"(?s){message}"):
        jax.grad(f)(1.0)


def test_cotangents_of_another_shape_by_an_option():
    f = jax.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda r, ct: (jnp.ones(3),))
    with disable_bwd_checks(True):
        assert jax.grad(f)(1.0).shape == (3,)


# --- checkpoint


def residual_count(f, *args):
    return len(jax.ad_checkpoint.saved_residuals(f, *args))


def test_checkpoint_keeps_only_its_inputs():
    f = lambda x: jnp.sin(jnp.sin(jnp.sin(x)))
    g = jax.checkpoint(f)
    assert residual_count(f, jnp.asarray(1.0)) == 3
    assert residual_count(g, jnp.asarray(1.0)) == 1
    np.testing.assert_allclose(jax.grad(g)(1.0), jax.grad(f)(1.0), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.grad(g))(1.0), jax.grad(f)(1.0), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(jax.grad(g))(1.0), jax.grad(jax.grad(f))(1.0), rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(jax.grad(g))(X), jax.vmap(jax.grad(f))(X), rtol=1e-6)


@pytest.mark.parametrize(
    ("policy", "count"),
    [
        ("everything_saveable", 3),
        ("nothing_saveable", 1),
        (None, 1),
        (jax.checkpoint_policies.save_only_these_names("a"), 2),
        (jax.checkpoint_policies.save_any_names_but_these("b"), 2),
        (jax.checkpoint_policies.save_anything_except_these_names("a", "b"), 3),
        (
            jax.checkpoint_policies.save_from_both_policies(
                jax.checkpoint_policies.save_only_these_names("a"),
                jax.checkpoint_policies.save_only_these_names("b"),
            ),
            3,
        ),
    ],
)
def test_policies(policy, count):
    def f(x):
        y = checkpoint_name(jnp.sin(x), "a")
        z = checkpoint_name(jnp.sin(y), "b")
        return jnp.sin(z)

    policy = getattr(jax.checkpoint_policies, policy) if isinstance(policy, str) else policy
    g = jax.checkpoint(f, policy=policy)
    assert residual_count(g, jnp.asarray(1.0)) == count
    np.testing.assert_allclose(jax.grad(g)(1.0), jax.grad(f)(1.0), rtol=1e-6)


def test_dots_saveable():
    a = jnp.ones((3, 3)) / 3
    f = lambda x: jnp.sin(a @ jnp.sin(a @ x)).sum()
    jaxpr = str(
        jax.make_jaxpr(jax.grad(jax.checkpoint(f, policy=jax.checkpoint_policies.dots_saveable)))(X)
    )
    assert jaxpr.count("dot_general") == 4  # two forward, two backward: none again
    jaxpr = str(jax.make_jaxpr(jax.grad(jax.checkpoint(f)))(X))
    assert jaxpr.count("dot_general") == 6


def test_checkpoint_static_arguments_and_closures():
    @functools.partial(jax.checkpoint, static_argnums=(1,))
    def f(x, flag):
        return jnp.sin(x) if flag else x

    assert jax.grad(f)(0.0, True) == 1.0
    assert jax.grad(lambda y: jax.checkpoint(lambda x: jnp.sin(x * y))(2.0))(0.0) == 2.0
    with pytest.raises(jax.errors.TracerBoolConversionError):
        jax.checkpoint(lambda x: x if x > 0 else -x)(1.0)


def test_rules_must_be_given_before_a_call():
    for custom in (jax.custom_jvp, jax.custom_vjp):
        with pytest.raises(AttributeError, match=r"No V?JV?P defined for custom_\w+ function cube"):
            custom(cube)(1.0)


def cube(x):
    return x**3


def test_custom_vjp_is_printed_with_its_rules():
    f = jax.custom_vjp(cube)

    def cube_fwd(x):
        return x**3, x

    def cube_bwd(x, ct):
        return (3 * x**2 * ct,)

    f.defvjp(cube_fwd, cube_bwd)
    printed = str(jax.make_jaxpr(f)(1.0))
    assert "bwd=cube_bwd" in printed and "fwd=cube_fwd" in printed
    f.defvjp(cube_fwd, lambda x, ct: (ct, ct))
    with pytest.raises(TypeError, match="same container \\(pytree\\) structure as the args tuple"):
        jax.grad(f)(1.0)


def test_saved_residuals_say_where_they_come_from(capsys):
    def f(x, W):
        return jnp.sum(jnp.sin(x @ W))

    x, W = jnp.ones((2, 3)), jnp.ones((3, 3))
    jax.ad_checkpoint.print_saved_residuals(f, x, W)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["f32[2,3] from the argument x", "f32[3,3] from the argument W"]
    assert lines[2].startswith("f32[2,3] output of cos from ")
    named = jax.checkpoint(
        lambda x: jnp.sin(jax.ad_checkpoint.checkpoint_name(jnp.cos(x), "c")),
        policy=jax.checkpoint_policies.save_only_these_names("c"),
    )
    made = [text.split(" from ")[0] for _, text in jax.ad_checkpoint.saved_residuals(named, 1.0)]
    assert made == ["from the argument x", "named 'c'"]


def test_residuals_have_the_place_where_they_were_made():
    def layer(x):
        return jnp.sin(x @ x)

    for policy in (
        jax.checkpoint_policies.dots_saveable,
        jax.checkpoint_policies.everything_saveable,
    ):
        saved = jax.ad_checkpoint.saved_residuals(
            jax.checkpoint(layer, policy=policy), jnp.ones((2, 2))
        )
        assert all(text.endswith("(layer)") for _, text in saved if text.startswith("output of")), (
            saved
        )


class Position(Primitive):
    """Adds the position on the axis "i": what a collective would be to the transformations."""

    __slots__ = ()
    name = "position"

    def types(self, x, **params):
        return (x,)

    def uses_axis(self, name, params):
        return name == "i"

    def batch(self, axis, args, dims, **params):
        return (
            jnp.broadcast_to(args[0], (axis.size,)) + jnp.arange(axis.size, dtype="float32"),
        ), (0,)


def position_jvp():
    f = jax.custom_jvp(lambda x: POSITION.call(x)[0])
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    return f


def position_vjp():
    f = jax.custom_vjp(lambda x: POSITION.call(x)[0])
    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
    return f


POSITION = Position()


@pytest.mark.parametrize("made", [position_jvp, position_vjp])
def test_named_axes_reach_into_staged_rules(made):
    f = jax.jit(made())
    assert jax.vmap(lambda _: f(jnp.float32(1)), axis_name="i")(X).tolist() == [1.0, 2.0, 3.0]


def test_linear_functions_with_a_jvp_rule_are_transposed():
    """The function itself is, under whatever transformation; the rule says nothing of it."""

    @jax.custom_jvp
    def triple(x, k):
        return 3 * x, k * x

    triple.defjvp(lambda primals, tangents: (triple(*primals), triple(*primals)))

    f = lambda x: triple(x, 4.0)
    for transposed in (
        jax.linear_transpose(f, 1.0),
        jax.jit(jax.linear_transpose(f, 1.0)),
        jax.linear_transpose(jax.jit(f), 1.0),
    ):
        assert float(transposed((2.0, 5.0))[0]) == 26
    np.testing.assert_array_equal(
        jax.vmap(jax.linear_transpose(f, 1.0))((jnp.arange(2.0), jnp.ones(2)))[0], [4, 7]
    )
    np.testing.assert_array_equal(
        jax.linear_transpose(jax.vmap(f), jnp.ones(2))((jnp.arange(2.0), jnp.ones(2)))[0], [4, 7]
    )
    first = lambda x: jax.lax.scan(lambda c, _: (f(c)[0], f(c)[1]), x, None, length=2)
    assert float(jax.linear_transpose(first, 1.0)((2.0, jnp.ones(2)))[0]) == 34
    assert float(jax.linear_transpose(lambda x: f(x)[0], 1.0)(2.0)[0]) == 6


def test_zeros_of_trees():
    zeros = jax.custom_derivatives.zero_from_primal
    tree = {"a": jnp.ones(2), "b": (1.0, 3)}
    arrays, symbolic = zeros(tree), zeros(tree, symbolic_zeros=True)
    assert [x.dtype for x in jax.tree.leaves(arrays)] == ["float32", "float32", jax.float0]
    np.testing.assert_array_equal(arrays["a"], [0, 0])
    assert [type(x) for x in jax.tree.leaves(symbolic)] == [jax.custom_derivatives.SymbolicZero] * 3
    assert zeros(()) == () and zeros(None) is None


@pytest.mark.parametrize("rules", [(None, lambda res, ct: (ct,)), (lambda x: (x, None), None)])
def test_custom_vjp_needs_both_rules(rules):
    f = jax.custom_vjp(lambda x: x)
    f.defvjp(*rules)
    with pytest.raises(AttributeError, match="No VJP defined for custom_vjp function"):
        f(1.0)


def test_a_reference_made_by_a_forward_rule_is_no_residual():
    f = jax.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, jax.new_ref(x)), lambda ref, ct: (ct,))
    with pytest.raises(ValueError, match="that is none of its arguments"):
        jax.jit(jax.grad(f))(1.0)


@jax.custom_vjp
def recorded(x, s):
    return 1.0 * x


# What it returns for s is no derivative: flax.linen's operations in eight bits hand on scales so.
recorded.defvjp(lambda x, s: (1.0 * x, None), lambda _, ct: (None, jnp.float32(7.0)))


@jax.custom_vjp
def scaled(q, x):
    return q * x


scaled.defvjp(lambda q, x: (q * x, q), lambda q, ct: (None, ct * q))
UNASKED = {
    "through None": (7.0, lambda x, s: scaled(recorded(x, s), x)),
    "twice": (14.0, lambda x, s: scaled(recorded(x, s), x) + recorded(x, s)),
    "in scan": (
        14.0,
        lambda x, s: jax.lax.scan(lambda c, _: (scaled(recorded(c, s), x), None), x, None, 2)[0],
    ),
    "in cond": (
        7.0,
        lambda x, s: jax.lax.cond(x > 0, lambda: scaled(recorded(x, s), x), lambda: x),
    ),
    "in checkpoint": (7.0, jax.checkpoint(lambda x, s: scaled(recorded(x, s), x))),
    "before jit": (7.0, lambda x, s: jax.jit(scaled)(recorded(x, s), x)),
    # Results that nothing differentiable depends on have no linear program.
    "unused": (0.0, lambda x, s: (recorded(x, s), x)[1]),
    "unused later": (0.0, lambda x, s: (2 * recorded(x, s), x)[1]),
    "stopped": (0.0, lambda x, s: jax.lax.stop_gradient(recorded(x, s)) * x),
    "rounded": (0.0, lambda x, s: recorded(x, s).astype(int) * x),
}


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", UNASKED)
def test_a_backward_function_is_called_without_cotangents_too(name, transform):
    want, f = UNASKED[name]
    found = jax.grad(transform(f), argnums=1)(2.0, 3.0)
    assert found == want == transform(jax.grad(f, argnums=1))(2.0, 3.0)
    rows = jax.vmap(jax.grad(transform(f), argnums=1))(jnp.array([2.0, 3.0]), jnp.ones(2))
    assert rows.tolist() == [want] * 2


@pytest.mark.parametrize("decorate", [jax.custom_jvp, jax.custom_vjp])
def test_keywords_may_skip_a_parameter_with_a_default(decorate):
    @functools.partial(decorate, nondiff_argnums=(1, 3))
    def f(x, n=2, b=None, sign=False, *, scale=1.0):
        return scale * x**n

    if decorate is jax.custom_jvp:
        f.defjvp(lambda n, sign, primals, tangents: (primals[0] ** n, 7.0 * tangents[0]))
    else:
        f.defvjp(lambda x, n, b, sign: (x**n, None), lambda n, sign, _, ct: (7.0 * ct, None))
    assert f(3.0, sign=False) == f(3.0, b=None) == f(x=3.0, sign=True) == 9.0
    assert f(3.0, n=3, sign=False) == jax.jit(lambda x: f(x, n=3, sign=True))(3.0) == 27.0
    assert jax.grad(lambda x: f(x, n=3, sign=False))(2.0) == 7.0
    assert jax.vmap(lambda x: f(x, sign=True))(jnp.arange(3.0)).tolist() == [0.0, 1.0, 4.0]
    with pytest.raises(TypeError, match=r"could not be resolved to positions: scale"):
        f(3.0, sign=False, scale=2.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nope'"):
        f(3.0, nope=1)
