"""What primitives that carry programs are (`_core/structure.py`): the views agree with the
primitives."""

import ast
import functools
from pathlib import Path

import numpy as np
import pytest
from optable.primitives import carry_jaxprs

import teucer as jax
from teucer import lax
from teucer import numpy as jnp
from teucer._core import structure
from teucer._core.jaxpr import ClosedJaxpr, interpret
from teucer._core.primitive import Primitive
from teucer._derived.rules_table import Rules
from teucer._targets.outlined_call import outlined_call_p

# What carries programs and does something else with them than to call, choose or repeat them.
OTHERS = {
    "custom_linear_solve": "solves by them",
    "linear_call": "one is the transpose of the other",
    "pallas_call": "its kernel runs on blocks",
    "reduce": "of pairs of elements",
    "reduce_window": "of pairs of elements",
    "scatter": "of pairs of elements",
    "scatter-add": "of pairs of elements",
    "scatter-sub": "of pairs of elements",
    "scatter-mul": "of pairs of elements",
    "scatter-min": "of pairs of elements",
    "scatter-max": "of pairs of elements",
    "select_and_scatter": "of pairs of elements",
}


@jax.custom_jvp
def ruled(x):
    return jnp.sin(x)


ruled.defjvp(lambda ps, ts: (ruled(*ps), ts[0]))


@jax.custom_vjp
def pulled(x):
    return x * 2


pulled.defvjp(lambda x: (x * 2, None), lambda _, g: (g * 2,))


@jax.custom_batching.custom_vmap
def mapped(x):
    return x + 1


@mapped.def_vmap
def _(size, batched, x):
    return x + 1, batched[0]


PROGRAMS = {
    "scan": lambda x: lax.scan(lambda c, y: (c * 2 + y, c - y), x[0], x),
    "scan backwards": lambda x: lax.scan(lambda c, y: (c * 2 + y, c - y), x[0], x, reverse=True),
    "scan of nothing": lambda x: lax.scan(lambda c, y: (c + y, c), x[0], x[:0]),
    "scan by length": lambda x: lax.scan(lambda c, _: (c * x, None), x, None, length=3),
    "while": lambda x: lax.while_loop(lambda c: c.sum() < 100 * x[1], lambda c: c * 2 + x, x),
    "cond": lambda x: lax.cond(x[0] > 0, jnp.sin, lambda x: x * 3, x),
    "switch": lambda x: lax.switch(x[1].astype(int), [jnp.sin, jnp.cos, jnp.tan], x),
    "switch beyond": lambda x: lax.switch(x[1].astype(int) + 7, [jnp.sin, jnp.cos, jnp.tan], x),
    "jit": lambda x: jax.jit(lambda y: y * 2 + x)(x),
    "checkpoint": lambda x: jax.checkpoint(jnp.sin)(x),
    "custom_jvp": lambda x: ruled(x) + ruled(2 * x),
    "custom_vjp": lambda x: pulled(x),
    "custom_vmap": lambda x: mapped(x),
    "loops in loops": lambda x: lax.fori_loop(
        0, 3, lambda i, c: lax.cond(i < 2, lambda c: jax.jit(jnp.sin)(c), lambda c: c + i, c), x
    ),
}


def by_views(closed: ClosedJaxpr, args):
    """A program evaluated by what its equations are."""

    def handle(eqn, operands):
        view = structure.of(eqn, operands)
        if isinstance(view, structure.Call):
            return by_views(view.body, view.operands)
        if isinstance(view, structure.Branch):
            return by_views(view.chosen(int(view.index)), view.operands)
        if isinstance(view, structure.Loop):
            carry, rows = view.run(lambda i, body, xs: by_views(body, xs), lambda x, i: x[i], bool)
            made = eqn.outvars[len(carry) :]
            if not rows:
                return [*carry, *(jnp.zeros(v.aval.shape, v.aval.dtype) for v in made)]
            return [*carry, *(jnp.stack(ys) for ys in zip(*rows, strict=True))]
        return eqn.primitive.call(*operands, **eqn.params)

    return interpret(closed, args, handle)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_what_its_views_say(name):
    x = jnp.array([0.5, 1.5, 2.0])
    closed = jax.make_jaxpr(PROGRAMS[name])(x)
    for found, expected in zip(by_views(closed, [x]), closed(x), strict=True):
        np.testing.assert_array_equal(found, expected)


def equations(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn
        view = structure.of(eqn)
        for body, _ in view.bodies if view is not None else ():
            yield from equations(body)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_view_says_the_parameters_that_it_was_made_of(name):
    viewed = 0
    for eqn in equations(jax.make_jaxpr(PROGRAMS[name])(jnp.ones(3))):
        view = structure.of(eqn)
        if view is not None:
            viewed += 1
            assert structure.params_of(eqn.primitive, eqn.params, view) == eqn.params
            given = [len(operands) for _, operands in view.bodies]
            assert given == [len(body.in_avals) for body, _ in view.bodies]
            assert structure.kind_of(eqn.primitive) is type(view)
    assert viewed


def test_a_shard_map_is_mapped_over_its_mesh():
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    f = jax.shard_map(lambda x: x * 2, mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P("i"))
    (eqn,) = jax.make_jaxpr(f)(jnp.ones(2)).eqns
    view = structure.of(eqn)
    assert isinstance(view, structure.Mapped) and view.mesh.axis_names == ("i",)
    assert structure.params_of(eqn.primitive, eqn.params, view) == eqn.params


def test_every_primitive_that_carries_programs_says_what_it_is():
    unsaid = {
        str(p)
        for p in carry_jaxprs()
        if structure.kind_of(p) is None and not structure.is_internal(p)
    }
    assert unsaid - set(OTHERS) == set()
    assert {"jit", "scan", "while", "cond", "shard_map"}.isdisjoint(OTHERS)


def test_a_call_of_a_library_is_presumed_by_types():
    class Twice(Primitive):
        name = "twice"

        def types(self, x, *, jaxpr):
            return (x,)

    twice_p = Twice()
    sine, total = jax.make_jaxpr(jnp.sin)(jnp.ones(2)), jax.make_jaxpr(jnp.sum)(jnp.ones(2))

    def equation(closed):
        (eqn,) = jax.make_jaxpr(lambda x: twice_p.call(x, jaxpr=closed)[0])(jnp.ones(2)).eqns
        return eqn

    assert structure.of(equation(sine)) is None
    assert structure.presumed(equation(sine)).body is sine
    assert structure.presumed(equation(total)) is None


def test_rules_of_kinds():
    rules = Rules("test", {structure.Loop: lambda: "loop", lax.scan_p: lambda: "scan"})
    assert rules[lax.scan_p]() == "scan"
    assert rules[lax.while_p]() == "loop"
    assert rules.lacking([lax.while_p, lax.cond_p, outlined_call_p]) == ["cond"]


def test_a_second_rule_is_refused():
    rules = Rules("test", {lax.sin_p: abs})
    with pytest.raises(ValueError, match="test: sin has a rule already"):
        rules.define(lax.cos_p, lax.sin_p)(abs)
    assert lax.cos_p not in rules
    rules[lax.sin_p] = round
    assert rules[lax.sin_p] is round


# Each reads the parameters of control flow by key, and each compares the name of a primitive.
KEYS = {"num_consts", "num_carry", "branches", "cond_nconsts", "body_nconsts"}
ROOT = Path(jax.__file__).parent


@functools.cache
def trees():
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text())
        for path in ROOT.rglob("*.py")
        if path.relative_to(ROOT).parts[:2] != ("lax", "_control")
    }


def test_nobody_else_reads_the_parameters_of_control_flow():
    found = [
        f"{file}:{node.lineno}"
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in KEYS
    ]
    assert found == []


def test_nobody_asks_a_primitive_for_its_name():
    """But to print it: what is asked is a field of its cost, its kind, or which primitive it is."""
    found = [
        f"{file}:{node.lineno}"
        for file, tree in trees().items()
        if not file.endswith("printer.py")
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and any(
            ast.unparse(side).endswith("primitive.name") for side in (node.left, *node.comparators)
        )
    ]
    assert found == []


def test_targets_have_no_tables_by_name():
    """A primitive of a library may have the name of one of lax."""
    found = [
        f"{file}:{node.lineno}"
        for file, tree in trees().items()
        if file.startswith(("_targets/", "_optimize/"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call | ast.Subscript)
        and any(
            ast.unparse(asked).endswith("primitive.name")
            for asked in (node.args if isinstance(node, ast.Call) else (node.slice,))
        )
    ]
    assert found == []
