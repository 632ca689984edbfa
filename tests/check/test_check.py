"""`debug.check` and `teucer check`: reports, lines, silence, sizes, programs, exit status."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._check.numbers import NUMBERS

ROOT = Path(__file__).parents[2]
X = jax.ShapeDtypeStruct((4, 8), "float32")


def lossy(x):
    return jnp.log(1 + x)


def test_a_report_says_line_level_and_remedy():
    report = jax.debug.check(lossy, X)
    (found,) = report.findings
    assert (found.number, found.level, found.text) == ("T401", "warning", "return jnp.log(1 + x)")
    assert found.line.line == lossy.__code__.co_firstlineno + 1
    assert str(report).splitlines()[0].endswith("1 + x rounds them off.")
    assert str(report).endswith("1 function checked: 0 errors, 1 warning, 0 hints")
    assert bool(report) and not jax.debug.check(jnp.log1p, X)


def test_other_errors_pass():
    def broken(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        jax.debug.check(broken, X)


def test_a_comment_silences_its_line():
    def f(x):
        y = jnp.log(1 + x)  # teucer: ignore[T401]
        z = jnp.log(1 + y)  # teucer: ignore[T403, T401]
        # teucer: ignore
        w = jnp.exp(z) - 1
        return jnp.exp(w) - 1  # teucer: ignore[T402]

    report = jax.debug.check(f, X)
    assert report.silenced == 3 and [f.text[:6] for f in report.findings] == ["return"]


def test_a_state_that_changes_its_type():
    step = lambda total, x: total + x.sum()
    assert jax.debug.check(step, 0.0, X).numbers == ("T106",)
    assert not jax.debug.check(step, jax.ShapeDtypeStruct((), "float32"), X)
    state = {"n": jax.ShapeDtypeStruct((), "int32"), "w": X}
    grown = lambda s: {"n": s["n"] + 1.0, "w": s["w"]}
    assert jax.debug.check(grown, state).numbers == ("T106",)
    assert not jax.debug.check(lambda s: {"n": s["n"] + 1, "w": s["w"]}, state)
    assert not jax.debug.check(lambda x: x > 0, X)


def test_statics_and_donation():
    with_list = jax.jit(lambda x, n: x * n[0], static_argnums=1)  # genjax 1179, jax 7561
    assert jax.debug.check(with_list, X, [1]).numbers == ("T104",)
    assert not jax.debug.check(with_list, X, (1,))
    with_dict = jax.jit(lambda x, n: x * n["a"], static_argnums=1)  # flax 587
    assert jax.debug.check(with_dict, X, {"a": 1}).numbers == ("T104",)
    with_array = jax.jit(lambda x, n: x, static_argnums=1)  # jax 883
    assert jax.debug.check(with_array, X, np.ones(3)).numbers == ("T104",)
    total = jax.jit(lambda x: x.sum(), donate_argnums=0)  # jax 9237
    assert jax.debug.check(total, X).numbers == ("T507",)
    assert not jax.debug.check(jax.jit(lambda x: x + 1, donate_argnums=0), X)


def test_memory_of_a_device():
    wide = jax.ShapeDtypeStruct((1 << 16, 1 << 16), "float32")
    report = jax.debug.check(lambda x: x @ x, wide, memory=2**34)
    assert report.numbers == ("T506",) and "32.0 GiB" in report.findings[0].message
    assert not jax.debug.check(lambda x: x @ x, wide, memory=2**40)
    assert not jax.debug.check(lambda x: x @ x, wide)


def test_sizes_that_are_symbols():
    scope = jax.export.SymbolicScope()
    n, m = (jax.export.symbolic_shape(t, scope=scope) for t in ("n,4", "n"))
    x, w = (jax.ShapeDtypeStruct(s, "float32") for s in (n, m))
    report = jax.debug.check(lambda x, w: x + w, x, w)
    assert report.numbers == ("T102",) and "works for n = 1, and fails for n = 7" in str(report)
    assert not jax.debug.check(lambda x, w: x + w[:, None], x, w)
    assert jax.debug.check(lambda x, w: x @ jnp.ones(3), x, w).numbers == ("T101",)
    asked = jax.debug.check(lambda x, w: x if x.shape[0] > 5 else x * 2, x, w)
    assert not asked.findings and "asks for sizes" in asked.notes[0]


def test_json_and_sarif():
    report = jax.debug.check(lossy, X)
    (found,) = json.loads(report.json())["findings"]
    assert found["number"] == "T401" and found["file"] == __file__ and found["line"] > 1
    log = json.loads(report.sarif())
    (run,) = log["runs"]
    (result,) = run["results"]
    assert log["version"] == "2.1.0" and result["level"] == "warning"
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "T401"
    place = result["locations"][0]["physicalLocation"]
    assert place["region"]["startLine"] == found["line"]
    assert place["artifactLocation"]["uri"].endswith("tests/check/test_check.py")


def test_every_number_has_a_section():
    page = (ROOT / "docs" / "guide" / "checking.md").read_text()
    assert re.findall(r"^## (T\d+)$", page, re.M) == list(NUMBERS)


SCRIPT = """
import jax.numpy as jnp
def f(x, n):
    return jnp.log(1 + x) * n
def g(x):
    return x @ x
def h(x):
    return x
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def run(*args):
    done = subprocess.run(
        [sys.executable, "-m", "teucer", "check", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_command_checks_a_function(script, tmp_path):
    status, out, _ = run(f"{script}:f", "--args", "f32[b,8], 2", "--strict")
    assert status == 1 and out.startswith(f"{script}:4:12: warning T401")
    out_file = tmp_path / "report.json"
    status, out, err = run(f"{script}:g", "--args", "f32[b,8]", "--json", "-o", out_file)
    assert status == 1 and not out, err
    assert json.loads(out_file.read_text())["findings"][0]["number"] == "T102"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("{script}:nothing",), "has no function nothing"),
        (("{script}:h", "--args", "f99[3]"), "cannot read the types"),
        (("{script}:h", "--args", "f32[3]", "--memory", "much"), "cannot read the size 'much'"),
        (("missing.py",), "there is no file"),
    ],
)
def test_the_command_says_what_it_cannot_do(script, args, text):
    status, out, err = run(*(a.format(script=script) for a in args))
    assert (status, out) == (2, "") and text in err


# T504: jax 9288. T108: jax 2072. T107: jax 3163. T105: rl-blox 157. T508: jax 9675.
PROGRAM = """
import jax, jax.numpy as jnp
@jax.jit
def step(w, x):
    return w - 0.1 * jnp.mean(jnp.log(1 + jnp.exp(x @ w)))
w = jnp.ones(4)
for i in range(200):
    w = step(w, jnp.ones((3, 4)))
print("weights", w)
for n in range(4, 9):
    step(w, jnp.ones((n, 4)))
for i in range(5):
    jax.jit(lambda x: x * 2)(w)
scale = jax.jit(lambda x, s: x * s)
scale(w, 2.0), scale(w, jnp.float32(2))
power = jax.jit(lambda x, n: x * n, static_argnums=1)
for n in range(5):
    power(w, n)
try:
    jax.jit(lambda x: x @ jnp.ones(7))(w)
except TypeError:
    pass
update = jax.jit(lambda a: a + 1, donate_argnums=0)
v = jnp.ones(3)
u = update(v)
print(v + u)
"""


def test_the_command_checks_a_program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    status, out, err = run(path, "--json", "--hints")
    report = json.loads(out)
    found = {(f["number"], f["line"]) for f in report["findings"]}
    lines = {line: i for i, line in enumerate(PROGRAM.splitlines(), 1)}
    first = {
        text: next(i for line, i in lines.items() if text in line)
        for text in (
            "log(1",
            "step(w, jnp.ones((n",
            "lambda x: x * 2",
            "scale(w, 2",
            "power(w, n",
            "v + u",
        )
    }
    assert found == {
        ("T401", first["log(1"]),
        ("T108", first["step(w, jnp.ones((n"]),
        ("T504", first["lambda x: x * 2"]),
        ("T107", first["scale(w, 2"]),
        ("T105", first["power(w, n"]),
        ("T508", first["v + u"]),
    }, err
    assert status == 1 and "weights" in err


def test_casts_and_tests_are_no_states():
    given = {"a": X, "b": X}
    cast = lambda p: jax.tree.map(lambda x: x.astype(jnp.bfloat16), p)
    assert not jax.debug.check(cast, given)
    assert not jax.debug.check(lambda p: jax.tree.map(jnp.isfinite, p), given)
    grown = lambda p: {"a": p["a"].astype(jnp.bfloat16), "b": p["b"] * 2}
    assert jax.debug.check(grown, given).numbers == ("T106",)


def test_a_counter_in_bfloat16_has_a_known_step():
    count = lambda xs: jax.lax.scan(lambda n, _: (n + 1, None), jnp.bfloat16(0), xs)[0]
    assert jax.debug.check(count, jnp.ones(1000)).numbers == ("T404",)
    assert not jax.debug.check(count, jnp.ones(100))


def checked(tmp_path, text, *args):
    path = tmp_path / "program.py"
    path.write_text("import jax, jax.numpy as jnp\n" + text)
    status, out, _ = run("--json", path, *args)
    report = json.loads(out)
    return status, [(f["number"], f["line"]) for f in report["findings"]]


STATIC = "f = jax.jit(lambda x, n: x * n[0], static_argnums=1)\nf(jnp.ones(3), [2])\n"
SHARDED = """
at = jax.sharding.NamedSharding(jax.make_mesh((1,), ("d",)), jax.P(None, "d"))
x = jax.device_put(jnp.ones((2, 2)), at)
jax.jit(lambda x: x @ x.T)(x)
"""
ONCE = "ema = jax.jit(lambda a, b: 0.9 * a + b)\na = jnp.zeros(())\na = ema(a, 1.0)\nema(a, 2.0)\n"


@pytest.mark.parametrize(
    ("text", "status", "found"),
    [
        (STATIC, 1, [("T104", 3)]),
        (SHARDED, 1, [("T101", 5)]),
        (ONCE, 0, []),
        ("raise KeyError('no data')\n", 2, []),
        ("import sys; print(sys.argv[1:])\n", 2, []),
    ],
)
def test_programs_by_the_command(tmp_path, text, status, found):
    assert checked(tmp_path, text, "--", "--lr", "1") == (status, found)


def test_an_index_that_is_a_number():
    def f(x):
        y = x.at[-9].set(0.0)
        return x[7] + jnp.log(1 + y)

    assert jax.debug.check(f, X).numbers == ("T301", "T401")
    assert jax.debug.check(lambda x: x[1:3][5], X).numbers == ("T301",)
    assert jax.debug.check(lambda x: x[7], jax.ShapeDtypeStruct((4,), "int8")).numbers == ("T301",)
    assert not jax.debug.check(lambda x: x[-1] + x[:9][0], X)
