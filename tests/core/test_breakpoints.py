"""Breakpoints: the prompt, values in every kind of program, frames, and what cannot be shown."""

import io
import re

import numpy as np
import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp

GLOBAL = "a global"


class Session:
    """Files for a prompt, with commands to be read."""

    def __init__(self, *commands, **options):
        self.options = {
            "stdin": io.StringIO("".join(f"{c}\n" for c in commands)),
            "stdout": io.StringIO(),
            **options,
        }

    def stop(self):
        jax.debug.breakpoint(**self.options)

    def said(self):
        """What was written, without the prompts."""
        jax.effects_barrier()
        return [
            line
            for line in re.sub(
                r"\(jdb\) |Entering jdb:\n", "", self.options["stdout"].getvalue()
            ).splitlines()
            if line
        ]


def program(session, **options):
    def f(x):
        y = {"a": x + 1, "b": "text"}
        jax.debug.breakpoint(**session.options, **options)
        return y["a"] * 2

    return f


TRANSFORMS = {
    "eager": (lambda f: f, 2.0),
    "jit": (jax.jit, 2.0),
    "grad": (jax.grad, 2.0),
    "jit of grad": (lambda f: jax.jit(jax.grad(f)), 2.0),
    "scan": (lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0], 2.0),
    "while": (lambda f: lambda x: lax.while_loop(lambda x: x < 3, f, x), 2.0),
    "cond": (lambda f: lambda x: lax.cond(x > 0, f, lambda x: x, x), 2.0),
    "jit in jit": (lambda f: jax.jit(lambda x: jax.jit(f)(x)), 2.0),
    "vmap": (jax.vmap, [2.0]),
    "checkpoint": (jax.checkpoint, 2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_values_in_every_program(name):
    transform, x = TRANSFORMS[name]
    session = Session("p float(y['a'])", "y['b']", "c")
    jax.block_until_ready(transform(program(session))(jnp.asarray(x)))
    assert session.said() == ["3.0", "'text'"]


def test_every_element_and_every_step_stops():
    session = Session(*["p int(x)", "c"] * 3)
    jax.vmap(program(session))(jnp.arange(3))
    assert session.said() == ["0", "1", "2"]
    session = Session(*["p int(c)", "c"] * 3)

    def body(c, _):
        jax.debug.breakpoint(**session.options, ordered=True)
        return c + 1, None

    jax.jit(lambda: lax.scan(body, 0, None, length=3))()
    assert session.said() == ["0", "1", "2"]


def test_frames():
    session = Session("p where", "u", "p where, float(x)", "bt", "d", "d", "c")

    def inner():
        where = "inner"
        jax.debug.breakpoint(**session.options)
        return where

    def outer(x):
        where = "outer"
        inner()
        return where, x

    jax.jit(lambda x: outer(x)[1])(5.0)
    said = "\n".join(session.said())
    assert said.startswith("'inner'\n> ") and "('outer', 5.0)" in said
    assert "->          inner()" in said and "Traceback:" in said and "in outer" in said
    assert said.endswith("At bottommost frame.")


def test_frames_are_counted():
    session = Session("u", "c", num_frames=1)
    jax.jit(lambda: session.stop())()
    assert session.said() == ["At topmost frame."]


def test_expressions_and_their_errors():
    session = Session("p GLOBAL", "p nothing", "p 1 +", "p x, x * 2", "a", "", "unknown", "c")

    def f(x):
        jax.debug.breakpoint(**session.options)
        return x

    jax.jit(f)(jnp.float32(2))
    said = session.said()
    assert said[0] == "'a global'" and said[1] == "*** NameError: name 'nothing' is not defined"
    assert (
        said[2].startswith("*** SyntaxError")
        and said[3] == "(Array(2., dtype=float32), Array(4., dtype=float32))"
    )
    assert any(line.startswith("x = Array(2.") for line in said) and said[-1].startswith(
        "*** NameError"
    )


def test_lines_are_listed():
    session = Session("l", "c")

    def f(x):
        y = x + 1
        jax.debug.breakpoint(**session.options)
        return y

    f(1.0)
    said = session.said()
    assert re.match(r"> .*test_breakpoints\.py\(\d+\)", said[0])
    (here,) = [line for line in said if line.startswith("->")]
    assert "jax.debug.breakpoint(**session.options)" in here


def test_variables_that_cannot_be_taken_apart():
    session = Session("p odd", "p int(x)", "c")

    def f(x):
        odd = {(lambda: 1): x, (lambda: 2): 3}
        jax.debug.breakpoint(**session.options)
        del odd
        return x

    jax.jit(f)(1)
    assert session.said() == ["<cant_flatten>", "1"]


def test_values_of_traces_that_are_over():
    session = Session("p int(x)", "c")
    leaked = []
    jax.jit(lambda x: leaked.append(x))(1.0)

    def f(x):
        old = leaked[0]
        jax.debug.breakpoint(**session.options)
        del old
        return x

    assert jax.jit(f)(1) == 1 and session.said() == ["1"]


def test_tokens():
    session = Session("p int(x)", "c")

    def f(x):
        y = x + 1
        y = jax.debug.breakpoint(**session.options, token=y)
        return y * 2

    assert jax.jit(f)(1) == 4 and session.said() == ["1"]
    unused = Session("c")
    jax.jit(lambda x: (jax.debug.breakpoint(**unused.options, token=x), x)[1])(1)
    assert unused.options["stdout"].getvalue() == ""


@pytest.mark.parametrize("command", ["q", ""], ids=["quit", "end of input"])
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_the_program_is_ended(transform, command):
    session = Session(*[command] if command else [])
    with pytest.raises(SystemExit):
        jax.block_until_ready(transform(program(session))(2.0))
    jax.effects_barrier()


def test_programs_do_not_change():
    session = Session("c", "c")
    f = program(session)
    assert jax.jit(f)(2.0) == 6.0
    np.testing.assert_allclose(jax.jit(jax.grad(f))(2.0), 2.0)


def test_no_such_backend():
    with pytest.raises(ValueError, match="there is no backend 'web'"):
        jax.debug.breakpoint(backend="web")
