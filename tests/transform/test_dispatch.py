"""Calls that C++ answers are the calls that Python answers: first, second and third call alike."""

import copy
import functools
import operator
import pickle

import ml_dtypes
import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._core.trace import EVAL, current_trace


def what(x):
    """All there is to know of a tree of results."""

    def leaf(a):
        return (
            type(a),
            a.dtype,
            a.shape,
            a.weak_type,
            a.committed,
            a.devices(),
            np.asarray(a).tobytes(),
        )

    leaves, tree = jax.tree.flatten(x)
    return tree, [leaf(a) for a in leaves]


def thrice(f, *args, **kwargs):
    """The result of three calls, which is the same."""
    first, *others = [what(f(*args, **kwargs)) for _ in range(3)]
    assert others == [first] * 2
    return f(*args, **kwargs)


DTYPES = [
    np.bool_,
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
    np.float16,
    np.float32,
    np.float64,
    np.complex64,
    np.complex128,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.int4,
    ml_dtypes.uint4,
]
FORMS = {
    "scalar": lambda d: np.dtype(d).type(1),
    "0-d": lambda d: np.ones((), d),
    "vector": lambda d: np.arange(3).astype(d),
    "empty": lambda d: np.ones((2, 0, 3), d),
    "view": lambda d: np.arange(12).astype(d).reshape(3, 4)[::2, ::-1].T,
    "broadcast": lambda d: np.broadcast_to(np.ones((), d), (3, 2)),
    "Fortran": lambda d: np.asfortranarray(np.eye(3).astype(d)),
}


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_numpy_arguments(dtype, form, x64):
    x = FORMS[form](dtype)
    with jax.enable_x64(x64):
        y = thrice(jax.jit(lambda x: x), x)
        assert (
            y.dtype == jax.dtypes.canonicalize_dtype(dtype)
            and y.shape == x.shape
            and not y.weak_type
        )
        np.testing.assert_array_equal(np.asarray(y), x.astype(y.dtype))


@pytest.mark.parametrize("x", [1, -3, 2.5, True, 1j, 2**31 - 1])
def test_python_scalars(x):
    y = thrice(jax.jit(lambda x: x), x)
    assert y.weak_type == (type(x) is not bool) and y.item() == x
    assert thrice(jax.jit(lambda x, y: x + y), x, np.ones(2, np.complex64)).dtype == np.complex64


@pytest.mark.parametrize("x", [2**31, -(2**40), 2**70])
def test_python_integers_that_do_not_fit(x):
    f = jax.jit(lambda x: x)
    for _ in range(2):
        with pytest.raises(OverflowError):
            f(x)
        f(3)
        f(3)


BAD = {
    "bytes in other order": np.arange(3).astype(">i4"),
    "wide, in other order": np.arange(3).astype(">f8"),
    "text": np.array(["a"]),
    "objects": np.array([None]),
    "dates": np.array([1], "M8[s]"),
    "records": np.zeros(2, [("a", int)]),
    "long double": np.longdouble(1),
    "void": np.void(1),
    "str": "a",
    "object": object(),
}
ENTRIES = {
    "jit": jax.jit(lambda x: x),
    "jnp": lambda x: jnp.add(x, 1),
    "lax": lax.neg,
    "asarray": jnp.asarray,
    "device_put": jax.device_put,
    "make_jaxpr": jax.make_jaxpr(lambda x: x),
    "grad": jax.grad(lambda x: x),
    "vmap": jax.vmap(lambda x: x),
    "typeof": jax.typeof,
    "eval_shape": lambda x: jax.eval_shape(lambda x: x, x),
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("bad", BAD)
def test_values_that_are_no_arrays(bad, entry):
    for _ in range(2):
        with pytest.raises(TypeError):
            ENTRIES[entry](BAD[bad])


@pytest.mark.parametrize("bad", BAD)
def test_results_and_constants_that_are_no_arrays(bad):
    with pytest.raises(TypeError, match="not a valid JAX type"):
        jax.jit(lambda: BAD[bad])()
    with pytest.raises(TypeError):
        jax.jit(lambda x: jnp.add(x, BAD[bad]))(1.0)


def test_masked_arrays():
    for entry in ("jit", "jnp", "lax", "device_put"):
        with pytest.raises(ValueError, match="masked arrays are not supported"):
            ENTRIES[entry](np.ma.masked_array([1, 2], [0, 1]))


def test_trees_with_nones_and_nothing():
    f = jax.jit(lambda x, y=None: (x, None, y, {}, []))
    assert thrice(f, (None, 1.0, [None, {}]))[1:] == (None, None, {}, [])
    assert thrice(f, None) == (None, None, None, {}, [])
    assert thrice(jax.jit(lambda x: ()), 1.0) == () and thrice(jax.jit(lambda x: None), 1.0) is None


def test_keywords_and_defaults():
    def f(x, y=2, *, z=3.0, **rest):
        return x + 10 * y + 100 * z, rest

    g = jax.jit(f)
    for kwargs in ({}, {"z": 1.0, "a": 2, "b": 3}, {"b": 3, "a": 2, "z": 1.0}, {"y": 5}):
        assert jax.tree.map(float, thrice(g, 1.0, **kwargs)) == jax.tree.map(
            float, f(1.0, **kwargs)
        )


def test_static_arguments_of_equal_values_and_other_types():
    seen = []
    f = jax.jit(lambda x, n: (seen.append(n), x * n)[1], static_argnums=1)
    for _ in range(3):
        for n in (1, True, 1.0, 2):
            f(2, n)
    assert [(type(n), n) for n in seen] == [(int, 1), (bool, True), (float, 1.0), (int, 2)]
    assert f(2, 1).dtype == np.int32 and f(2, 1.0).dtype == np.float32


def test_constants_unused_arguments_and_donation():
    c, cj = np.arange(3, dtype=np.float32), jnp.arange(3.0)

    def f(x, unused, y, z):
        return x + c + cj, y, c, cj, 5, 2.5, np.float32(3), True, x * 0

    def args():
        return jnp.ones(3), jnp.ones(7), jnp.ones(2), jnp.ones(4)

    plain = what(jax.jit(f)(*args()))
    for options in (
        {},
        {"keep_unused": True},
        {"donate_argnums": (0, 1, 2, 3)},
        {"donate_argnums": (2,), "keep_unused": True},
    ):
        g = jax.jit(f, **options)
        for _ in range(3):
            assert what(g(*args())) == plain
    assert c.tolist() == cj.tolist() == [0, 1, 2]


def test_results_that_are_arguments_constants_or_each_other():
    x, c = jnp.ones(2), jnp.zeros(3)
    same = thrice(jax.jit(lambda x: [y := x * 2, y, x, x, c, c, 1, 1]), x)
    assert [np.asarray(y).tolist() for y in same] == [[2, 2]] * 2 + [[1, 1]] * 2 + [
        [0, 0, 0]
    ] * 2 + [1, 1]
    assert thrice(jax.jit(lambda: (c, 3.0)))[1].weak_type
    y = jax.jit(lambda x: x)(x)
    y.delete()
    assert x.tolist() == [1, 1]


@pytest.fixture
def devices():
    found = jax.devices("cpu")
    assert len(found) >= 4, "the suite runs with several CPU devices (tests/conftest.py)"
    return found


def test_devices_of_results(devices):
    free, put = jnp.ones(3), jax.device_put(jnp.ones(3), devices[1])
    with jax.default_device(devices[3]):
        elsewhere = jnp.ones(3)
    host = np.ones(3, np.float32)
    for f in (jax.jit(lambda x, y: x + y), lax.add, jnp.add):
        for x, y in ((free, put), (put, free), (elsewhere, put), (host, put), (put, 1.0)):
            z = thrice(f, x, y)
            assert z.committed and z.devices() == {devices[1]}
        for x, y in (
            (elsewhere, free),
            (free, elsewhere),
            (elsewhere, elsewhere),
            (host, elsewhere),
        ):
            z = thrice(f, x, y)
            assert not z.committed and z.devices() == {devices[0]}
        with jax.default_device(devices[2]):
            for x, y in ((free, 1.0), (host, 1.0), (elsewhere, free)):
                z = thrice(f, x, y)
                assert not z.committed and z.devices() == {devices[2]}
        assert thrice(f, host, 1.0).devices() == {devices[0]}
        for _ in range(2):
            with pytest.raises(ValueError, match="incompatible devices"):
                f(put, jax.device_put(free, devices[2]))


def test_options_between_calls():
    x, f = np.arange(3.0), jax.jit(lambda x: x * 1.5)
    for _ in range(2):
        assert thrice(f, x).dtype == np.float32
        with jax.enable_x64(True):
            assert thrice(f, x).dtype == np.float64


def test_disable_jit_between_calls():
    count = []
    f = jax.jit(lambda x: (count.append(type(x)), x + 1)[1])
    for _ in range(2):
        thrice(f, 1.0)
    assert len(count) == 1
    with jax.disable_jit():
        for _ in range(3):
            assert f(1.0) == 2
    assert len(count) == 4
    thrice(f, 1.0)
    assert len(count) == 4


def test_debug_nans_between_calls():
    f = jax.jit(lambda x: jnp.log(x))
    for _ in range(2):
        assert np.isnan(thrice(f, -1.0))
        with jax.debug_nans(True):
            for g in (f, jnp.log, lax.log):
                for _ in range(2):
                    with pytest.raises(FloatingPointError, match="nan"):
                        g(-1.0)
            assert f(1.0) == 0


@pytest.mark.parametrize(("option", "bad"), [("debug_nans", -1.0), ("debug_infs", 0.0)])
def test_results_are_looked_at_in_every_call(option, bad):
    """Under each of the options alone, and not in the first call only."""
    f = jax.jit(lambda x: jnp.log(x) * 2)
    with getattr(jax, option)(True):
        assert f(1.0) == 0 and f(1.0) == 0
        for _ in range(2):
            with pytest.raises(FloatingPointError, match="encountered in log"):
                f(bad)
        assert f(1.0) == 0


def test_promotion_and_precision_between_calls():
    f, a, b = jax.jit(lambda x, y: x + y), np.ones(2, np.int8), np.ones(2, np.float32)
    for _ in range(2):
        thrice(f, a, b)
        with jax.numpy_dtype_promotion("strict"), pytest.raises(ValueError, match="promotion"):
            f(a, b)
    g = jax.jit(lambda x: x @ x)
    x = jnp.eye(2)
    thrice(g, x)
    assert "HIGHEST" not in g.lower(x).as_text()
    with jax.default_matmul_precision("highest"):
        thrice(g, x)
        assert "HIGHEST" in g.lower(x).as_text()


def test_no_execution_between_calls():
    x, f = jnp.ones(2), jax.jit(lambda x: x + 1)
    for _ in range(2):
        thrice(f, x)
        with jax.no_execution(True):
            for g in (f, lambda x: x + 1, lax.neg, jax.grad(lambda x: x.sum())):
                for _ in range(2):
                    with pytest.raises(RuntimeError, match="no_execution config option is set"):
                        g(x)
            assert jax.eval_shape(f, x).shape == (2,) and len(jax.make_jaxpr(f)(x).eqns) == 1


def test_no_tracing_between_calls():
    f = jax.jit(lambda x: x + 1)
    f(1.0)
    with jax.no_tracing(True):
        thrice(f, 2.0)
        with pytest.raises(RuntimeError, match="'no_tracing' is set"):
            f(1)


TRACED = {
    "add": lambda t: t + 1,
    "jit": lambda t: jax.jit(lambda x: x)(t),
    "closure": lambda t: jax.jit(lambda: t)(),
    "grad": lambda t: jax.grad(lambda x: x * t)(1.0),
    "library": jnp.sum,
    "tree": lambda t: jax.jit(lambda d: d)({"a": t}),
    "vmap": lambda t: jax.vmap(lambda x: x + t)(jnp.ones(2)),
    "make_jaxpr": lambda t: jax.make_jaxpr(lambda x: x + t)(1.0),
    # Not used, but returned.
    "returned from jvp": lambda t: jax.jvp(lambda x: t, (1.0,), (1.0,)),
    "returned from grad": lambda t: jax.grad(lambda x: t)(1.0),
    "returned from linearize": lambda t: jax.linearize(lambda x: t, 1.0)[1](1.0),
    "returned from vjp": lambda t: jax.vjp(lambda x: t, 1.0)[1](1.0),
    "returned from vmap": lambda t: jax.vmap(lambda x: t)(jnp.ones(2)),
    "returned from jit": lambda t: jax.jit(lambda x: t)(1.0),
}


@pytest.mark.parametrize("use", TRACED)
def test_leaked_tracers(use):
    kept = []
    jax.jit(lambda x: kept.append(x))(1.0)
    for _ in range(2):
        with pytest.raises(jax.errors.UnexpectedTracerError, match="leaked from <lambda>"):
            TRACED[use](kept[0])
    assert jnp.add(1, 1) == 2


def test_inner_jits_that_close_over_tracers():
    box = {}
    inner = jax.jit(lambda y: y * box["x"])

    def f(x):
        box["x"] = x
        return inner(2.0) + inner(3.0)

    assert [float(jax.jit(f)(x)) for x in (1.0, 2.0)] == [5, 10]
    assert jax.grad(f)(5.0) == jax.jit(jax.grad(f))(6.0) == 5
    box["x"] = 7.0
    assert inner(2.0) == 14


@pytest.mark.parametrize("error", [KeyboardInterrupt, RecursionError, ZeroDivisionError])
def test_whatever_ends_a_trace(error):
    def f(x):
        raise error

    for transform in (
        jax.jit,
        jax.grad,
        lambda f: jax.vmap(f, axis_size=2),
        lambda f: jax.jit(jax.grad(f)),
    ):
        with pytest.raises(error):
            transform(f)(np.ones(2, np.float32) if transform is not jax.grad else 1.0)
        assert current_trace() is EVAL and jnp.add(1, 2) == 3


def test_effects_happen_at_each_call(capfd):
    f = jax.jit(lambda x: (jax.debug.print("v {}", x), x)[1])
    for i in range(3):
        f(i)
    jax.effects_barrier()
    assert capfd.readouterr().out == "v 0\nv 1\nv 2\n"


class Model:
    def __init__(self, k):
        self.k = k

    @functools.partial(jax.jit, static_argnums=0)
    def scale(self, x):
        return x * self.k

    @staticmethod
    @jax.jit
    def plus(x):
        return x + 1

    @classmethod
    @functools.partial(jax.jit, static_argnums=0)
    def name(cls, x):
        return x + len(cls.__name__)

    @property
    @functools.partial(jax.jit, static_argnums=0)
    def weights(self):
        return jnp.ones(2) * self.k

    def __call__(self, x):
        return x - self.k


def test_methods_and_callables():
    m = Model(3)
    assert thrice(m.scale, 2.0) == thrice(Model.scale, m, 2.0) == 6
    assert thrice(m.plus, 1.0) == thrice(Model.plus, 1.0) == 2 and thrice(m.name, 1.0) == 6
    assert thrice(lambda: m.weights).tolist() == [3, 3] and Model(4).weights.tolist() == [4, 4]
    assert (
        thrice(jax.jit(m), 5.0) == 2
        and thrice(jax.jit(m.__call__), 5.0) == 2
        and thrice(jax.jit(m.scale), 2.0) == 6
    )
    assert (
        thrice(jax.jit(functools.partial(operator.add, 2)), 1.0) == 3
        and thrice(jax.jit(operator.neg), 1.0) == -1
    )
    assert thrice(jax.jit(jax.jit(jax.jit(lambda x: x + 1))), 1.0) == 2

    class Unhashable:
        __hash__ = None
        __slots__ = ()

        def __call__(self, x):
            return x + 1

    assert thrice(jax.jit(Unhashable()), 1.0) == 2


@jax.jit
def increment(x):
    """One more."""
    return x + 1


def decrement(x, n):
    return x - n


def test_jitted_functions_are_pickled_and_copied():
    assert pickle.loads(pickle.dumps(increment)) is increment is copy.deepcopy(increment)
    assert pickle.loads(pickle.dumps(jax.jit(decrement, static_argnums=1)))(3.0, 1) == 2
    with pytest.raises(Exception, match="lambda"):
        pickle.dumps(jax.jit(lambda x: x))


def test_methods_of_jitted_functions():
    assert increment.__name__ == "increment" and increment.__doc__ == "One more."
    assert increment.eval_shape(1.0).shape == () and increment.lower(1.0).compile()(1.0) == 2
    assert str(increment.trace(1.0).jaxpr).count("add") == 1
    increment.clear_cache()
    assert thrice(increment, 1.0) == 2


TRANSFORMED = {
    "make_jaxpr": lambda f: jax.make_jaxpr(f),
    "jit": lambda f: jax.jit(f),
    "eval_shape": lambda f: functools.partial(jax.eval_shape, f),
    "grad": lambda f: jax.grad(f),
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,)),
    "linearize": lambda f: functools.partial(jax.linearize, f),
    "vmap": lambda f: lambda x: jax.vmap(f)(jnp.stack([x, x])),
    "checkpoint": lambda f: jax.jit(jax.checkpoint(f)),
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2),
    "none": lambda f: f,
}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("inner", TRANSFORMED)
@pytest.mark.parametrize("outer", TRANSFORMED)
def test_cpp_answers_while_nothing_is_traced(outer, inner, fails):
    """It is told whether something is: within every transformation in every other, after it, and
    after one that failed."""

    def told():
        return jax._core.trace._tracing.value is (current_trace() is not EVAL)

    def f(x):
        assert told()
        with jax.ensure_compile_time_eval():
            assert told()
            assert jnp.sin(1.0) > 0
        assert told()
        if fails:
            raise KeyError
        return x * 2.0

    def g(x):
        y = TRANSFORMED[inner](f)(x)
        assert told()
        del y
        return x

    try:
        TRANSFORMED[outer](g)(jnp.float32(1))
        assert not fails
    except KeyError:
        assert fails
    assert jax._core.trace._tracing.value is False
    assert current_trace() is EVAL


class Slotted:
    """A callable that cannot be referred to weakly."""

    __slots__ = ()

    def __call__(self, x):
        return x * 2


@pytest.mark.parametrize(
    "f, expected",
    [
        (Slotted(), [2, 4, 6]),
        (operator.itemgetter(0), 1),
        (operator.methodcaller("sum"), 6),
        (operator.attrgetter("T"), [1, 2, 3]),
        (jax.Array.__neg__, [-1, -2, -3]),
        (operator.neg, [-1, -2, -3]),
        (functools.partial(operator.mul, 2), [2, 4, 6]),
    ],
)
def test_callables_of_all_kinds_are_jitted_again(f, expected):
    """Also those that the cache of C++ cannot know: they end the process if they come there."""
    x = np.array([1, 2, 3], np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(jax.jit(f)(x), expected)


def test_clear_caches_reaches_dispatchers_that_are_gone():
    traced = []

    def f(x):
        traced.append(x)
        return x + 1

    jax.jit(f)(1.0), jax.jit(f)(1.0)
    assert len(traced) == 1
    jax.clear_caches()
    kept = jax.jit(f)
    kept(1.0), jax.jit(f)(1.0)
    assert len(traced) == 2
    jax.clear_caches()
    jax.jit(f)(1.0), kept(1.0)
    assert len(traced) == 3
