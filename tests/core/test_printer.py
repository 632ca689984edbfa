"""Jaxprs as text: names of variables, and what is written before the jaxpr.

The texts are those that JAX 0.10.2 prints.
"""

import textwrap

import pytest

import teucer as jax


def of_steps(n):
    @jax.jit
    def inner(y):
        for _ in range(n):
            y = y + 1
        return y

    return lambda x: inner(x)


@pytest.mark.parametrize("n, apart", [(10, False), (11, True)])
def test_large_jaxprs_are_written_before(n, apart):
    text = str(jax.make_jaxpr(of_steps(n))(1.0))
    assert text.startswith("let inner = ") == apart
    assert ("jit[name=inner jaxpr=inner]" in text) == apart


def test_bodies_of_loops_too():
    def f(x):
        def body(c, _):
            return of_steps(1)(of_steps(0)(c)) * 2 - 1 + 3 * 4 / c + c - c * c + c / 2 - c + 7, None

        return jax.lax.scan(body, x, None, length=3)[0]

    assert str(jax.make_jaxpr(f)(1.0)).startswith("let jaxpr = { lambda ; a:f32[]. let\n")


def test_an_operand_given_twice_has_one_of_the_names():
    f = jax.jit(lambda x, y, z: x * y * z)
    expected = """
        { lambda ; a:f32[]. let
            b:f32[] = jit[
              name=<lambda>
              jaxpr={ lambda ; a:f32[] c:f32[] d:f32[]. let
                  e:f32[] = mul a c
                  b:f32[] = mul e d
                in (b,) }
            ] a a a
          in (b,) }
    """
    x = jax.numpy.float32(4.2)
    assert str(jax.make_jaxpr(lambda x: f(x, x, x))(x)) == textwrap.dedent(expected).strip()


def test_variables_are_not_called_as_jaxprs_are():
    def f(x):
        @jax.jit
        def a(y):
            return y + 1

        return a(x) + a(x)

    expected = """
        let a = { lambda ; b:f32[]. let c:f32[] = add b 1.0:f32[] in (c,) } in
        { lambda ; d:f32[]. let
            e:f32[] = jit[name=a jaxpr=a] d
            f:f32[] = jit[name=a jaxpr=a] d
            g:f32[] = add e f
          in (g,) }
    """
    assert str(jax.make_jaxpr(f)(1.0)) == textwrap.dedent(expected).strip()
