"""Callbacks from programs to Python.

Values, order, transformations, errors, and the functions of `debug`.
"""

import gc
import itertools
import linecache
import logging
import weakref

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp
from teucer._arrays import transfer
from teucer._base import config
from teucer._derived.remat import name_p
from teucer.ad_checkpoint import checkpoint_name
from teucer.experimental import io_callback
from teucer.sharding import SingleDeviceSharding

SCALAR = jax.ShapeDtypeStruct((), np.float32)


class Log:
    """A callback that remembers its arguments and returns the first."""

    def __init__(self):
        self.calls = []

    def __call__(self, *args):
        self.calls.append(tuple(np.asarray(x).tolist() for x in args))
        return args[0] if args else None

    def silent(self, *args):
        self(*args)


def finished(f, *args):
    out = jax.block_until_ready(f(*args))
    jax.effects_barrier()
    return out


# pure_callback


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_pure_callback(transform):
    seen = []

    def callback(x, *, scale):
        seen.append((type(x), x.dtype, x.shape))
        return {"scaled": x["a"] * scale if isinstance(x, dict) else x * scale}

    f = lambda x: jax.pure_callback(callback, {"scaled": SCALAR}, x, scale=np.float32(3))
    out = transform(f)(2.0)
    assert float(out["scaled"]) == 6.0 and out["scaled"].dtype == "float32"
    assert seen == [(type(jnp.ones(())), np.float32, ())]


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "float16", "int8", "uint32", "bool", "complex64"]
)
def test_dtypes_come_and_go(dtype):
    x = jnp.asarray([[0, 1, 1]]).astype(dtype)
    f = lambda x: jax.pure_callback(lambda v: v[:, ::-1], jax.ShapeDtypeStruct((1, 3), dtype), x)
    np.testing.assert_array_equal(jax.jit(f)(x), np.asarray(x)[:, ::-1])
    np.testing.assert_array_equal(f(x), np.asarray(x)[:, ::-1])


def test_unused_pure_callback_is_not_called():
    log = Log()
    finished(jax.jit(lambda x: (jax.pure_callback(log, SCALAR, x), x)[1]), 1.0)
    assert log.calls == []


@pytest.mark.parametrize(
    "method, shapes",
    [
        ("sequential", [((), ())] * 3),
        ("sequential_unrolled", [((), ())] * 3),
        ("expand_dims", [((3,), (1,))]),
        ("broadcast_all", [((3,), (3,))]),
        ("legacy_vectorized", [((3,), ())]),
    ],
)
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_vmap_method(transform, method, shapes):
    seen = []

    def callback(x, y):
        seen.append((x.shape, y.shape))
        return np.add(x, y)

    f = jax.vmap(
        lambda x: jax.pure_callback(callback, SCALAR, x, np.float32(2), vmap_method=method)
    )
    np.testing.assert_array_equal(transform(f)(np.arange(3, dtype=np.float32)), [2, 3, 4])
    assert seen == shapes


def test_vmap_in_other_axes():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    f = lambda v: jax.pure_callback(
        np.flip, jax.ShapeDtypeStruct((2,), np.float32), v, vmap_method="sequential"
    )
    np.testing.assert_array_equal(jax.vmap(f, 1, 1)(x), x[::-1])


def test_custom_jvp_around_callback():
    @jax.custom_jvp
    def sin(x):
        return jax.pure_callback(np.sin, SCALAR, x)

    sin.defjvp(lambda p, t: (sin(*p), jnp.cos(p[0]) * t[0]))
    np.testing.assert_allclose(jax.grad(sin)(1.0), np.cos(1), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.grad(sin))(1.0), np.cos(1), rtol=1e-6)


@pytest.mark.parametrize(
    "callback, message",
    [
        (
            lambda x: np.ones(2, np.float32),
            r"Incorrect output shape .*Expected: \(\), Actual: \(2,\)",
        ),
        (lambda x: np.int32(1), "Incorrect output dtype .*Expected: float32, Actual: int32"),
        (lambda x: (x, x), "Mismatched number of outputs.*Expected: 1, Actual: 2"),
        (lambda x: {"a": x}, "Mismatched tree of results"),
        (lambda x: 1 / 0, "division by zero"),
    ],
)
def test_errors_of_callbacks(callback, message):
    f = lambda x: jax.pure_callback(callback, SCALAR, x)
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        f(1.0)
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        finished(jax.jit(f), 1.0)


def test_errors_of_calls():
    with pytest.raises(TypeError, match="pure_callback: Expected a callable value, got 3"):
        jax.pure_callback(3, SCALAR, 1.0)
    with pytest.raises(
        ValueError, match="vmap_method must be on of the allowed methods .* but got: fast"
    ):
        jax.pure_callback(np.sin, SCALAR, 1.0, vmap_method="fast")
    with pytest.raises(
        NotImplementedError,
        match="vmap is only supported for the pure_callback primitive when vmap_method is one",
    ):
        jax.vmap(lambda x: jax.pure_callback(np.sin, SCALAR, x))(jnp.ones(3))
    with pytest.raises(ValueError, match="Pure callbacks do not support JVP"):
        jax.grad(lambda x: jax.pure_callback(np.sin, SCALAR, x))(1.0)
    with pytest.raises(
        ValueError, match="cannot specify 64-bit types when `jax_enable_x64` is disabled"
    ):
        jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float64), 1.0)


# io_callback


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("ordered", [False, True])
def test_io_callback(transform, ordered):
    log = Log()
    assert finished(transform(lambda x: io_callback(log, SCALAR, x, ordered=ordered)), 2.0) == 2.0
    assert (
        finished(transform(lambda x: io_callback(log.silent, None, x, ordered=ordered)), 3.0)
        is None
    )
    assert log.calls == [(2.0,), (3.0,)]


def test_order_of_a_program():
    log = Log()

    def program(x):
        for i in range(20):
            io_callback(log.silent, None, i, x, ordered=True)
            x = x + 1
        return x

    assert finished(jax.jit(program), 0.0) == 20.0
    assert log.calls == [(i, float(i)) for i in range(20)]
    assert len(jax.make_jaxpr(program)(0.0).effects) == 1


def test_order_among_programs():
    log = Log()
    f = jax.jit(lambda x: io_callback(log.silent, None, x, ordered=True))
    for i in range(10):
        f(i)
    jax.effects_barrier()
    assert log.calls == [(i,) for i in range(10)]


def test_control_flow():
    log = Log()
    say = lambda *args: io_callback(log.silent, None, *args, ordered=True)
    finished(jax.jit(lambda x: lax.fori_loop(0, 3, lambda i, x: (say(i), x + 1)[1], x)), 0.0)
    finished(lambda x: lax.scan(lambda c, x: (say(10 + x), (c + x, x))[1], 0, x), jnp.arange(3))
    finished(lambda n: lax.while_loop(lambda i: i < n, lambda i: (say(20 + i), i + 1)[1], 0), 2)
    for p in (True, False):
        finished(jax.jit(lambda p: lax.cond(p, lambda: say(30), lambda: say(31))), p)
    assert log.calls == [(0,), (1,), (2,), (10,), (11,), (12,), (20,), (21,), (30,), (31,)]


def test_nested_jit():
    log = Log()
    inner = jax.jit(lambda x: (io_callback(log.silent, None, x, ordered=True), x + 1)[1])
    assert finished(jax.jit(lambda x: inner(inner(x))), 0.0) == 2.0
    assert log.calls == [(0.0,), (1.0,)]


def test_io_callback_is_called_though_unused():
    log = Log()
    finished(jax.jit(lambda x: (io_callback(log, SCALAR, x), x)[1]), 1.0)
    assert log.calls == [(1.0,)]


def test_io_callback_under_vmap():
    log = Log()
    np.testing.assert_array_equal(
        jax.vmap(lambda x: io_callback(log, SCALAR, x))(jnp.arange(2.0)), [0, 1]
    )
    assert log.calls == [(0.0,), (1.0,)]
    with pytest.raises(ValueError, match="Cannot `vmap` ordered IO callback"):
        jax.vmap(lambda x: io_callback(log, SCALAR, x, ordered=True))(jnp.arange(2.0))


def test_io_callback_under_differentiation():
    log = Log()
    with pytest.raises(ValueError, match="IO callbacks do not support JVP"):
        jax.grad(lambda x: io_callback(log, SCALAR, x))(1.0)
    assert float(jax.grad(lambda x: x * io_callback(log, SCALAR, lax.stop_gradient(x)))(2.0)) == 2.0


# debug


def printed(capsys, f, *args):
    finished(f, *args)
    return capsys.readouterr().out


def test_print(capsys):
    assert (
        printed(capsys, lambda: jax.debug.print("x={} y={y}", 1, y=jnp.ones(2)))
        == "x=1 y=[1. 1.]\n"
    )
    f = jax.jit(lambda x: jax.debug.print("{:.2f} {n} {d[k]}", x, n="name", d={"k": x + 1}))
    assert printed(capsys, f, 1.0) == "1.00 name 2.0\n"
    assert printed(capsys, lambda: jax.debug.print("{} {}", "a", None)) == "a None\n"


def test_print_under_transformations(capsys):
    show = lambda x: (jax.debug.print("x={}", x), x * x)[1]
    assert printed(capsys, jax.vmap(show), jnp.arange(2.0)) == "x=0.0\nx=1.0\n"
    assert printed(capsys, jax.grad(show), 2.0) == "x=2.0\n"
    assert printed(capsys, jax.jit(jax.grad(show)), 2.0) == "x=2.0\n"
    assert printed(capsys, lambda x: jax.jvp(show, (x,), (x,)), 2.0) == "x=2.0\n"
    assert printed(capsys, lambda x: lax.map(show, x), jnp.arange(2.0)) == "x=0.0\nx=1.0\n"


def test_print_in_order(capsys):
    def body(c, x):
        jax.debug.print("{}", x, ordered=True)
        jax.debug.print("{}", -x, ordered=True)
        return c, x

    assert printed(capsys, lambda: lax.scan(body, 0, jnp.arange(1, 3))) == "1\n-1\n2\n-2\n"


def test_print_in_order_in_the_condition_of_a_batch_of_loops(capsys):
    def f(start, limit):
        def goes_on(i):
            jax.debug.print("{}", i, ordered=True)
            return i < limit

        return lax.while_loop(goes_on, lambda i: i + 1, start)

    batch = jax.vmap(f, in_axes=(0, None))
    assert printed(capsys, batch, jnp.arange(2), 2) == "0\n1\n1\n2\n2\n2\n"
    assert batch(jnp.array([0, 1, 5]), 2).tolist() == [2, 2, 5]
    found, moving = jax.jvp(
        lambda x: jax.vmap(f)(x, jnp.full(2, 1.5)), (jnp.array([0.0, 1.0]),), (jnp.ones(2),)
    )
    assert found.tolist() == [2.0, 2.0] and moving.tolist() == [1.0, 1.0]


def test_print_writes_a_line_at_once(monkeypatch):
    class Out(list):
        def write(self, text):
            self.append(text)

        def flush(self):
            pass

    monkeypatch.setattr("sys.stdout", out := Out())
    jax.debug.print("{}", 1)
    assert [text for text in out if text] == ["1\n"]


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_print_of_a_key(capsys, transform):
    assert (
        printed(capsys, transform(lambda k: jax.debug.print("{}", k)), jax.random.key(3))
        == "[0 3]\n"
    )


def test_print_checks_its_format():
    with pytest.raises(IndexError):
        jax.debug.print("{} {}", 1)
    with pytest.raises(
        ValueError, match=r"Unused positional arguments to `jax.debug.print`: \[2\]"
    ):
        jax.debug.print("{}", 1, 2)
    with pytest.raises(ValueError, match=r"Unused keyword arguments to `jax.debug.print`: \['z'\]"):
        jax.debug.print("x", z=2)
    finished(lambda: jax.debug.print("x", z=2, skip_format_check=True))


def test_log(caplog):
    with caplog.at_level(logging.INFO, "teucer"):
        finished(jax.jit(lambda x: jax.debug.log("x={x}", x=x)), 3)
    assert "x=3" in caplog.text


def test_debug_callback():
    log = Log()
    f = jax.jit(lambda x: jax.debug.callback(lambda d, k: log(d["a"], k), {"a": x}, k=x + 1))
    assert finished(f, 3) is None
    assert log.calls == [(3, 4)]
    with pytest.raises(
        TypeError, match="first argument to jax.debug.callback must be callable.*int"
    ):
        jax.debug.callback(3)


def test_debug_callback_in_remat():
    log = Log()
    f = jax.checkpoint(lambda x: (jax.debug.callback(log.silent, x), jnp.sin(x))[1])
    np.testing.assert_allclose(finished(jax.grad(f), 2.0), np.cos(2), rtol=1e-6)
    assert set(log.calls) == {(2.0,)}


def test_order_holds_across_loops_branches_and_calls(capsys):
    def say(*numbers):
        jax.debug.print("{}", jnp.asarray(numbers), ordered=True)

    @jax.jit
    def f(x):
        say(0)
        lax.fori_loop(0, 2, lambda i, c: (say(1, i), c)[1], 0)
        say(2)
        lax.cond(x > 0, lambda: say(3), lambda: say(4))
        jax.jit(lambda: say(5))()
        jax.checkpoint(lambda x: (say(6), x)[1])(x)
        say(7)
        return x

    assert printed(capsys, f, 1.0).split("\n")[:-1] == [
        "[0]",
        "[1 0]",
        "[1 1]",
        "[2]",
        "[3]",
        "[5]",
        "[6]",
        "[7]",
    ]


def test_debug_print_shows_arrays_in_containers(capsys):
    jax.debug.print("{} {x!r} {x} {:.2f}", {"a": jnp.ones(2), "b": (1,)}, 1.5, x=jnp.arange(3))
    jax.effects_barrier()
    shown = (
        "{'a': Array([1., 1.], dtype=float32), 'b': (Array(1, dtype=int32),)} Array([0, 1, 2], "
        "dtype=int32) [0 1 2] 1.50\n"
    )
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize(
    "platform, target",
    [
        ("cpu", "xla_ffi_python_cpu_callback"),
        ("cuda", "xla_ffi_python_gpu_callback"),
        ("tpu", "pjrt_rendezvous"),
    ],
)
def test_what_programs_call(platform, target):
    traced = jax.jit(lambda x: jax.pure_callback(np.sin, x, x)).trace(np.float32(1))
    assert target in traced.lower(lowering_platforms=(platform,)).as_text()
    with pytest.raises(NotImplementedError, match="on CPU, GPU and TPU, not on metal"):
        traced.lower(lowering_platforms=("metal",))


# Forms and mistakes


def test_two_calls(capsys):
    finished(jax.jit(lambda x: jax.debug.print(ordered=True)("{ordered} {}", x, ordered=x + 1)), 1)
    assert capsys.readouterr().out == "2 1\n"
    log = Log()
    finished(jax.jit(lambda x: jax.debug.callback(ordered=True)(log, x)), 3)
    assert log.calls == [(3,)]
    with pytest.raises(
        TypeError, match="debug_callback received unexpected arguments in the two-call form"
    ):
        jax.debug.callback(None, 42, ordered=True)
    with pytest.raises(
        TypeError, match="debug_print received unexpected arguments in the two-call form"
    ):
        jax.debug.print(ordered=True, a=42)


def test_f_strings_are_hinted_at():
    for arguments in (((1,), {}), ((), {"x": 1})):
        with pytest.raises(ValueError, match="You may be passing an f-string"):
            jax.debug.print("hello", *arguments[0], **arguments[1])
    with pytest.raises(TypeError, match="the format is a string, got 3"):
        jax.debug.print(3)


def test_static_arguments(capsys):
    seen = []
    finished(
        jax.jit(
            lambda x: jax.debug.callback(
                lambda *a, **k: seen.append((a[1], k["d"], float(a[0]))), x, "s", d=None
            )
        ),
        2.0,
    )
    assert seen == [("s", None, 2.0)]
    finished(jax.jit(lambda x: jax.debug.print("{} {d} {x}", "s", x=x, d=x.dtype)), 2.0)
    assert capsys.readouterr().out == "s float32 2.0\n"


def test_print_as_numpy_would_where_it_was_written(capsys):
    def f(x):
        with np.printoptions(precision=2, suppress=True):
            jax.debug.print("{}", x)

    finished(jax.jit(f), np.array([1.2345, 1e-7]))
    assert capsys.readouterr().out == "[1.23 0.  ]\n"


def test_arguments_are_arrays_that_may_be_kept():
    kept = []
    f = jax.jit(lambda x: jax.debug.callback(kept.append, x))
    for i in range(3):
        finished(f, jnp.full(1000, float(i)))
    assert [type(x) for x in kept] == [type(jnp.ones(1))] * 3 and [float(x[7]) for x in kept] == [
        0,
        1,
        2,
    ]
    assert float((kept[1] + 1).sum()) == 2000.0


# Order


@pytest.mark.parametrize("in_axes, expected", [(0, [0, 2, 4, 1, 3, 5]), (1, [0, 1, 2, 3, 4, 5])])
def test_batches_of_batches_loop_over_the_inner_axis_first(in_axes, expected):
    x = jnp.arange(6).reshape(3, 2)
    for transform in (lambda f: f, jax.jit):
        log = Log()
        finished(transform(jax.vmap(jax.vmap(lambda x: jax.debug.callback(log, x)), in_axes)), x)
        assert [c[0] for c in log.calls] == expected


def test_results_of_batches_of_batches():
    x = jnp.arange(6.0).reshape(3, 2)
    f = lambda a, b: io_callback(lambda a, b: np.asarray(10 * a + b), SCALAR, a, b)
    g = jax.vmap(jax.vmap(f, (0, None)), (None, 0))
    np.testing.assert_array_equal(g(x[:, 0], x[0]), [[0, 20, 40], [1, 21, 41]])
    pure = lambda x: jax.pure_callback(lambda x: 2 * x, SCALAR, x, vmap_method="sequential")
    np.testing.assert_array_equal(jax.jit(jax.vmap(jax.vmap(pure)))(x), 2 * x)
    assert jax.vmap(pure)(jnp.zeros(0)).shape == (0,)


PLACES = {
    "first": lambda: SingleDeviceSharding(jax.devices()[0]),
    "another": lambda: SingleDeviceSharding(jax.devices()[3]),
    "parts": lambda: jax.NamedSharding(jax.sharding.Mesh(jax.devices()[:2], ("x",)), jax.P("x")),
}


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("place", PLACES)
def test_where_arguments_and_results_are(place, wrap):
    """Python is given arrays on the first device of the CPU, and its results are where the
    arguments are, committed as these are, and else on the default device."""
    seen = []

    def double(x):
        seen.append(x.devices())
        return 2 * x

    where, value = PLACES[place](), np.arange(2, dtype=np.float32)
    f = wrap(lambda x: jax.pure_callback(double, jax.ShapeDtypeStruct((2,), np.float32), x))
    y = f(jax.device_put(value, where))
    np.testing.assert_array_equal(y, 2 * value)
    assert y.devices() == where.device_set and y.committed
    with jax.default_device(jax.devices()[5]):
        y = f(value)
    assert y.devices() == {jax.devices()[5]} and not y.committed
    assert seen == [{jax.devices()[0]}] * 2


def test_arguments_of_a_callback_are_in_one_place():
    x, y = (jax.device_put(np.float32(i), jax.devices()[i]) for i in (1, 2))
    with pytest.raises(ValueError, match=r"incompatible devices.*ids \[1\].*ids \[2\]"):
        jax.pure_callback(lambda x, y: x, SCALAR, x, y)
    shown = []
    jax.debug.callback(lambda x, y: shown.append((float(x), float(y))), x, y)
    jax.effects_barrier()
    assert shown == [(1, 2)]


def test_checkpoint_looks_again():
    def calls(policy, f=lambda log, x: (jax.debug.callback(log, y := jnp.sin(x)), jnp.sin(y))[1]):
        log = Log()
        finished(jax.jit(jax.grad(jax.checkpoint(lambda x: f(log, x), policy=policy))), 2.0)
        return len(log.calls)

    policies = jax.checkpoint_policies
    assert calls(None) == calls(policies.nothing_saveable) == 2
    assert calls(policies.everything_saveable) == 1
    assert (
        calls(
            policies.everything_saveable, lambda log, x: (jax.debug.callback(log, x), jnp.sin(x))[1]
        )
        == 2
    )

    def named(log, x):
        y = checkpoint_name(x + 1, "y")
        z = checkpoint_name(2 * y, "z")
        jax.debug.callback(log, y, z)
        return jnp.exp(z)

    def but(*names):
        return lambda primitive, *types, **params: (
            primitive is not name_p or params["name"] not in names
        )

    assert [calls(but(*names), named) for names in ((), "y", "z", "yz")] == [
        1,
        1,
        1,
        2,
    ]  # as JAX 0.10.2


def test_checkpoint_refuses_io():
    f = lambda x: jnp.sin(x) * io_callback(lambda v: np.float32(v), SCALAR, lax.stop_gradient(x))
    with pytest.raises(
        NotImplementedError, match="Effects not supported in partial-eval of `checkpoint`"
    ):
        jax.grad(jax.checkpoint(f))(1.0)


# Errors


class Refused(Exception):
    pass


def refuse(*args):
    raise Refused("not today")


CALLS = {
    "pure": lambda x: jax.pure_callback(refuse, SCALAR, x),
    "io": lambda x: io_callback(refuse, SCALAR, x),
    "debug": lambda x: (jax.debug.callback(refuse, x), x)[1],
    "ordered": lambda x: (jax.debug.callback(refuse, x, ordered=True), x)[1],
    "scan": lambda x: lax.scan(
        lambda c, _: (jax.pure_callback(refuse, SCALAR, c), None), x, None, length=3
    )[0],
}


@pytest.mark.parametrize("name", CALLS)
def test_errors_are_chained_and_say_the_line(name):
    with pytest.raises(jax.errors.JaxRuntimeError, match="not today") as caught:
        finished(jax.jit(CALLS[name]), jnp.float32(1))
    assert type(caught.value.__cause__) is Refused
    first = CALLS[name].__code__.co_firstlineno
    line = next(i for i in itertools.count(first) if "refuse" in linecache.getline(__file__, i))
    assert any(
        "_callback of refuse at" in note and f"test_callbacks.py:{line}" in note
        for note in caught.value.__notes__
    )
    jax.effects_barrier()  # who has caught it is not told again


def test_errors_of_programs_that_run_behind():
    m = jnp.ones((600, 600))
    y = jax.jit(lambda m: jax.pure_callback(refuse, SCALAR, (m @ m @ m @ m).sum()))
    with pytest.raises(jax.errors.JaxRuntimeError, match="not today") as caught:
        jax.block_until_ready(y(m @ m))
    assert type(caught.value.__cause__) is Refused


def test_barrier_tells_of_errors_that_nobody_heard():
    def f(m):
        jax.debug.callback(refuse, (m @ m @ m @ m @ m @ m).sum())

    try:
        jax.jit(f)(jnp.ones((600, 600)))
    except jax.errors.JaxRuntimeError:
        return  # it ran at once
    with pytest.raises(jax.errors.JaxRuntimeError, match="not today") as caught:
        jax.effects_barrier()
    assert type(caught.value.__cause__) is Refused


def test_callbacks_may_run_programs():
    def callback(i):
        return np.asarray(jnp.sum(jax.jit(jnp.sin)(jnp.full((200, 200), i)) @ jnp.ones((200, 200))))

    f = jax.jit(
        lambda x: lax.fori_loop(
            0, 20, lambda i, c: c + jax.pure_callback(callback, SCALAR, c) * 0, x
        )
    )
    runs = [f(jnp.float32(i)) for i in range(8)]
    assert [float(r) for r in runs] == list(range(8))


# Programs from the cache on disk, and who owns the functions


def test_functions_are_told_to_programs_from_disk(tmp_path):
    config.config.update("teucer_cache_dir", str(tmp_path))
    try:
        sources = []
        for scale in (2.0, 3.0):
            log = Log()

            def f(x, scale=scale, log=log):
                jax.debug.callback(log, x, ordered=True)
                return jax.pure_callback(lambda v: v * np.float32(scale), SCALAR, x)

            jax.debug.compiles().clear()
            assert float(finished(jax.jit(f), 5.0)) == 5 * scale
            assert log.calls == [(5.0,)]
            sources += [row.source for row in jax.debug.compiles() if row.function == "f"]
        assert sources == ["compiled", "disk"]
    finally:
        config.config.update("teucer_cache_dir", None)


@pytest.mark.slow
def test_500_compiled_lambdas_with_callbacks_leave_nothing():
    class Held:
        pass

    def run(i):
        held = Held()
        f = jax.jit(lambda x: jax.pure_callback(lambda v, held=held: np.asarray(v + i), SCALAR, x))
        g = jax.jit(lambda x: (jax.debug.callback(lambda v, held=held: None, x), x)[1])
        assert f(1.0) == 1 + i and g(1.0) == 1
        return weakref.ref(held)

    references = [run(i) for i in range(500)]
    jax.effects_barrier()
    gc.collect()
    assert sum(r() is not None for r in references) <= 1  # the last call's may still be on its way


def test_functions_are_let_go_with_their_program():
    class Function:
        def __call__(self, x):
            return np.asarray(x) + 1

    function = Function()
    gone = weakref.ref(function)
    f = jax.jit(lambda x, function=function: jax.pure_callback(function, SCALAR, x))
    assert float(f(1.0)) == 2.0
    del f, function
    jax.effects_barrier()
    jax.clear_caches()
    gc.collect()
    assert gone() is None


def test_constants_of_programs_with_callbacks_are_put_on_devices_once(monkeypatch):
    weights, brought = np.arange(3, dtype=np.float32), []
    to_sharding = transfer.to_sharding
    monkeypatch.setattr(
        transfer, "to_sharding", lambda x, *rest: brought.append(x) or to_sharding(x, *rest)
    )
    f = jax.jit(lambda x: jax.pure_callback(lambda y: y, x, x * weights))
    for n in range(4):
        np.testing.assert_array_equal(f(jnp.full(3, n, np.float32)), weights * n)
    assert sum(x is weights for x in brought) == 1
