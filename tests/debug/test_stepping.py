"""`teucer debug`: a program stops at its lines, also within functions that are compiled."""

import io
import re

import pytest

import teucer as jax
from teucer.cli._main import main

HEAD = "import teucer as jax, teucer.numpy as jnp\n"


@pytest.fixture
def debug(tmp_path, monkeypatch, capsys):
    """Runs a program with commands at the prompt; what was written, and the exit status."""

    def run(program, *commands):
        file = tmp_path / "program.py"
        file.write_text(HEAD + program)
        monkeypatch.setattr("teucer.cli._run.as_jax", int)  # it stays for the whole process
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{c}\n" for c in commands)))
        status = main(["debug", str(file)])
        return capsys.readouterr().out.replace(str(file), "FILE"), status

    return run


def lines(text):
    """The lines at which a program stopped."""
    return [
        int(n) for n in re.findall(r"^(?:\(jdb\) )*> FILE\((\d+)\)\w*(?:<\w+>)?\(\)$", text, re.M)
    ]


STEP = """
def layer(x, w):
    y = x @ w
    return jnp.tanh(y)
@jax.jit
def loss(w, x):
    h = layer(x, w)
    return (h**2).sum()
for i in range(2):
    value = {call}
print("done")
"""


@pytest.mark.parametrize(
    "call",
    [
        "loss(jnp.ones((2, 2)) + i, jnp.ones(2))",
        "jax.grad(loss)(jnp.ones((2, 2)) + i, jnp.ones(2))",
    ],
)
def test_values_of_a_compiled_program(debug, call):
    out, status = debug(
        STEP.format(call=call), "b 5", "c", "p y", "up", "p w[0, 0], i", "c", "p y", "c"
    )
    assert lines(out) == [1, 5, 5] and status == 0
    assert (
        "Array([2., 2.], dtype=float32)" in out and "Array([4., 4.], dtype=float32)" in out
    )  # of both calls
    assert "Array(1., dtype=float32), 0)" in out and out.endswith("done\n")


def test_steps(debug):
    program = STEP.format(call="loss(jnp.ones((2, 2)) + i, jnp.ones(2))")
    out, _ = debug(program, "b 8", "c", *"snnn", "cl", "c")
    assert lines(out) == [1, 8, 4, 5, 9, 11 - 1]
    out, _ = debug(program, "b 8", "c", "cl 8", "n", "r", "c")
    assert lines(out) == [1, 8, 9, 10]
    out, _ = debug(program, "b 4", "b", "c", "r", "cl", "c")
    assert lines(out)[:3] == [1, 4, 9] and "FILE:4" in out


PROGRAMS = {
    "scan": (
        "def f(c, x):\n    y = c + x\n    return y, y\njax.lax.scan(f, 0, jnp.arange(3))",
        ["0", "1", "3"],
    ),
    "while": (
        "def f(c):\n    y = c + 1\n    return y\njax.lax.while_loop(lambda c: c < 3, f, 0)",
        ["1", "2", "3"],
    ),
    "cond": (
        "def f(c):\n    y = c + 1\n    return y\njax.lax.cond(True, f, lambda c: c, 4)",
        ["5"],
    ),
    "vmap": ("def f(c):\n    y = c + 1\n    return y\njax.vmap(f)(jnp.arange(3))", ["1", "2", "3"]),
    "jit of vmap": (
        "def f(c):\n    y = c + 1\n    return y\njax.jit(jax.vmap(f))(jnp.arange(3))",
        ["1", "2", "3"],
    ),
    "vmap of jit": (
        "@jax.jit\ndef f(c):\n    y = c + 1\n    return y\njax.vmap(f)(jnp.arange(2))",
        ["1", "2"],
    ),
    "grad": ("def f(c):\n    y = c + 1\n    return y\njax.jit(jax.grad(f))(2.0)", ["3."]),
    "checkpoint": (
        (
            "@jax.checkpoint\ndef f(c):\n    y = c + 1\n    return jnp.sin(y)\n"
            "jax.jit(jax.grad(f))(2.0)"
        ),
        ["3."],
    ),
    "shard_map": (
        "P = jax.P\nmesh = jax.make_mesh((1,), ('x',))\n@jax.jit\n"
        "@jax.shard_map(mesh=mesh, in_specs=P(), out_specs=P())\ndef f(c):\n    y = c + 1\n"
        "    return y\nf(4)",
        ["5"],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_transformations(debug, name):
    program, values = PROGRAMS[name]
    line = (HEAD + program).splitlines().index(
        next(x for x in program.splitlines() if x.startswith("    return"))
    ) + 1
    out, status = debug(program, f"b {line}", "c", *["p y", "c"] * 9)
    assert status == 0
    found = re.findall(r"Array\((\d\.?),", out)
    assert found[: len(values)] == values and set(found) <= set(
        values
    )  # a forward pass may run again


def test_a_rule_of_the_user(debug):
    out, _ = debug(
        """@jax.custom_vjp
def f(x):
    return x * 2
def backward(r, ct):
    out = ct * r
    return (out,)
f.defvjp(lambda x: (f(x), x + 1), backward)
jax.jit(jax.grad(f))(3.0)
""",
        "b 7",
        "c",
        "p r, out",
        "c",
    )
    assert "(Array(4., dtype=float32), Array(4., dtype=float32))" in out


def test_where_an_exception_is_raised(debug):
    out, status = debug(
        "def f(x):\n    y = x + 1\n    raise ValueError(y)\nf(1)", "c", "p x + y", "u", "bt", "c"
    )
    assert status == 1
    assert lines(out) == [1, 4] and "\n(jdb) 3\n" in out and "in <module>" in out


def test_the_prompt_says_what_is_wrong(debug):
    out, _ = debug("x = 1\n", "b here", "s", "p unknown", "c")
    assert "*** here is no line. Say a number, or FILE:NUMBER." in out and "*** NameError" in out


def test_a_breakpoint_alone_cannot_step():
    out = io.StringIO()
    jax.jit(lambda x: jax.debug.breakpoint(stdin=io.StringIO("s\nc\n"), stdout=out))(1.0)
    jax.effects_barrier()
    assert "Run it with: teucer debug PROGRAM" in out.getvalue()


def test_end_of_input_ends_the_program(debug):
    with pytest.raises(SystemExit):
        debug("x = 1\nprint('not reached')\n", "s")


def test_nothing_is_left(debug):
    import sys

    before = sys.gettrace()
    debug("x = 1\n", "c")
    assert sys.gettrace() is before
    assert "debug_callback" not in str(jax.make_jaxpr(lambda x: x + 1)(1.0))
