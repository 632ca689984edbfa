"""Jaxprs, equations, tracers and scan's parameters as libraries of JAX's releases make and read
them."""

import numpy as np
import pytest
from compat_process import python

import teucer as jax
import teucer.numpy as jnp
from teucer._jax import forms
from teucer.extend import core
from teucer.extend.core import primitives
from teucer.lax._control import groups

ARRAY = jnp.arange(3.0)


def closed():
    return jax.make_jaxpr(lambda x: ARRAY + x)(1.0)


def values(jaxpr, *args):
    return [np.asarray(y).tolist() for y in core.jaxpr_as_fun(jaxpr)(*args)]


def test_equations_are_made_in_the_order_of_jax():
    jaxpr = jax.make_jaxpr(jnp.sin)(0.0)
    (eqn,) = jaxpr.eqns
    for made in (
        core.new_jaxpr_eqn(eqn.invars, eqn.outvars, jax.lax.cos_p, eqn.params, set()),
        core.new_jaxpr_eqn(
            eqn.invars,
            eqn.outvars,
            primitive=jax.lax.cos_p,
            params=eqn.params,
            effects=eqn.effects,
            source_info=eqn.source_info,
            ctx=eqn.ctx,
        ),
        core.JaxprEqn(
            eqn.invars,
            eqn.outvars,
            jax.lax.cos_p,
            eqn.params,
            eqn.effects,
            eqn.source_info,
            eqn.ctx,
        ),
        eqn.replace(primitive=jax.lax.cos_p, source_info=eqn.source_info, ctx=eqn.ctx),
    ):
        assert isinstance(made, core.JaxprEqn) and isinstance(eqn, core.JaxprEqn)
        assert not isinstance(jaxpr, core.JaxprEqn)
        assert values(jaxpr.replace(eqns=[made]), 0.0) == [1.0]
    assert made.source_info == eqn.source_info and made.place == eqn.place
    assert made.effects == frozenset()


def test_jaxprs_are_made_in_the_order_of_jax():
    k = closed()
    fields = (k.constvars, k.invars, k.outvars, k.eqns, k.effects, k.debug_info)
    opened = core.Jaxpr(*fields)
    assert isinstance(opened, core.Jaxpr)
    for made in (
        core.Jaxpr(*fields, False, k.consts),
        core.Jaxpr(opened, k.consts),
        core.ClosedJaxpr(opened, k.consts),
        core.ClosedJaxpr(jaxpr=opened, consts=k.consts),
        core.Jaxpr(
            constvars=k.constvars, invars=k.invars, outvars=k.outvars, eqns=k.eqns, consts=k.consts
        ),
        k.replace(consts=k.consts),
        k.replace(jaxpr=opened),
        k.with_consts(k.consts),
        k.replace(debug_info=k.debug_info, effects=k.effects),
    ):
        assert isinstance(made, core.ClosedJaxpr)
        assert values(made, 1.0) == [[1.0, 2.0, 3.0]] and made.num_consts == 1
        assert made.all_invars == [*k.constvars, *k.invars]
    # Without values the constants are arguments.
    assert values(core.ClosedJaxpr(opened, ()), ARRAY, 1.0) == [[1.0, 2.0, 3.0]]
    assert values(k.replace(eqns=[], outvars=k.invars), 5.0) == [5.0]


def test_closed_and_open_are_one_class_from_0_12_on():
    k = closed()
    joined = core.Jaxpr is core.ClosedJaxpr
    assert joined is forms.JOINED
    assert isinstance(k, core.Jaxpr) is isinstance(k.jaxpr, core.ClosedJaxpr) is joined
    assert isinstance(k, core.ClosedJaxpr) and isinstance(k.jaxpr, core.Jaxpr)
    # An interpreter that knows one class alone.
    assert k.jaxpr.jaxpr is k.jaxpr and k.jaxpr.consts == [] and k.jaxpr.eqns is k.eqns
    assert not issubclass(int, core.Jaxpr) and issubclass(type(k.jaxpr), core.Jaxpr)


def scan(n_consts, n_carry, n_xs):
    """A scan with that many operands, and its equation."""
    consts, carry, xs = (jnp.arange(1.0, n + 1) for n in (n_consts, n_carry, n_xs))

    def f(consts, carry, xs):
        def body(carry, xs):
            total = sum([*consts, *xs], jnp.float32(1))
            return [c + total for c in carry], [2 * x for x in xs]

        return jax.lax.scan(body, carry, xs, length=2)

    operands = list(consts), list(carry), [jnp.stack([x, x]) for x in xs]
    jaxpr = jax.make_jaxpr(f)(*operands)
    (eqn,) = [e for e in jaxpr.eqns if e.primitive is primitives.scan_p]
    return eqn, jax.tree.leaves(operands), jax.tree.leaves(f(*operands))


@pytest.mark.parametrize("sizes", [(0, 1, 1), (2, 1, 3), (1, 2, 0), (3, 0, 1)])
def test_scan_says_its_groups(sizes):
    eqn, operands, expected = scan(*sizes)
    params = eqn.params
    assert (params["num_consts"], params["num_carry"]) == sizes[:2]
    given = groups.by_group(dict(params))
    if not groups.GROUPED:
        assert "ft_in" not in params and given == params
        return
    assert "ft_in" in params and params.get("ft_out") == params["ft_out"]
    assert sorted(given) == ["ft_in", "ft_out", "jaxpr", "length", "reverse", "unroll"]
    for ft in (params["ft_in"], params.copy()["ft_in"], given["ft_in"]):
        ins = ft.update(eqn.invars).unpack()
        assert [len(g.vals) for g in ins] == list(sizes)
        assert [v for g in ins for v in g.vals] == list(eqn.invars)
    outs = params["ft_out"].update(eqn.outvars).unpack()
    assert [len(g) for g in outs] == [sizes[1], sizes[2]]
    with pytest.raises(KeyError):
        params["ft_nothing"]


@pytest.mark.parametrize("sizes", [(0, 1, 1), (2, 1, 3), (1, 2, 0)])
def test_scan_is_bound_by_groups_or_by_counts(sizes):
    eqn, operands, expected = scan(*sizes)
    counts = dict(eqn.params)
    flat = (groups.nones(n) for n in (*sizes, sizes[1], sizes[2]))
    consts, carry, xs, carried, ys = flat
    named = {
        **{name: v for name, v in counts.items() if not name.startswith("num_")},
        "ft_in": groups.pack((consts, carry, xs)),
        "ft_out": groups.pack((carried, ys)),
    }
    for params in (counts, named, {**counts, **named}, eqn.params):
        for call in (
            lambda params: eqn.primitive.bind(*operands, **params),
            lambda params: jax.jit(lambda *xs: eqn.primitive.bind(*xs, **params))(*operands),
            lambda params: bound_in_trace(eqn.primitive, operands, params),
        ):
            outs = call(params)
            assert [np.asarray(y).tolist() for y in outs] == [y.tolist() for y in expected]


def bound_in_trace(primitive, operands, params):
    with core.take_current_trace() as trace:
        first = primitive.bind_with_trace(trace, operands, params)
        avals = [jax.typeof(x) for x in operands]
        second = primitive.bind_with_trace(trace, operands, avals, params)
    assert [x.tolist() for x in first] == [x.tolist() for x in second]
    return second


def test_flat_trees():
    tree = groups.flatten(({"a": 1, "b": 2}, [3], 4))
    assert tree.unflatten() == ({"a": 1, "b": 2}, [3], 4) and tree.vals == (1, 2, 3, 4)
    first, second, third = tree.unpack()
    assert first.unflatten() == {"a": 1, "b": 2} and not first.unpackable and second.vals == (3,)
    assert tree.map(lambda x: 2 * x).vals == (2, 4, 6, 8) and third[0] == 4 and len(tree) == 4
    assert tree.map2(tree, lambda x, y: x + y) == tree.map(lambda x: 2 * x)
    assert tree.enumerate().vals[2] == (2, 3)
    assert tree.update("abcd").unpack()[1].vals == ("c",) and list(tree) == [1, 2, 3, 4]
    assert groups.nones(2) == groups.nones(2) != groups.nones(3)
    assert hash(groups.nones(2)) == hash(groups.nones(2))
    with pytest.raises(ValueError, match="4 values takes as many, not 1"):
        tree.update([1])
    with pytest.raises(TypeError, match="no groups"):
        first.unpack()
    with pytest.raises(TypeError, match="tuple of flat trees"):
        groups.pack([tree])


def test_tracers_of_libraries_may_be_given_their_type():
    class Given(jax.core.Tracer):
        def __init__(self, trace, val):
            super().__init__(trace, jax.typeof(val))
            self.val = val

    class Assigned(jax.core.Tracer):
        def __init__(self, trace, val):
            self._trace, self.val = trace, val
            self.aval = jax.typeof(val)

    class Unsaid(jax.core.Tracer):
        def __init__(self, trace, val):
            super().__init__(trace)

    with core.take_current_trace() as trace:
        for kind in (Given, Assigned):
            assert jax.typeof(kind(trace, ARRAY)) == jax.typeof(ARRAY)
            assert kind(trace, ARRAY).shape == (3,)
        with pytest.raises(NotImplementedError, match=r"Unsaid\.aval"):
            Unsaid(trace, ARRAY).aval  # noqa: B018  # reading it raises


def test_traces_of_libraries_see_the_groups():
    python("""
        import jax, jax.numpy as jnp
        from jax.extend.core import take_current_trace, set_current_trace, primitives
        seen = []
        class Tracer(jax.core.Tracer):
            def __init__(self, trace, val):
                super().__init__(trace, jax.typeof(val))
                self.val = val
        class Trace(jax.core.Trace):
            def __init__(self, parent):
                super().__init__()
                self.parent_trace = parent
            def process_primitive(self, primitive, tracers, params):
                if primitive is primitives.scan_p:
                    seen.append(params)
                vals = [x.val if isinstance(x, Tracer) else x for x in tracers]
                avals = [jax.typeof(x) for x in vals]
                outs = primitive.bind_with_trace(self.parent_trace, vals, avals, params)
                if primitive.multiple_results:
                    return [Tracer(self, y) for y in outs]
                return Tracer(self, outs)
        values = jnp.arange(3.0)
        with take_current_trace() as parent:
            trace = Trace(parent)
            with set_current_trace(trace):
                x = Tracer(trace, values)
                carry, ys = jax.lax.scan(lambda c, y: (c + y, 2 * y), 0.0, x)
        assert carry.val == 3.0 and ys.val.tolist() == [0.0, 2.0, 4.0]
        (params,) = seen
        if jax.__version_info__ >= (0, 11):
            assert sorted(params) == ["ft_in", "ft_out", "jaxpr", "length", "reverse", "unroll"]
            from jax._src import flattree
            consts, carry, xs = params["ft_in"].unpack()
            assert (len(consts), len(carry), len(xs)) == (0, 1, 1)
            assert carry == flattree.nones(1)
        else:
            assert params["num_carry"] == 1 and "ft_in" not in params
    """)
