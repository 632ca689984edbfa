"""Programs whose operations keep their order: `experimental.overlap`."""

import re

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.experimental.overlap import program_order


def f(x, y):
    return jnp.sin(x) + jnp.cos(y)


def barriers(fun, *args):
    return len(re.findall("optimization_barrier", jax.jit(fun).lower(*args).as_text()))


@pytest.mark.parametrize(
    ("strict", "count"),
    [(False, 2), ((True, False), 3), ((False, True), 3), (True, 4)],
)
def test_each_operation_waits_for_the_one_before(strict, count):
    ordered = program_order(f, enforce=True, strict_in_out=strict)
    assert barriers(ordered, 1.0, 2.0) == count


def test_later_uses_read_what_leaves_the_barrier():
    """XLA drops from a barrier what nobody reads."""

    def g(x):
        return jnp.sin(x), jnp.cos(x)

    text = jax.jit(program_order(g, enforce=True)).lower(1.0).as_text()
    barrier = re.search(r"(%\d+):2 = stablehlo.optimization_barrier", text).group(1)
    assert re.search(rf"cosine {barrier}#1", text)
    assert re.search(rf"return {barrier}#0, %\d+ ", text)


def test_what_keeps_no_order_is_one_operation():
    assert barriers(program_order(f, enforce=False), 1.0, 2.0) == 0
    free = program_order(f, enforce=False, exclude_argnames="y")
    assert barriers(program_order(enforce=True)(lambda x, y: free(x, y) * 2), 1.0, 2.0) == 1


@pytest.mark.parametrize("strict", [False, True])
def test_values_and_derivatives_are_those_of_the_function(strict):
    ordered = program_order(f, enforce=True, strict_in_out=strict)
    x, y = np.float32(0.5), np.linspace(0, 1, 3, dtype="float32")
    np.testing.assert_array_equal(ordered(x, y=y), f(x, y))
    np.testing.assert_array_equal(jax.vmap(ordered, (None, 0))(x, y), f(x, y))
    np.testing.assert_allclose(jax.grad(ordered, 1)(x, x), -np.sin(x), rtol=1e-6)
    tree = program_order(lambda d: {"b": d["a"] * 2, "c": 3.0}, enforce=True, strict_in_out=strict)
    assert tree({"a": 1.0}) == {"b": 2.0, "c": 3.0}


def test_references_are_written_in_order():
    ref = jax.new_ref(1.0)

    def write(x):
        ref[...] = x
        ref[...] += 1.0
        return jnp.sin(x)

    jax.jit(program_order(write, enforce=True))(2.0)
    assert ref[...] == 3.0


def test_what_contradicts_is_refused():
    with pytest.raises(ValueError, match="cannot be used with enforce=False"):
        program_order(f, enforce=False, strict_in_out=True)
    with pytest.raises(ValueError, match="cannot be used with enforce=True"):
        program_order(f, enforce=True, exclude_argnames="y")
