"""Name scopes and names of transformations: in jaxprs, and in the texts of programs."""

import linecache
import re

import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._base import config
from teucer._core import names
from teucer._core.jaxpr import jaxprs_in_params, subjaxprs
from teucer.experimental.xla_metadata import set_xla_metadata
from teucer.extend import source_info_util


def stacks(f, *args):
    """The name stacks of the equations of a function, without repetitions."""
    eqns = jax.make_jaxpr(f)(*args).eqns
    return list(dict.fromkeys(str(eqn.source_info.name_stack) for eqn in eqns))


def op_names(f, *args):
    """The names of operations in the text of a program."""
    text = jax.jit(f).lower(*args).as_text("hlo", debug_info=True)
    return set(re.findall('op_name="([^"]*)"', text))


def scoped(x):
    with jax.named_scope("a"), jax.named_scope("b"):
        return jnp.sin(x) * 2.0


def lines(f, *args):
    """The lines of this file from which the equations of a function come, those in it included."""
    found = set()

    def visit(jaxpr):
        for eqn in jaxpr.eqns:
            frame = source_info_util.user_frame(eqn.source_info.traceback)
            found.add(linecache.getline(frame.file_name, frame.start_line).strip())
        for inner in subjaxprs(jaxpr):
            visit(inner)

    visit(jax.make_jaxpr(f)(*args).jaxpr)
    return found


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: jnp.sin(x[0]), [""]),
        (lambda x: scoped(x), ["a/b"]),
        (jax.named_call(lambda x: scoped(x), name="f"), ["f/a/b"]),
        (jax.vmap(scoped), ["vmap(a)/b"]),
        (jax.named_scope("o")(jax.vmap(scoped)), ["o/vmap(a)/b"]),
        (lambda x: jax.jvp(scoped, (x,), (x,)), ["jvp(a)/b"]),
        (lambda x: jax.vjp(scoped, x)[1](x), ["jvp(a)/b", "transpose(jvp(a))/b"]),
        (jax.vmap(jax.grad(scoped)), ["vmap(jvp(a))/b", "vmap(transpose(jvp(a)))/b"]),
        (
            jax.named_scope("o")(jax.vmap(jax.grad(scoped))),
            ["o/vmap(jvp(a))/b", "o/vmap(transpose(jvp(a)))/b"],
        ),
        (
            lambda x: jax.linear_transpose(
                lambda y: 2.0 * jax.named_scope("s")(jnp.negative)(y), x
            )(x)[0],
            ["transpose()", "transpose(s)"],
        ),
    ],
    ids=lambda x: str(x) if isinstance(x, list) else "f",
)
def test_stacks_of_equations(f, expected):
    assert [s for s in stacks(f, jnp.ones(2)) if s or expected == [""]] == expected


WITHIN = {
    "jit": jax.jit(scoped),
    "scan": lambda x: lax.scan(lambda c, _: (scoped(c), None), x, None, length=2)[0],
    "cond": lambda x: lax.cond(x[0] > 0, scoped, lambda x: x, x),
    "checkpoint": jax.checkpoint(scoped),
    "jit in scan": lambda x: lax.scan(lambda c, _: (jax.jit(scoped)(c), None), x, None, length=2)[
        0
    ],
}


@pytest.mark.parametrize("name", WITHIN)
def test_stacks_within_are_those_of_a_call_and_its_own(name):
    """Products of a scope, within an operation that carries a jaxpr, say the scope in the forward
    and in the backward pass."""

    def visit(jaxpr, head):
        for eqn in jaxpr.eqns:
            stack = "/".join(filter(None, (head, str(eqn.source_info.name_stack))))
            for inner in jaxprs_in_params(eqn.params):
                yield from visit(inner, stack)
            if eqn.primitive.name == "mul":
                yield stack

    f = jax.named_scope("o")(WITHIN[name])
    found = set(visit(jax.make_jaxpr(lambda x: jax.vjp(f, x)[1](x))(jnp.ones(2)).jaxpr, ""))
    assert found == {"jvp(o)/a/b", "transpose(jvp(o))/a/b"}


def test_the_linear_program_of_linearize_does_not_say_what_is_around_it():
    with jax.named_scope("around"):
        _, push = jax.linearize(scoped, 1.0)
    assert stacks(jax.named_scope("other")(push), 1.0) == ["other/jvp(a)/b"]


def test_an_inner_jaxpr_does_not_say_what_is_around_the_call():
    @jax.jit
    def inner(x):
        return scoped(x)

    for name in ("one", "two"):  # the second finds what the first one traced
        (call,) = jax.make_jaxpr(jax.named_scope(name)(lambda x: inner(x)))(1.0).eqns
        assert str(call.source_info.name_stack) == name
        assert str(call.params["jaxpr"].eqns[0].source_info.name_stack) == "a/b"
    (call,) = jax.make_jaxpr(jax.vmap(inner))(jnp.ones(2)).eqns
    assert str(call.source_info.name_stack) == "vmap()"
    assert str(call.params["jaxpr"].eqns[0].source_info.name_stack) == "a/b"


def test_scopes_of_inlined_and_of_evaluated_jaxprs_stay():
    inner = jax.jit(scoped, inline=True)
    assert stacks(jax.named_scope("o")(inner), 1.0) == ["o/a/b"]
    assert stacks(jax.named_scope("o")(jax.make_jaxpr(scoped)(1.0)), 1.0) == ["o/a/b"]


def test_names_in_texts():
    @jax.named_scope("layer")
    @jax.jit
    def layer(x):
        with jax.named_scope("inner"):
            return jnp.sin(x)

    def loss(x):
        x, _ = lax.scan(lambda c, _: (scoped(c), None), layer(x), None, length=3)
        x = lax.while_loop(lambda c: c < 5.0, lambda c: c + 1.0, x)
        return lax.cond(x > 1.0, scoped, lambda x: x * 2.0, x)

    assert op_names(loss, 1.0) >= {
        "jit(loss)/layer/jit(layer)",
        "inner/sin",
        "jit(loss)/while/body/a/b/sin",
        "jit(loss)/while/cond/lt",
        "jit(loss)/while/body/add",
        "jit(loss)/cond/branch_0_fun/mul",
        "jit(loss)/cond/branch_1_fun/a/b/sin",
    }
    assert op_names(jax.grad(layer), 1.0) >= {
        "jit(layer)/jvp(layer)/jit(layer)",
        "jit(layer)/transpose(jvp(layer))/jit(layer)",
        "inner/cos",
        "inner/mul",
    }


def test_what_is_computed_again_says_so():
    f = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    names = op_names(jax.grad(lambda x: f(x)), 1.0)
    assert any("checkpoint/rematted_computation/sin" in name for name in names)
    assert all("remat" not in name for name in op_names(lambda x: f(x), 1.0))


def test_operations_of_a_backward_pass_come_from_the_lines_of_the_forward_pass():
    def f(x):
        y = jnp.sin(x)
        return jnp.cos(y)  # a line

    assert lines(jax.grad(jax.jit(f)), 1.0) >= {"y = jnp.sin(x)", "return jnp.cos(y)  # a line"}
    (eqn,) = (e for e in jax.make_jaxpr(jax.grad(f))(1.0).eqns if e.primitive.name == "neg")
    assert (
        source_info_util.user_frame(eqn.source_info.traceback).start_line
        == f.__code__.co_firstlineno + 2
    )


@pytest.mark.parametrize("within", [lambda f: f, jax.jit, jax.checkpoint])
def test_operations_of_rules_of_users_come_from_the_lines_of_the_rules(within):
    @jax.custom_vjp
    def f(x):
        return x * 2.0

    def backward(x, ct):
        return (ct * jnp.cosh(x),)  # backward

    f.defvjp(lambda x: (jnp.sinh(x), x), backward)

    @jax.custom_jvp
    def g(x):
        return x * 3.0

    @g.defjvp
    def rule(primals, tangents):
        return g(primals[0]), tangents[0] * 4.0  # rule

    found = lines(jax.grad(lambda x: within(lambda x: g(f(x)))(x)), 1.0)
    assert found >= {
        "return (ct * jnp.cosh(x),)  # backward",
        "return g(primals[0]), tangents[0] * 4.0  # rule",
    }


def test_operations_of_rules_of_the_library_come_from_the_line_of_the_call():
    def f(x):
        return jax.nn.silu(x)  # a call

    assert lines(jax.vmap(lambda x: f(x)), jnp.ones(2)) == {"return jax.nn.silu(x)  # a call"}


def test_what_the_compiler_is_told_travels_with_scopes():
    def f(x):
        with set_xla_metadata(a="b"), jax.named_scope("s"):
            return jnp.sin(x)

    eqns = jax.make_jaxpr(jax.named_scope("outer")(jax.grad(f)))(1.0).eqns
    assert {str(e.source_info.name_stack) for e in eqns} == {
        "outer/jvp(s)",
        "outer/transpose(jvp(s))",
    }
    assert {e.ctx.xla_metadata["a"] for e in eqns} == {"b"}


def test_scopes_are_put_back_after_an_error():
    def bad(x):
        raise RuntimeError("no")

    for f in (jax.jit(bad), jax.vmap(bad), jax.grad(bad), lambda x: jax.jvp(bad, (x,), (x,))):
        with pytest.raises(RuntimeError, match="no"):
            f(jnp.ones(2))
        assert names._names.scope == () and names._names.place is None


def test_stacks_of_libraries():
    with (
        source_info_util.transform_name_stack("jvp"),
        source_info_util.extend_name_stack("layer") as stack,
    ):
        assert str(stack) == "jvp(layer)" and stack[:1] == source_info_util.NameStack().transform(
            "jvp"
        )
    info = source_info_util.new_source_info()
    assert (
        info.replace(name_stack=stack).name_stack == stack
        and source_info_util.user_frame(None) is None
    )
    assert str(("a",) + stack) == "a/jvp(layer)"


def test_texts_say_who_called():
    @jax.jit
    def inner(x):
        return lax.add(x, 1.0)

    def helper(x):
        return inner(lax.sin(x))

    outer = jax.jit(lambda x: helper(x))
    functions = outer.lower(0.0).compiler_ir().body.operations
    places = {
        op.name: str(op.location) for f in functions for op in f.regions[0].blocks[0].operations
    }

    def calls(operation):
        return [
            name.rpartition(".")[2]
            for name in re.findall(r'"([^"]*)"\("[^"]*":\d', places[operation])
        ]

    this = "test_texts_say_who_called"
    assert places["stablehlo.sine"].startswith('loc("jit(<lambda>)/sin"(callsite(')
    assert calls("stablehlo.sine")[:3] == ["helper", "<lambda>", this]
    assert calls("func.call")[:3] == ["helper", "<lambda>", this]
    assert calls("stablehlo.add") == ["inner"]  # which may be called from elsewhere
    with config.include_full_tracebacks_in_locations(False):
        assert "callsite" not in outer.lower(0.0).as_text(debug_info=True)
    with config.traceback_in_locations_limit(2):
        assert outer.lower(0.0).as_text(debug_info=True).count("callsite") == 3


@pytest.mark.parametrize("limit", [-1, 0, 1, 2, 3, 100])
def test_texts_say_as_many_calls_as_options_say(limit):
    def innermost(x):
        return lax.sin(x)

    def inner(x):
        return innermost(x)

    def outer(x):
        return inner(x)

    def calls():
        """The functions that the location of the sine names, the innermost first."""
        module = jax.jit(lambda x: outer(x)).lower(1.0).compiler_ir()
        (main,) = module.body.operations
        (sine,) = (op for op in main.regions[0].blocks[0].operations if "sine" in op.name)
        return [
            name.rpartition(".")[2]
            for name in re.findall(r'"([^"]*)"\("[^"]*":\d', str(sine.location))
        ]

    with config.include_full_tracebacks_in_locations(False):
        alone = calls()
    assert alone == ["innermost"]
    with config.traceback_in_locations_limit(limit):
        found = calls()
    every = ["innermost", "inner", "outer"]
    assert found[:3] == (every if limit < 0 else every[:limit])
    assert limit < 0 or len(found) <= limit
