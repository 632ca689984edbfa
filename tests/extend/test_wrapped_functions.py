"""What libraries build transformations of.

Wrapped functions, flat arguments, partial evaluation, the state of traces.
"""

import numpy as np
import pytest

import teucer as jax
from teucer import api_util
from teucer import numpy as jnp
from teucer.core import ShapedArray
from teucer.extend import core
from teucer.extend import linear_util as lu
from teucer.interpreters import batching, xla
from teucer.interpreters import partial_eval as pe


@lu.transformation
def scaled(factor, *args):
    out = yield tuple(factor * a for a in args), {}
    yield [out]


@lu.transformation2
def shifted(f, by, *args):
    return f(*(a + by for a in args))


@lu.transformation_with_aux
def counted(*args):
    out = yield args, {}
    yield out, len(args)


@lu.transformation_with_aux2
def counted2(f, store, *args):
    store.store(len(args))
    return f(*args)


def subtract(x, y):
    return x - y


def test_transformations_nest_outermost_last():
    f = shifted(scaled(lu.wrap_init(subtract), 3), 10)
    assert f.call_wrapped(5, 1) == [3 * 15 - 3 * 11]
    assert f.transforms[0][1] == (10,)
    assert (
        f
        == shifted(scaled(lu.wrap_init(subtract), 3), 10)
        != shifted(scaled(lu.wrap_init(subtract), 4), 10)
    )
    assert hash(f) == hash(shifted(scaled(lu.wrap_init(subtract), 3), 10))
    assert "Core: subtract" in repr(f)
    assert lu.wrap_init(subtract, {"y": 2}).call_wrapped(5) == 3


@pytest.mark.parametrize("transformation", [counted, counted2])
def test_what_is_handed_out_is_stored_once(transformation):
    f, count = transformation(lu.wrap_init(subtract))
    with pytest.raises(lu.StoreException, match="Store empty"):
        count()
    assert (f.call_wrapped(5, 1), count()) == (4, 2)
    with pytest.raises(lu.StoreException, match="Store occupied"):
        f.call_wrapped(5, 1)


def test_equal_values_may_be_stored_again():
    f, count = counted2(lu.wrap_init(max), use_eq_store=True)
    f.call_wrapped(1, 2)
    f.call_wrapped(3, 4)
    with pytest.raises(lu.StoreException, match="Store occupied"):
        f.call_wrapped(1, 2, 3)
    assert count() == 2


def test_merge_linear_aux():
    f, full = counted(lu.wrap_init(subtract))
    f.call_wrapped(1, 2)
    _, empty = counted(lu.wrap_init(subtract))
    assert lu.merge_linear_aux(full, empty) == (True, 2)
    assert lu.merge_linear_aux(empty, full) == (False, 2)
    with pytest.raises(lu.StoreException, match="both stores occupied"):
        lu.merge_linear_aux(full, full)
    with pytest.raises(lu.StoreException, match="neither store occupied"):
        lu.merge_linear_aux(empty, empty)


def test_cache_runs_once_and_hands_out_again():
    runs = []

    @lu.cache
    def run(fun, x):
        runs.append(x)
        return fun.call_wrapped(x, 1)

    for _ in range(2):
        f, count = counted2(lu.wrap_init(subtract))
        assert (run(f, 5), count()) == (4, 2)
    assert runs == [5]
    with jax.enable_x64(True):
        run(counted2(lu.wrap_init(subtract))[0], 5)
    assert runs == [5, 5]


def test_flatten_fun():
    args = ((1, {"b": 2}), {"k": 3})
    leaves, tree = jax.tree.flatten(args)
    f, out_tree = api_util.flatten_fun(lu.wrap_init(lambda x, d, k: {"out": (x, d["b"], k)}), tree)
    assert f.call_wrapped(*leaves) == [1, 2, 3]
    assert jax.tree.unflatten(out_tree(), [1, 2, 3]) == {"out": (1, 2, 3)}
    f, out_tree = api_util.flatten_fun_nokwargs(
        lu.wrap_init(lambda x, y: (y, x)), jax.tree.structure((0, 0))
    )
    assert (f.call_wrapped(1, 2), out_tree()) == ([2, 1], jax.tree.structure((0, 0)))


def test_argnums():
    f, dynamic = api_util.argnums_partial(lu.wrap_init(subtract), -1, (5, 3))
    assert (dynamic, f.call_wrapped(*dynamic)) == ((3,), 2)
    with pytest.raises(ValueError, match=r"Non-hashable static arguments .*index 1.*subtract"):
        api_util.argnums_partial(lu.wrap_init(subtract), 0, (5, []))
    assert api_util.donation_vector(
        (0,), ("b",), jax.tree.structure(((1, (2, 3)), {"a": 1, "b": (1, 2)}))
    ) == (True, False, False, False, True, True)
    assert api_util.donation_vector((1,), (), jax.tree.structure((1, (2, 3))), kws=False) == (
        False,
        True,
        True,
    )
    assert api_util.rebase_donate_argnums((3, 1), (0,)) == (0, 2)
    with pytest.raises(ValueError, match=r"cannot intersect(.|\n)*in both: \[2\]"):
        api_util.rebase_donate_argnums((0, 2), (2,))


def wrapped(f, n):
    return api_util.flatten_fun_nokwargs(lu.wrap_init(f), jax.tree.structure((0,) * n))[0]


def test_partial_evaluation_records_what_is_not_known():
    known, unknown = jnp.arange(3.0), ShapedArray((3,), jnp.float32)
    f = lambda x, y: (2 * x, y + 1, x + y, jnp.ones(2))
    pvals = [pe.PartialVal.known(known), pe.PartialVal.unknown(unknown)]
    jaxpr, outs, consts = pe.trace_to_jaxpr_nounits(wrapped(f, 2), pvals)
    assert [p.is_known() for p in outs] == [True, False, False, True]
    np.testing.assert_array_equal(outs[0].get_known(), [0, 2, 4])
    assert (len(jaxpr.invars), outs[1].get_aval()) == (1, unknown)
    for y, expected in zip(
        jax.core.eval_jaxpr(jaxpr, consts, jnp.ones(3)), f(known, jnp.ones(3))[1:3], strict=True
    ):
        np.testing.assert_array_equal(y, expected)
    jaxpr, outs, consts = pe.trace_to_jaxpr_nounits(
        wrapped(f, 2), pvals, instantiate=[True, False, False, False]
    )
    assert [p.is_known() for p in outs] == [False, False, False, True]
    assert len(jax.core.eval_jaxpr(jaxpr, consts, jnp.ones(3))) == 3


def test_recording_and_dead_code():
    aval, captured = ShapedArray((), jnp.float32), jnp.arange(3.0)
    f = lambda x, y, z: (jnp.sin(x) + captured, y * jnp.cos(x), z)
    jaxpr, out_avals, consts = pe.trace_to_jaxpr_dynamic(wrapped(f, 3), [aval] * 3)
    assert [a.shape for a in out_avals] == [(3,), (), ()] and len(consts) == 1
    live, used = pe.dce_jaxpr(jaxpr, [False, True, False])
    assert used == [True, True, False] and [str(e.primitive) for e in live.eqns] == ["cos", "mul"]
    assert len(live.constvars) == 1
    live, used_consts, used = pe.dce_jaxpr_consts(
        jaxpr, [False, True, False], instantiate=[False, False, True]
    )
    assert (live.constvars, used_consts, used, len(live.invars)) == (
        [],
        [False],
        [True, True, True],
        3,
    )


def test_trace_state_tells_transformations_apart():
    outside, seen = core.get_opaque_trace_state(), []

    def f(x):
        state = core.get_opaque_trace_state(convention="flax")
        jnp.sin(x)
        seen.append(
            (
                state == outside,
                state == core.get_opaque_trace_state(),
                *(s[-1] == state for s in seen),
                state,
            )
        )
        return x

    for transform in (
        jax.jit,
        jax.vmap,
        lambda g: jax.grad(lambda x: g(x).sum()),
        lambda g: jax.vmap(jax.grad(g)),
    ):
        transform(f)(jnp.ones(2))
    assert [s[:2] for s in seen] == [(False, True)] * 4
    assert not any(same for s in seen for same in s[2:-1])
    assert outside == core.get_opaque_trace_state()


def test_what_a_function_is_under():
    def state(x, out):
        out[:] = [
            core.unsafe_get_axis_names_DO_NOT_USE(),
            core.nonempty_axis_env_DO_NOT_USE(),
            core.unsafe_am_i_under_a_jit_DO_NOT_USE(),
            core.unsafe_am_i_under_a_vmap_DO_NOT_USE(),
        ]
        return x

    outs = [], [], []
    state(1.0, outs[0])
    jax.vmap(lambda x: jax.jvp(lambda y: state(y, outs[1]), (x,), (x,)), axis_name="i")(jnp.ones(2))
    jax.jit(lambda x: state(x, outs[2]))(1.0)
    assert outs == ([[], False, False, False], [["i"], True, False, True], [[], False, True, False])


def test_concrete_or_error():
    assert core.concrete_or_error(int, jnp.int32(3)) == 3
    assert core.concrete_or_error(None, 3.0) == 3.0
    with pytest.raises(jax.errors.ConcretizationTypeError, match="the size must be known"):
        jax.jit(lambda n: core.concrete_or_error(int, n, "the size must be known"))(3)


def test_current_trace_may_be_set_aside():
    def f(x):
        with core.take_current_trace() as inner, core.set_current_trace(inner.parent):
            known = jnp.sin(1.0)
        assert not isinstance(known, jax.core.Tracer)
        assert core.find_top_trace((x,)) is inner is inner.main
        return x * known

    np.testing.assert_allclose(jax.jit(f)(2.0), 2 * np.sin(1.0), rtol=1e-6)


def test_axis_batchers():
    seen = []
    p = core.Primitive("double")
    p.def_impl(lambda x: 2 * x)

    def rule(size, name, trace_type, args, dims, *, k):
        seen.append((size, name, trace_type, dims, k))
        return 2 * args[0], dims[0]

    batching.axis_primitive_batchers[p] = rule
    np.testing.assert_array_equal(
        jax.vmap(lambda x: p.bind(x, k=1), 1, 1, axis_name="i")(jnp.ones((2, 3))),
        np.full((2, 3), 2),
    )
    assert seen == [(3, "i", None, (1,), 1)]
    built_in = batching.axis_primitive_batchers[jax.lax.sin_p]
    assert built_in(3, None, None, (jnp.ones((2, 3)),), (1,), accuracy=None)[1] == 1


def test_values_of_classes_of_libraries():
    class Box:
        def __init__(self, value):
            self.value = value

    with pytest.warns(DeprecationWarning, match="pytype_aval_mappings is deprecated"):
        mappings = jax.core.pytype_aval_mappings
    mappings[Box] = lambda b: ShapedArray(b.value.shape, jnp.float32)
    xla.canonicalize_dtype_handlers[Box] = lambda b: xla.canonicalize_dtype_handlers[np.ndarray](
        b.value
    )
    try:
        box = Box(np.array([1.0, 2.0]))
        np.testing.assert_array_equal(jax.jit(lambda x: x + 1)(box), [2, 3])
        np.testing.assert_array_equal(jax.grad(lambda x: jnp.sum(x * x))(box), [2, 4])
    finally:
        del mappings[Box], xla.canonicalize_dtype_handlers[Box]
    assert xla.canonicalize_dtype_handlers[np.ndarray](np.arange(2)).dtype == np.int32


def test_primitives_that_carry_programs():
    (eqn,) = jax.make_jaxpr(jax.jit(lambda x: jax.random.normal(x)))(jax.random.key(0)).eqns
    assert eqn.primitive is core.primitives.jit_p
    (eqn,) = jax.make_jaxpr(jax.checkpoint(lambda x: x + 1))(1.0).eqns
    assert eqn.primitive is core.primitives.remat_p
    with pytest.raises(AttributeError, match="no_such_p"):
        getattr(core.primitives, "no_such_p")  # noqa: B009


def test_primitives_of_libraries_in_ensure_compile_time_eval():
    p = core.Primitive("same")
    p.def_impl(lambda x: x)
    p.def_abstract_eval(lambda x: x)

    def f(x):
        with jax.ensure_compile_time_eval():
            assert p.bind(2.0) == 2.0
            return p.bind(x)

    assert [e.primitive for e in jax.make_jaxpr(f)(1.0).eqns] == [p]


def test_interpreters_written_for_jax():
    """A jaxpr is evaluated equation by equation, with what primitives say of their results."""

    def evaluate(jaxpr, consts, *args):
        env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))
        read = lambda v: v.val if isinstance(v, core.Literal) else env[v]
        for eqn in jaxpr.eqns:
            assert not (eqn.primitive.call_primitive or eqn.primitive.map_primitive)
            outs = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
            env.update(
                zip(eqn.outvars, outs if eqn.primitive.multiple_results else [outs], strict=True)
            )
        return [read(v) for v in jaxpr.outvars]

    halve = core.Primitive("halve")
    halve.def_impl(lambda x: x / 2)
    halve.def_abstract_eval(lambda x: x)
    f = lambda x: jax.jit(jnp.sin)(halve.bind(x)) + jax.lax.cond(x > 0, jnp.cos, jnp.exp, x)
    closed = jax.make_jaxpr(f)(1.0)
    np.testing.assert_allclose(
        evaluate(closed.jaxpr, closed.consts, 3.0)[0], np.sin(1.5) + np.cos(3.0), rtol=1e-6
    )


def test_callables_with_any_name():
    class Mean:
        __name__ = 3.0

        def __call__(self, x):
            return 2 * x

    assert jax.vmap(Mean())(jnp.ones(2)).sum() == 4
    assert jax.checkpoint(Mean())(1.0) == 2
    assert jax.grad(Mean())(1.0) == jax.jvp(Mean(), (1.0,), (1.0,))[1] == 2


def test_shapes_may_be_sequences_of_any_class():
    class Shape:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return (2, 3)[i]

        def __iter__(self):
            return iter((2, 3))

    assert jnp.zeros(Shape()).shape == jnp.full(Shape(), 1.0).shape == (2, 3)
    assert (
        jnp.reshape(jnp.arange(6), Shape()).shape == jnp.broadcast_to(1.0, Shape()).shape == (2, 3)
    )
    assert jax.random.normal(jax.random.key(0), Shape()).shape == (2, 3)


def test_members_of_the_abstract_array():
    x = jnp.arange(3.0)
    assert jax.Array.item(x[0]) == 0
    assert [jax.Array.shape.__get__(x), jax.Array.ndim.__get__(x), jax.Array.nbytes.__get__(x)] == [
        (3,),
        1,
        12,
    ]
    assert "item" in jax.Array.item.__name__
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(lambda x: x.item())(1.0)
