"""Planted faults within loops, transformations and meshes.

Each is found, and its line named, by one command or option.
"""

import inspect
import re
import warnings

import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.experimental import checkify
from teucer.sharding import PartitionSpec as P

pytestmark = pytest.mark.usefixtures("only_new_objects")
explain = jax.debug.explain


def bad_line(f):
    """Where the line of a function with the comment `# bad` is, as reports write it."""
    lines, first = inspect.getsourcelines(f)
    return (
        "test_faults_within.py:"
        f"{first + next(i for i, line in enumerate(lines) if '# bad' in line)}"
    )


def root_times_itself(x):
    @jax.checkpoint
    def body(c, _):
        return jnp.sqrt(c) * c, None  # bad

    return lax.scan(body, x, None, length=2)[0]


def test_a_nan_of_the_second_derivative_under_checkpoint():
    f = jax.grad(jax.grad(root_times_itself))
    with (
        jax.debug_nans(True),
        pytest.raises(FloatingPointError, match=bad_line(root_times_itself)) as caught,
    ):
        jax.jit(f)(0.0)
    calls = re.findall(r"called from (.*)", str(caught.value))
    assert len(calls) == len(set(calls)) and "in step 1 of 2 of a scan" in str(caught.value)
    assert bad_line(root_times_itself) in explain(f, 0.0).nan.place


def divided_on_devices(x):
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))

    @jax.shard_map(mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    def part(x):
        return 1 / lax.psum(x, "x")  # bad

    return part(x)


@pytest.mark.parametrize("within", [lambda f: f, jax.jit])
def test_an_infinity_in_a_shard_map(within):
    f = within(divided_on_devices)
    with (
        jax.debug_infs(True),
        pytest.raises(FloatingPointError, match=bad_line(divided_on_devices)) as caught,
    ):
        f(jnp.array([0.0, 1.0]))
    assert "on a device of a shard_map" in str(caught.value)
    assert "operand 1: f32[2] = [[0. 1.]]" in str(caught.value)
    assert bad_line(divided_on_devices) in explain(f, jnp.array([1.0, 0.0])).inf.place


kept = []


def leaking_rule(x):
    @jax.custom_vjp
    def f(x):
        return x * 2

    def forward(x):
        kept.append(x * 3)  # bad
        return f(x), x

    f.defvjp(forward, lambda residual, ct: (ct,))
    return f(x)


def test_a_leak_of_the_rule_of_a_custom_vjp():
    with jax.checking_leaks(), pytest.raises(Exception, match="Leaked") as caught:
        jax.jit(jax.grad(leaking_rule))(1.0)
    kept.clear()
    assert bad_line(leaking_rule) in str(caught.value)


def tight(x):
    @jax.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(lambda x: (f(x), x), lambda residual, ct: (ct,))
    root = lax.custom_root(lambda y: y - x, 0.0, lambda g, y: y + x, lambda g, y: y / g(1.0))
    return f(x) + jax.nn.relu(x) + root


@pytest.mark.parametrize(
    "within",
    [
        jax.jit,
        pytest.param(jax.grad, marks=pytest.mark.slow),  # half a minute: each trace is looked for
        pytest.param(lambda f: jax.jit(jax.grad(f)), marks=pytest.mark.slow),
    ],
)
def test_rules_of_users_do_not_keep_arguments(within):
    with jax.checking_leaks():
        within(lambda x: tight(x))(1.0)


def variance_of_rows(rows):
    return jax.vmap(lambda r: jnp.mean(r * r) - jnp.mean(r) ** 2)(rows)  # bad


def test_digits_lost_under_vmap():
    line = explain(variance_of_rows, 1000 + jnp.arange(12.0).reshape(3, 4) / 10).lines[0]
    assert bad_line(variance_of_rows) in line.place and "subtract the mean first" in line.remedy


def beyond_the_end(table):
    def outer(c):
        def inner(d):
            return d[0] + 1, d[1] + table[d[0] + c[0]]  # bad

        return c[0] + 1, lax.while_loop(lambda d: d[0] < 4, inner, (0, c[1]))[1]

    return lax.while_loop(lambda c: c[0] < 3, outer, (0, 0.0))[1]


def test_an_index_out_of_bounds_in_a_loop_in_a_loop():
    error, _ = checkify.checkify(jax.jit(beyond_the_end), errors=checkify.index_checks)(jnp.ones(5))
    with pytest.raises(
        ValueError, match=rf"index 5 is out of bounds.*\n    at .*{bad_line(beyond_the_end)}"
    ):
        error.throw()


def truncated(x):
    return jnp.sum(jnp.asarray(x, "float64"))  # bad


def test_a_silent_loss_of_precision():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        jax.jit(truncated)(jnp.ones(3))
    assert (
        f"test_faults_within.py:{found[0].lineno}" == bad_line(truncated)
        and found[0].filename == __file__
    )


def fully_masked(x):
    mask = jnp.where(jnp.arange(3) < 0, 0.0, -jnp.inf)
    return jax.nn.softmax(x + mask)  # bad


def test_a_row_that_is_masked_altogether():
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match=bad_line(fully_masked)):
        jax.jit(fully_masked)(jnp.ones(3))
    assert bad_line(fully_masked) in explain(fully_masked, jnp.ones(3)).nan.place


def one_key_for_all(key):
    y = jax.vmap(lambda v: v + jax.random.normal(key))(jnp.ones(3))
    return y + jax.random.normal(key)  # bad


def test_a_key_that_a_closure_has_used():
    with (
        jax.debug_key_reuse(True),
        pytest.raises(jax.errors.KeyReuseError, match=bad_line(one_key_for_all)) as caught,
    ):
        jax.jit(one_key_for_all)(jax.random.key(0))
    assert f"used before at {__file__}".rpartition("/")[2] in str(caught.value)


def twice_by_calls(key):
    x = jax.random.normal(key)
    return x + jax.random.normal(key)  # bad


def test_a_key_that_a_call_has_used():
    message = r"used before at .*test_faults_within.py:\d+"
    with (
        jax.debug_key_reuse(True),
        pytest.raises(jax.errors.KeyReuseError, match=message) as caught,
    ):
        twice_by_calls(jax.random.key(0))
    own = [entry.lineno + 1 for entry in caught.traceback if str(entry.path) == __file__]
    assert f"test_faults_within.py:{own[-1]}" == bad_line(twice_by_calls)
