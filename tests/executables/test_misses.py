"""Recompilation explained.

What differed, by name, and what keeps changing; the log, the table and the dumps of
compilations.
"""

import dataclasses
import functools
import gzip
import logging
import operator
import re
import time

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._base import config

x8, x9 = np.zeros(8, np.float32), np.zeros(9, np.float32)


@pytest.fixture
def explained(caplog):
    """The explanations of the calls of a function, the first of them left out."""

    def explain(f, *calls):
        with config.explain_cache_misses(True):
            for call in calls:
                caplog.clear()
                call(f)
        return [r.getMessage() for r in caplog.records]

    return explain


def last_lines(message):
    return [line.strip() for line in message.splitlines() if line.startswith("    ")]


class Alike:
    def __repr__(self):
        return "Alike()"


@functools.partial(jax.jit, static_argnums=(1,), static_argnames=("mode",), donate_argnames=("w",))
def g(x, n=1, *rest, y=0.0, mode="a", w=None):
    return x * 2


@pytest.mark.parametrize(
    "before, now, expected",
    [
        (((x8,), {}), ((x9,), {}), ["different input types: at x, now f32[9] and before f32[8]"]),
        (
            ((x8,), {}),
            ((x8.astype(int),), {}),
            ["different input types: at x, now i32[8] and before f32[8]"],
        ),
        (
            ((x8,), {}),
            ((np.zeros((), int),), {}),
            ["different input types: at x, now i32[] and before f32[8]"],
        ),
        (
            ((1.0,), {}),
            ((np.float32(1),), {}),
            [
                "different input types: at x, now f32[]{weak_type=False} and before "
                "f32[]{weak_type=True}. "
                "See https://docs.jax.dev/en/latest/type_promotion.html#weak-types"
            ],
        ),
        (
            ((np.float32(1),), {}),
            ((1.0,), {}),
            [
                "different input types: at x, now f32[]{weak_type=True} and before "
                "f32[]{weak_type=False}. "
                "See https://docs.jax.dev/en/latest/type_promotion.html#weak-types"
            ],
        ),
        (((x8, 1), {}), ((x8, 2), {}), ["static argument n: was 1, is 2"]),
        (
            ((x8, 1), {}),
            ((x8, 1.0), {}),
            ["static argument n: was 1 of type int, is 1.0 of type float"],
        ),
        (
            ((x8, 1), {"mode": "a"}),
            ((x8, 1), {"mode": "b"}),
            ["static argument mode: was 'a', is 'b'"],
        ),
        (((x8,), {}), ((x8,), {"mode": "b"}), ["static argument mode: was not given, is 'b'"]),
        (
            ((x8, Alike()), {}),
            ((x8, Alike()), {}),
            [
                "static argument n: Alike() is not equal to the one before, although they print "
                "alike. Give Alike an __eq__ and a __hash__ that compare what matters."
            ],
        ),
        (
            ((x8, 1, x8), {}),
            ((x8, 1, x8, x9), {}),
            ["different input pytree: argument args[3]: was not given, is now"],
        ),
        (
            ((x8,), {"y": 1.0}),
            ((x8,), {}),
            ["different input pytree: argument y: was given, is not now"],
        ),
        (
            ((x8,), {}),
            ((), {"x": x8}),
            ["different input pytree: argument x: was given by position, is by name"],
        ),
        (
            ((x8,), {"y": {"a": 1, "b": [2]}}),
            ((x8,), {"y": {"a": 1, "b": [2, 3]}}),
            [
                (
                    "different input pytree: argument y['b']: pytree was list of length 1, is "
                    "list of length 2: the "
                    "lengths do not match"
                )
            ],
        ),
        (
            ((x8,), {"y": (1, 2)}),
            ((x8,), {"y": [1, 2]}),
            [
                (
                    "different input pytree: argument y: pytree was <class 'tuple'>, is "
                    "<class 'list'>: their Python types "
                    "differ"
                )
            ],
        ),
        (
            ((x8,), {"y": {"a": [x8]}}),
            ((x8,), {"y": {"a": [x9]}}),
            ["different input types: at y['a'][0], now f32[9] and before f32[8]"],
        ),
        (
            ((x8, 1), {}),
            ((x9, 2), {"w": x8}),
            [
                "static argument n: was 1, is 2",
                "different input pytree: argument w: was not given, is now",
                "different input types: at x, now f32[9] and before f32[8]",
            ],
        ),
    ],
)
def test_what_differs_by_name(explained, before, now, expected):
    g.clear_cache()
    (message,) = explained(g, lambda f: f(*before[0], **before[1]), lambda f: f(*now[0], **now[1]))
    assert message.startswith("TRACING CACHE MISS at tests/executables/test_misses.py:")
    assert re.search(
        r"\n  for g defined at .*test_misses.py:\d+\n  all previously seen cache keys differ",
        message,
    )
    assert last_lines(message) == expected


def test_the_nearest_earlier_signature_is_compared(explained):
    f = jax.jit(lambda a, b, c: a)
    (message,) = explained(
        f,
        lambda f: f(x8, x8, x8),
        lambda f: f(x9, x9, x8),
        lambda f: f(x8, x9, x9),
        lambda f: f(x9, x9, x9),
    )
    assert len(last_lines(message)) == 1


def test_the_context(explained):
    f = jax.jit(lambda x: x @ x)

    def precisely(f):
        with jax.default_matmul_precision("high"):
            f(x8)

    (message,) = explained(f, lambda f: f(x8), precisely)
    assert last_lines(message) == [
        "tracing context: option jax_default_matmul_precision, now high and before None"
    ]
    (message,) = explained(
        f, lambda f: f(x8), lambda f: jax.vmap(f, axis_name="i")(np.zeros((2, 8), np.float32))
    )
    assert last_lines(message) == ["named axes: were {}, are {'i': 2}"]


def test_donation(explained):
    def f(x):
        return x * 2

    (message,) = explained(
        None,
        lambda _: jax.jit(f)(jnp.zeros(8)),
        lambda _: jax.jit(f, donate_argnums=0)(jnp.zeros(8)),
    )
    assert last_lines(message) == ["donated arguments: were none, are x"]


def test_another_device_is_another_program(explained):
    f = jax.jit(lambda x: x * 2)
    (message,) = explained(f, lambda f: f(x8), lambda f: f(jax.device_put(x8, jax.devices()[1])))
    assert message.startswith("COMPILATION CACHE MISS at tests/executables/test_misses.py:")
    assert last_lines(message) == [
        "devices: was not committed, on CpuDevice(id=0), is committed to CpuDevice(id=1)"
    ]


def test_shardings_and_meshes(explained):
    f = jax.jit(lambda a, b: a["k"] * 2 + b)
    axes, auto = ("i", "j"), (jax.sharding.AxisType.Auto,) * 2
    explicit, mesh, other = (
        jax.make_mesh((4, 2), axes),
        jax.make_mesh((4, 2), axes, auto),
        jax.make_mesh((2, 4), axes, auto),
    )

    def on(mesh, *spec):
        return lambda f: f({"k": jax.device_put(x8, jax.NamedSharding(mesh, jax.P(*spec)))}, x8)

    def in_force(f):
        with jax.set_mesh(explicit):
            f({"k": x8}, x8)

    (message,) = explained(f, on(explicit, "i"), on(explicit, "j"))
    assert message.startswith("TRACING") and last_lines(message) == [
        "different input types: at a['k'], now f32[8@j] and before f32[8@i]"
    ]
    (*_, message) = explained(f, on(mesh, "i"), on(mesh, "j"))
    assert message.startswith("COMPILATION") and last_lines(message) == [
        "argument a['k']: sharding was P('i',), is P('j',)"
    ]
    (message,) = explained(f, on(other, "j"))
    assert last_lines(message) == [
        "mesh of the program: was ('i': 4, 'j': 2), is ('i': 2, 'j': 4)",
        "argument a['k']: sharding was P('j',) over the mesh ('i': 4, 'j': 2), is P('j',) over "
        "the mesh ('i': 2, 'j': 4)",
    ]
    (message,) = explained(f, in_force)
    assert last_lines(message) == [
        "tracing context: the mesh in force (jax.set_mesh), now ('i': 4, 'j': 2) and before none"
    ]


@dataclasses.dataclass(frozen=True)
class Settings:
    name: str = "a" * 70
    sizes: tuple = (1, 2)


@pytest.mark.parametrize(
    "before, now, expected",
    [
        (Settings(), Settings(sizes=(1, 3)), ["static argument n.sizes: was (1, 2), is (1, 3)"]),
        (
            (Settings(), 1),
            (Settings("b"), 2),
            [
                (
                    f"static argument n: was ({str(Settings())[:56]}..., is (Settings(name='b', "
                    "sizes=(1, 2)), 2)"
                )
            ],
        ),
        (("a" * 70, 1), ("a" * 70, 2), ["static argument n[1]: was 1, is 2"]),
        (
            "a" * 70 + "1",
            "a" * 70 + "2",
            [f"static argument n: was ...{'a' * 20}1', is ...{'a' * 20}2'"],
        ),
    ],
)
def test_long_static_arguments(explained, before, now, expected):
    g.clear_cache()
    (message,) = explained(g, lambda f: f(x8, before), lambda f: f(x8, now))
    assert last_lines(message) == expected


def test_no_miss_no_word(explained):
    f = jax.jit(lambda x: x * 2)
    assert explained(f, lambda f: f(x8), lambda f: f(x8 + 1)) == []
    assert (
        explained(None, lambda _: jnp.sort(np.zeros((3, 5, 7), np.float32))) == []
    )  # Teucer's own functions


def make(what, i):
    def scaled(x, by=i):
        return x * by

    def closure(x):
        return x * i

    class Model:
        __slots__ = ("scale",)

        def __call__(self, x):
            return x * i

    return {
        "function": scaled,
        "closure": closure,
        "partial": functools.partial(scaled, by=i),
        "object": Model(),
        "transformed": jax.grad(closure),
    }[what]


@pytest.mark.parametrize(
    "what, expected",
    [
        ("function", "a function that is defined anew is another function"),
        ("closure", "a closure over i made anew"),
        ("partial", "a functools.partial made anew"),
        ("object", "cannot be referred to weakly"),
        ("transformed", r"transformed \(grad, vmap, ...\) or wrapped anew"),
    ],
)
def test_functions_made_anew(explained, what, expected):
    (message,) = explained(None, *[lambda _, i=i: jax.jit(make(what, i))(1.0) for i in range(2)])
    assert re.search(
        r"never seen function:\n    \w+ id=\d+ defined at .*py:\d+\n  but seen another function "
        rf"defined on the same line: .*{expected}",
        message,
    )


def jnp_sum(x):
    return jnp.sum(x)


class Doubling:
    def __call__(self, x):
        return x * 2


def test_objects_made_anew(explained):
    (message,) = explained(None, *[lambda _: jax.jit(Doubling())(x8)] * 2)
    assert "an object of Doubling that is made anew is another function" in message
    (message,) = explained(None, *[lambda _: jax.jit(operator.itemgetter(0))(x8)] * 2)
    assert "but seen another object of the same type: " in message


def test_functions_that_are_not_made_anew(explained):
    f, g = jax.jit(lambda v: v + 1), jax.jit(lambda v: v - 1)
    (message,) = explained(None, lambda _: f(x8), lambda _: g(x8))
    assert "never seen function" in message and "another" not in message
    (message,) = explained(
        None, lambda _: jax.jit(jnp_sum)(x8), lambda _: jax.jit(jax.grad(jnp_sum))(x8)
    )
    assert "never seen function" in message and "another" not in message
    mapped = jax.pmap(lambda v: v + 1)
    (message,) = explained(mapped, lambda f: f(np.ones((4, 2))), lambda f: f(np.ones((2, 2))))
    assert message.endswith("\n    for pmap over devices [0, 1], a function of its own")


def test_traces_that_were_forgotten(explained):
    f = jax.jit(lambda v: v * 2)
    (message,) = explained(f, lambda f: f(x8), lambda f: [jax.clear_caches(), f(x8)])
    assert re.search(
        r"  for <lambda> defined at .*\n    its traces were forgotten \(clear_caches\)$", message
    )


def test_functions_made_anew_while_another_is_traced(explained):
    outer = jax.jit(lambda x: [jax.jit(make("closure", i))(x) for i in range(2)])
    assert (
        "but seen another function defined on the same line"
        in explained(outer, lambda f: f(1.0))[-1]
    )


def warnings_of(caplog, f, calls):
    with config.warn_after_compiles(5), caplog.at_level(logging.WARNING, "teucer"):
        for call in calls:
            call(f)
    return [r.getMessage() for r in caplog.records]


def test_a_warning_says_what_keeps_changing(caplog):
    f = jax.jit(lambda x, n: x * n, static_argnames="n")
    (message,) = warnings_of(
        caplog, f, [lambda f, i=i: f(np.zeros(i + 1, np.float32), n=i % 2) for i in range(12)]
    )
    head, *lines = message.splitlines()
    assert re.fullmatch(
        r"<lambda> defined at .*test_misses.py:\d+ has been compiled 5 times, last at "
        r".*test_misses.py:.* What keeps changing:",
        head,
    )
    assert lines[:2] == [
        (
            "    static argument n: 2 values: 0, 1. Pass it as an array if the program needs only "
            "its value."
        ),
        "    argument x: 5 values: f32[1], f32[2], f32[3], f32[4], f32[5]. Pad to a few shapes, "
        "or convert to one dtype, before the call.",
    ]


def test_a_warning_of_functions_made_in_a_loop(caplog):
    def scaled_by(i):
        def scaled(x):
            return x * i

        return scaled

    (message,) = warnings_of(
        caplog, None, [lambda _, i=i: jax.jit(scaled_by(i))(1.0) for i in range(7)]
    )
    assert (
        "scaled defined at" in message
        and "the function: 5 of them were made on this line" in message
    )


def test_a_warning_of_functions_made_in_a_loop_and_called_with_several_shapes(caplog):
    def calls(_):
        for i in range(3):
            f = jax.jit(lambda v: v + i)
            for n in (3, 4, 5):
                f(np.zeros(n, np.float32))

    (message,) = warnings_of(caplog, None, [calls])
    assert (
        "the function: 2 of them were made on this line, and a closure over i made anew" in message
    )
    assert (
        "argument v: 3 values: f32[3], f32[4], f32[5]." in message and "clear_caches" not in message
    )


def test_a_warning_of_traces_that_were_forgotten(caplog):
    f = jax.jit(lambda v: v * 2)
    (message,) = warnings_of(caplog, f, [lambda f: [f(x8), jax.clear_caches()]] * 7)
    assert message.splitlines()[1:-1] == ["    its traces were forgotten (clear_caches)"]


def test_a_warning_of_pytrees_is_short(caplog):
    f = jax.jit(lambda layers: layers[0]["w"])
    trees = [[{"w": x8, f"b{i}": x8} for _ in range(200)] for i in range(5)]
    (message,) = warnings_of(caplog, f, [lambda f, t=t: f(t) for t in trees])
    assert (
        "the pytree of the arguments: 5 structures; of the last two, argument layers[0]: pytree was"
        in message
    )
    assert len(message) < 2000


def test_a_warning_comes_once_though_the_limit_changes(caplog):
    f = jax.jit(lambda x: x * 2)
    for limit in (0, 64, 2, 3, 5):
        with config.warn_after_compiles(limit):
            for n in range(3):
                f(np.zeros(10 * limit + n, np.float32))
    assert len(caplog.records) == 1 and "has been compiled 4 times" in caplog.text


def test_a_warning_of_a_function_that_is_transformed_in_a_loop(caplog):
    (message,) = warnings_of(
        caplog, None, [lambda _: jax.jit(jax.vmap(jnp_sum))(np.zeros((2, 3), np.float32))] * 7
    )
    assert (
        "the function: 5 of them were made, and a function that is transformed (grad, vmap, ...)"
        in message
    )


def test_what_is_traced_into_another_program_is_not_compiled(caplog):
    inner = jax.jit(lambda x: x * 2)
    outer = jax.jit(lambda: [inner(np.zeros(i, np.float32)) for i in range(9)])
    assert warnings_of(caplog, outer, [lambda f: f()]) == []
    with config.warn_after_compiles(0):
        assert warnings_of(caplog, inner, []) == []


def test_log_compiles(caplog):
    f = jax.jit(lambda x: x * 2)
    with jax.log_compiles(), caplog.at_level(logging.WARNING, "teucer"):
        f(x8)
        f(x8)
    messages = [r.getMessage() for r in caplog.records]
    patterns = [
        r"Finished tracing <lambda> for jit in [\d.]+ sec",
        (
            r"Compiling jit\(<lambda>\) with global shapes and types "
            r"\(ShapedArray\(float32\[8\]\),\)\."
        ),
        r"Finished jaxpr to MLIR module conversion jit\(<lambda>\) in [\d.]+ sec",
        r"Finished XLA compilation of jit\(<lambda>\) in [\d.]+ sec \((compiled|disk|memory)\)",
    ]
    assert len(messages) == 4 and all(map(re.fullmatch, patterns, messages))
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "teucer"):
        jax.jit(lambda x: x * 3)(x8)
    assert [r.levelname for r in caplog.records] == ["DEBUG"] * 4


def test_the_table_of_compilations(tmp_path):
    table = jax.debug.compiles()
    table.clear()
    assert len(table) == 0

    def named(x, y):
        return x * 2.5 + y

    start = time.perf_counter()
    with config.cache_dir(str(tmp_path)), config.enable_compilation_cache(True):
        jax.jit(named)(x8, 1)
        jax.jit(lambda *a: named(*a))(x8, 1)  # another program's text has its name in it
        jax.jit(named).lower(x8, 1).compile()
        jax.clear_caches()
        jax.jit(named)(x8, 1)
    rows = list(table)
    assert [(r.function, r.signature, r.source) for r in rows] == [
        ("named", "f32[8], ~i32[]", "compiled"),
        ("<lambda>", "f32[8], ~i32[]", "compiled"),
        ("named", "f32[8], ~i32[]", "memory"),
        ("named", "f32[8], ~i32[]", "disk"),
    ]
    assert all(
        r.trace_time > 0 and r.lower_time > 0 and r.compile_time > 0 and r.code_bytes > 0
        for r in rows
    )
    # One after the other, in all no longer than it took.
    took = time.perf_counter() - start
    assert sum(r.trace_time + r.lower_time + r.compile_time for r in rows) < took
    lines = str(table).splitlines()
    assert lines[0].split() == [
        "function",
        "signature",
        "trace",
        "ms",
        "lower",
        "ms",
        "compile",
        "ms",
        "code",
        "KiB",
        "source",
    ]
    assert len(lines) == 5 and lines[-1].startswith("named") and lines[-1].endswith("disk")
    assert table[0] is rows[0] and table[1:3] == rows[1:3] and table[-1:] == rows[-1:]


def test_dumps(tmp_path):
    f = jax.jit(lambda x: jnp.sin(x) * 2)
    with config.dump_ir_to(str(tmp_path / "a")):
        f(x8)
        f(x8)
    (path,) = (tmp_path / "a").iterdir()
    assert re.fullmatch(r"jax_ir\d{4}_jit__lambda__compile\.mlir", path.name)
    assert "stablehlo.sine" in path.read_text() and "test_misses.py" in path.read_text()
    with (
        config.dump_ir_to(str(tmp_path / "b")),
        config.dump_ir_modes("jaxpr,stablehlo"),
        config.include_debug_info_in_dumps(False),
    ):
        f(x9)
    jaxpr, text = sorted((tmp_path / "b").iterdir(), key=lambda p: p.suffix, reverse=True)
    assert "sin" in jaxpr.read_text() and "test_misses.py" not in text.read_text()
    with (
        config.dump_ir_to(str(tmp_path / "c")),
        config.dump_ir_modes("xml"),
        pytest.raises(ValueError, match="jax_dump_ir_modes: 'xml' cannot be dumped"),
    ):
        f(np.zeros(3))


def test_equations_are_dumped_as_a_profile(tmp_path):
    def twice(x):
        return jnp.sin(jnp.sin(x))

    with config.dump_ir_to(str(tmp_path)), config.dump_ir_modes("eqn_count_pprof"):
        jax.jit(lambda x: jax.lax.scan(lambda c, _: (twice(c), None), x, length=3)[0])(x8)
    (path,) = tmp_path.iterdir()
    assert re.fullmatch(r"jax_\d{6}__lambda_\.eqn_count_pprof", path.name)
    content = gzip.decompress(path.read_bytes())
    strings = [text.encode() for text in ("equations", "primitive", "sin", "scan", "twice")]
    assert all(bytes([6 << 3 | 2, len(text)]) + text in content for text in strings)
    # The sample of sin, which stands twice on one line, ends in its count and its label.
    assert bytes([2 << 3 | 2, 1, 2, 3 << 3 | 2]) in content


def test_residuals_of_checkpoints_are_logged(caplog):
    policy = jax.checkpoint_policies.everything_saveable
    with config.log_checkpoint_residuals(True):
        jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum()))(x8)
        jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum(), policy=policy))(x8)
    assert [r.getMessage() for r in caplog.records] == [
        "remat-decorated function saving inputs with shapes:\n  float32[8]",
        "remat-decorated function saving these intermediates:\n  float32[8]\n  float32[8]",
    ]


def test_large_constants():
    large = np.zeros(1000, np.float32)
    with config.captured_constants_warn_bytes(4000):
        jax.jit(lambda x: x + large)(1.0)
    with (
        config.captured_constants_warn_bytes(3999),
        pytest.warns(UserWarning, match=r"captured during .* \(4000 bytes total"),
    ):
        jax.jit(lambda x: x + large)(1.0)
    with (
        config.captured_constants_warn_bytes(3999),
        config.captured_constants_report_frames(-1),
        pytest.warns(
            UserWarning, match=r"\n    float32\[1000\], 4000 bytes, used at .*test_misses.py:\d+"
        ),
    ):
        jax.jit(lambda x: x + large)(1.0)


def test_file_names_in_locations():
    f = jax.jit(lambda x: x + 1)
    assert "/executables/test_misses.py" in f.lower(1.0).as_text(debug_info=True)
    with config.hlo_source_file_canonicalization_regex(".*/tests/"):
        assert '"executables/test_misses.py' in f.lower(1.0).as_text(debug_info=True)
