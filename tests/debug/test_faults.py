"""Planted faults: each is found, and its line named, by one command or option."""

import contextlib
import inspect
import logging

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.experimental import checkify

explain = jax.debug.explain
ONES = jnp.ones(3)


def bad_line(f):
    """Where the line of a function with the comment `# bad` is, as reports write it."""
    lines, first = inspect.getsourcelines(f)
    return f"test_faults.py:{first + next(i for i, line in enumerate(lines) if '# bad' in line)}"


def last_line(caught):
    """The line at which a traceback ends, as reports write it: that of the program, since Teucer's
    own frames are left out."""
    entry = caught.traceback[-1]
    return f"{entry.path.name}:{entry.lineno + 1}"


# --- Digits -------------------------------------------------------------------------------------


def log_near_one(x):
    return jnp.log(1 + x * 1e-6)  # bad


def exp_less_one(x):
    return jnp.exp(x * 1e-6) - 1  # bad


def cosine_near_one(x):
    return 1 - jnp.cos(x * 1e-3)  # bad


def shifted_variance(x):
    x = x + jnp.array([1000.1, 1000.2, 1000.4])
    return jnp.mean(x**2) - jnp.mean(x) ** 2  # bad


def small_difference(x):
    y = jnp.sqrt(x + 1e6)
    return y - jnp.sqrt(x + 1e6 - 0.1)  # bad


def upper_tail(x):
    return 1 - lax.erf(x * 4)  # bad


def quadratic_root(x):
    b = 1e4 * x
    return -b + jnp.sqrt(b * b - 4e-3)  # bad


def large_angle(x):
    return jnp.sin(x * 1e6 + 0.3)  # bad


def power_of_near_one(x):
    return (1 + x * 1.3e-4) ** 30000  # bad


def finite_difference(x):
    y = jnp.sin(x)
    return (jnp.sin(x + 1e-4) - y) / 1e-4  # bad


def in_a_scan(x):
    def body(c, _):
        return c, jnp.log(1 + c * 1e-6)  # bad

    return lax.scan(body, x, None, length=3)[1]


def in_an_inner_jit(x):
    @jax.jit
    def inner(x):
        return jnp.exp(x * 1e-6) - 1  # bad

    return inner(x) * 2


def in_a_branch(x):
    return lax.cond(True, lambda x: 1 - jnp.cos(x * 1e-3), lambda x: x, x)  # bad


def under_vmap(x):
    return jax.vmap(lambda y: jnp.log(1 + y * 1e-6))(x)  # bad


def of_a_gradient(x):
    def f(x):
        return jnp.sum((1 - jnp.cos(x * 1e-3)) * 1e6)  # bad

    return jax.value_and_grad(f)(x)


@pytest.mark.parametrize(
    "f",
    [
        log_near_one,
        exp_less_one,
        cosine_near_one,
        shifted_variance,
        small_difference,
        upper_tail,
        quadratic_root,
        large_angle,
        power_of_near_one,
        finite_difference,
        in_a_scan,
        in_an_inner_jit,
        in_a_branch,
        under_vmap,
        of_a_gradient,
    ],
    ids=lambda f: f.__name__,
)
def test_lost_digits(f):
    found = explain(f, ONES)
    assert (
        bad_line(f) in found.lines[0].place
        and found.lines[0].digits > 1.5
        and found.lines[0].remedy
    )


# --- NaN and infinity ---------------------------------------------------------------------------


def log_of_negative(x):
    return jnp.log(x - 2)  # bad


def arccosine_outside(x):
    return jnp.arccos(x * 1.0001)  # bad


def zero_by_zero(x):
    y = x - 1
    return y / (y * 2)  # bad


def root_in_the_backward_pass(x):
    return jax.grad(lambda x: jnp.sqrt(jnp.sum((x - 1) ** 2)))(x)  # bad


def where_is_too_late(x):
    return jax.grad(lambda x: jnp.sum(jnp.where(x > 1, jnp.log(x - 1), 0.0)))(x)  # bad


def in_step_three(x):
    def body(i, c):
        return jnp.sqrt(c - 1)  # bad

    return lax.fori_loop(0, 5, body, x * 3)


def not_positive_definite(x):
    return jnp.linalg.cholesky(jnp.outer(x, x) - jnp.eye(3))  # bad


def power_of_negative(x):
    return (x - 2) ** 0.5  # bad


@pytest.mark.parametrize(
    "f",
    [
        log_of_negative,
        arccosine_outside,
        zero_by_zero,
        root_in_the_backward_pass,
        where_is_too_late,
        in_step_three,
        not_positive_definite,
        power_of_negative,
    ],
    ids=lambda f: f.__name__,
)
def test_the_first_nan(f):
    found = explain(f, ONES).nan
    assert bad_line(f) in found.place and found.remedy
    # The option finds it while the program runs as it is.
    with jax.debug_nans(True), pytest.raises(FloatingPointError) as caught:
        jax.jit(f)(ONES)
    assert bad_line(f) in str(caught.value)


def exp_overflows(x):
    return jnp.log(jnp.sum(jnp.exp(x * 100)))  # bad


def division_by_zero(x):
    return 1 / (x - 1)  # bad


def log_of_zero(x):
    return jnp.log(x - 1)  # bad


def norm_overflows(x):
    return jnp.sqrt(jnp.sum((x * 1e20) ** 2))  # bad


def narrow_dtype(x):
    return (x * 1e5).astype(jnp.float16)  # bad


@pytest.mark.parametrize(
    "f",
    [exp_overflows, division_by_zero, log_of_zero, norm_overflows, narrow_dtype],
    ids=lambda f: f.__name__,
)
def test_the_first_infinity(f):
    found = explain(f, ONES).inf
    assert bad_line(f) in found.place and found.remedy


# --- Checks in programs -------------------------------------------------------------------------


def test_an_index_out_of_bounds_in_a_late_step():
    def f(table):
        def body(c, i):
            return c + table[i], None  # bad

        return lax.scan(body, 0.0, jnp.arange(9731 + 1))[0]

    error, _ = checkify.checkify(jax.jit(f), errors=checkify.index_checks)(jnp.ones(9731))
    assert "out-of-bounds indexing" in error.get() and "9731" in error.get()
    with pytest.raises(ValueError, match=bad_line(f)):
        error.throw()


def test_a_division_by_zero_under_vmap():
    def f(x):
        return 1.0 / x  # bad

    error, _ = checkify.checkify(jax.vmap(f), errors=checkify.div_checks)(jnp.arange(3.0))
    with pytest.raises(ValueError, match=rf"division by zero\n    at .*{bad_line(f)}"):
        error.throw()


# --- Keys, leaks, transfers, promotion ----------------------------------------------------------


def key_used_twice(key):
    x = jax.random.normal(key)
    return x + jax.random.uniform(key)  # bad


def key_of_a_loop(key):
    return lax.fori_loop(0, 3, lambda i, c: c + jax.random.normal(key), 0.0)  # bad


@pytest.mark.parametrize("f", [key_used_twice, key_of_a_loop], ids=lambda f: f.__name__)
def test_keys(f):
    with jax.debug_key_reuse(True), pytest.raises(jax.errors.KeyReuseError) as caught:
        jax.jit(f)(jax.random.key(0))
    assert bad_line(f) in str(caught.value)


def leaking(x, kept=[]):  # noqa: B006  # the fault
    kept.append(jnp.sin(x))  # bad
    return x


def test_a_leak():
    with jax.checking_leaks(), pytest.raises(Exception, match="Leaked") as caught:
        jax.jit(leaking)(1.0)
    assert bad_line(leaking) in str(caught.value)
    inspect.signature(leaking).parameters["kept"].default.clear()


def used_outside(x):
    global kept_outside
    kept_outside = jnp.sin(x)  # bad
    return x


def test_a_tracer_used_outside():
    jax.jit(used_outside)(1.0)
    with pytest.raises(jax.errors.UnexpectedTracerError) as caught:
        kept_outside + 1
    assert bad_line(used_outside) in str(caught.value)


def branch_on_a_traced_value(x):
    if x > 0:  # bad
        return x
    return -x


def test_a_branch_on_a_traced_value():
    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        jax.jit(branch_on_a_traced_value)(1.0)
    assert "branch_on_a_traced_value" in str(caught.value)
    places = [
        frame.lineno
        for frame in inspect.getinnerframes(caught.tb)
        if frame.function == "branch_on_a_traced_value"
    ]
    assert bad_line(branch_on_a_traced_value).endswith(f":{places[-1]}")


def test_a_transfer_that_nobody_asked_for():
    def f():
        return jnp.sin(np.ones(3, np.float32))  # bad

    with (
        jax.transfer_guard("disallow"),
        pytest.raises(Exception, match="Disallowed host-to-device transfer") as caught,
    ):
        f()
    assert bad_line(f) in last_line(caught)


def test_axes_that_broadcasting_adds():
    def f():
        return jnp.ones((2, 3)) + jnp.ones(3)  # bad

    with jax.numpy_rank_promotion("raise"), pytest.raises(ValueError, match="rank") as caught:
        f()
    assert bad_line(f) in last_line(caught)


# --- Time and memory ----------------------------------------------------------------------------


def residual(w, x):
    y, _ = lax.scan(lambda c, v: (jnp.sin(c @ v), None), x, w)  # bad
    return jnp.sum(y)


def test_a_large_residual():
    found = jax.debug.memory(
        jax.grad(residual), jnp.ones((50, 16, 16)), jnp.ones((64, 16)), compiled=False
    )
    assert (
        found.live[0].residual
        and bad_line(residual) in str(found).partition("kept for the backward pass")[0]
    )


def large_intermediate(x):
    y = x[:, None] * x  # small beside what follows
    z = jnp.tanh(y[:, :, None] + x) @ y  # bad
    return jnp.sum(z)


def test_a_large_intermediate():
    found = jax.debug.memory(large_intermediate, jnp.ones(64), compiled=False)
    assert bad_line(large_intermediate) in str(found)


def test_a_function_that_is_compiled_for_every_size(caplog):
    f = jax.jit(lambda x: jnp.sum(x) * 1.5)
    jax.debug.compiles().clear()
    with jax.explain_cache_misses(True), caplog.at_level(logging.WARNING, "teucer"):
        for n in range(1, 4):
            f(jnp.ones(n))
    assert [row.signature for row in jax.debug.compiles() if row.function == "<lambda>"] == [
        "f32[1]",
        "f32[2]",
        "f32[3]",
    ]
    assert "test_faults.py" in caplog.text and "f32[3]" in caplog.text


def callback_fails(x):
    return jax.pure_callback(lambda v: 1 // 0, jax.ShapeDtypeStruct((), jnp.float32), x)  # bad


def test_a_callback_that_fails():
    with (
        contextlib.suppress(ImportError),
        pytest.raises(Exception, match="ZeroDivisionError|division") as caught,
    ):
        jax.block_until_ready(jax.jit(callback_fails)(1.0))
    chain = [caught.value, caught.value.__cause__]
    said = "\n".join(str(e) + "".join(getattr(e, "__notes__", [])) for e in chain if e is not None)
    assert bad_line(callback_fails) in said
