"""What is kept.

Nothing of functions, traces and arrays that the program has let go of, and caches of bounded
size.
"""

import gc
import os
import subprocess
import sys
import tracemalloc
import weakref

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from tests.arrays import ways
from teucer import lax
from teucer._base import memo
from teucer._devices import backends
from teucer._executables import compile
from teucer._programs import eager
from teucer._transform import jit as jit_module

USES = {
    "jit": lambda x: jax.jit(lambda x: x * 2)(x),
    "closure": lambda x: jax.jit(lambda: x)(),
    "vmap": lambda x: jax.vmap(lambda x: x * 2)(x),
    "grad": lambda x: jax.grad(lambda x: (jnp.sin(x) * x).sum())(x),
    "grad of jit": lambda x: jax.grad(jax.jit(lambda x: (jnp.sin(x) * x).sum()))(x),
    "jvp": lambda x: jax.jvp(jnp.sin, (x,), (x,)),
    "vjp": lambda x: jax.vjp(jnp.sin, x)[1](x),
    "linearize": lambda x: jax.linearize(jnp.sin, x)[1](x),
    "hessian": lambda x: jax.hessian(lambda x: (x**3).sum())(x),
    "checkpoint": lambda x: jax.grad(lambda x: jax.checkpoint(lambda x: jnp.sin(x).sum())(x))(x),
    "scan": lambda x: lax.scan(lambda c, a: (c + a, c), x, x[0:2]),
    "grad of scan": lambda x: jax.grad(lambda x: lax.scan(lambda c, a: (c * a, None), 1.0, x)[0])(
        x
    ),
    "cond": lambda x: lax.cond(True, lambda x: x, lambda x: -x, x),
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda i, c: c + x, x),
    "make_jaxpr": lambda x: jax.make_jaxpr(lambda y: y * x)(x),
    "lower": lambda x: jax.jit(lambda x: x + 1).lower(x),
    "repr": repr,
    "index": lambda x: x[1:],
    "update": lambda x: x.at[0].set(1.0),
    "numpy": np.asarray,
}


@pytest.fixture
def no_collector():
    """What is freed in the test is freed by counting references."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("use", USES)
def test_arrays_are_let_go_at_once(use, no_collector):
    USES[use](jnp.arange(2.0) + 1)
    gc.collect()
    x = jnp.arange(2.0) + 1
    seen = weakref.ref(x)
    x = USES[use](x) if use == "scan" else (USES[use](x), None)[1]
    del x
    assert seen() is None


def test_functions_and_their_jits_are_let_go():
    def f(x):
        return x * 2

    jitted = jax.jit(f)
    seen = weakref.ref(f), weakref.ref(jitted)
    (
        jitted(1.0),
        jitted(1.0),
        jax.grad(jitted)(1.0),
        jax.vmap(jitted)(jnp.ones(2)),
        jax.make_jaxpr(jitted)(1.0),
    )
    del f, jitted
    gc.collect()
    assert [r() for r in seen] == [None, None]


def test_a_trace_that_failed_is_let_go():
    kept = []

    def f(x):
        kept.append(x)
        raise ZeroDivisionError

    for transform in (jax.jit, jax.grad, jax.make_jaxpr):
        with pytest.raises(ZeroDivisionError):
            transform(f)(1.0)
    seen = [weakref.ref(x._trace) for x in kept]
    kept.clear()
    gc.collect()
    assert [r() for r in seen] == [None] * 3


def sizes():
    gc.collect()
    return (
        len(jit_module._staged),
        sum(type(o).__name__ == "nb_func" for o in gc.get_objects()),  # one a dispatcher
        len(eager._dispatchers),
        len(compile._memory),
    )


@pytest.mark.parametrize("use", [u for u in USES if u not in ("repr", "numpy", "index", "update")])
def test_new_functions_leave_nothing(use):
    x = jnp.arange(2.0)
    USES[use](x)
    before = sizes()
    for _ in range(10):
        USES[use](x)
    assert sizes() == before


def test_executables_of_functions_that_are_gone_are_let_go(monkeypatch):
    """But for those that were asked for last: a function that is defined anew with the same text is
    not compiled again."""
    monkeypatch.setattr(compile, "_recent", {})
    monkeypatch.setattr(compile, "_RECENT", 4)
    kept = jax.jit(lambda x: x * 1234.5)
    assert float(kept(2.0)) == 2469
    gc.collect()
    before = len(compile.loaded())
    for i in range(20):
        assert float(jax.jit(lambda x, i=i: x * (i + 0.25))(2.0)) == 2 * (i + 0.25)
    gc.collect()
    assert len(compile.loaded()) <= before + 4
    assert float(kept(3.0)) == 3 * 1234.5
    text, devices = jax.jit(lambda x: x * 99.25).lower(2.0).as_text(), jax.devices()[:1]
    assert [compile.compile_module(text, devices)[1] for _ in range(2)][1] == "memory"


def test_rules_that_refer_to_their_function(monkeypatch):
    """Such a function is kept by what was traced of it; the oldest go when there are many."""
    monkeypatch.setattr(memo, "RECENT", 8)

    def use():
        @jax.custom_jvp
        def f(x):
            return x * 2

        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * 2))
        jax.jit(f)(1.0)
        return weakref.ref(f)

    seen = [use() for _ in range(20)]
    gc.collect()
    assert sum(r() is not None for r in seen) <= 8


def test_one_function_of_many_signatures(monkeypatch):
    monkeypatch.setattr(memo, "LIMIT", 8)
    f = jax.jit(lambda x, n: x * n, static_argnums=1)

    def g(x, n):
        return f(x, n)

    for n in range(30):
        assert f(2.0, n) == 2.0 * n
        assert lax.full((n,), 1.0).shape == (n,)
    assert len(jit_module._staged.of(f.__wrapped__)) <= 8
    assert len(eager._dispatchers) <= 8 + 1
    assert [float(f(2.0, n)) for n in range(30)] == [2.0 * n for n in range(30)]


def test_a_thousand_shapes():
    f = jax.jit(lambda x: x + 1)
    for n in range(1000):
        assert f.eval_shape(jax.ShapeDtypeStruct((n,), np.float32)).shape == (n,)


@pytest.mark.parametrize("way", ["new_shape_trace_only", "new_shape_trace_library"])
def test_shapes_that_nobody_has_leave_no_objects(way):
    """What is remembered of types is remembered of the last 512."""
    _, more = ways.grown(way, 600, 100)
    assert {k: n for k, n in more.items() if n > 0.5} == {}


def test_memo_is_by_identity():
    class Always:
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

    memories = memo.Memo()
    a, b = Always(), Always()
    memories.of(a)["x"] = 1
    assert memories.of(b) == {} and memories.of(a) == {"x": 1}
    del a
    gc.collect()
    assert len(memories) == 1


def test_callables_that_say_they_are_equal():
    class Scale:
        def __init__(self, by):
            self.by = by

        def __eq__(self, other):
            return np.ones(3) == np.ones(3)  # as a module that compares arrays

        def __hash__(self):
            return 1

        def __call__(self, x):
            return x * self.by

    two, three = jax.jit(Scale(2)), jax.jit(Scale(3))
    for _ in range(3):
        assert (float(two(1.0)), float(three(1.0))) == (2.0, 3.0)


@pytest.mark.parametrize("forget", [jax.clear_caches, jax.clear_backends])
def test_arrays_outlive_the_caches(forget, monkeypatch):
    monkeypatch.setattr(
        backends, "_clients", dict(backends.backends())
    )  # later tests go on with the devices that they know
    x, f = jnp.arange(3.0), jax.jit(lambda x: x * 2)
    f(x)
    f(x)
    forget()
    for _ in range(2):
        assert f(x).tolist() == [0, 2, 4]
        assert (x + 1).tolist() == [1, 2, 3]
        assert (x + jnp.ones(3)).tolist() == [1, 2, 3]
        assert jnp.sin(x).shape == (3,) and np.asarray(x).tolist() == [0, 1, 2]


def test_jits_that_live_keep_their_traces(monkeypatch):
    monkeypatch.setattr(memo, "RECENT", 4)
    traced = []

    def f(x):
        traced.append(x)
        return x

    kept = jax.jit(f)
    kept(1.0)
    for i in range(8):
        jax.jit(lambda x, i=i: x + i)(1.0)
    jax.make_jaxpr(kept)(1.0)
    assert len(traced) == 1


def test_equal_types_are_one_object_while_somebody_has_them():
    def made():
        return jax.core.ShapedArray((3, 12345), np.dtype(np.float32))

    assert made() is made()
    seen = weakref.ref(made())
    gc.collect()
    assert seen() is None


def test_equal_meshes_are_one_object_while_somebody_has_them():
    def made():
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("used once",))
        return jax.sharding.NamedSharding(mesh, jax.P("used once"))

    a = made()
    assert a is made() and a.mesh is made().mesh and a.mesh.abstract_mesh is a.mesh.abstract_mesh
    seen = [weakref.ref(x) for x in (a, a.mesh, a.mesh.abstract_mesh)]
    jax.jit(lambda x: x, out_shardings=a)(jnp.ones(2))
    del a
    gc.collect()
    assert [r() for r in seen] == [None] * 3


# Ways whose rounds take no more than some milliseconds, of different kinds.
SOME = [
    "jit_of_library", "jit_compiler_options", "jit_of_partial", "jit_of_bound_new", "custom_vjp",
    "pure_callback", "debug_print", "reference_closed", "mesh_put", "mesh_same", "new_shape_put",
    "error_raised", "error_callback", "thread_lambda", "scan_closure", "reduce_lambda",
    "lower_compile", "callback_big_closure",
]  # fmt: skip


@pytest.mark.parametrize("way", SOME)
def test_what_is_dropped_leaves_no_objects(way):
    """A hundred rounds come before: programs with effects are kept until so many others ran."""
    _, more = ways.grown(way, 100, 40)
    assert {k: n for k, n in more.items() if n > 0.5} == {}


@pytest.mark.parametrize(
    "way", ["put_to_mesh", "make_of_parts", "run_with_callback", "shard_map_eager"]
)
def test_arrays_made_in_python_leave_no_stack(way):
    """jaxlib never frees the stack that such an array is made with, 16 bytes a frame."""

    def make(depth):
        return ways.WAYS[way]() if depth == 0 else make(depth - 1)

    for _ in range(20):
        make(50)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(100):
        make(50)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown / 100 < 400


# C++ keeps a class whose objects are static arguments of its own methods, in JAX too.
KEPT = {"jit_method_decorator": pytest.mark.xfail(strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("way", [pytest.param(way, marks=KEPT.get(way, ())) for way in ways.WAYS])
def test_what_is_dropped_leaves_no_memory(way):
    """0.2 KiB a round, in a process of its own, since freed memory is used again. What is bounded
    fills first: the log of compilations, programs with effects, types; some take 4,000 rounds."""
    for warm in ("1000", "4000"):
        ran = subprocess.run(
            [sys.executable, ways.__file__, warm, "1500", way],
            check=False,
            env={**os.environ, "TEUCER_WARN_AFTER_COMPILES": "0"},
            capture_output=True,
            text=True,
            timeout=1800,
        )
        assert ran.returncode == 0, ran.stderr
        if float(ran.stdout.split()[1]) < 0.2:
            return
    raise AssertionError(ran.stdout)
