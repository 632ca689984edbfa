"""Options: reading, setting, scopes, threads, environment, cache keys, guards."""

import ast
import gc
import json
import logging
import os
import re
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

import teucer
from teucer._base import config as options
from teucer._base import logs
from teucer._base.config import config
from teucer._base.idle_options import IDLE
from teucer._xla import config as cells


@pytest.fixture
def restored():
    before = config.values
    yield
    for name, value in before.items():
        if config.read(name) != value:
            config.update(name, value)


def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def in_process(code, *, clean=False, **environment):
    """Run code in a process of its own; clean: without the options that the environment sets."""
    run = [sys.executable, "-c", f"from teucer._base.config import config\n{code}"]
    inherited = {
        n: v
        for n, v in os.environ.items()
        if not (clean and n.startswith(("JAX_", "TEUCER_", "CHECK_VMA")))
    }
    return subprocess.run(
        run,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_update_and_read(restored):
    assert config.jax_enable_x64 is False
    assert config.x64_enabled is False
    config.update("jax_enable_x64", True)
    assert (
        config.jax_enable_x64
        is config.read("jax_enable_x64")
        is config.values["jax_enable_x64"]
        is config.x64_enabled
        is True
    )
    assert options.enable_x64.value is True
    assert in_thread(lambda: config.jax_enable_x64) is True


def test_context_manager_is_of_its_thread():
    with options.enable_x64(True):
        assert config.jax_enable_x64 is True
        assert in_thread(lambda: config.jax_enable_x64) is False
        with options.enable_x64(False):
            assert config.jax_enable_x64 is False
        assert config.jax_enable_x64 is True
    assert config.jax_enable_x64 is False


def test_context_manager_over_update(restored):
    with options.log_compiles(False):
        config.update("jax_log_compiles", True)
        assert config.jax_log_compiles is False
    assert config.jax_log_compiles is True


def test_context_manager_survives_exceptions():
    with pytest.raises(KeyError), options.debug_nans(True):
        raise KeyError
    assert config.jax_debug_nans is False


def test_one_setting_entered_twice():
    setting = options.default_matmul_precision("highest")
    with setting, options.default_matmul_precision("default"), setting:
        assert config.jax_default_matmul_precision == "highest"
    assert config.jax_default_matmul_precision is None


def test_decorator():
    @options.numpy_rank_promotion("raise")
    def function(depth):
        """Documented."""
        return config.jax_numpy_rank_promotion if depth == 0 else function(depth - 1)

    assert function(3) == "raise"
    assert function.__doc__ == "Documented."
    assert config.jax_numpy_rank_promotion == "allow"


def test_bool_options_are_switched_on_by_default():
    with options.checking_leaks():
        assert config.jax_check_tracer_leaks is True
    with pytest.raises(
        TypeError, match=r"(?s)default_matmul_precision: the new value is missing.*'highest'.*None"
    ):
        options.default_matmul_precision()


@pytest.mark.parametrize(
    "access", [config.read, lambda n: getattr(config, n), lambda n: config.update(n, 1)]
)
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("jax_enable_x46", "jax_enable_x64"),
        ("enable_x64", "jax_enable_x64"),
        ("jax_debug_nan", "jax_debug_nans"),
        ("qqq", None),
    ],
)
def test_unknown_option(access, name, hint):
    with pytest.raises(AttributeError) as info:
        access(name)
    assert str(info.value) == f"config: Unrecognized config option: {name}." + (
        f"\n  Did you mean {hint!r}?" if hint else ""
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jax_enable_x64", "true"),
        ("jax_enable_x64", None),
        ("jax_enable_x64", 2),
        ("jax_numpy_dtype_promotion", "strictly"),
        ("jax_numpy_dtype_promotion", None),
        ("jax_compilation_cache_dir", 3),
        ("jax_random_seed_offset", True),
        ("jax_random_seed_offset", 1.5),
    ],
)
def test_update_C1(name, value):
    enums = rf"{value!r} is not a valid |new enum value must be an instance of .*, got {value}"
    with pytest.raises(
        (ValueError, TypeError),
        match=rf"(?s)(invalid value for an option.*{name}: {value!r}|{enums}).*allowed: ",
    ):
        config.update(name, value)


def test_values_are_converted(restored):
    config.update("jax_enable_x64", 1)
    config.update("jax_exec_time_optimization_effort", 1)
    assert config.jax_enable_x64 is True
    assert type(config.jax_exec_time_optimization_effort) is float


def test_objects_pass_through(restored):
    given = object()
    with options.pjrt_client_create_options(given):
        assert config.jax_pjrt_client_create_options is given
        assert in_thread(lambda: config.jax_pjrt_client_create_options) is None
    config.update("jax_pjrt_client_create_options", {"a": 1})
    assert config.jax_pjrt_client_create_options == {"a": 1}


@pytest.mark.parametrize("value", [3, "foo", "", True])
def test_the_default_device_is_a_device_or_a_platform(value):
    message = (
        r"default_device must be passed either a Device object .* or a platform name string .*, "
        rf"got: {value!r}"
    )
    with pytest.raises(ValueError, match=message):
        config.update("jax_default_device", value)
    with pytest.raises(ValueError, match=message):
        options.default_device(value)
    with options.default_device("cpu"), options.default_device(None):
        pass


def test_the_default_device_in_the_environment():
    assert (
        in_process("print(config.jax_default_device)", JAX_DEFAULT_DEVICE="cpu").stdout == "cpu\n"
    )
    assert (
        "environment variable JAX_DEFAULT_DEVICE: invalid value 'foo'"
        in in_process("", JAX_DEFAULT_DEVICE="foo").stderr
    )


@pytest.mark.parametrize("why", IDLE)
def test_options_of_jax_without_effect_say_so(why):
    for name, default in IDLE[why].items():
        words = default if isinstance(default, tuple) else ()
        default = words[0] if words else default
        assert config.read(name) == default, name
        other = words[1] if words else "other" if default is None else type(default)(not default)
        config.update(name, default)  # as it is: nothing is said
        said = f"option '{name}' has no effect in Teucer: {re.escape(why)}"
        with pytest.warns(UserWarning, match=said) as seen:
            config.update(name, other)
        assert seen[0].filename == __file__
        assert config.read(name) == other
        config.update(name, default)


def test_an_option_without_effect_as_a_context_manager():
    warned = pytest.warns(UserWarning, match="no effect in Teucer")
    with warned, teucer.jax2tf_associative_scan_reductions(True):
        assert config.jax2tf_associative_scan_reductions is True
    assert config.jax2tf_associative_scan_reductions is False
    with pytest.raises(ValueError, match="jax_enable_pgle"):
        config.update("jax_enable_pgle", "x")


def test_an_option_without_effect_in_the_environment():
    told = in_process("print(config.jax_enable_pgle)", JAX_ENABLE_PGLE="1")
    assert told.stdout == "True\n" and "'jax_enable_pgle' has no effect" in told.stderr


def test_setting_an_attribute():
    with pytest.raises(AttributeError, match=r"config.update\('jax_enable_x64', True\)"):
        config.jax_enable_x64 = True


def test_every_option_is_described():
    names = [option.name for option in options.options()]
    assert len(names) == len(set(names))
    assert set(names) <= set(dir(config))
    for option in options.options():
        assert option.help
        assert option.check(option.default) == option.default
        attribute = option.name.removeprefix("jax_").removeprefix("teucer_")
        assert getattr(options, attribute) is option


def test_trace_context():
    base = options.trace_context()
    assert hash(base) == hash(options.trace_context())
    assert base == options.trace_context()
    names = set(cells.trace_context_names())
    for option in options.options():
        other = next(
            iter(
                v
                for v in (option.kind if isinstance(option.kind, tuple) else ())
                if v != option.default
            ),
            None,
        )
        other = not option.default if option.kind is bool else other
        if other is not None and not isinstance(option, options.GuardOption | options.EffectOption):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # some options say that they have no effect
                context = option(other)
                context.__enter__()
            try:
                assert (options.trace_context() != base) is (option.name in names), option.name
            finally:
                context.__exit__(None, None, None)
    assert options.trace_context() == base


def test_tracing_cell():
    cell = options.tracing
    token = cell.swap_local(True)
    assert cell.value is True
    assert in_thread(lambda: cell.value) is False
    assert "teucer_tracing" not in cells.trace_context_names()
    cell.set_local(token)
    assert cell.value is False


def test_context_cell():
    cell = options.context_cell("test_mesh", None, options.TRACE)
    base = options.trace_context()
    token = cell.swap_local("mesh")
    assert options.trace_context() != base
    cell.set_local(token)
    assert options.trace_context() == base


def test_transfer_guards(restored):
    directions = ("host_to_device", "device_to_device", "device_to_host")

    def local():
        return [cells.get_guard(d, local=True) for d in directions]

    with options.transfer_guard("disallow"):
        assert local() == ["disallow"] * 3
        with options.transfer_guard_device_to_host("log_explicit"):
            assert local() == ["disallow", "disallow", "log_explicit"]
        assert local() == ["disallow"] * 3
        assert in_thread(local) == [None] * 3
    assert local() == [None] * 3
    config.update("jax_transfer_guard", "allow")
    assert [cells.get_guard(d, local=False) for d in directions] == ["allow"] * 3
    config.update("jax_transfer_guard", None)
    assert [cells.get_guard(d, local=False) for d in directions] == [None] * 3
    with options.array_garbage_collection_guard("log"):
        assert cells.get_guard("garbage_collect_array", local=True) == "log"


def test_logging_options(restored):
    config.update("jax_logging_level", "ERROR")
    assert logging.getLogger("teucer").level == logging.ERROR
    config.update("jax_debug_log_modules", "teucer.a, teucer.b")
    assert [logging.getLogger(f"teucer.{m}").level for m in "abc"] == [
        logging.DEBUG,
        logging.DEBUG,
        logging.NOTSET,
    ]
    config.update("jax_debug_log_modules", "")
    assert logging.getLogger("teucer.a").level == logging.NOTSET
    assert logging.getLogger("teucer.a").handlers == []
    config.update("jax_logging_level", "NOTSET")
    assert logs._of_level not in logging.getLogger("teucer").handlers
    with options.thread_guard(True):
        assert config.jax_thread_guard is True
    assert config.jax_thread_guard is False


@pytest.mark.parametrize("text", ["1", "true", "True", "YES", "on", "t", "y"])
def test_environment_true(monkeypatch, text):
    monkeypatch.setenv("JAX_TEST_OPTION", text)
    assert options.Option("jax_test_option", bool, False, (), "for a test").value is True


@pytest.mark.parametrize("text", ["0", "false", "FALSE", "no", "off", "f", "n"])
def test_environment_false(monkeypatch, text):
    monkeypatch.setenv("JAX_TEST_OPTION", text)
    assert options.Option("jax_test_option", bool, True, (), "for a test").value is False


@pytest.mark.parametrize(
    ("kind", "flags", "text", "value"),
    [
        (int, (), "12", 12),
        (float, (), "1e-3", 1e-3),
        (str, ("null",), "None", None),
        (("a", "b"), (), "b", "b"),
        (str, (), "/tmp", "/tmp"),
    ],
)
def test_environment_kinds(monkeypatch, kind, flags, text, value):
    monkeypatch.setenv("TEUCER_TEST_OPTION", text)
    assert options.Option("teucer_test_option", kind, "a", flags, "for a test").value == value


@pytest.mark.parametrize(
    ("kind", "text"), [(bool, "maybe"), (bool, ""), (int, "e"), (float, "x"), (("a", "b"), "c")]
)
def test_environment_invalid(monkeypatch, kind, text):
    monkeypatch.setenv("JAX_TEST_OPTION", text)
    with pytest.raises(
        ValueError,
        match=re.escape(
            f"environment variable JAX_TEST_OPTION: invalid value {text!r}.\n  allowed: "
        ),
    ):
        options.Option("jax_test_option", kind, "a", (), "for a test")


def test_environment_of_a_process():
    code = "print(config.jax_enable_x64, config.jax_transfer_guard, config.teucer_cache_dir)"
    done = in_process(
        code, JAX_ENABLE_X64="1", JAX_TRANSFER_GUARD="log", TEUCER_CACHE_DIR="/somewhere"
    )
    assert done.stdout == "True log /somewhere\n", done.stderr
    failed = in_process("", JAX_ENABLE_X64="maybe")
    assert failed.returncode == 1
    assert "environment variable JAX_ENABLE_X64: invalid value 'maybe'" in failed.stderr


@pytest.mark.parametrize(
    ("level", "written"), [("DEBUG", True), ("WARNING", False), ("NOTSET", False)]
)
def test_the_logging_level_in_the_environment(level, written):
    done = in_process(
        "import logging; logging.getLogger('teucer').debug('a step')", JAX_LOGGING_LEVEL=level
    )
    assert ("DEBUG:" in done.stderr and ":teucer:2: a step\n" in done.stderr) is written


def test_parse_flags(monkeypatch, restored):
    arguments = [
        "prog",
        "x",
        "--jax_enable_x64",
        "--nojax_pprint_use_color",
        "--jax_random_seed_offset=3",
        "--other=1",
        "--",
        "--jax_debug_nans",
    ]
    monkeypatch.setattr(sys, "argv", arguments)
    config.parse_flags_with_absl()
    assert (config.jax_enable_x64, config.jax_pprint_use_color, config.jax_random_seed_offset) == (
        True,
        False,
        3,
    )
    assert config.jax_debug_nans is False
    assert sys.argv == arguments
    monkeypatch.setattr(sys, "argv", ["prog", "--jax_enable_x64=maybe"])
    with pytest.raises(ValueError, match="jax_enable_x64: 'maybe'"):
        config.config_with_absl()


def test_flags_of_absl(restored):
    flags = SimpleNamespace(
        FLAGS=SimpleNamespace(flag_values_dict=lambda: {"jax_random_seed_offset": 5, "batch": 3})
    )
    config.complete_absl_config(flags)
    assert config.jax_random_seed_offset == 5


ROOT = Path(__file__).parent.parent
HEAD = "| option | values | default | meaning |\n| --- | --- | --- | --- |\n"


def read_options():
    """The names of the options that some module of teucer reads; those that C++ keeps, or that act
    when set, count."""
    sources = [path for path in (ROOT / "teucer").rglob("*.py") if path != Path(options.__file__)]
    read = {
        name
        for path in sources
        for name in re.findall(r"\b(?:config|options)\.(?=(\w+))", path.read_text())
    }

    def names(option):
        return {option.name, *(name for name, value in vars(options).items() if value is option)}

    return {
        option.name
        for option in options.options()
        if isinstance(option, options.GuardOption | options.EffectOption) or names(option) & read
    }


def test_options_without_effect_say_so():
    read = read_options()
    assert not [
        option.name
        for option in options.options()
        if "no effect" in option.help and option.name in read
    ]


def test_table_of_options():
    """docs/configuration.md lists every option as it is declared."""
    page = ROOT / "docs" / "configuration.md"
    before, head, table = page.read_text().partition(HEAD)
    read = read_options()
    shown = "print({o.name: repr(getattr(o.default, 'name', o.default)) for o in options()})"
    defaults = ast.literal_eval(
        in_process(f"from teucer._base.config import options\n{shown}", clean=True).stdout
    )
    rows = []
    for option in options.options():
        kind = (
            " ".join(f"`{w}`" for w in option.words()) if option.words() else option.kind.__name__
        )
        unread = (
            "" if option.name in read or "no effect" in option.help else " (nothing reads it yet)"
        )
        rows.append(
            f"| `{option.name}` | {kind}{', None' if option.nullable else ''} | "
            f"`{defaults[option.name]}` | {option.help}{unread} |\n"
        )
    expected = "".join(rows)
    if os.environ.get("TEUCER_WRITE_DOCS"):
        page.write_text(before + head + expected)
    assert table == expected or os.environ.get("TEUCER_WRITE_DOCS"), (
        "the table is out of date: run this with TEUCER_WRITE_DOCS=1"
    )


def test_enumerations():
    """Such an option takes members and their names, in any case, and gives members."""
    for word in (options.ExplicitX64Mode.ERROR, "error", "ERROR"):
        with options.explicit_x64_dtypes(word):
            assert options.explicit_x64_dtypes.value is options.ExplicitX64Mode.ERROR
    with pytest.raises(
        ValueError, match="(?s)'nope' is not a valid ExplicitX64Mode.*'warn', 'error', 'allow'"
    ):
        options.explicit_x64_dtypes("nope")
    with pytest.raises(TypeError, match="instance of <enum 'ExplicitX64Mode'>, got 2 of type"):
        options.explicit_x64_dtypes(2)
    # Their members are words, too, where JAX's are.
    assert repr(config.jax_legacy_prng_key) == "<LegacyPrngKeyState.ALLOW: 'allow'>"
    assert repr(config.jax_numpy_dtype_promotion) == "<NumpyDtypePromotion.STANDARD: 'standard'>"
    assert repr(config.jax_send_traceback_to_runtime) == "<RuntimeTracebackMode.OFF: 'off'>"
    with options.numpy_dtype_promotion("strict"):
        assert config.jax_numpy_dtype_promotion == "strict"
    shown = in_process(
        "from teucer._base.config import config; print(repr(config.jax_explicit_x64_dtypes))",
        JAX_EXPLICIT_X64_DTYPES="allow",
    )
    assert "ALLOW" in shown.stdout


def test_contexts_of_users():
    traced = []
    mode = teucer.make_user_context("plain")

    @teucer.jit
    def f(x):
        traced.append(mode.value)
        return x

    for value in ("fancy", "fancy", "plain"):
        with mode(value):
            f(1.0)
    f(1.0)
    assert traced == ["fancy", "plain"]


def test_options_live_as_long_as_jaxlib_reads_them():
    context = teucer.make_user_context("plain")
    name = context.name
    del context
    gc.collect()
    assert any(isinstance(o, options.Option) and o.name == name for o in gc.get_objects())


def test_options_have_the_defaults_of_jax():
    """In a new process: defaults.json says the values, and its program where they come from."""
    of_jax = json.loads((Path(__file__).parent / "data" / "defaults.json").read_text())["defaults"]
    code = "import json, teucer; print(json.dumps(dict(teucer.config.values), default=str))"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "TEUCER_"))}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    own = json.loads(done.stdout)
    assert set(of_jax) <= set(own)
    assert not [name for name, value in of_jax.items() if own[name] != value]
