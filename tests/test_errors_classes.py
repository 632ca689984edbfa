"""Error classes and their texts, tracebacks without Teucer's frames, source locations."""

import json
import pathlib
import re
import sys
import traceback
import warnings

import numpy as np
import pytest

import teucer.errors
from teucer._base import config, errors, source, tracebacks
from teucer._base.errors import noted, require, type_error, value_error

# As observed of jax 0.10.2: each public class and the built-in classes that callers may catch it
# by.
CAUGHT_AS = {
    "JAXTypeError": [TypeError],
    "JAXIndexError": [IndexError],
    "ConcretizationTypeError": ["JAXTypeError", TypeError],
    "TracerBoolConversionError": ["ConcretizationTypeError", "JAXTypeError", TypeError],
    "TracerArrayConversionError": ["JAXTypeError", TypeError],
    "TracerIntegerConversionError": ["JAXTypeError", TypeError],
    "NonConcreteBooleanIndexError": ["JAXIndexError", IndexError],
    "UnexpectedTracerError": ["JAXTypeError", TypeError],
    "KeyReuseError": ["JAXTypeError", TypeError],
    "JaxprTypeError": [TypeError],
    "InconclusiveDimensionOperation": [Exception],
    "JaxRuntimeError": [RuntimeError],
}


class Aval:
    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, np.dtype(dtype)

    def str_short(self):
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


class Tracer:
    """As much of a tracer as an error needs."""

    def __init__(self, shape, dtype, origin=""):
        self.aval, self.made = Aval(shape, dtype), origin

    def origin(self):
        return self.made

    def reason(self):
        return "It depends on x." if self.made else ""


def internal(code, name):
    """A function whose file is one of Teucer's."""
    scope = {}
    exec(compile(code, str(pathlib.Path(source.__file__).parent / "of_a_test.py"), "exec"), scope)
    return scope[name]


CALLER = internal("def outer(f): return inner(f)\ndef inner(f): return f()", "outer")
CATCHER = internal(
    (
        "def catch(f):\n    try:\n        f()\n    except KeyError as err:\n"
        "        raise ValueError('caught') from err"
    ),
    "catch",
)


def frames_of(err):
    return [pathlib.Path(f.filename).name for f in traceback.extract_tb(err.__traceback__)]


def test_public_face():
    own = {
        "CustomVJPException", "DeviceCountError", "DuplicateSpecError", "ForbiddenCollectiveError",
        "IncompatibleDevices", "IndivisibleError", "KernelError", "MemoryBudgetError",
        "MissingRule", "NonlinearOnPartsError", "ShardingTypeError", "TypePromotionError",
        "UnfilteredStackTrace", "Unreachable", "UnsupportedDtypeError",
    }  # fmt: skip
    assert set(teucer.errors.__all__) == set(CAUGHT_AS) | own
    for name in own:
        assert getattr(teucer.errors, name).__module__ == "teucer.errors"


@pytest.mark.parametrize("name", CAUGHT_AS)
def test_bases(name):
    for base in CAUGHT_AS[name]:
        assert issubclass(
            getattr(teucer.errors, name),
            getattr(teucer.errors, base) if isinstance(base, str) else base,
        )


@pytest.mark.parametrize(
    ("name", "start", "remedy"),
    [
        ("TracerBoolConversionError", "bool(): Attempted boolean conversion", "lax.cond"),
        ("TracerArrayConversionError", ("__array__(): The numpy.ndarray conversion method "
            "__array__()"), "jnp"),
        ("TracerIntegerConversionError", ("__index__(): The __index__() method was "
            "called"), "lax.fori_loop"),
        ("NonConcreteBooleanIndexError", ("indexing: Array boolean indices must be concrete; got "
            "float32[3]."), "jnp.where"),
        ("ConcretizationTypeError", ("value: Abstract tracer value encountered "
            "where"), "static_argnums"),
    ],
)  # fmt: skip
def test_traced_value(name, start, remedy):
    known = str(getattr(errors, name)(Tracer((3,), "float32", "an argument of f")))
    assert (
        "traced array with shape float32[3].\n" in known or name == "NonConcreteBooleanIndexError"
    )
    assert known.startswith(start)
    assert "\n    value: f32[3], an argument of f\n  It depends on x.\n  " in known
    assert remedy in known
    unknown = str(getattr(errors, name)(Tracer((3,), "float32")))
    assert "\n    value: f32[3]\n  " in unknown


def test_concretization_contexts():
    called = str(errors.ConcretizationTypeError(Tracer((), "int32"), "int()"))
    assert called.startswith("int(): Abstract tracer value encountered")
    assert "The problem arose with the `int` function." in called
    advised = str(
        errors.ConcretizationTypeError(Tracer((), "int32"), "The size of nonzero must be static.")
    )
    assert (
        "\n    value: i32[]\n  The size of nonzero must be static.\n  If it is an argument"
        in advised
    )


def test_message_form():
    x = np.zeros((2, 3), "float32")
    err = value_error(
        "matmul",
        "contracted axes differ in size (C2)",
        "Did you mean x @ y.mT?",
        x=noted(x, "axis 1 has size 3"),
        y=x,
        n=4,
    )
    assert type(err) is ValueError
    assert str(err) == (
        "matmul: contracted axes differ in size (C2).\n    x: f32[2,3], axis 1 has size 3\n"
        "    y: f32[2,3]\n    n: 4\n  Did you mean x @ y.mT?"
    )
    assert (
        str(type_error("add", "is this a number?", x="a")) == "add: is this a number?\n    x: 'a'"
    )
    assert type(type_error("add", "no")) is TypeError


def test_require():
    require(True, "C1", "op", "never said", x=1)
    with pytest.raises(ValueError, match=r"^cumsum: axis is out of range\.\n    axis: 3$"):
        require(False, "C1", "cumsum", "axis is out of range", axis=3)


def test_long_values_are_cut():
    text = str(value_error("op", "too much", x=list(range(1000))))
    assert text.endswith("...")
    assert len(text) < 300
    assert errors.describe(np.float32) == repr(np.float32)


def test_boundary_removes_own_frames():
    def user():
        raise KeyError("user")

    with pytest.raises(KeyError) as info:
        tracebacks.api_boundary(CALLER)(user)
    assert set(frames_of(info.value)) == {pathlib.Path(__file__).name}
    assert frames_of(info.value)[-1:] == [pathlib.Path(__file__).name]
    assert any("JAX_TRACEBACK_FILTERING=off" in note for note in info.value.__notes__)


def test_boundary_inside_boundary():
    def user():
        return tracebacks.api_boundary(CALLER)(fail)

    def fail():
        raise KeyError

    with pytest.raises(KeyError) as info:
        tracebacks.api_boundary(CALLER)(user)
    names = [f.name for f in traceback.extract_tb(info.value.__traceback__)]
    assert names[-2:] == ["user", "fail"]
    assert "boundary" not in names
    assert len(info.value.__notes__) == 1


def test_boundary_own_error_ends_at_the_user():
    fail = internal("def fail(): raise ValueError('ours')", "fail")
    with pytest.raises(ValueError, match="ours") as info:
        tracebacks.api_boundary(fail)()
    assert [f.name for f in traceback.extract_tb(info.value.__traceback__)] == [
        sys._getframe().f_code.co_name
    ]


def test_boundary_causes():
    def user():
        raise KeyError

    with pytest.raises(ValueError, match="caught") as info:
        tracebacks.api_boundary(CATCHER)(user)
    assert [f.name for f in traceback.extract_tb(info.value.__cause__.__traceback__)] == ["user"]


@pytest.mark.parametrize(
    ("mode", "own", "notes"),
    [
        ("off", 2, 0),
        ("quiet_remove_frames", 0, 1),
        ("remove_frames", 0, 0),
        ("tracebackhide", 2, 0),
    ],
)
def test_boundary_modes(mode, own, notes):
    def user():
        raise KeyError

    with config.traceback_filtering(mode), pytest.raises(KeyError) as info:
        tracebacks.api_boundary(CALLER)(user)
    entries = [
        e
        for e, _ in traceback.walk_tb(info.value.__traceback__)
        if e.f_code.co_filename.endswith("of_a_test.py")
    ]
    assert len(entries) == own
    assert len(getattr(info.value, "__notes__", [])) == notes
    whole = info.value.__cause__
    assert isinstance(whole, tracebacks.UnfilteredStackTrace) == (mode == "remove_frames")
    if whole is not None:
        assert frames_of(whole).count("of_a_test.py") == 2
    if mode == "tracebackhide":
        assert all(e.f_locals["__tracebackhide__"] is True for e in entries)


def test_boundary_is_the_function():
    def documented(x, *, y=2):
        """Adds."""
        return x + y

    assert tracebacks.api_boundary(documented)(1, y=4) == 5
    assert tracebacks.api_boundary(documented).__doc__ == "Adds."
    assert tracebacks.api_boundary(documented).__wrapped__ is documented


def test_places_skip_own_frames():
    place = CALLER(lambda: CALLER(source.here))
    code, _ = source.records(place)[0]
    assert code.co_name == "<lambda>"
    found = source.locate(place)
    line = pathlib.Path(found.file).read_text().splitlines()[found.line - 1]
    assert line[found.column - 1 : found.end_column - 1] == "CALLER(source.here)"
    assert found.file == __file__
    assert source.describe(place).endswith(f"{found.line}:{found.column} (<lambda>)")
    assert source.locate(None) is None and source.describe(None) == "an unknown line"


def test_places_say_who_called():
    def inner():
        return CALLER(source.here)

    def outer():
        return inner()

    place = outer()
    line = outer.__code__.co_firstlineno + 1
    first, second, *_ = source.callers(place).split("\n    called from ")[1:]
    name = "test_places_say_who_called"
    assert first.endswith(f":{line}:16 (outer)") and second.endswith(f":{line + 2}:13 ({name})")


def test_lines_of_libraries_say_who_called_them(tmp_path):
    file = tmp_path / "site-packages" / "layers.py"
    library = {"here": source.here}
    exec(compile("def layer():\n    return here()\n", str(file), "exec"), library)
    place = library["layer"]()
    line = source.describe(place)
    assert re.search(
        r"layers.py:2:\d+ \(layer\), called from .*test_errors_classes.py:\d+:13 ", line
    )


def test_files_of_users():
    package = pathlib.Path(source.__file__).parent.parent
    assert source.is_internal(str(package / "lax" / "x.py"))
    for name in (
        __file__,
        str(package.parent / "examples" / "x.py"),
        str(package / "cli" / "demos" / "x.py"),
        "<stdin>",
    ):
        assert not source.is_internal(name)


def test_stacklevel_points_at_the_user():
    warn = internal(
        "import warnings\ndef warn(level): warnings.warn('w', stacklevel=level())", "warn"
    )
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        warn(source.user_stacklevel)
    assert record[0].filename == __file__


def test_records_are_small_and_hashable():
    (record, *_) = source.records(CALLER(source.here))
    assert hash(record) == hash((record[0], record[1]))
    assert json.dumps(source.text(record))
