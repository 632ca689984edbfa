"""Reverse mode through loops of unknown length: the laws of docs/loops.md.

The gradient of a loop is that of the same loop as a scan of more steps, of which those after the
condition has failed change nothing.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import export, lax
from teucer.experimental import checkify, io_callback
from teucer.lax._control.reversal import schedule

# Sums of products that the compiler contracts in one program and not in the other.
CONTRACTED = 2e-15


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def scanned(most):
    """The while loop as a scan of `most` steps."""

    def loop(cond, body, init):
        def step(carry, _):
            goes_on = cond(carry)
            return jax.tree.map(
                lambda new, old: jnp.where(goes_on, new, old), body(carry), carry
            ), None

        return lax.scan(step, init, None, length=most)[0]

    return loop


def leaves(tree):
    return [np.asarray(x) for x in jax.tree.leaves(tree)]


def assert_as_scanned(derivative, program, *args, most=30, rtol=CONTRACTED):
    """A derivative of program(loop, *args) with respect to args is that of the scan."""
    found, expected = (
        leaves(derivative(lambda *xs, loop=loop: program(loop, *xs))(*args))
        for loop in (lax.while_loop, scanned(most))
    )
    assert [x.dtype for x in found] == [x.dtype for x in expected]
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol, 1e-15)
    return found


def gradients(f):
    return jax.grad(f, tuple(range(f.__code__.co_argcount or 1)))


MATRIX = np.array([[0.4, -0.7, 0.2], [0.1, 0.3, -0.5], [0.8, -0.2, 0.1]])


def newton(loop, a):
    return loop(lambda x: jnp.abs(x * x - a) > 1e-12 * a, lambda x: 0.5 * (x + a / x), a)


def dense(loop, x, a=MATRIX):
    """The body closes over a matrix; the carry has a counter."""
    return (
        loop(lambda c: c[0] < 17, lambda c: (c[0] + 1, jnp.tanh(a @ c[1])), (0, x))[1] ** 2
    ).sum()


def nested(loop, a):
    def step(c):
        k, x = c
        inner = loop(lambda y: y[1] < 3 + k, lambda y: (jnp.sin(y[0]) * a + x, y[1] + 1), (x, 0))
        return k + 1, inner[0] * 0.5 + a

    return loop(lambda c: c[0] < 6, step, (0, a * 2))[1]


@jax.custom_vjp
def doubled_slope(x):
    return jnp.sin(x)


doubled_slope.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (2 * ct * jnp.cos(x),))


def with_body(body):
    """Nine steps of (value, argument) -> value."""

    def program(loop, a):
        return loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, body(c[1], a)), (0, a))[1]

    return program


PROGRAMS = {
    "a condition on the values": newton,
    "loops within": nested,
    "a loop in a scan": lambda loop, a: lax.scan(
        lambda c, x: (newton(loop, c * x + 1.0), c), a, jnp.arange(1.0, 5.0)
    )[0],
    "a scan within": with_body(
        lambda x, a: lax.scan(lambda s, y: (jnp.sin(s * y) + a, s * a), x, jnp.arange(3.0))[0]
    ),
    "a branch within": with_body(
        lambda x, a: lax.cond(x > 1.0, lambda x: x * 0.5, lambda x: x * a + 1, x)
    ),
    "in a branch": lambda loop, a: jax.jit(
        lambda a: lax.cond(a > 0, lambda a: newton(loop, a), lambda a: a, a)
    )(a),
    "a rule of the user's": with_body(lambda x, a: doubled_slope(x) + a),
    "a checkpoint within": with_body(
        lambda x, a: jax.checkpoint(lambda v: jnp.sin(jnp.sin(v)))(x) + a
    ),
    "a checkpoint around": lambda loop, a: jax.checkpoint(lambda a: newton(loop, a))(a) ** 2,
    "jit": lambda loop, a: jax.jit(lambda a: newton(loop, a))(a),
    "forward mode of it": lambda loop, a: jax.jvp(lambda a: newton(loop, a), (a,), (1.0,))[1],
    "complex numbers": lambda loop, a: jnp.abs(
        with_body(lambda x, a: x * a + 1j)(loop, a * (1 + 2j))
    ),
    "linearize": lambda loop, a: jax.linearize(lambda a: newton(loop, a), a)[1](2.0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gradient_is_that_of_a_scan(name):
    assert_as_scanned(jax.grad, PROGRAMS[name], 0.7)


def test_operation_by_operation_the_bits_are_those_of_a_scan():
    """Outside of jit the bodies of both are compiled alike."""
    assert_as_scanned(jax.grad, newton, 3.0, rtol=0)
    assert_as_scanned(jax.grad, nested, 0.7, rtol=0)


def test_what_the_body_closes_over_has_a_gradient():
    x = np.arange(3.0)
    assert_as_scanned(lambda f: jax.grad(f, (0, 1)), dense, x, MATRIX)


@pytest.mark.parametrize("steps", [0, 1, 2, 9, 10, 60, 300])
def test_any_number_of_steps(steps):
    def loop(upper, x, a):
        return lax.fori_loop(0, upper, lambda i, c: jnp.sin(c * a) + i * x, x)

    found = jax.jit(jax.grad(loop, (1, 2)))(steps, 1.1, 0.7)
    expected = jax.jit(jax.grad(loop, (1, 2)), static_argnums=0)(steps, 1.1, 0.7)
    np.testing.assert_allclose(found, expected, 1e-13)


@pytest.mark.parametrize("steps", [0, 1, 9, 10, 11, 40])
def test_short_loops_over_large_states_keep_few(steps, monkeypatch):
    monkeypatch.setattr(schedule, "LARGE", 0)
    monkeypatch.setattr(schedule, "FEW", 9)
    assert schedule.slots_for([jax.typeof(1.1)]) == (9, 256)

    def loop(upper, x):
        return lax.fori_loop(0, upper, lambda i, c: jnp.sin(c) + i * x, x)

    found = jax.grad(loop, 1)(jnp.int32(steps), 1.1)
    np.testing.assert_allclose(found, jax.grad(loop, 1)(steps, 1.1), 1e-13)


def test_more_steps_than_can_be_counted_have_no_gradient():
    def halved(x):
        most = np.int32(2**31 - 1)
        step = lambda c: (c[0] + 1, c[1] * 0.5)
        return lax.while_loop(lambda c: c[0] < most, step, (np.int32(0), x))[1]

    assert np.isnan(jax.linear_transpose(halved, 1.0)(1.0)[0])


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16, np.float32])
def test_narrow_floats(dtype):
    body = with_body(lambda x, a: jnp.sin(x * a))
    assert_as_scanned(jax.grad, body, dtype(0.7), rtol=float(jnp.finfo(dtype).eps))


def test_batches_take_steps_of_their_own():
    a = np.array([2.0, 3.0, 1e4, 1e-3])
    for f in (
        lambda loop, a: jax.vmap(lambda a: newton(loop, a))(a).sum(),
        lambda loop, a: (jax.vmap(jax.grad(lambda a: newton(loop, a)))(a) ** 2).sum(),
        lambda loop, a: jax.vmap(lambda s: dense(loop, a[:3] * s))(jnp.arange(3.0)).sum(),
    ):
        assert_as_scanned(jax.grad, f, a)
    each = jax.vmap(jax.grad(lambda a: newton(lax.while_loop, a)))(a)
    one_by_one = [jax.grad(lambda a: newton(lax.while_loop, a))(x) for x in a]
    np.testing.assert_allclose(each, one_by_one, CONTRACTED)


def test_a_batch_of_lengths():
    def loop(upper, x):
        return lax.fori_loop(0, upper, lambda i, c: jnp.sin(c) + i * x, x)

    lengths = np.array([0, 1, 5, 300])
    found = jax.vmap(jax.grad(loop, 1), (0, None))(lengths, 1.1)
    np.testing.assert_allclose(found, [jax.grad(loop, 1)(int(n), 1.1) for n in lengths], 1e-13)


@pytest.mark.parametrize(
    "second",
    [
        lambda f: jax.grad(jax.grad(f)),
        lambda f: jax.jacfwd(jax.grad(f)),
        lambda f: jax.grad(lambda a: jax.jvp(f, (a,), (1.0,))[1]),
        lambda f: jax.grad(lambda a: jax.jvp(jax.grad(f), (a,), (1.0,))[1]),
    ],
    ids=["reverse over reverse", "forward over reverse", "reverse over forward", "third order"],
)
@pytest.mark.parametrize("program", [newton, nested])
def test_second_order(second, program):
    assert_as_scanned(second, program, 0.7, rtol=1e-13)


def test_jacobians():
    x = np.arange(3.0)
    assert_as_scanned(jax.hessian, dense, x)
    assert_as_scanned(jax.jacrev, lambda loop, x: dense(loop, x) * x, x)


def test_the_backward_map_is_linear_in_cotangents():
    """So it has a transpose, which keeps no state."""
    x = np.arange(3.0)

    def program(loop, ct):
        return jnp.sum(jax.vjp(lambda x: dense(loop, x) * x, x)[1](ct)[0] ** 2)

    assert_as_scanned(jax.grad, program, x)


def test_transposes_of_linear_loops():
    def powers(x):
        return lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2.5), (0, x))[1]

    def transposed(x):
        return jax.linear_transpose(powers, 1.0)(x)[0]

    assert transposed(2.0) == powers(2.0) == jax.linear_transpose(transposed, 1.0)(2.0)[0]
    with pytest.raises(NotImplementedError, match="while is not linear in them"):
        jax.linear_transpose(lambda x: lax.while_loop(lambda c: c < 5.0, lambda c: c * 2, x), 1.0)(
            1.0
        )


def test_keys_are_carried():
    def program(a, loop):
        def step(c):
            key, x = c
            key, own = jax.random.split(key)
            return key, x * jax.random.uniform(own, dtype=float) + a

        return loop(step, (jax.random.key(3), a))[1]

    def known(step, init):
        return lax.fori_loop(0, 11, lambda i, c: step(c), init)

    def unknown(step, init):
        return lax.while_loop(lambda c: c[0] < 11, lambda c: (c[0] + 1, step(c[1])), (0, init))[1]

    assert jax.grad(program)(0.7, unknown) == jax.grad(program)(0.7, known)
    with jax.debug_key_reuse(True):
        jax.grad(program)(0.7, unknown)


def test_references_that_the_body_changes():
    def program(loop, a):
        ref = jax.new_ref(a)

        def step(c):
            ref[...] = ref[...] * jnp.sin(c[1]) + a
            return c[0] + 1, c[1] * 0.9 + ref[...] * 0.1

        return loop(lambda c: c[0] < 9, step, (0, a))[1] * ref[...]

    for f in (program, lambda loop, a: jax.jit(lambda a: program(loop, a))(a)):
        assert_as_scanned(jax.grad, f, 0.7, most=9)


def test_what_is_printed_is_printed_once(capfd):
    def inner(a):
        def step(c):
            jax.debug.print("step {}", c[0])
            return c[0] + 1, jnp.sin(c[1]) * a

        return lax.while_loop(lambda c: c[0] < 2, step, (0, a))[1]

    def outer(a):
        return lax.fori_loop(0, jnp.int32(2), lambda i, c: inner(c), a)

    jax.block_until_ready(jax.jit(jax.grad(outer))(0.7))
    jax.effects_barrier()
    assert capfd.readouterr().out == "step 0\nstep 1\n" * 2


def test_other_effects_are_refused():
    def program(a):
        def step(c):
            number = io_callback(lambda i: i + 1, jax.ShapeDtypeStruct((), c[0].dtype), c[0])
            return number, jnp.sin(c[1]) * a

        return lax.while_loop(lambda c: c[0] < 3, step, (jnp.int64(0), a))[1]

    message = r"(?s)Reverse-mode differentiation.*would happen again.*io_callback: .*\(step\)"
    with pytest.raises(NotImplementedError, match=message):
        jax.grad(program)(0.7)


def test_logs_of_rules_within_are_refused():
    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp_with_logs(lambda x: (jnp.sin(x), x), lambda x, ct: ((jnp.cos(x) * ct,), {"f": ct}))
    pull = jax.vjp(lambda x: with_body(lambda x, a: f(x) * a)(lax.while_loop, x), 0.7)[1]
    with pytest.raises(NotImplementedError, match="logs in a while loop(?s:.*)logs: f"):
        pull.with_logs(1.0)


def test_checks_go_through():
    f = jax.grad(lambda a: newton(lax.while_loop, a))
    error, slope = checkify.checkify(f, errors=checkify.float_checks)(4.0)
    assert error.get() is None and slope == f(4.0)
    error, _ = checkify.checkify(f, errors=checkify.float_checks)(np.inf)
    assert "nan generated" in error.get()


def mapped(f, mesh, specs):
    return jax.shard_map(f, mesh=mesh, in_specs=specs, out_specs=jax.P("x"))


SHARDED = {
    "devices take steps of their own": lambda loop, mesh, a, b: mapped(
        lambda a: loop(lambda x: abs(x * x - a)[0] > 1e-12, lambda x: 0.5 * (x + a / x), a),
        mesh,
        jax.P("x"),
    )(a),
    "and have something in common": lambda loop, mesh, a, b: mapped(
        lambda a, b: loop(lambda x: x[0] < 1e3, lambda x: x * b + 1, a),
        mesh,
        (jax.P("x"), jax.P()),
    )(a, b),
    "collectives in condition and body": lambda loop, mesh, a, b: mapped(
        lambda a, b: loop(
            lambda c: lax.psum(c[1], "x")[0] < 1e3,
            lambda c: (c[0] + 1, c[1] * b + lax.psum(a, "x")),
            (0, a),
        )[1],
        mesh,
        (jax.P("x"), jax.P()),
    )(a, b),
    "a collective over the rows of a batch": lambda loop, mesh, a, b: jax.vmap(
        lambda a: loop(lambda x: x < 1e3, lambda x: x * b + lax.psum(x, "i") * 0.1, a),
        axis_name="i",
    )(a),
}


@pytest.mark.parametrize("name", SHARDED)
def test_over_devices(name):
    mesh = jax.make_mesh((4,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    a, b = np.array([2.0, 3.0, 50.0, 0.5]), 1.3

    def program(loop, a, b):
        return jnp.sum(SHARDED[name](loop, mesh, a, b))

    assert_as_scanned(lambda f: jax.grad(f, (0, 1)), program, a, b)


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_arrays_over_a_mesh(kind):
    """The gradient lies as the argument does."""
    mesh = jax.make_mesh((4,), ("x",), axis_types=(jax.sharding.AxisType[kind],))
    with jax.set_mesh(mesh):
        x = jax.device_put(np.arange(1.0, 65).reshape(16, 4), jax.NamedSharding(mesh, jax.P("x")))

        def total(a):
            return lax.while_loop(
                lambda x: jnp.max(jnp.abs(x * x - a)) > 1e-9, lambda x: 0.5 * (x + a / x), a
            ).sum()

        slope = jax.jit(jax.grad(total))(x)
        rows = jax.jit(jax.vmap(jax.grad(total)))(x)
    for found in (slope, rows):
        assert found.sharding.is_equivalent_to(x.sharding, 2)
        np.testing.assert_allclose(found, 0.5 / np.sqrt(x), 1e-8)  # as far as the loop goes


def test_sizes_that_come_at_run_time():
    def f(x, n):
        def loop(x):
            return (lax.fori_loop(0, n, lambda i, c: jnp.sin(c) * x, x) ** 2).sum()

        return jax.grad(loop)(x)

    padded = jax.jit(f, dynamic_dims={"x": 64})
    (size,) = export.symbolic_shape("b")
    exported = export.export(jax.jit(f))(
        jax.ShapeDtypeStruct((size,), float), jax.ShapeDtypeStruct((), jnp.int32)
    )
    again = export.deserialize(exported.serialize())
    for length in (3, 5):
        x, n = np.arange(float(length)), np.int32(6)
        np.testing.assert_allclose(padded(x, n), f(x, n), 1e-14)
        np.testing.assert_allclose(again.call(x, n), f(x, n), 1e-14)


# --- What is kept, and what is computed again ---


def fewest(steps, slots):
    """The fewest steps that are computed again with so many states kept, and how often one at most:
    Griewank and Walther's formula."""
    rounds = next(r for r in range(steps + 1) if math.comb(slots + r, r) >= steps)
    return rounds * steps - math.comb(slots + rounds, rounds - 1) if rounds else 0, rounds


@pytest.mark.parametrize("slots", [8, 9, 17])
def test_the_schedule_computes_as_few_steps_again_as_can_be(slots):
    table = schedule.reach(slots)
    for steps in (1, 2, 3, slots, slots + 1, slots + 2, 40, 100):
        kept, again = [0], np.zeros(steps, int)
        for last in reversed(range(steps)):
            t = kept[-1]
            while t < last:
                free = np.int32(slots - len(kept))
                h = int(schedule.next_kept(table, np.int32(last + 1 - t), free))
                assert 1 <= h <= last - t
                again[t : t + h] += 1
                t += h
                if len(kept) < slots:
                    kept.append(t)
            if kept[-1] == last:
                kept.pop()
        assert not kept
        assert (again.sum(), again.max()) <= fewest(steps, slots)


@pytest.mark.parametrize(("steps", "slots"), [(1, 8), (10, 8), (100, 8), (100, 40)])
def test_so_many_steps_run(steps, slots, monkeypatch):
    """As many as the schedule says, the loop itself, and one for the derivative of each step."""
    monkeypatch.setattr(schedule, "MOST", slots)
    calls = []

    def counted(i):
        calls.append(int(i))
        return np.float64(1.0)

    def loop(x, upper):
        def step(i, c):
            one = jax.pure_callback(counted, jax.ShapeDtypeStruct((), float), i)
            return jnp.sin(c) * one

        return lax.fori_loop(0, upper, step, x)

    jax.block_until_ready(jax.jit(jax.value_and_grad(loop))(0.7, steps))
    assert len(calls) == 2 * steps + fewest(steps, slots)[0]


def test_the_table_of_the_page():
    page = (Path(__file__).parents[2] / "docs" / "loops.md").read_text()
    head, _, *rows = re.findall(r"^\|(.*)\|$", page.partition("computes this table")[2], re.M)[:8]
    slots = [int(re.search(r"\d+", cell)[0]) for cell in head.split("|")[1:]]
    assert len(rows) == 6
    for row in rows:
        first, *cells = row.split("|")
        steps = int(first.replace(" ", ""))
        assert [cell.strip() for cell in cells] == [
            f"{fewest(steps, s)[0] / steps:.2f}" for s in slots
        ]


def test_memory_does_not_grow_with_the_steps():
    size = 1 << 20  # bytes of a state

    def loop(x, upper):
        return lax.fori_loop(0, upper, lambda i, c: jnp.sin(c), x).sum()

    def temporary(f, *args):
        return jax.jit(f).lower(*args).compile().memory_analysis().temp_size_in_bytes

    x = np.ones(size // 8)
    used = temporary(jax.grad(loop), x, 1000)
    assert 64 * size <= used <= 72 * size
    batch = jax.vmap(jax.grad(loop), (0, None))
    assert temporary(batch, np.ones((4, size // 32)), 1000) <= 72 * size


def test_nothing_is_kept_where_nothing_depends_on_it():
    """Of linear steps with constant coefficients, no state; of a loop that does not move, no
    gradient is asked for."""

    def linear(x, upper):
        return lax.fori_loop(0, upper, lambda i, c: 0.5 * c, x)

    (eqn,) = [
        e
        for e in jax.make_jaxpr(jax.grad(linear))(1.0, 3).eqns
        if e.primitive.name == "reversed_while"
    ]
    assert not eqn.params["forward"].eqns and len(eqn.invars) == 2  # steps, and a cotangent
    still = jax.make_jaxpr(jax.grad(lambda x, n: x * linear(3.0, n)))(1.0, 3)
    assert "reversed_while" not in str(still)


def test_what_a_scan_keeps_of_loops_in_it_are_their_first_states():
    def program(x):
        return lax.scan(lambda c, _: (dense(lax.while_loop, c) * c, None), x, None, length=50)[
            0
        ].sum()

    _, pull = jax.vjp(program, np.arange(3.0))
    shapes = [np.shape(x) for x in jax.tree.leaves(pull)]
    assert max(map(math.prod, shapes)) == 50 * 3


# --- Programs ---


def test_the_derivative_of_a_fixed_point():
    """Steps to a fixed point have the derivative that the equation has."""

    def fixed(a):
        return lax.while_loop(
            lambda c: jnp.abs(c[0] - c[1]) > 1e-14, lambda c: (jnp.cos(a * c[0]), c[0]), (0.5, 1.0)
        )[0]

    def root(a):
        def solve(f, x):
            return lax.while_loop(
                lambda c: jnp.abs(c[0] - c[1]) > 1e-14, lambda c: (c[0] - f(c[0]), c[0]), (x, 1.0)
            )[0]

        return lax.custom_root(
            lambda x: x - jnp.cos(a * x), 0.5, solve, lambda g, y: y / g(jnp.ones_like(y))
        )

    np.testing.assert_allclose(jax.grad(fixed)(0.8), jax.grad(root)(0.8), 1e-12)


def test_power_iteration():
    """The slope of the largest eigenvalue is the outer product of its eigenvector."""
    a = np.array([[4.0, 1.0, 0.3], [1.0, 3.0, 0.5], [0.3, 0.5, 1.0]])

    def largest(a):
        def step(c):
            v, _, _ = c
            w = a @ v
            return w / jnp.linalg.norm(w), v @ w, c[1]

        start = (jnp.ones(3) / np.sqrt(3), 1.0, 0.0)
        v = lax.while_loop(lambda c: jnp.abs(c[1] - c[2]) > 1e-15, step, start)[0]
        return v @ a @ v

    vector = np.linalg.eigh(a)[1][:, -1]
    np.testing.assert_allclose(jax.jit(jax.grad(largest))(a), np.outer(vector, vector), 1e-6)


def test_the_score_of_a_beam_search():
    """The choices are integers, and the sequence ends when it ends."""
    logits = np.random.default_rng(0).normal(size=(6, 6))

    def score(logits):
        steps = jax.nn.log_softmax(logits)

        def step(c):
            scores, last, ended, n = c
            every = scores[:, None] + jnp.where(ended[:, None], 0.0, steps[last])
            best, at = lax.top_k(every.ravel(), 3)
            last = at % 6
            return best, last, ended[at // 6] | (last == 5), n + 1

        init = (jnp.array([0.0, -1e3, -1e3]), jnp.zeros(3, jnp.int32), jnp.zeros(3, bool), 0)
        return lax.while_loop(lambda c: ~c[2][0] & (c[3] < 20), step, init)[0][0]

    slope = jax.jit(jax.grad(score))(logits)
    for at in [(0, 1), (2, 5), (4, 3)]:
        moved = [logits + np.eye(36)[6 * at[0] + at[1]].reshape(6, 6) * h for h in (1e-6, -1e-6)]
        np.testing.assert_allclose(
            slope[at], (score(moved[0]) - score(moved[1])) / 2e-6, 1e-5, 1e-8
        )


# Dormand and Prince's method of order 5, with its error of order 4.
STAGES = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
)
FIFTH = (35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)
ERROR = (71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


def integrated(f, y, end, tolerance):
    """y at `end`, and the number of steps, by steps whose length follows the error."""

    def step(c):
        t, y, h, n = c
        h = jnp.minimum(h, end - t)
        slopes = []
        for row in STAGES:
            slopes.append(
                f(y + h * sum((w * k for w, k in zip(row, slopes, strict=True)), 0.0 * y))
            )
        new = y + h * sum(w * k for w, k in zip(FIFTH, slopes, strict=True))
        slopes.append(f(new))
        error = h * jnp.linalg.norm(sum(w * k for w, k in zip(ERROR, slopes, strict=True)))
        fits = error < tolerance
        factor = jnp.clip(0.9 * (tolerance / jnp.maximum(error, 1e-30)) ** 0.2, 0.2, 5.0)
        factor = lax.stop_gradient(factor)
        return jnp.where(fits, t + h, t), jnp.where(fits, new, y), h * factor, n + 1

    _, y, _, n = lax.while_loop(lambda c: c[0] < end, step, (0.0, y, 1e-3, 0))
    return y, n


def turned(y, speed):
    return speed * jnp.array([y[1], -y[0]])


@pytest.mark.parametrize(
    ("end", "tolerance", "least"),
    [(3.0, 1e-8, 20), pytest.param(2e4, 1e-9, 100_000, marks=pytest.mark.slow)],
)
def test_an_adaptive_integrator(end, tolerance, least):
    """A point on a circle: its derivative by the speed is known."""

    def at_end(speed):
        y, n = integrated(lambda y: turned(y, speed), jnp.array([1.0, 0.0]), end, tolerance)
        return y[0], n

    slope, n = jax.jit(jax.grad(at_end, has_aux=True))(1.0)
    assert n > least
    np.testing.assert_allclose(slope, -end * np.sin(end), 1e-4, 1e-4 * end)


@pytest.mark.slow
def test_a_million_short_steps():
    def loop(x):
        return lax.while_loop(
            lambda c: c[0] < 10**6, lambda c: (c[0] + 1, c[1] + x * jnp.cos(c[1])), (0, x)
        )[1]

    found = jax.jit(jax.value_and_grad(loop))(1e-3)
    y, dy = 1e-3, 1.0
    for _ in range(10**6):
        y, dy = y + 1e-3 * math.cos(y), dy + math.cos(y) - 1e-3 * math.sin(y) * dy
    np.testing.assert_allclose(found, (y, dy), 1e-9, 1e-12)
