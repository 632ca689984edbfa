"""The `teucer` command: what a user types, what is printed and with which status it ends."""

import os
import re
import subprocess
import sys
import textwrap

import pytest

from teucer._base import config
from teucer.cli import _run, main
from teucer.cli._arguments import parse_types
from teucer.cli._errors import CommandError


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """The command changes sys.argv and sys.path, as a process of its own may."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(_run, "as_jax", lambda: None)  # tests/compat has processes for it


@pytest.fixture
def script(tmp_path):
    def write(source):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(source))
        return str(path)

    return write


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert re.fullmatch(
        r"teucer \d+\.\d+\.\d+ \(jaxlib \S+, Python 3\.\S+\)\n", capsys.readouterr().out
    )


def test_no_command_prints_help(capsys):
    assert main([]) == 0
    assert "list the devices" in capsys.readouterr().out


def test_targets_of_kernels(capsys):
    assert main(["pallas", "--targets"]) == 0
    text = capsys.readouterr().out
    assert "triton on cuda: Triton IR, which XLA compiles for NVIDIA GPUs.\n    rules for " in text
    assert "sort" in text.partition("lacks:")[2]
    assert "mosaic_tpu on tpu: the tpu dialect, which libtpu compiles" in text


def test_devices(capsys):
    assert main(["devices"]) == 0
    assert "cpu:0" in capsys.readouterr().out


def test_run_passes_arguments_and_finds_neighbours(script, tmp_path, capsys):
    (tmp_path / "neighbour.py").write_text("WORD = 'found'\n")
    path = script("""
        import sys
        import neighbour
        import teucer.numpy as jnp
        print(__name__, sys.argv[1:], neighbour.WORD, float(jnp.sum(jnp.ones(3))))
    """)
    assert main(["run", path, "--flag", "7"]) == 0
    assert capsys.readouterr().out == "__main__ ['--flag', '7'] found 3.0\n"


def test_run_shows_the_frames_of_the_program_only(script, capsys):
    path = script("""
        def inner():
            raise ValueError("no such thing")

        inner()
    """)
    assert main(["run", path]) == 1
    error = capsys.readouterr().err
    assert re.findall(r'File "(.*?)", line (\d+)', error) == [(path, "5"), (path, "3")]
    assert error.endswith("ValueError: no such thing\n")


def test_run_passes_the_exit_status_on(script):
    with pytest.raises(SystemExit) as stopped:
        main(["run", script("import sys; sys.exit(5)")])
    assert stopped.value.code == 5


def test_run_without_file(capsys):
    assert main(["run", "absent.py"]) == 2
    assert capsys.readouterr().err == "teucer run: there is no file absent.py.\n"


def test_jaxpr(script, capsys):
    path = script("""
        import teucer.numpy as jnp

        def f(x, n):
            return jnp.sin(x) * n
    """)
    assert main(["jaxpr", f"{path}:f", "--args", "f32[3],f32[]"]) == 0
    printed = capsys.readouterr().out
    assert re.match(r"\{ lambda ; a:f32\[3\] b:f32\[\]\. let", printed)
    assert "sin" in printed


def test_jaxpr_after_each_pass(script, capsys):
    path = script("""
        import teucer.numpy as jnp

        def f(x):
            return jnp.sin(x) * 1.0 + jnp.sin(x)
    """)
    assert main(["jaxpr", f"{path}:f", "--args", "f32[3]", "--passes"]) == 0
    printed = capsys.readouterr().out
    assert re.findall(r"^([\w ]+): (\d+) equation", printed, re.MULTILINE) == [
        ("traced", "4"),
        ("simplify", "3"),
        ("merge common subexpressions", "2"),
    ]
    assert printed.count("{ lambda") == 3


def test_jaxpr_after_outlining(script, capsys):
    path = script("""
        import teucer.numpy as jnp

        def f(x):
            for _ in range(200):
                x = jnp.tanh(x) * jnp.sin(x)
            return x
    """)
    assert main(["jaxpr", f"{path}:f", "--args", "f32[3]", "--passes"]) == 0
    assert re.search(
        r"^outline what repeats: \d+ equations\n(?:.*\n)*.*scan\[",
        capsys.readouterr().out,
        re.MULTILINE,
    )


def test_jaxpr_of_unknown_function_names_those_there_are(script, capsys):
    assert main(["jaxpr", f"{script('def f(x): return x')}:g"]) == 2
    assert re.search(r"has no function g\.\nIt has: f\n", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("", []),
        ("f32[]", [((), "float32")]),
        ("f32[3, 4],i32[]", [((3, 4), "float32"), ((), "int32")]),
        ("float32[3],bfloat16[]", [((3,), "float32"), ((), "bfloat16")]),
        ("bf16[2] , bool[0],c64[1,1]", [((2,), "bfloat16"), ((0,), "bool"), ((1, 1), "complex64")]),
    ],
)
def test_types_are_read(text, types):
    found = parse_types(text)
    assert [(type_.shape, str(type_.dtype)) for type_ in found] == types


@pytest.mark.parametrize(
    "text",
    [
        "f32",
        "f32[",
        "f32[3]i32[]",
        "f33[1]",
        "f32[-1]",
        "f32[3 3]",
        "f32[,]",
        "f32[3,,3]",
        "{f32[2]}",
        "f32[2:3]",
        "{[]: f32[2]}",
        "f32[2] + 1",
        "not 1",
        "-f32[2]",
        "*f32[2]",
        "{**f32[2]}",
        "[f32[2]",
        "f32[True]",
    ],
)
def test_types_that_cannot_be_read(text):
    with pytest.raises(
        CommandError, match=r"cannot read the types at '.*'\.\nWrite each as dtype\[shape\]"
    ):
        parse_types(text)


def test_trees_of_types_are_read():
    (params, (x, n), last) = parse_types(
        "{'w': f32[3,4], 'layers': [i32[], None]}, (f32[8,3], -2), 'mean'"
    )
    assert (
        params["w"].shape == (3, 4)
        and params["layers"][0].dtype == "int32"
        and params["layers"][1] is None
    )
    assert (x.shape, n, last) == ((8, 3), -2, "mean")


@pytest.mark.parametrize("command", ["jaxpr", "show"])
def test_trees_of_types_are_arguments(script, capsys, command):
    path = script("def f(params, x): return params['w'] * x + params['b'][0]")
    assert main([command, f"{path}:f", "--args", "{'w': f32[3], 'b': (f32[],)}, f32[3]"]) == 0
    assert "f32[3]" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["jaxpr", "export"])
def test_types_of_64_bits_are_refused_while_they_are_off(script, capsys, command):
    path = script("def f(x): return x")
    assert main([command, f"{path}:f", "--args", "f64[2]"]) == 2
    error = capsys.readouterr().err
    assert (
        "f64 would be f32, since types of 64 bits are off.\n"
        "Switch them on, JAX_ENABLE_X64=1, or write f32."
    ) in error
    with config.enable_x64(True):
        assert main([command, f"{path}:f", "--args", "f64[2]"]) == 0
    assert "f64" in capsys.readouterr().out


def test_jaxpr_with_too_few_arguments(script, capsys):
    assert main(["jaxpr", f"{script('def f(x, n): return x')}:f", "--args", "f32[3]"]) == 2
    assert (
        ":f cannot be called with 1 argument: missing a required argument: 'n'.\nGive"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("name", "why"), [("absent/f.mlir", "No such file"), (".", "Is a directory")]
)
def test_export_to_where_nothing_can_be_written(script, tmp_path, capsys, name, why):
    assert (
        main(
            [
                "export",
                f"{script('def f(x): return x')}:f",
                "--args",
                "f32[3]",
                "-o",
                str(tmp_path / name),
            ]
        )
        == 2
    )
    assert re.fullmatch(
        rf"teucer export: .* cannot be written: {why}.*\.\n", capsys.readouterr().err
    )


def test_commands_that_need_what_is_not_there(monkeypatch, tmp_path, capsys):
    def failing():
        raise RuntimeError("Unable to initialize backend 'foo'")

    monkeypatch.setattr("teucer.devices", failing)
    assert main(["devices"]) == 2
    assert capsys.readouterr().err == "teucer devices: Unable to initialize backend 'foo'\n"
    assert main(["demo", "--output", str(tmp_path / "absent" / "curve.png")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough(script):
    path = script("def f(x): return x")
    command = [sys.executable, "-m", "teucer", "jaxpr", f"{path}:f", "--args", "f32[3]"]
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write) as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")


def test_cache(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("teucer._executables.disk_cache.cache_dir", lambda: tmp_path)
    (tmp_path / "a.xla").write_bytes(bytes(2**20))
    (tmp_path / "mine.txt").write_text("not an entry")
    assert main(["cache"]) == 0
    assert (
        capsys.readouterr().out
        == f"{tmp_path}: 1 entry, 1.0 of 4096.0 MiB\n0 hits, 0 misses since it was last cleared\n"
    )
    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}: removed 1 entry\n"
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_cache_switched_off(capsys):
    with config.enable_compilation_cache(False):
        assert main(["cache"]) == 0
    assert capsys.readouterr().out == "The cache is off (JAX_ENABLE_COMPILATION_CACHE).\n"


def test_cache_without_a_home(monkeypatch, capsys):
    monkeypatch.setattr("teucer._executables.disk_cache.cache_dir", lambda: None)
    assert main(["cache"]) == 0
    assert "there is no home folder for it" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_cache_that_cannot_be_cleared(tmp_path, capsys, name):
    (tmp_path / "file").write_text("")
    with config.cache_dir(str(tmp_path / name)):
        assert main(["cache", "--clear"]) == 2
    assert re.fullmatch(
        r"teucer cache: .*file.* cannot be used: .*Not a directory.*\n", capsys.readouterr().err
    )


def test_demo_short(tmp_path, capsys):
    picture = tmp_path / "curve.png"
    assert main(["demo", "--steps", "60", "--output", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "device cpu:0" in printed
    assert re.search(r"loss: \d\.\d{3} at the start", printed)
    assert re.search(r"test accuracy: \d+\.\d%", printed)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_demo_without_matplotlib_names_the_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["demo", "--steps", "1", "--output", str(tmp_path / "curve.png")]) == 2
    assert "pip install 'teucer[demo]'" in capsys.readouterr().err


@pytest.mark.parametrize("steps", ["0", "x", "1.5"])
def test_demo_needs_at_least_one_step(capsys, steps):
    with pytest.raises(SystemExit, match="2"):
        main(["demo", "--steps", steps])
    assert f"{steps} is not a whole number that is at least 1" in capsys.readouterr().err
