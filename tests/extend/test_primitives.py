"""Primitives of libraries: the rules registered one by one make every transformation work."""

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp
from teucer._core.trace import current_trace
from teucer.core import ShapedArray
from teucer.extend import core
from teucer.extend.core import primitives
from teucer.interpreters import ad, batching, mlir


@pytest.fixture
def multiply_add_p():
    """x * y + z, with all rules."""
    p = core.Primitive("multiply_add")

    @p.def_impl
    def impl(x, y, z):
        return np.add(np.multiply(x, y), z)

    @p.def_abstract_eval
    def types(x, y, z):
        assert x.shape == y.shape == z.shape
        return ShapedArray(x.shape, x.dtype)

    mlir.register_lowering(
        p, mlir.lower_fun(lambda x, y, z: x * y + z, multiple_results=False), platform="cpu"
    )

    def jvp(primals, tangents):
        x, y, z = primals
        xt, yt, zt = tangents
        zero = lambda t: jnp.zeros_like(x) if type(t) is ad.Zero else t
        return p.bind(x, y, z), p.bind(zero(xt), y, p.bind(x, zero(yt), zero(zt)))

    ad.primitive_jvps[p] = jvp

    def transpose(ct, x, y, z):
        if not ad.is_undefined_primal(x):
            return (
                None,
                ad.Zero(y.aval) if type(ct) is ad.Zero else p.bind(x, ct, jnp.zeros_like(x)),
                ct,
            )
        return (
            ad.Zero(x.aval) if type(ct) is ad.Zero else p.bind(ct, y, jnp.zeros_like(y)),
            None,
            ct,
        )

    ad.primitive_transposes[p] = transpose
    batching.primitive_batchers[p] = lambda args, dims: (p.bind(*args), dims[0])
    return p


def test_multiply_add(multiply_add_p):
    p = multiply_add_p
    square_add = lambda a, b: p.bind(a, a, b)
    assert square_add(2.0, 10.0) == 14.0
    assert isinstance(square_add(2.0, 10.0), np.generic)  # the implementation's own result
    assert jax.jit(square_add)(2.0, 10.0) == 14.0
    assert jax.jit(square_add, static_argnums=1)(2.0, 10.0) == 14.0
    assert tuple(map(float, jax.jvp(square_add, (2.0, 10.0), (1.0, 1.0)))) == (14.0, 5.0)
    assert tuple(
        map(float, jax.jit(lambda a, b: jax.jvp(square_add, a, b))((2.0, 10.0), (1.0, 1.0)))
    ) == (14.0, 5.0)
    assert float(jax.grad(square_add)(2.0, 10.0)) == 4.0
    assert float(jax.jit(jax.grad(square_add))(2.0, 10.0)) == 4.0
    for policy in (
        None,
        jax.checkpoint_policies.dots_saveable,
        jax.checkpoint_policies.everything_saveable,
    ):
        assert float(jax.grad(jax.checkpoint(jax.jit(square_add), policy=policy))(2.0, 10.0)) == 4.0
    xs, ys = np.array([2.0, 3.0]), np.array([10.0, 20.0])
    assert np.array_equal(jax.vmap(square_add)(xs, ys), [14.0, 29.0])
    assert np.array_equal(jax.jit(jax.vmap(square_add))(xs, ys), [14.0, 29.0])
    assert str(jax.make_jaxpr(square_add)(2.0, 10.0)) == (
        "{ lambda ; a:f32[] b:f32[]. let c:f32[] = multiply_add a a b in (c,) }"
    )


def test_several_results():
    p = core.Primitive("double_and_next")
    p.multiple_results = True
    p.def_impl(lambda x, *, by: [2 * x, x + by])
    p.def_abstract_eval(lambda x, *, by: [x, x])
    mlir.register_lowering(p, mlir.lower_fun(lambda x, *, by: [2 * x, x + by]))
    ad.primitive_jvps[p] = lambda primals, tangents, by: (
        p.bind(*primals, by=by),
        [2 * tangents[0], tangents[0]],
    )
    batching.primitive_batchers[p] = lambda args, dims, by: (p.bind(*args, by=by), dims * 2)
    assert p.bind(3.0, by=4) == [6.0, 7.0]
    assert [float(y) for y in jax.jit(lambda x: p.bind(x, by=4))(3.0)] == [6.0, 7.0]
    f = lambda x: p.bind(x, by=4)[0] * p.bind(x, by=4)[1]
    assert float(jax.grad(f)(3.0)) == 2 * 7 + 6
    assert np.array_equal(jax.vmap(f)(jnp.arange(2.0)), [0.0, 10.0])


def test_effects():
    p = core.Primitive("looked_at")
    p.def_impl(lambda x: x)
    p.def_effectful_abstract_eval(lambda x: (x, {core.Effect("debug")}))
    assert jax.make_jaxpr(p.bind)(1.0).effects == {core.Effect("debug")}


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda p: p.bind(1.0), "Evaluation rule for 'bare' not implemented"),
        (lambda p: jax.make_jaxpr(p.bind)(1.0), "Abstract evaluation for 'bare' not implemented"),
        (
            lambda p: jax.jvp(p.bind, (1.0,), (1.0,)),
            "Differentiation rule for 'bare' not implemented",
        ),
        (lambda p: jax.vmap(p.bind)(jnp.ones(3)), "Batching rule for 'bare' not implemented"),
    ],
)
def test_missing_rule(call, message):
    with pytest.raises(NotImplementedError, match=message):
        call(core.Primitive("bare"))


def test_missing_lowering_and_transpose():
    p = core.Primitive("bare")
    p.def_abstract_eval(lambda x: x)
    with pytest.raises(
        NotImplementedError,
        match="MLIR translation rule for primitive 'bare' not found for platform cpu",
    ):
        jax.jit(p.bind)(1.0)
    ad.defjvp(p, lambda t, x: p.bind(t))
    p.def_impl(lambda x: x)
    with pytest.raises(
        NotImplementedError, match=r"Transpose rule \(for reverse-mode differentiation\) for 'bare'"
    ):
        jax.grad(p.bind)(1.0)


def test_lowering_of_another_type():
    p = core.Primitive("wrong")
    p.def_abstract_eval(lambda x: ShapedArray((2,), x.dtype))
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x, multiple_results=False))
    with pytest.raises(
        ValueError, match=r"(?s)wrong: the lowering gives other types.*f32\[2\].*f32\[\]"
    ):
        jax.jit(p.bind)(1.0)


def test_platforms():
    p = core.Primitive("where_am_i")
    p.def_abstract_eval(lambda x: x)
    on = lambda value: mlir.lower_fun(lambda x: x + value, multiple_results=False)
    mlir.register_lowering(p, on(1))
    mlir.register_lowering(p, on(2), platform="gpu")
    assert jax.jit(p.bind)(0.0) == 1.0
    mlir.register_lowering(p, on(3), platform="cpu")
    assert jax.jit(lambda x: p.bind(x))(0.0) == 3.0


def library(name, f):
    """A primitive that does what a function does, without rules for transformations."""
    p = core.Primitive(name)
    p.def_impl(f)

    @p.def_abstract_eval
    def types(*avals, **params):
        out = jax.eval_shape(lambda *xs: f(*xs, **params), *avals)
        return ShapedArray(out.shape, out.dtype)

    mlir.register_lowering(p, mlir.lower_fun(f, multiple_results=False))
    return p


def test_defjvp():
    p = library("times", lambda x, y: x * y)
    ad.defjvp(p, lambda t, x, y: t * y, None)
    assert float(jax.jvp(p.bind, (2.0, 3.0), (1.0, 1.0))[1]) == 3.0
    ad.defjvp2(p, lambda t, out, x, y: t * out, lambda t, out, x, y: t)
    assert float(jax.jvp(p.bind, (2.0, 3.0), (1.0, 10.0))[1]) == 16.0


def test_deflinear():
    p = library("twice", lambda x: 2 * x)
    ad.deflinear(p, lambda ct: [2 * ct])
    assert float(jax.grad(p.bind)(3.0)) == 2.0
    ad.deflinear2(p, lambda ct, x: [2 * ct] if ad.is_undefined_primal(x) else [None])
    assert float(jax.jit(jax.grad(p.bind))(3.0)) == 2.0
    assert ad.get_primitive_transpose(p)(1.0, ad.UndefinedPrimal(ShapedArray((), "float32"))) == [
        2.0
    ]


def test_defbilinear():
    p = library("product", lambda x, y: x * y)
    ad.defbilinear(p, lambda ct, x, y: ct * y, lambda ct, x, y: x * ct)
    assert tuple(map(float, jax.grad(p.bind, (0, 1))(2.0, 3.0))) == (3.0, 2.0)


def test_defvectorized():
    p = library("sum_of_two", lambda x, y: x + y)
    batching.defvectorized(p)
    x = jnp.arange(6.0).reshape(2, 3)
    assert np.array_equal(jax.vmap(p.bind, (1, 1), 1)(x, x), 2 * x)
    assert np.array_equal(jax.vmap(p.bind, (1, None))(x, x[:, 0]), x.T + x[:, 0])


def test_defbroadcasting():
    p = library("broadcast_sum", lambda x, y: x + y)
    batching.defbroadcasting(p)
    x, y = jnp.arange(6.0).reshape(2, 3), jnp.arange(24.0).reshape(2, 4, 3)
    assert np.array_equal(jax.vmap(p.bind)(x, y), x[:, None] + y)
    assert np.array_equal(jax.vmap(p.bind, (0, None))(x, y), x[:, None, None] + y)


def test_defreducer():
    p = library("total", lambda x, *, axes: lax.reduce_sum(x, axes))
    batching.defreducer(p)
    x = jnp.arange(24.0).reshape(2, 3, 4)
    for dim in range(3):
        found = jax.vmap(lambda v: p.bind(v, axes=(0,)), dim)(x)
        expected = jax.vmap(lambda v: lax.reduce_sum(v, (0,)), dim)(x)
        assert np.array_equal(found, expected)


def test_rules_of_our_own_primitives():
    out, tangent = ad.primitive_jvps[lax.neg_p]((1.0,), (2.0,))
    assert (float(out), float(tangent)) == (-1.0, -2.0)
    (ct,) = ad.primitive_transposes[lax.neg_p](2.0, ad.UndefinedPrimal(ShapedArray((), "float32")))
    assert float(ct) == -2.0
    out, dim = batching.primitive_batchers[lax.neg_p]((jnp.ones(3),), (0,))
    assert dim == 0 and np.array_equal(out, [-1.0] * 3)
    assert lax.neg_p in ad.primitive_jvps
    assert core.Primitive("bare") not in ad.primitive_jvps
    assert primitives.neg_p is lax.neg_p


def test_rules_can_be_replaced():
    p = library("shift", lambda x: x + 1)
    ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), tangents[0])
    assert p in list(ad.primitive_jvps) and len(ad.primitive_jvps) > 0
    ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), 5 * tangents[0])
    assert float(jax.grad(p.bind)(1.0)) == 5.0
    del ad.primitive_jvps[p]
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'shift'"):
        jax.grad(p.bind)(1.0)


def test_fancy_batcher():
    p = library("size_of_batch", lambda x: x)
    batching.fancy_primitive_batchers[p] = lambda axis, args, dims: (args[0] * axis.size, dims[0])
    assert np.array_equal(jax.vmap(p.bind)(jnp.ones(3)), [3.0] * 3)


def test_bdim_at_front():
    assert batching.bdim_at_front(jnp.ones((2, 3)), 1, 3).shape == (3, 2)
    assert batching.bdim_at_front(jnp.ones(2), None, 3).shape == (3, 2)
    assert batching.broadcast(jnp.ones(2), 3, 1).shape == (2, 3)


def test_types_of_batches():
    aval = ShapedArray((3, 2), "float32")
    assert core.unmapped_aval(4, 1, core.mapped_aval(3, 0, aval)) == ShapedArray((2, 4), "float32")


def test_bind_gives_one_result_or_a_list():
    x = jnp.array([3.0, 1.0, 2.0])
    assert float(lax.sin_p.bind(0.0)) == 0.0 and not lax.sin_p.multiple_results
    assert float(jax.grad(lambda x: lax.log_p.bind(x, accuracy=None))(4.0)) == 0.25
    assert lax.top_k_p.multiple_results and type(lax.top_k_p.bind(x, k=1, axis=0)) is list
    assert type(jax.jit(lambda x: lax.top_k_p.bind(x, k=2, axis=0)[0])(x).tolist()) is list


def test_an_interpreter_binds_each_equation():
    def f(x):
        halves = jnp.split(lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), 2)
        return (
            lax.fori_loop(0, 3, lambda i, y: y * halves[0], halves[1]),
            lax.top_k(x, 1),
            jax.jit(jnp.exp)(x),
        )

    x = jnp.array([1.0, 2.0])
    closed = jax.make_jaxpr(f)(x)
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True)) | {
        closed.jaxpr.invars[0]: x
    }
    read = lambda v: v.val if isinstance(v, core.Literal) else env[v]
    for eqn in closed.jaxpr.eqns:
        outs = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
        env.update(
            zip(eqn.outvars, outs if eqn.primitive.multiple_results else [outs], strict=True)
        )
    found = list(map(read, closed.jaxpr.outvars))
    assert all(np.array_equal(a, b) for a, b in zip(found, jax.tree.leaves(f(x)), strict=True))


def test_the_rule_of_types_runs_once_a_bind():
    calls = []

    def rule(x, *, k):
        calls.append(x)
        return x

    for define in ("def_abstract_eval", "def_effectful_abstract_eval"):
        p = core.Primitive("once")
        getattr(p, define)(
            rule if define == "def_abstract_eval" else lambda x, k: (rule(x, k=k), set())
        )
        calls.clear()
        with jax.enable_checks(False):  # which asks the rule again
            jax.make_jaxpr(lambda x, p=p: p.bind(x, k={}))(1.0)
        assert len(calls) == 1


def test_primitives_of_lax_as_libraries_see_them():
    aval = ShapedArray((2,), np.float32)
    assert isinstance(lax.add_p, core.Primitive)
    assert lax.add_p.abstract_eval(aval, aval) == (aval, frozenset())
    np.testing.assert_array_equal(lax.add_p.impl(np.float32([1, 2]), np.float32([3, 4])), [4, 6])
    assert [a.shape for a in lax.top_k_p.abstract_eval(aval, k=1, axis=0)[0]] == [(1,), (1,)]
    assert lax.add_p.get_bind_params({"a": 1}) == {"a": 1}
    assert str(aval.update_weak_type(True)) == "~float32[2]"
    assert aval.update_weak_type(True).strip_weak_type() is aval
    np.testing.assert_array_equal(ad.Zero(aval).instantiate(), [0, 0])


class Wrapper:
    def __init__(self, x):
        self.x = x

    def __jax_array__(self):
        return self.x


def test_objects_that_stand_for_arrays():
    x, stands = jnp.ones(3), Wrapper(jnp.full(3, 2.0))
    for sum_ in (
        stands + x,
        x + stands,
        jnp.add(stands, x),
        lax.add(stands, x),
        jax.jit(lambda y: stands + y)(x),
        jax.vmap(lambda y: stands + y)(x[None])[0],
        jax.jvp(lambda y: y + stands, (x,), (x,))[0],
    ):
        np.testing.assert_array_equal(sum_, [3, 3, 3])
    assert float(jnp.sum(stands)) == 6


def test_debug_info_under_names_of_jax():
    def f(x):
        return x

    info = jax.make_jaxpr(f)(1.0).jaxpr.debug_info
    assert info.func_name == "f"
    assert info.func_filename.endswith("test_primitives.py")
    assert info.func_src_info == f"f at {info.func_filename}:{info.func_lineno}"


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_interpreters_bind_functions_with_rules(kind):
    if kind == "jvp":
        f = jax.custom_jvp(lambda x: 2 * x)
        f.defjvp(lambda primals, tangents: (f(*primals), 5 * tangents[0]))
    else:
        f = jax.custom_vjp(lambda x: 2 * x)
        f.defvjp(lambda x: (f(x), ()), lambda _, ct: (5 * ct,))
    (eqn,) = jax.make_jaxpr(f)(1.0).jaxpr.eqns
    params = eqn.primitive.get_bind_params(eqn.params)
    assert params["subfuns"][0].call_wrapped(3.0) in ([6.0], (6.0,))
    assert eqn.primitive.bind(3.0, **params) == [6.0]
    assert jax.grad(lambda x: eqn.primitive.bind(x, **params)[0])(3.0) == 5.0
    assert "custom" in str(jax.make_jaxpr(lambda x: eqn.primitive.bind(x, **params))(3.0))


def test_rules_of_libraries_get_tuples():
    p = core.Primitive("many")
    p.multiple_results = True
    p.def_abstract_eval(lambda *avals: list(avals))
    p.def_impl(lambda *xs: list(xs))
    seen = []

    def jvp(primals, tangents):
        seen.extend([primals, tangents])
        return list(primals), list(tangents)

    def batch(args, dims):
        seen.extend([args, dims])
        return list(args), list(dims)

    ad.primitive_jvps[p], batching.primitive_batchers[p] = jvp, batch
    jax.jvp(p.bind, (1.0,), (1.0,))
    jax.vmap(p.bind)(np.ones(2))
    assert [type(x) for x in seen] == [tuple] * 4


def test_an_implementation_of_a_primitive_of_ours_can_be_replaced():
    own, mine = lax.cos_p.impl, lambda x, **_: np.float32(7)
    seen = []
    lax.cos_p.def_impl(
        lambda x, **params: seen.append(x) or own(x, **params)
    )  # as libraries count calls
    assert abs(float(lax.cos(2.0)) - np.cos(2.0)) < 1e-6 and seen == [2.0]
    assert lax.cos_p.def_impl(mine) is mine
    try:
        assert lax.cos(1.0) == 7 and lax.cos_p.impl(1.0) == 7
        assert abs(float(jax.jit(lax.cos)(1.0)) - np.cos(1.0)) < 1e-6
    finally:
        lax.cos_p.def_impl(own)
    assert abs(float(lax.cos(1.0)) - np.cos(1.0)) < 1e-6


def test_bind_under_another_trace():
    outer = []

    def f(x):
        outer.append(current_trace())
        return jax.vmap(lambda y: y + lax.neg_p.bind_with_trace(outer[0], (x,), {}))(jnp.ones(2))

    assert str(jax.make_jaxpr(f)(1.0)).count("neg") == 1
    assert not lax.neg_p.skip_canonicalization


def _both(x):
    return jnp.sin(x), jnp.cos(x)


def _with_jvp(f):
    f = jax.custom_jvp(f)
    f.defjvp(lambda primals, tangents: (f(*primals), (tangents[0], tangents[0])))
    return f


def _with_vjp(f):
    f = jax.custom_vjp(f)
    f.defvjp(lambda x: (f(x), None), lambda _, cts: (cts[0],))
    return f


@pytest.mark.parametrize(
    "call",
    [
        jax.jit,
        jax.checkpoint,
        _with_jvp,
        _with_vjp,
        jax.custom_batching.sequential_vmap,
        lambda f: lambda x: lax.cond(x > 0, f, f, x),
        lambda f: lambda x: lax.scan(lambda c, _: (c + 1, f(c)), x, None, length=2),
        lambda f: lambda x: lax.while_loop(lambda c: c[0] > 9, lambda c: f(c[0]), (x, x)),
        lambda f: lambda x: lax.optimization_barrier((x, x)),
        lambda f: lambda x: lax.sort((jnp.ones(3) * x, jnp.ones(3)), num_keys=1),
    ],
)
def test_primitives_of_several_results_say_so(call):
    """Interpreters of libraries ask for it."""
    eqns = jax.make_jaxpr(call(_both))(1.0).eqns
    assert any(len(eqn.outvars) > 1 for eqn in eqns)
    for eqn in eqns:
        assert len(eqn.outvars) == 1 or eqn.primitive.multiple_results, eqn
