"""Platforms and devices as the environment asks for them, plugins that do not load, and processes
with jax in them."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from teucer._arrays.arrays import ArrayImpl
from teucer._devices import backends, hardware
from teucer._xla import client as xla
from teucer._xla.client import platform_of
from teucer._xla.platforms import plugins as plugins_of

ROOT = Path(__file__).parents[2]
SHOW = (
    "import teucer as jax; print(jax.default_backend(), jax.device_count(), jax.numpy.ones(2) + 1)"
)


def run(program=SHOW, path=(), **variables):
    """What a new process prints, and the last lines that it writes to stderr."""
    env = {
        k: v
        for k, v in os.environ.items()
        if k not in ("JAX_PLATFORMS", "JAX_NUM_CPU_DEVICES", "XLA_FLAGS")
    }
    env.update(variables, PYTHONPATH=os.pathsep.join([str(ROOT), *map(str, path)]))
    ended = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False
    )
    return ended.stdout.strip(), ended.stderr.strip()


@pytest.fixture
def plugins(tmp_path):
    """A folder with the namespace package jax_plugins, and in it a plugin whose library is none,
    and a package without."""
    for name, library in (("xla_bogus", "pjrt_bogus.so"), ("empty", None)):
        folder = tmp_path / "jax_plugins" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("import jax\n")  # plugins import jax; they are not run
        if library is not None:
            (folder / library).write_text("no library")
    return tmp_path


def test_a_plugin_that_does_not_load_is_passed_over(plugins):
    out, err = run(path=[plugins])
    assert out.startswith("cpu 1 [2. 2.]")
    assert "Unable to initialize backend 'xla_bogus'" in err and "pjrt_bogus.so" in err


def test_plugins_are_found_by_entry_points(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "pjrt_bogus.so").write_text("no library")
    described = tmp_path / "bogus-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Name: bogus\nVersion: 1.0\n")
    show = (
        "import sys, teucer as jax; print(jax.default_backend(), 'importlib.metadata' in "
        "sys.modules)"
    )
    assert run(show, [tmp_path])[0] == "cpu False"
    (described / "entry_points.txt").write_text("[jax_plugins]\nbogus = elsewhere\n")
    out, err = run(show, [tmp_path])
    assert (
        out == "cpu True"
        and "Unable to initialize backend 'elsewhere'" in err
        and "pjrt_bogus.so" in err
    )


def test_a_plugin_that_is_not_asked_for_is_left_alone(plugins):
    assert run(path=[plugins], JAX_PLATFORMS="cpu") == ("cpu 1 [2. 2.]", "")


@pytest.mark.parametrize(
    ("platforms", "name", "why"),
    [
        ("xla_bogus", "xla_bogus", "pjrt_bogus.so"),
        ("cpu,xla_bogus", "xla_bogus", "pjrt_bogus.so"),
        ("nonsense", "nonsense", "no plugin"),
        ("tpu,cpu", "tpu", "no plugin"),
    ],
)
def test_platforms_that_are_asked_for_and_fail(plugins, platforms, name, why):
    out, err = run(path=[plugins], JAX_PLATFORMS=platforms)
    assert out == ""
    assert f"RuntimeError: Unable to initialize backend '{name}'" in err and why in err
    assert f"jax_platforms is '{platforms}'; the plugins found are ['xla_bogus']" in err


def test_a_library_named_in_the_environment():
    out, err = run(PJRT_NAMES_AND_LIBRARY_PATHS="mine:/nowhere.so", JAX_PLATFORMS="mine")
    assert out == "" and "Unable to initialize backend 'mine'" in err and "/nowhere.so" in err


def test_an_unknown_platform_in_the_program(plugins):
    program = """
import teucer as jax
for f in (
    lambda: jax.devices("nonsense"),
    lambda: jax.jit(lambda x: x, backend="nonsense"),
    lambda: jax.devices("xla_bogus"),
):
    try:
        f()
    except RuntimeError as err:
        print(str(err).splitlines()[0])
"""
    lines = run(program, [plugins])[0].splitlines()
    assert lines[:2] == ["Unknown backend nonsense. Available backends are ['cpu']."] * 2
    assert lines[2].startswith("Unknown backend xla_bogus: ") and "pjrt_bogus.so" in lines[2]


@pytest.mark.parametrize(
    ("variables", "count"),
    [
        ({"JAX_NUM_CPU_DEVICES": "3"}, 3),
        ({"XLA_FLAGS": "--xla_force_host_platform_device_count=5"}, 5),
        ({"JAX_NUM_CPU_DEVICES": "3", "XLA_FLAGS": "--xla_force_host_platform_device_count=5"}, 3),
        ({"JAX_NUM_CPU_DEVICES": "-1", "XLA_FLAGS": "--xla_force_host_platform_device_count=5"}, 5),
        ({"JAX_NUM_CPU_DEVICES": "-1"}, 1),
        ({"JAX_PLATFORMS": ""}, 1),
        ({"JAX_PLATFORMS": ","}, 1),
    ],
)
def test_the_number_of_cpu_devices(variables, count):
    assert run(**variables) == (f"cpu {count} [2. 2.]", "")


def test_numbers_of_cpu_devices_that_cannot_be():
    _, err = run(JAX_NUM_CPU_DEVICES="0")
    assert (
        "RuntimeError: Unable to initialize backend 'cpu': the option jax_num_cpu_devices is 0"
        in err
    )
    assert "invalid value 'many'" in run(JAX_NUM_CPU_DEVICES="many")[1]


def test_the_number_of_cpu_devices_set_late():
    program = """
import teucer as jax
jax.config.update("jax_num_cpu_devices", 4)
print(jax.device_count())
jax.config.update("jax_num_cpu_devices", 4)
try:
    jax.config.update("jax_num_cpu_devices", 2)
except RuntimeError as err:
    print(str(err)[:60])
jax.clear_backends()
jax.config.update("jax_num_cpu_devices", 2)
print(jax.device_count())
"""
    assert run(program)[0].splitlines() == [
        "4",
        "jax_num_cpu_devices config should be updated before backends",
        "2",
    ]


@pytest.mark.parametrize(
    "first, second", [("jax", "teucer"), ("teucer", "jax"), ("teucer", "jax.numpy")]
)
def test_jax_in_the_process(tmp_path, first, second):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("")
    _, err = run(f"import {first}, {second}", [tmp_path])
    assert (
        f"ImportError: {second.partition('.')[0]} cannot be imported into a process that has "
        f"imported {first}"
    ) in err
    assert "separate processes" in err


def test_jaxlib_does_not_import_jax(tmp_path):
    """It tries to when it reads an array; half imported, jax would change options of jaxlib, such
    as 64 bits."""
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("print('imported')")
    program = """
import importlib.util, sys
import numpy as np
import teucer as jax, teucer.numpy as jnp
print(float(jnp.ones(3).sum()), float(jnp.ones((), "bfloat16")), np.asarray(jnp.arange(2)))
with jax.enable_x64(True):
    print(jax.jit(lambda x: x)(np.ones(2)).dtype)
print("jax" in sys.modules, importlib.util.find_spec("jax") is not None)
"""
    assert run(program, [tmp_path]) == ("3.0 1.0 [0 1]\nfloat64\nFalse True", "")


def test_reading_does_not_look_for_jax():
    program = """
import sys
import numpy as np
import teucer as jax, teucer.numpy as jnp

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("jax"):
            print("looked for", name)

values = [jnp.ones(3).sum(), jnp.arange(3), jnp.ones((2, 0), bool)]
values += [jnp.ones((), "complex64"), jnp.ones((), "uint8")]
sys.meta_path.insert(0, Finder())
for x in values:
    x.tolist(), np.asarray(x), bytes(x), str(x)
"""
    assert run(program) == ("", "")


def test_the_platform_that_programs_are_written_for():
    def device(platform, version=""):
        return SimpleNamespace(platform=platform, client=SimpleNamespace(platform_version=version))

    assert (
        platform_of(device("cpu")) == "cpu" and platform_of(device("tpu", "TFRT TPU v5")) == "tpu"
    )
    assert (
        platform_of(device("gpu", "cuda 13000")) == "cuda"
        and platform_of(device("gpu", "rocm 60300")) == "rocm"
    )


@pytest.mark.parametrize(
    "platform, version, kind",
    [("cpu", "", (1, 0)), ("gpu", "cuda 13000", (2, 3)), ("gpu", "rocm 60300", (10, 3))],
)
def test_dlpacks_number_of_a_device(platform, version, kind):
    device = SimpleNamespace(
        platform=platform, local_hardware_id=3, client=SimpleNamespace(platform_version=version)
    )
    assert ArrayImpl.__dlpack_device__(SimpleNamespace(device=device)) == kind
    with pytest.raises(BufferError, match="no DLPack device"):
        ArrayImpl.__dlpack_device__(SimpleNamespace(device="a sharding"))


def test_options_of_plugins_clients():
    program = """
import teucer as jax
from teucer._devices import backends, hardware
from teucer._xla import client
from teucer._xla.platforms import plugins
hardware.lacks = lambda *_: None
plugins.plugin_libraries = lambda: {"cuda": "a.so"}
def plugin_client(name, library, options):
    print(name, library, options)
    raise RuntimeError("no GPU")
client.plugin_client = plugin_client
print(jax.devices()[0].platform)
"""
    assert run(program)[0].splitlines() == ["cuda a.so {}", "cpu"]
    shown = run(
        program,
        JAX_CUDA_VISIBLE_DEVICES="0,2",
        JAX_PJRT_CLIENT_CREATE_OPTIONS="memory_fraction:.5;a:b:c",
    )[0]
    assert (
        shown.splitlines()[0]
        == "cuda a.so {'memory_fraction': '.5', 'a': 'b:c', 'visible_devices': [0, 2]}"
    )
    out, err = run(program, JAX_CUDA_VISIBLE_DEVICES="first")
    assert (
        out == "cpu"
        and "jax_cuda_visible_devices is 'all' or numbers of GPUs with commas, got 'first'" in err
    )


def test_kernels_of_a_plugin_are_registered():
    program = """
from types import SimpleNamespace
from teucer._xla.platforms import gpu

gpu.plugin_support = SimpleNamespace(import_from_plugin=lambda *names: None)
gpu.register("cuda", "plugin")  # without the plugin's Python package: nothing

extension = SimpleNamespace(
    register_custom_call_target=lambda *args: print(*args),
    register_custom_type=lambda *args: print(*args),
    ffi_types=lambda: {"type": 1}, ffi_handlers=lambda: {"callback": 2})
gpu.plugin_support.import_from_plugin = lambda *names: extension
gpu.gpu_solver = SimpleNamespace(
    registrations=lambda: {"CUDA": [("lu", 3, 1)]}, batch_partitionable_targets=lambda: ["lu"])
gpu.register("cuda", "plugin")
"""
    out, err = run(program)
    assert (out.splitlines(), err) == (
        ["plugin type 1", "plugin callback 2 CUDA 1 0", "plugin lu 3 CUDA 1 0"],
        "",
    )


def test_the_default_platform_by_name():
    assert run(JAX_PLATFORM_NAME="cpu") == ("cpu 1 [2. 2.]", "")
    assert (
        "Unknown backend cuda. Available backends are ['cpu']" in run(JAX_PLATFORM_NAME="cuda")[1]
    )


@pytest.fixture
def platforms(monkeypatch):
    """What there is in a process that is made up: platforms that users register, plugins, options.
    A client is the name of its platform."""
    libraries_of = dict.fromkeys(["rocm", "odd", "cuda"])
    found = SimpleNamespace(factories={}, libraries=libraries_of, asked=0, told=[])

    def libraries():
        found.asked += 1
        return found.libraries

    def plugin_client(name, library, options):
        if name in found.libraries and found.libraries[name] is not None:
            raise found.libraries[name]
        return name

    monkeypatch.setattr(backends, "_factories", found.factories)
    monkeypatch.setattr(backends, "_failures", {})
    monkeypatch.setattr(hardware, "lacks", lambda *_: None)
    monkeypatch.setattr(plugins_of, "plugin_libraries", libraries)
    monkeypatch.setattr(xla, "plugin_client", plugin_client)
    monkeypatch.setattr(xla, "cpu_client", lambda *args, **told: found.told.append(args) or "cpu")
    target = SimpleNamespace(keep_memory=lambda: found.told.append("memory"))
    monkeypatch.setattr(backends, "provided", SimpleNamespace(target=lambda name: target))

    options = {
        "jax_num_cpu_devices": 3,
        "jax_cpu_enable_async_dispatch": True,
        "jax_pjrt_client_create_options": None,
        "jax_cuda_visible_devices": "all",
        "teucer_keep_memory": False,
    }

    def made(wanted=None):
        options["jax_platforms"] = wanted
        with monkeypatch.context() as patch:
            patch.setattr(backends, "config", SimpleNamespace(config=SimpleNamespace(**options)))
            clients = backends._make_clients()
        assert list(clients) == list(clients.values())
        return list(clients)

    def register(name, priority, outcome=None, quiet=True):
        def make():
            if isinstance(outcome, Exception):
                raise outcome
            return name if outcome is None else None

        backends.register_factory(name, backends.Factory(make, priority, quiet))

    found.made, found.register, found.options = made, register, options
    return found


def test_the_order_of_platforms(platforms):
    """Those of users by priority, of plugins by kind, the CPU; the first is the default one."""
    assert platforms.made() == ["odd", "cuda", "rocm", "cpu"]
    for name, priority in {"d": 0, "b": 200, "e": -1, "a": 201, "c": 1, "first": 900}.items():
        platforms.register(name, priority)
    own = ["first", "a"], ["b", "c"], ["d", "e"]
    assert platforms.made() == [*own[0], "odd", "cuda", "rocm", *own[1], "cpu", *own[2]]
    platforms.libraries.clear()
    assert platforms.made("") == [*own[0], *own[1], "cpu", *own[2]]
    platforms.register("cpu", 0)
    assert platforms.made("e,cpu,a") == ["e", "cpu", "a"]


@pytest.mark.parametrize(
    ("wanted", "libraries", "names"),
    [
        ("gpu", ["rocm", "cuda"], ["cuda"]),
        ("gpu,cpu", ["rocm"], ["rocm", "cpu"]),
        ("cpu", ["cuda"], ["cpu"]),
        (",cpu,", [], ["cpu"]),
        ("rocm,cuda", ["cuda", "rocm"], ["rocm", "cuda"]),
    ],
)
def test_platforms_that_are_asked_for(platforms, wanted, libraries, names):
    platforms.libraries = dict.fromkeys(libraries)
    assert platforms.made(wanted) == names
    assert platforms.asked == (wanted != "cpu")  # reading what is installed takes a while


def test_what_the_cpu_is_told(platforms):
    for count, keep, told in ((3, False, [(3,)]), (-1, True, ["memory", (None,)])):
        platforms.options.update(jax_num_cpu_devices=count, teucer_keep_memory=keep)
        platforms.told.clear()
        platforms.made("cpu")
        assert platforms.told == told


@pytest.mark.parametrize("error", [RuntimeError("no card"), ZeroDivisionError("by zero")])
def test_platforms_that_fail(platforms, error, caplog):
    """Others do for those that are not asked for, unless they are to be told of."""
    unable = f"Unable to initialize backend 'mine': {error}"
    platforms.register("mine", 1, error)
    with caplog.at_level("WARNING", "teucer"):
        assert platforms.made() == ["odd", "cuda", "rocm", "cpu"]
    assert caplog.messages[0].startswith(unable) and backends._failures == {"mine": str(error)}
    with pytest.raises(RuntimeError, match=f"{unable}(?s:.*)jax_platforms is 'mine,cpu'"):
        platforms.made("mine,cpu")
    platforms.register("mine", 1, error, quiet=False)
    with pytest.raises(RuntimeError, match=f"{unable}(?s:.*)jax_platforms is None") as caught:
        platforms.made()
    assert caught.value.__cause__ is error
    platforms.register("mine", 1, "none")
    assert platforms.made() == platforms.made("odd,mine,cuda,rocm,cpu")
    assert backends._failures["mine"] == "its function found no such hardware"
    platforms.libraries["cuda"] = error
    with caplog.at_level("WARNING", "teucer"):
        assert platforms.made() == ["odd", "rocm", "cpu"]
    assert caplog.messages[-1].startswith(f"Unable to initialize backend 'cuda': {error}")


def test_a_plugin_without_its_hardware_does_not_start(platforms, monkeypatch, caplog):
    started = []
    monkeypatch.setattr(xla, "plugin_client", lambda name, *_: started.append(name) or name)
    lacking = {"rocm": "no AMD GPU"}
    monkeypatch.setattr(hardware, "lacks", lambda name, root="/": lacking.get(name))
    assert platforms.made() == ["odd", "cuda", "cpu"] == [*started, "cpu"]
    assert backends._failures == {"rocm": "no AMD GPU"} and not caplog.messages
    assert platforms.made("rocm") == ["rocm"]
    platforms.register("rocm", 1)
    assert platforms.made() == ["odd", "cuda", "rocm", "cpu"]
