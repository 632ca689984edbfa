"""The law of caches.

Change one thing that an answer depends on, and the answer is not the earlier one.

What a new function gives in the second circumstances, one that was called in the first ones gives
too, and then the first answer again.
"""

import contextlib
import itertools

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._arrays.formats import Layout
from teucer._base import config
from teucer._core.jaxpr import ClosedJaxpr
from teucer._core.primitive import Axis
from teucer._devices.placement import Placement
from teucer._optimize.dce import dce_closed
from teucer._programs.job import Job
from teucer._transform.batch import batch_jaxpr
from teucer._transform.jvp import jvp_jaxpr
from teucer._transform.partial import split_jaxpr
from teucer._transform.transpose import transpose_jaxpr
from teucer.experimental.layout import Format
from teucer.sharding import AxisType, NamedSharding

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def described(y):
    """Values, types and trees of a result."""
    leaves, tree = jax.tree.flatten(y)
    return [
        (jax.typeof(v).str_short(), jax.typeof(v).weak_type, np.asarray(v).tolist()) for v in leaves
    ], str(tree)


def weak_sum(x):
    return x + np.float16(1)


# What is called, and with which two lists of arguments.
ARGUMENTS = {
    "dtype": (lambda x: x + 1, (X,), (X.astype(np.int32),)),
    "shape": (lambda x: x.sum(0), (X,), (X.T,)),
    "weak type": (weak_sum, (1.0,), (np.float32(1),)),
    "scalar or array of one": (lambda x: x * 2, (np.float32(3),), (np.float32([3]),)),
    "tree": (lambda p: p, ((X, X),), ([X, X],)),
    "keys of a dict": (lambda p: p, ({"a": X},), ({"b": X},)),
    "None or a value": (lambda x, y: x if y is None else x + y, (X, None), (X, 1.0)),
    "keyword or position": (lambda x, y=2.0: x - y, (X,), (X, 3.0)),
    "integer width": (lambda x: x << 4, (np.int8(9),), (np.int16(9),)),
    "sign of zero": (lambda x: jnp.copysign(1, x), (np.float32(0),), (np.float32(-0.0),)),
}
# What an answer depends on besides arguments: how f is made, the arguments, and the two
# circumstances.
precision = config.default_matmul_precision
SETTINGS = {
    "64-bit types": (lambda x: jnp.arange(3) + x.sum().astype(int), config.enable_x64(True)),
    "precision of products": (
        lambda x: jnp.int32(str(jax.make_jaxpr(lambda a: a @ a.T)(x)).count("HIGHEST")),
        precision("highest"),
    ),
    "kind of keys": (
        lambda x: jax.random.key_data(jax.random.key(0)),
        config.default_prng_impl("rbg"),
    ),
    "typed keys": (lambda x: jax.random.PRNGKey(0).ndim, config.enable_custom_prng(True)),
    "promotion": (
        lambda x: x + (jnp.arange(3) if config.numpy_dtype_promotion.value == "standard" else 1.0),
        config.numpy_dtype_promotion("strict"),
    ),
}


@pytest.mark.parametrize(
    "wrap",
    [jax.jit, lambda f: jax.jit(jax.jit(f)), jax.checkpoint],
    ids=["jit", "jit of jit", "checkpoint"],
)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(name, wrap):
    f, first, second = ARGUMENTS[name]
    kept = wrap(lambda *args: f(*args))
    for args in (first, second, first, second):
        assert (
            described(kept(*args))
            == described(wrap(lambda *args: f(*args))(*args))
            == described(f(*args))
        )


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(name):
    f, setting = SETTINGS[name]
    kept = jax.jit(lambda x: f(x))
    answers = []
    for within in (contextlib.nullcontext(), setting, contextlib.nullcontext()):
        with within:
            answers.append(described(kept(X)))
            assert answers[-1] == described(jax.jit(lambda x: f(x))(X))
    assert answers[0] == answers[2]
    assert answers[0] != answers[1] or name == "promotion"


def closes_over(c):
    return jax.jit(lambda x: x * c)


@pytest.mark.parametrize(
    "inner",
    [
        jax.jit,
        jax.checkpoint,
        lambda f: lambda x: lax.scan(lambda c, a: (c + f(a), None), jnp.zeros(3), x)[0],
    ],
    ids=["jit", "checkpoint", "scan"],
)
def test_batches_and_derivatives_of_one_jaxpr(inner):
    """What is kept on a jaxpr: for each axis, size, set of batched and of differentiated operands
    its own."""
    f = inner(lambda x: jnp.sin(x) * jnp.arange(1.0, 4))
    cases = {
        "as it is": lambda g: g(X),
        "batch": lambda g: jax.vmap(g)(np.stack([X, -X, 2 * X])),
        "another size": lambda g: jax.vmap(g)(np.stack([X, -X])),
        "another axis": lambda g: jax.vmap(g, 1)(np.stack([X, -X], 1)),
        "named": lambda g: jax.vmap(lambda x: g(x) + lax.axis_index("i"), axis_name="i")(
            np.stack([X, -X])
        ),
        "out axis": lambda g: jax.vmap(g, out_axes=1)(np.stack([X, -X])),
        "gradient": lambda g: jax.grad(lambda x: g(x).sum())(X),
        "tangent": lambda g: jax.jvp(g, (X,), (X,))[1],
        "batch of gradients": lambda g: jax.vmap(jax.grad(lambda x: g(x).sum()))(np.stack([X, -X])),
        "second": lambda g: jax.jvp(jax.grad(lambda x: g(x).sum()), (X,), (X,))[1],
    }
    for _ in range(2):
        for name, case in cases.items():
            fresh = inner(lambda x: jnp.sin(x) * jnp.arange(1.0, 4))
            np.testing.assert_array_equal(case(f), case(fresh), err_msg=name)


def test_operands_that_are_differentiated_or_batched():
    f = jax.jit(lambda x, y: jnp.sin(x) * y)
    moving = [(0,), (1,), (0, 1)]
    axes = [(0, None), (None, 0), (0, 0), (1, 0), (0, 1)]
    square = X[:, :2]
    for _ in range(2):
        for argnums in moving:
            for in_axes in axes:
                found = jax.vmap(jax.grad(lambda x, y: f(x, y).sum(), argnums), in_axes)(
                    square, square + 1
                )
                fresh = jax.vmap(jax.grad(lambda x, y: (jnp.sin(x) * y).sum(), argnums), in_axes)(
                    square, square + 1
                )
                for a, b in zip(found, fresh, strict=True):
                    np.testing.assert_array_equal(a, b, err_msg=f"{argnums}, {in_axes}")


@pytest.mark.parametrize(
    "change",
    ["static number", "static string", "closed-over number", "closed-over array", "default"],
)
def test_what_a_program_is_made_with(change):
    make = {
        "static number": lambda c: lambda x: jax.jit(lambda x, c: x * c, static_argnums=1)(x, c),
        "static string": lambda c: (
            lambda x: jax.jit(lambda x, c: x * len(c), static_argnames="c")(x, c="a" * int(c))
        ),
        "closed-over number": closes_over,
        "closed-over array": lambda c: closes_over(jnp.asarray(c)),
        "default": lambda c: jax.jit(lambda x, c=c: x * c),
    }[change]
    for c in (2.0, 3.0, 2.0):
        np.testing.assert_array_equal(make(c)(X), X * np.float32(c))


@pytest.mark.parametrize("static", [(1, 1.0), (1, True), (0.5, np.float32(0.5))])
def test_static_values_of_other_types_that_are_equal(static):
    """1, 1.0 and True are equal, and have one hash: programs of them are apart."""
    f = jax.jit(lambda x, c: jnp.asarray(c), static_argnums=1)
    for c in (*static, *static):
        assert f(X, c).dtype == jnp.asarray(c).dtype


MESH = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])
OVER, WHOLE = NamedSharding(MESH, jax.P("x")), NamedSharding(MESH, jax.P())
SQUARE = np.arange(16, dtype=np.float32).reshape(4, 4)
V = np.arange(3, dtype=np.float32)
MARKS = list(itertools.product([False, True], repeat=2))


def of_two(x, y):
    return jnp.sin(x) * 2, jnp.cos(x) * y


def linear_of_two(x, y, c):
    return x * c, y * c + x


# What transformations make of a jaxpr and keep on it: how, and for which marks.
KEPT = {
    "jvp": (of_two, jvp_jaxpr, itertools.product(MARKS, MARKS)),
    "split": (of_two, split_jaxpr, itertools.product(MARKS, MARKS)),
    "batch": (
        of_two,
        lambda jaxpr, axis, marks, wanted: batch_jaxpr(jaxpr, Axis(*axis), marks, wanted),
        itertools.product([(2, None), (3, None), (2, "i")], MARKS, MARKS),
    ),
    "transpose": (
        linear_of_two,
        lambda jaxpr, linear, given: transpose_jaxpr(jaxpr, (*linear, False), given),
        itertools.product(MARKS[1:], MARKS),
    ),
    "dce": (of_two, dce_closed, itertools.product(MARKS, [(), *MARKS])),
}


def test_what_is_kept_of_a_jaxpr():
    """For each set of marks its own, whatever has been made of the jaxpr before."""

    def fresh(f):
        return jax.make_jaxpr(f)(*[V] * f.__code__.co_argcount)

    shared = {f: fresh(f) for f in (of_two, linear_of_two)}
    calls = [
        (name, f, make, marks) for name, (f, make, all_marks) in KEPT.items() for marks in all_marks
    ]
    found = [make(shared[f], *marks) for _, f, make, marks in calls]
    for (name, f, make, marks), first in zip(calls, found, strict=True):
        assert str(first) == str(make(fresh(f), *marks)), (name, marks)
        again = make(shared[f], *marks)
        assert [id(part) for part in _jaxprs(first)] == [id(part) for part in _jaxprs(again)], name


def _jaxprs(made):
    return [part.jaxpr for part in made if isinstance(part, ClosedJaxpr)]


def test_each_field_of_a_job_is_of_its_program():
    """A job that differs in one field, or under another option, has a program of its own. But what
    it is called, what is logged and what was prefetched for it change no program."""
    first, second = jax.devices()[:2]
    spread = Placement((first, second), True, MESH, (WHOLE, WHOLE), (WHOLE,))
    here, host, row = Placement((first,), True), "pinned_host", (0,)
    jaxpr = jax.make_jaxpr(lambda x, y: (jnp.sin(jnp.sin(x)),))(V, V).jaxpr
    job = Job(jaxpr, "f", here, (False, False))
    changes = {
        "donated": [(True, False), (False, True)],
        "keep_unused": [True],
        "options": [(("xla_cpu_enable_fast_math", v),) for v in (False, True)],
        "outline": [True, False],
        "placement": [
            Placement((second,), True),
            Placement((first,), False),
            here._replace(in_kinds=(host, None)),
            here._replace(out_kinds=(host,)),
            here._replace(in_layouts=(Layout(row), None)),
            here._replace(out_layouts=(Layout(row),)),
            spread,
            spread._replace(ins=(OVER, WHOLE)),
            spread._replace(outs=(None,)),
        ],
    }
    alike = {"name": "g", "prefetch": None, "quiet": True}
    assert {"jaxpr", *changes, *alike} == set(Job._fields)
    jobs = [job, *(job._replace(**{field: v}) for field, vs in changes.items() for v in vs)]
    keys = [j.key for j in jobs]
    for setting in (config.optimize_jaxprs(False), config.outline("force"), config.locations(True)):
        with setting:
            keys.append(job.key)
    assert len(set(keys)) == len(keys)
    assert {job._replace(**{field: v}).key for field, v in alike.items()} == {job.key}


CHANGED = {
    "as it is": ({}, lambda x, y: not x.is_deleted() and y.devices() == {jax.devices()[0]}),
    "donated": ({"donate_argnums": 0}, lambda x, y: x.is_deleted()),
    "device": ({"device": jax.devices()[1]}, lambda x, y: y.devices() == {jax.devices()[1]}),
    "sharding": ({"out_shardings": OVER}, lambda x, y: y.sharding == OVER),
    "another sharding": ({"out_shardings": WHOLE}, lambda x, y: y.sharding == WHOLE),
    "memory": (
        {"out_shardings": WHOLE.with_memory_kind("pinned_host")},
        lambda x, y: y.sharding.memory_kind == "pinned_host",
    ),
    "layout": (
        {"out_shardings": Format(Layout((1, 0)), WHOLE)},
        lambda x, y: y.format.layout.major_to_minor == (1, 0),
    ),
    "compiler's options": (
        {"compiler_options": {"xla_cpu_enable_fast_math": True}},
        lambda x, y: y.sharding != WHOLE,
    ),
}


@pytest.mark.filterwarnings("ignore:backend and device argument")
def test_programs_of_one_jaxpr_are_told_apart():
    """`jit` traces a function once, and makes of it as many programs as are asked for."""

    def f(x):
        traced.append(1)
        return jnp.sin(x) * 2

    traced = []
    for name in (*CHANGED, *reversed(CHANGED)):
        options, holds = CHANGED[name]
        x = jnp.asarray(SQUARE)
        y = jax.jit(f, **options)(x)
        np.testing.assert_allclose(np.asarray(y), np.sin(SQUARE) * 2, rtol=1e-6, err_msg=name)
        assert holds(x, y), name
    assert len(traced) == 2  # what is donated is a part of what is traced
