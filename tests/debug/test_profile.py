"""`teucer profile`: where the time of a program goes, by source line."""

import gzip
import json
import math
import re
import subprocess
import sys

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._base import config
from teucer.debug import _hlo
from teucer.debug._profile import MadeAt, Profile, ProfileLine, Recording, _made_at, _nested

PROGRAM = """
import sys
import jax, jax.numpy as jnp

def layer(x, w):
    return x + jnp.tanh(x @ w)  # hot

@jax.jit
def step(ws, x):
    loss = lambda ws: (jax.lax.scan(lambda c, w: (layer(c, w), None), x, ws)[0] ** 2).mean()
    return ws - 0.1 * jax.grad(loss)(ws)

ws, x = jnp.ones((3, 128, 128)) * 0.01, jnp.ones((256, 128))
for _ in range(20):
    ws = step(ws, x)
print("done", ws.block_until_ready().shape, sys.argv[1:])
"""


def test_the_command(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "teucer", "profile", "-o", "out", "train.py", "--flag"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "done (3, 128, 128) ['--flag']" in done.stdout
    hottest = done.stdout.splitlines()[4]
    assert "train.py:6" in hottest and "# hot" in hottest and "% backward" in hottest
    share = int(done.stdout.partition("of which ")[2].partition(" %")[0])
    assert share >= 90
    assert "step" in done.stdout.partition("made:")[2]
    page = (tmp_path / "out" / "profile.html").read_text()
    assert "# hot" in page and "src=" not in page
    (trace,) = (tmp_path / "out").glob("plugins/profile/*/*.trace.json.gz")
    assert json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]


@pytest.mark.slow
def test_a_program_that_fails_is_profiled_too(tmp_path):
    (tmp_path / "bad.py").write_text(
        "import jax.numpy as jnp\njnp.ones(3).block_until_ready()\nraise ValueError('no')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "teucer", "profile", "-o", "out", "bad.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "ValueError: no" in done.stderr and "wall" in done.stdout


def test_nothing_changes_when_it_is_off():
    f = jax.jit(lambda x: jnp.sin(x) * 3.0)
    assert "op_name" not in f.lower(1.0).compile().as_text()
    recording = Recording().start()
    try:
        g = jax.jit(lambda x: jnp.sin(x) * 3.5)
        lowered = g.lower(1.0)
        assert lowered.as_text().startswith("module @jit__lambda ")
        text = lowered.compile().as_text()
        assert "test_profile.py" in text and re.match(r"HloModule jit__lambda\.[0-9a-f]{8},", text)
    finally:
        recording.stop()
    assert (
        "test_profile.py" not in jax.jit(lambda x: jnp.sin(x) * 4.5).lower(1.0).compile().as_text()
    )


def test_instructions_of_a_module():
    with config.locations(True):
        text = (
            jax.jit(lambda x: (jnp.tanh(x @ x)).sum()).lower(jnp.ones((16, 16))).compile().as_text()
        )
    found = _hlo.instructions(text)
    assert all(
        one.place is not None and one.place[0].endswith("test_profile.py") for one in found.values()
    )
    assert sum(one.operations for one in found.values()) >= 2 * 16**3 + 2 * 16**2


@pytest.mark.parametrize(
    ("f", "shape", "expected"),
    [
        (lambda x: x @ x, (16, 16), 2 * 16**3),
        (lambda x: x @ x[0], (16, 16), 2 * 16**2),
        (lambda x: jnp.einsum("bij,bjk->bik", x, x), (3, 4, 4), 2 * 3 * 4**3),
        (lambda x: jnp.einsum("ij,ij->", x, x), (4, 8), 2 * 32),
        (lambda x: x.sum(), (16, 16), 256),
        (lambda x: x.sum(0), (16, 8), 128),
        (lambda x: jnp.sin(x), (5, 3), 15),
        (lambda x: x.T.reshape(-1), (3, 4), 0),
        (lambda x: jax.lax.fori_loop(0, 5, lambda i, c: c @ c, x), (8, 8), 2 * 8**3),
    ],
)
def test_operations_of_instructions(f, shape, expected):
    """Of the one that does most; it moves its operands and its result."""
    with config.locations(True):
        text = jax.jit(f).lower(jnp.ones(shape)).compile().as_text()
    found = _hlo.instructions(text).values()
    most = max(found, key=lambda one: one.operations)
    assert most.operations == expected
    least = 4 * math.prod(shape)  # bytes of the operand
    assert least < most.bytes < 4 * least if expected else most.bytes == 0


def test_the_table():
    lines = (ProfileLine((__file__, 1), 0.9, 3, 9e9, 9e6, 0.45), ProfileLine(None, 0.1, 1))
    profile = Profile(lines, 2.0, {"f": (0.001, 0.002, 0.5, 1)}, (1e11, 1e10))
    assert profile.attributed == pytest.approx(0.9) and profile.running == pytest.approx(1.0)
    text = str(profile)
    assert (
        "90.0  900.00      3  10.0 G" in text and "(no line)" in text and "(50 % backward)" in text
    )
    assert "500.0         1  f" in text
    assert "1 programs made in 0.50 s, 25 % of the wall time" in text
    assert re.search(r" 1  in all$", text, re.M)


def test_programs_stand_at_the_lines_that_called_for_them():
    """Also those of library functions, and each with what to do about many."""
    jax.debug.compiles().clear()
    for _ in range(4):
        jax.jit(lambda x: x * 3 + 1)(np.ones(3, np.float32))
    shaped = jax.jit(lambda x: x * 5 - 1)
    for n in range(5, 10):
        shaped(np.ones(n, np.float32))
    x = jnp.ones((3, 7))
    y = jnp.sinh(x) + jnp.cosh(x) * jnp.tan(x) - jnp.arctan(x)
    found = {at.line.text: at for at in _made_at(jax.debug.compiles())}
    anew = found["jax.jit(lambda x: x * 3 + 1)(np.ones(3, np.float32))"]
    assert anew.functions == ["<lambda>"] * len(anew.functions) and anew.seconds > 0
    assert "pad them to a few sizes" in found["shaped(np.ones(n, np.float32))"].advice
    eager = found["y = jnp.sinh(x) + jnp.cosh(x) * jnp.tan(x) - jnp.arctan(x)"]
    assert f"put jit around it: each of its {len(eager.functions)} operations" in eager.advice
    again = MadeAt(ProfileLine(None), 1.0, ["f"] * 9, {"f32[]"})
    assert "made anew for equal arguments" in again.advice
    text = str(Profile((), 1.0, {}, (1.0, 1.0), tuple(found.values())))
    assert "made for calls at:" in text and eager.advice in text and y is not None


@pytest.mark.slow
def test_programs_of_one_name_have_their_own_lines():
    def make(finish):
        @jax.jit
        def step(x):
            return finish(x)

        return step

    def first(x):
        return jnp.tanh(x @ x)

    def second(x):
        return jnp.tanh(x @ x)

    x = jnp.ones((200, 200))
    before = make(lambda x: jnp.tanh(x @ x))
    before(x).block_until_ready()
    recording = Recording().start()
    for f in (make(first), make(second)):
        for _ in range(3):
            f(x).block_until_ready()
    found = recording.stop()
    assert found.attributed > 0.9
    for f in (first, second):
        (line,) = [
            line for line in found.lines if line.place == (__file__, f.__code__.co_firstlineno + 1)
        ]
        assert line.times in (3, 6)  # the product and its tanh, which may be one operation


def test_an_operation_within_another_counts_once():
    class Event:
        def __init__(self, name, **stats):
            self.name, self.stats = name, stats.items()

    loop, body, other = (
        Event(name, hlo_module="jit_f", hlo_op=name) for name in ("loop", "body", "other")
    )
    events = [(0, 100, loop), (10, 40, body), (50, 70, body), (100, 130, other)]
    assert sorted((name, round(1e9 * seconds)) for _, name, seconds in _nested(events)) == [
        ("body", 20),
        ("body", 30),
        ("loop", 50),
        ("other", 30),
    ]


def test_what_runs_behind_is_waited_for():
    f = jax.jit(lambda x: jnp.tanh(x @ x) / 200)
    recording = Recording().start()
    x = jnp.ones((200, 200))
    for _ in range(20):
        x = f(x)
    profile = recording.stop()
    (line,) = [
        line
        for line in profile.lines
        if line.place == (__file__, f.__wrapped__.__code__.co_firstlineno)
    ]
    assert line.times >= 20


@pytest.mark.slow
def test_a_program_that_does_not_wait_is_whole_in_the_profile(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM.replace("ws.block_until_ready().shape", "1"))
    done = subprocess.run(
        [sys.executable, "-m", "teucer", "profile", "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    hottest = next(row for row in done.stdout.splitlines() if "# hot" in row)
    assert int(hottest.split()[2]) >= 20 * 3
