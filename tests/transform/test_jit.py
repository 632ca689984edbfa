"""`jit`: signatures, static and donated arguments, caching, nesting, stages, placement."""

import collections
import contextlib
import functools
import gc
import itertools
import math
import pickle
import re
import sys
import warnings
import weakref

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._base.source import is_internal
from teucer.sharding import AxisType, NamedSharding


def counted(f):
    """`f`, counting how often it is traced."""

    def wrapper(*args, **kwargs):
        wrapper.count += 1
        return f(*args, **kwargs)

    wrapper.count = 0
    return wrapper


def test_traced_once_a_signature():
    f = counted(lambda x: x * 2)
    g = jax.jit(f)
    for x in (1.0, 2.0, np.float32(3), jnp.ones(2), jnp.zeros(2), np.ones(2, np.float32)):
        g(x)
    assert f.count == 3  # weak scalar, scalar, vector


def test_alike_jits_of_one_function_share_traces():
    f = counted(lambda x: x + 1)
    for _ in range(3):
        jax.jit(f)(1.0)
    assert f.count == 1


def test_options_are_part_of_the_signature():
    f = counted(lambda x: x + 1)
    g = jax.jit(f)
    assert g(np.ones(2)).dtype == np.float32
    with jax.enable_x64(True):
        assert g(np.ones(2)).dtype == np.float64
    assert f.count == 2


@pytest.mark.parametrize(
    "options",
    [
        {"static_argnums": 1},
        {"static_argnames": "n"},
        {"static_argnums": (1,)},
        {"static_argnums": -1},
        {"static_argnames": ["n"]},
    ],
)
@pytest.mark.parametrize("by_name", [False, True])
def test_static_arguments(options, by_name):
    @functools.partial(jax.jit, **options)
    def f(x, n):
        assert isinstance(n, int)
        return x * n

    if by_name and options == {"static_argnums": -1}:
        pytest.skip("a negative position says nothing of a call by name")
    for n in (2, 3, 2):
        assert (f(3.0, n=n) if by_name else f(3.0, n)) == 3.0 * n


def test_static_values_of_equal_hash_are_told_apart():
    f = jax.jit(lambda x, n: x * n, static_argnums=1)
    assert f(1, 2).dtype == np.int32
    assert f(1, 2.0).dtype == np.float32


def test_unhashable_static_argument():
    with pytest.raises(ValueError, match=r"(?s)[Nn]on-hashable static arguments"):
        jax.jit(lambda x, n: x, static_argnums=1)(1.0, [1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"static_argnums": 3}, "static_argnums"),
        ({"static_argnames": "z"}, "static_argnames"),
        ({"donate_argnums": 3}, "donate_argnums"),
        ({"static_argnums": 0, "donate_argnums": 0}, "intersect"),
        ({"static_argnums": "x"}, "static_argnums"),
        ({"static_argnames": [0]}, "static_argnames must be a str or a sequence of strs"),
        ({"donate_argnames": ("x", b"y")}, "donate_argnames must be a str or a sequence of strs"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        jax.jit(lambda x, y: x, **options)


@pytest.mark.parametrize("options", [{"donate_argnums": 0}, {"donate_argnames": "x"}])
def test_donated_arguments_are_deleted(options):
    f = jax.jit(lambda x, y: x + y, **options)
    x, y = jnp.ones(4) * 2, jnp.ones(4)
    out = f(x, y)
    assert x.is_deleted()
    assert not y.is_deleted()
    np.testing.assert_array_equal(out, 3 * np.ones(4))
    with pytest.raises((RuntimeError, ValueError), match="deleted"):
        f(x, y)
    with pytest.raises(RuntimeError, match=r"Array has been deleted with shape=float32\[4\]"):
        np.asarray(x)


def test_pytrees_defaults_and_keywords():
    @jax.jit
    def f(p, *rest, scale=2.0, **more):
        return {"a": p["w"][0] * scale, "b": (rest, more)}

    out = f({"w": [1.0, None]}, 5, scale=3.0, z=7)
    assert out["a"] == 3.0
    assert out["b"] == ((5,), {"z": 7})
    assert f({"w": [1.0, None]})["a"] == 2.0


def test_decorates_methods_and_partials():
    class C:
        def __init__(self, k):
            self.k = k

        @functools.partial(jax.jit, static_argnums=0)
        def f(self, x):
            return self.k * x

    assert C(3).f(2.0) == 6.0
    assert jax.jit(functools.partial(lambda a, b: a - b, 5.0))(3.0) == 2.0


def test_keeps_name_and_docstring():
    @jax.jit
    def f(x):
        """Doc."""
        return x

    assert (f.__name__, f.__doc__, f.__wrapped__.__name__) == ("f", "Doc.", "f")


def test_nested_jit_closing_over_a_traced_value():
    @jax.jit
    def outer(x):
        return jax.jit(lambda y: x * y)(x + 1)

    assert outer(2.0) == 6.0
    assert jax.grad(outer)(2.0) == 5.0
    np.testing.assert_array_equal(jax.vmap(outer)(jnp.arange(3.0)), [0, 2, 6])


def test_closed_over_arrays_are_arguments_of_the_program():
    big = jnp.arange(1000.0)
    f = jax.jit(lambda x: x + big)
    np.testing.assert_array_equal(f(1.0), np.arange(1000) + 1.0)
    np.testing.assert_array_equal(f(2.0), np.arange(1000) + 2.0)  # through C++
    assert "dense" not in f.lower(1.0).as_text()


def test_omnistaging():
    jaxpr = jax.make_jaxpr(lambda x: x + jnp.sin(jnp.ones(())))(1.0)
    assert "sin" in str(jaxpr)


def test_unused_arguments_are_dropped_unless_kept():
    assert jax.jit(lambda x, y: x).lower(1.0, 2.0).as_text().count("%arg1") == 0
    assert jax.jit(lambda x, y: x, keep_unused=True).lower(1.0, 2.0).as_text().count("%arg1") > 0


def test_inline():
    inner = jax.jit(lambda x: x * 2, inline=True)
    assert "jit" not in str(jax.make_jaxpr(lambda x: inner(x) + 1)(1.0))


def test_clear_cache():
    f = counted(lambda x: x)
    g = jax.jit(f)
    g(1.0)
    g.clear_cache()
    g(1.0)
    assert f.count == 2


def test_clear_cache_frees_the_executable():
    f = jax.jit(lambda x: x * 317.5 + 1)
    client = jax.devices()[0].client

    def live():
        gc.collect()
        return len(client.live_executables())

    before = live()
    f(1.0)
    assert live() == before + 1
    f.clear_cache()
    assert live() == before


def test_disable_jit_runs_python():
    seen = []
    f = jax.jit(lambda x: seen.append(float(x)) or x)
    with jax.disable_jit():
        f(3.0)
    assert seen == [3.0]


def test_stages():
    f = jax.jit(lambda x, y: {"z": x @ y}, donate_argnums=0)
    args = jnp.ones((2, 2)), jnp.ones((2, 2))
    traced = f.trace(*args)
    assert "dot_general" in str(traced.jaxpr)
    lowered = traced.lower()
    assert "stablehlo.dot_general" in lowered.as_text()
    compiled = lowered.compile()
    assert lowered.donate_argnums == (0,)
    assert lowered.out_info["z"].shape == (2, 2)
    np.testing.assert_array_equal(compiled(*args)["z"], np.full((2, 2), 2.0))
    assert "HloModule" in compiled.as_text()
    assert compiled.cost_analysis()["flops"] > 0
    assert compiled.memory_analysis().output_size_in_bytes == 16
    with pytest.raises(TypeError, match="Argument types differ"):
        compiled(jnp.ones((4, 2)), jnp.ones((2, 2)))
    assert jax.jit(jnp.sin).lower(jax.ShapeDtypeStruct((2,), "float32")).compile()(
        np.ones(2, np.float32)
    ).shape == (2,)


def test_eval_shape():
    out = jax.eval_shape(
        lambda x, y: (x @ y, x.sum()), jax.ShapeDtypeStruct((2, 3), "float32"), jnp.ones((3, 4))
    )
    assert out == (jax.ShapeDtypeStruct((2, 4), "float32"), jax.ShapeDtypeStruct((), "float32"))
    assert jax.jit(jnp.sin).eval_shape(1.0).weak_type


def test_compiler_options():
    f = jax.jit(lambda x: x + 1, compiler_options={"xla_cpu_enable_fast_math": True})
    assert f(1.0) == 2.0
    with pytest.raises(Exception, match="no_such_option"):
        jax.jit(lambda x: x - 1, compiler_options={"no_such_option": True})(1.0)
    assert jax.grad(f)(1.0) == 1.0 and jax.vmap(f)(jnp.ones(2)).sum() == 4.0
    scanned = lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, length=2)
    for within in (jax.jit(f), jax.jit(jax.grad(f)), jax.make_jaxpr(f), scanned):
        with pytest.raises(ValueError, match="top-level.*nested jit with name: <lambda>"):
            within(1.0)


NOT_COMMITTED = {
    "a number": lambda: jnp.asarray(1.0),
    "an integer": lambda: jnp.array(3),
    "a complex number": lambda: jnp.asarray(2j),
    "a pickled weak number": lambda: pickle.loads(pickle.dumps(jax.jit(lambda x: x)(1.0))),
    "a pickled array": lambda: pickle.loads(pickle.dumps(jnp.ones(2))),
    "pickled keys": lambda: pickle.loads(pickle.dumps(jax.random.key(0))),
    "keys of words": lambda: jax.random.wrap_key_data(jnp.zeros(2, jnp.uint32)),
    "words of keys": lambda: jax.random.key_data(jax.random.key(0)),
    "the gradient at a number": lambda: jax.grad(lambda x: x * x)(jnp.asarray(1.0)),
}


@pytest.mark.parametrize("kind", NOT_COMMITTED)
def test_what_no_device_was_named_for_goes_where_others_are(kind):
    x = NOT_COMMITTED[kind]()
    assert not x.committed
    there = jax.device_put(np.ones(()), jax.devices("cpu")[1])
    assert jax.jit(lambda x, there: (there, x))(x, there)[1].devices() == there.devices()


def test_what_is_retyped_stays_committed():
    key = jax.device_put(jax.random.key(0), jax.devices("cpu")[1])
    words = jax.random.key_data(key)
    assert words.committed and words.devices() == key.devices()
    assert jax.random.wrap_key_data(words).committed


def test_placement_follows_committed_arguments():
    devices = jax.devices("cpu")
    if len(devices) < 2:
        pytest.fail("the suite runs with several CPU devices (tests/conftest.py)")
    x = jax.device_put(jnp.ones(2), devices[1])
    y = jax.jit(lambda a, b: a + b)(x, np.ones(2, np.float32))
    assert y.devices() == {devices[1]}
    assert y.committed
    assert (x + 1).devices() == {devices[1]}
    assert (jnp.ones(2) + x).devices() == {devices[1]}
    with pytest.raises(ValueError, match="(?s)incompatible devices.*device_put"):
        jax.jit(lambda a, b: a + b)(x, jax.device_put(jnp.ones(2), devices[0]))
    assert jax.jit(lambda a: a, device=devices[1])(1.0).devices() == {devices[1]}
    with jax.default_device(devices[1]):
        z = jnp.ones(3) * 2
    assert z.devices() == {devices[1]}
    assert not z.committed


def test_traces_do_not_keep_arguments_alive():
    f = jax.jit(lambda x: x + 1)
    x = jnp.arange(5.0) * 1
    ref = weakref.ref(x)
    f(x)
    del x
    gc.collect()
    assert ref() is None


def test_jitted_functions_do_not_live_forever():
    def make():
        f = lambda x: x + 1
        jax.jit(f)(1.0)
        return weakref.ref(f)

    ref = make()
    gc.collect()
    assert ref() is None


def test_debug_nans():
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        jax.jit(lambda x: lax.log(x))(-1.0)


def test_ensure_compile_time_eval():
    @jax.jit
    def f(x):
        with jax.ensure_compile_time_eval():
            assert jnp.sum(jnp.arange(3)) == 3
        return x

    f(1.0)


def test_transformed_calls_are_given_the_same_buffers():
    f = jax.jit(lambda x, y: x * jnp.sin(y) + jnp.ones(3), donate_argnums=0)
    x = jnp.ones(3)

    def donated(g, *args):
        return [
            eqn.params["donated_invars"]
            for eqn in jax.make_jaxpr(g)(*args).eqns
            if eqn.primitive.name == "jit"
        ]

    assert donated(f, x, x) == [(True, False)]
    assert donated(jax.vmap(f), jnp.ones((2, 3)), jnp.ones((2, 3))) == [(True, False)]
    # A tangent is given where its primal is; residuals and cotangents are not.
    assert donated(lambda x, y, t: jax.jvp(f, (x, y), (t, t)), x, x, x) == [
        (True, False, True, False)
    ]
    assert not any(
        flag for flags in donated(jax.grad(lambda x, y: f(x, y).sum()), x, x) for flag in flags
    )


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: f,
        jax.jit,
        jax.grad,
        lambda f: lambda x: jax.vmap(f)(x[None])[0],
        lambda f: jax.jit(jax.grad(f)),
        lambda f: lambda x: jax.vmap(jax.grad(f))(x[None])[0],
    ],
)
def test_ensure_compile_time_eval_of_traced_values(transform):
    """They stay traced; what is computed of them is that without the block, and so are
    derivatives."""

    def f(x, block):
        with block():
            known = jnp.cos(1.0)
            assert block is contextlib.nullcontext or not isinstance(known, jax.core.Tracer)
            y = (
                jnp.sin(x) * known
                + jax.jit(lambda a: a * x)(2.0)
                + lax.cond(known > 0, lambda: x, lambda: -x)
            )
            y += lax.fori_loop(0, 3, lambda i, a: a * x, 1.0) + jax.grad(jnp.sin)(x)
            y += jnp.sum(jax.vmap(lambda a: a * x)(jnp.ones(2)))
            if isinstance(x, jax.core.Tracer):
                assert isinstance(y, jax.core.Tracer)
        return y

    found, expected = (
        transform(lambda x: f(x, block))(jnp.float32(1.5))
        for block in (jax.ensure_compile_time_eval, contextlib.nullcontext)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_named_scope_is_no_equation():
    def f(x):
        with jax.named_scope("part"):
            return jnp.sin(x)

    assert str(jax.make_jaxpr(f)(1.0)) == "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"
    assert jax.named_call(f, name="g")(0.0) == 0.0


def test_same_error_every_time():
    @jax.jit
    def f(x):
        if x > 0:
            return x
        return -x

    for _ in range(2):
        with pytest.raises(jax.errors.TracerBoolConversionError, match=r"bool\[\]"):
            f(1.0)
    assert jax.jit(lambda x: x)(1.0) == 1.0  # the failed trace left no state behind


def test_debug_nans_names_the_primitive():
    f = jax.jit(lambda x: jnp.exp(jax.jit(lambda y: jnp.sin(y) * jnp.log(y))(x)))
    with jax.debug_nans(True):
        with pytest.raises(FloatingPointError, match="encountered in log"):
            f(-jnp.ones(3))
        with pytest.raises(FloatingPointError, match="nan"):
            jax.jit(jnp.log, donate_argnums=0)(-jnp.ones(3))


def test_compiled_takes_no_static_arguments():
    compiled = jax.jit(lambda n, x: n * x, static_argnums=0).lower(7, 6).compile()
    assert compiled(6) == 42


def calls_of_python(call):
    """How many functions of Teucer one call enters."""
    entered = []

    def note(frame, event, _):
        if event == "call" and is_internal(frame.f_code.co_filename):
            entered.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    call()
    sys.setprofile(None)
    return entered


def test_calls_of_compiled_programs_stay_in_cpp():
    x, y = jnp.ones(3), jnp.arange(3.0)
    compiled = jax.jit(lambda x, y: (x + 1, y * 2), donate_argnums=0).lower(x, y).compile()
    compiled(x, y)
    assert x.is_deleted()
    x = jnp.zeros(3)
    assert calls_of_python(lambda: compiled(x, y)) == ["Compiled.__call__"]
    assert x.is_deleted() and not y.is_deleted()
    np.testing.assert_array_equal(compiled(np.full(3, 2, np.float32), y), [[3, 3, 3], [0, 2, 4]])
    for bad in ((y,), (y, jnp.ones(4))):
        with pytest.raises(TypeError, match="compiled"):
            compiled(*bad)
    with pytest.raises(TypeError, match="Detected argument of Tracer type"):
        jax.jit(lambda x: compiled(x, y))(y)


def test_compiled_programs_go_with_their_last_user():
    compiled = jax.jit(lambda x: x * 5).lower(1.0).compile()
    assert compiled(2.0) == 10.0
    gone = weakref.ref(compiled)
    del compiled
    assert gone() is None


@pytest.mark.parametrize(
    "inline, called, told",
    [
        (jax.Inline.JAX_EARLY, False, None),
        (jax.Inline.JAX_LATE, True, None),
        (jax.Inline.XLA_EARLY, True, "xla_early"),
        (jax.Inline.XLA_LATE, True, "xla_late"),
        (jax.Inline.AUTO, True, ""),
        (True, False, None),
        (False, True, ""),
    ],
)
def test_where_calls_are_inlined(inline, called, told):
    inner = jax.jit(jax.lax.sin, inline=inline)
    assert inner(0.0) == 0.0 and jax.grad(jax.jit(inner))(0.0) == 1.0
    assert ("jit[" in str(jax.make_jaxpr(lambda x: inner(x) + 1)(1.0))) == called
    text = jax.jit(lambda x: inner(x) + 1).lower(1.0).as_text()
    assert ("call @" in text) == (told is not None) and (
        not told or f'inlineable = "{told}"' in text
    )


def test_inline_is_a_bool_or_a_choice():
    with pytest.raises(ValueError, match="Invalid inline option: 'jax_early'"):
        jax.jit(jax.lax.sin, inline="jax_early")


def test_effort_of_the_compiler():
    effort = {"optimization_level": jax.CompilerEffortLevel.O1}
    assert jax.jit(lambda x: x + 1, compiler_options=effort)(1.0) == 2.0


@pytest.mark.parametrize("kind", ["static", "donate"])
@pytest.mark.parametrize("how", ["argnums", "argnames"])
def test_a_function_without_a_signature(kind, how):
    """Arguments are told by number. It has no names, and donation by name says so."""

    class Unsigned:
        __name__ = "unsigned"

        @property
        def __signature__(self):
            raise ValueError("no signature")

        def __call__(self, x, n):
            kinds.append(type(n))
            return x * n

    kinds = []
    option = {f"{kind}_{how}": 1 if how == "argnums" else "n"}
    x = jnp.ones(3)
    if how == "argnums":
        n = 2 if kind == "static" else jnp.full(3, 2.0)
        np.testing.assert_array_equal(jax.jit(Unsigned(), **option)(x, n), 2 * np.ones(3))
        assert kind == "static" or n.is_deleted()
    elif kind == "donate":
        with pytest.raises(ValueError, match="Getting the signature .* Pass donate_argnums"):
            jax.jit(Unsigned(), **option)
    else:
        np.testing.assert_array_equal(jax.jit(Unsigned(), **option)(x, n=2), 2 * np.ones(3))
    if kind == "static":
        assert kinds == [int]


@pytest.mark.filterwarnings("ignore:backend and device argument")
def test_a_backend_is_its_first_device():
    first, other = jax.devices()[0], jax.devices()[3]
    with jax.default_device(other):
        y = jax.jit(lambda x: x * 2, backend="cpu")(1.0)
        assert y.devices() == {first} and y.committed
        y = jax.jit(lambda x: x * 2)(1.0)
        assert y.devices() == {other} and not y.committed
    with pytest.raises(ValueError, match="can't specify both a device and a backend for jit"):
        jax.jit(lambda x: x, device=other, backend="cpu")


@pytest.mark.parametrize("wrong", ["a", "b[1]", "c['k']", "n"])
def test_what_is_no_array_is_named(wrong):
    def given(name):
        return "text" if name == wrong else 1.0

    args = (given("a"), (0.5, given("b[1]")), 3)
    with pytest.raises(TypeError, match=rf"at path {re.escape(wrong)}\.\n.* = 'text'"):
        jax.jit(lambda a, b, s, *, c, n: a, static_argnums=2)(
            *args, c={"k": given("c['k']")}, n=given("n")
        )


SIZES = [(2,), (3,), (2, 2)]


@pytest.mark.parametrize("given", list(itertools.product(SIZES, repeat=2)), ids=str)
@pytest.mark.parametrize("returned", list(itertools.product(SIZES, repeat=2)), ids=str)
def test_donated_buffers_without_a_result_are_named(given, returned):
    """As many as are left when each result of their size, of any dtype, has taken one."""

    def f(*args):
        total = sum(x.sum() for x in args)
        return [jnp.full(shape, total.astype("float32")) for shape in returned]

    left = collections.Counter(map(math.prod, given)) - collections.Counter(
        map(math.prod, returned)
    )
    args = [jnp.ones(shape, "int32") for shape in given]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        jax.jit(f, donate_argnums=(0, 1)).lower(*args)
    texts = [str(w.message) for w in said if "donated buffers" in str(w.message)]
    assert len(texts) == bool(left)
    assert sum(text.count("int32[") for text in texts) == left.total()


def test_donated_parts_without_a_result_are_named():
    """Over a mesh, as the part that each device has. Nothing is said of an argument, or where there
    is a result, that the compiler lays out."""
    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:4])
    rows, whole = NamedSharding(mesh, jax.P("x")), NamedSharding(mesh, jax.P())
    kinds = {
        "open": np.ones(8, np.float32),
        "rows": jax.device_put(np.ones(16, np.float32), rows),
        "whole": jax.device_put(np.ones(8, np.float32), whole),
    }
    parts = {"rows": "float32[4]", "whole": "float32[8]"}
    for names in itertools.product(kinds, repeat=2):
        for out in (whole, None):
            f = jax.jit(lambda x, y: x.sum() + y.sum(), donate_argnums=(0, 1), out_shardings=out)
            with warnings.catch_warnings(record=True) as said, jax.set_mesh(mesh):
                warnings.simplefilter("always")
                f.lower(*map(kinds.get, names))
            texts = [str(w.message) for w in said if "donated buffers" in str(w.message)]
            left = [parts[name] for name in names if name in parts] if out is whole else []
            found = [text.partition(": ")[2].partition(".\n")[0] for text in texts]
            assert found == ([", ".join(left)] if left else []), (names, out)


def test_equal_constants_are_one():
    """Masks that each layer makes anew: layers take the same operand."""
    mask = np.tril(np.ones((4, 4), np.float32))

    def f(x):
        for scale in range(6):
            x = jnp.sin(x * (mask > 0)) + np.full((4, 4), 2.0, np.float32) * (scale % 2)
        return x, mask > 0, x @ mask

    x = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    traced = jax.jit(f).trace(x)
    # The mask, where it is positive, twos and zeros.
    assert len(traced.jaxpr.consts) == 4
    for ours, theirs in zip(jax.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    gradient = jax.jit(jax.grad(lambda x: f(x)[2].sum()))(x)
    np.testing.assert_allclose(gradient, jax.grad(lambda x: f(x)[2].sum())(x), rtol=1e-5)


def test_constants_that_differ_in_a_bit_or_a_type_stay():
    zeros = [np.zeros(3, np.float32), -np.zeros(3, np.float32), np.zeros(3, np.int32)]
    f = jax.jit(lambda x: [x / z for z in zeros])
    assert len(f.trace(np.float32(1)).jaxpr.consts) == 3
    assert [float(y[0]) for y in f(np.float32(1))] == [np.inf, -np.inf, np.inf]


def test_a_constant_that_is_written_to_is_not_another():
    a, b = np.ones(3, np.float32), np.ones(3, np.float32)
    traced = jax.jit(lambda x: (x + a, x + b)).trace(np.zeros(3, np.float32))
    a[:] = 7
    _, y = traced.lower().compile()(np.zeros(3, np.float32))
    assert y.tolist() == [1, 1, 1]


def test_one_array_donated_twice_is_refused_by_name():
    """Before anything runs, so that the array stays."""

    def f(state, x, *, y):
        return state["w"] + 1, state["b"] + 1, x + 1, y + 1

    for where in (None, jax.sharding.NamedSharding(jax.make_mesh((4,), ("d",)), jax.P("d"))):
        a, b, c, d = (jax.device_put(np.full(8, i, np.float32), where) for i in range(4))
        both = jax.jit(f, donate_argnums=0, donate_argnames="y")
        compiled = both.lower({"w": a, "b": b}, c, y=d).compile()
        for call in (both, compiled):
            with pytest.raises(
                RuntimeError, match=r"(?s)donate the same buffer twice.* state\['b'\] and y are one"
            ):
                call({"w": a, "b": b}, c, y=b)
            with pytest.raises(
                RuntimeError, match=r"(?s)a buffer and use it, too.* state\['w'\] and x are one"
            ):
                call({"w": a, "b": b}, a, y=d)
        assert not any(v.is_deleted() for v in (a, b, c, d))
        both({"w": a, "b": b}, c, y=d)
        assert a.is_deleted() and not c.is_deleted()
        again = [jax.device_put(np.ones(8, np.float32), where) for _ in range(3)]
        with pytest.raises((RuntimeError, ValueError), match="donate the same buffer twice"):
            both({"w": again[0], "b": again[0]}, again[1], y=again[2])


def test_one_array_given_twice_is_taken_where_it_is_not_donated():
    x = jnp.ones(3)
    assert jax.jit(lambda a, b, c: a + b, donate_argnums=2)(x, x, jnp.ones(3))[0] == 2
    unused = jax.jit(lambda a, b: a + 1, donate_argnums=0)
    assert unused(x, x)[0] == 2
