"""Traces that libraries bring: programs interpreted while they run."""

import numpy as np
import pytest

import teucer as jax
from teucer import core
from teucer import numpy as jnp
from teucer._jax.old_names import DEPRECATED
from teucer.extend import core as extend
from teucer.extend.core import primitives
from teucer.extend.linear_util import wrap_init


class Counted(core.Tracer):
    """A value and how many primitives it took."""

    def __init__(self, trace, value, count):
        super().__init__(trace)
        self.value, self.count = value, count

    @property
    def aval(self):
        return jax.typeof(self.value)


class Counting(core.Trace):
    def __init__(self, parent, tag):
        super().__init__()
        self.outside, self.tag = parent, tag

    def parts(self, x):
        ours = isinstance(x, Counted) and x._trace.tag is self.tag
        return (x.value, x.count) if ours else (x, 0)

    def process_primitive(self, primitive, tracers, params):
        values, counts = zip(*map(self.parts, tracers), strict=True)
        with extend.set_current_trace(self.outside):
            out = primitive.bind(*values, **params)
        made = [
            Counted(self, y, sum(counts) + 1)
            for y in (out if primitive.multiple_results else [out])
        ]
        return made if primitive.multiple_results else made[0]

    def process_custom_jvp_call(self, primitive, fun, jvp, tracers, *, symbolic_zeros):
        return fun.call_wrapped(*tracers)


def counted(f):
    def wrapped(x):
        with extend.take_current_trace() as parent:
            trace = Counting(parent, extend.TraceTag())
            with extend.set_current_trace(trace):
                out = f(Counted(trace, x, 0))
        return trace.parts(out)

    return wrapped


def test_a_trace_of_a_library():
    value, count = counted(lambda x: jnp.sin(x) * 2 + x)(3.0)
    assert float(value) == pytest.approx(np.sin(3.0) * 2 + 3.0) and count == 3
    value, count = counted(lambda x: jax.lax.top_k(x, 2)[0])(jnp.arange(3.0))
    assert value.tolist() == [2.0, 1.0] and count == 1


def test_under_and_over_transformations():
    f = lambda x: counted(lambda y: jnp.sin(y) * y)(x)[0]
    x = jnp.arange(3.0)
    for g in (jax.jit(f), jax.vmap(f), lambda x: jax.jit(jax.vmap(f))(x)):
        assert np.allclose(g(x), np.sin(x) * x)
    assert float(jax.grad(f)(2.0)) == pytest.approx(np.sin(2.0) + 2 * np.cos(2.0))
    value, _ = counted(jax.grad(lambda x: x**3))(2.0)
    assert float(value) == 12.0


def test_functions_with_rules_come_to_their_own_method():
    value, count = counted(jax.nn.relu)(3.0)
    assert float(value) == 3.0 and count == 1

    class Lacks(core.Trace):
        pass

    with (
        pytest.raises(NotImplementedError, match="Lacks must define process_primitive"),
        extend.set_current_trace(Lacks()),
    ):
        jax.lax.sin(1.0)
    with (
        pytest.raises(NotImplementedError, match="process_custom_jvp_call"),
        extend.set_current_trace(Lacks()),
    ):
        with_rule(1.0)


with_rule = jax.custom_jvp(lambda x: 2 * x)
with_rule.defjvp(lambda p, t: (2 * p[0], 2 * t[0]))


def test_every_trace_is_one():
    with extend.take_current_trace() as trace:
        assert isinstance(trace, core.Trace) and not isinstance(trace, Counting)
    assert not isinstance(3, core.Trace)


@pytest.mark.parametrize("p", [primitives.call_p, primitives.closed_call_p], ids=str)
def test_calls_run_their_function(p):
    f = lambda x: p.bind(x, subfuns=(wrap_init(lambda y: [jnp.sin(y), y]),))
    assert [float(y) for y in f(0.0)] == [0.0, 0.0] and p.multiple_results and p.call_primitive
    assert float(jax.jit(jax.grad(lambda x: f(x)[0]))(0.0)) == 1.0
    assert [float(y) for y in p.bind(wrap_init(lambda y: [y]), 2.0)] == [2.0]


def test_core_has_the_names_of_jax():
    for name in ("Primitive", "Jaxpr", "ClosedJaxpr", "Literal", "Var", "jaxpr_as_fun"):
        assert not hasattr(core, name) and hasattr(extend, name)
    with pytest.warns(
        DeprecationWarning, match="jax.core.DropVar is deprecated. Use jax.extend.core.DropVar."
    ):
        assert core.DropVar is extend.DropVar
    with pytest.raises(AttributeError, match="removed in JAX v0.10.0; use jax.typeof instead"):
        core.get_aval  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'nope'"):
        core.nope  # noqa: B018


def test_every_deprecated_name_is_there():
    for name, (_, _, said) in DEPRECATED.items():
        with pytest.warns(DeprecationWarning, match=f"jax.core.{name} is deprecated"):
            assert getattr(core, name) is not None
        _, use, advice = said.partition(" Use ")
        assert not use or advice in (f"jax.extend.core.{name}.", f"jax.errors.{name}.")


def test_a_rule_for_an_inner_function():
    f = jax.custom_vjp(jax.custom_batching.custom_vmap(lambda x: jnp.sin(x)))
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * jnp.cos(x),))

    @f.def_vmap
    def rule(size, batched, x):
        return 3 * x, batched[0]

    assert jax.vmap(f)(jnp.ones(2)).tolist() == [3.0, 3.0] and float(jax.grad(f)(0.0)) == 1.0
    with pytest.raises(
        AttributeError,
        match="'custom_jvp' object has no attribute 'def_vmap'|no attribute 'def_vmap'",
    ):
        jax.custom_jvp(lambda x: x).def_vmap  # noqa: B018
