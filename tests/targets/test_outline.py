"""Outlining.

What repeats becomes functions and loops that compute the same bits, and XLA keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings
from optimize.stepwise import bits, compiled_text, stepwise

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._base import config
from teucer._core.jaxpr import Jaxpr
from teucer._optimize.dce import remove_dead
from teucer._optimize.passes import optimize
from teucer._targets import outlined_call
from teucer._targets.cpu.rates import committed
from teucer._targets.outlining.constants import FORCED_COSTS, Costs
from teucer._targets.outlining.outline import _Program, outline
from teucer._targets.outlining.repeats import Repeat, repeats
from teucer._targets.table import target_of
from teucer._transform.jit_calls import hoist_consts

COSTS = committed().costs
CALLS_ONLY = FORCED_COSTS._replace(steps=10**9)


def traced(f: Any, *args: Any) -> Jaxpr:
    return remove_dead(optimize(hoist_consts(jax.make_jaxpr(f)(*args).jaxpr).jaxpr))


def outlined(f: Any, *args: Any, costs: Costs = FORCED_COSTS) -> Jaxpr:
    """The jaxpr of f after outlining, which has changed no bit of the results."""
    jaxpr = traced(f, *args)
    after = outline(jaxpr, costs)
    leaves = jax.tree.leaves(args)
    assert list(map(bits, stepwise(after, *leaves))) == list(map(bits, stepwise(jaxpr, *leaves)))
    assert [v.aval for v in after.outvars] == [v.aval for v in jaxpr.outvars]
    return after


def functions(jaxpr: Jaxpr, primitive: str = "outlined_call") -> list[tuple[int, int]]:
    """For each function (or loop) of a jaxpr, in order: how often it is called (how long it is),
    and its equations."""
    found: dict[int, list[int]] = {}
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == primitive:
            inner = eqn.params["jaxpr"].jaxpr
            found.setdefault(id(inner), [0, len(inner.eqns)])[0] += eqn.params.get("length", 1)
    return [(count, size) for count, size in found.values()]


def rng(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def layer(x: Any, w: Any, scale: float = 1.0) -> Any:
    """13 equations or so."""
    return x + jnp.tanh(jnp.cos(x * 2) @ w) * jnp.sin(x) * scale - jnp.exp(-x * x)


LAYERS = [rng(4, 4) + i for i in range(6)]
X = rng(3, 4)


def network(x: Any, ws: Any) -> Any:
    for w in ws:
        x = layer(x, w)
    return jnp.sum(x**2)


# --- Repeats of sequences -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("letters", "shortest", "expected"),
    [
        ([7, 1, 2, 3, 1, 2, 3, 1, 2, 3, 9], 2, [Repeat([1, 4, 7], 3)]),
        ([1, 2, 3, 8, 1, 2, 3, 9, 1, 2, 3], 3, [Repeat([0, 4, 8], 3)]),
        ([1, 2, 3, 4], 1, []),
        ([], 2, []),
        ([5] * 40, 4, [Repeat([0, 16], 16)]),
        ([-1, -2, -3, -4], 1, []),
    ],
)
def test_repeats(letters: Any, shortest: int, expected: Any) -> None:
    assert repeats(np.array(letters, np.int64), shortest, lambda r: True) == expected


@given(st.lists(st.integers(0, 3), max_size=120), st.integers(1, 5))
def test_repeats_are_equal_and_disjoint(letters: Any, shortest: int) -> None:
    covered: set[int] = set()
    for starts, length in repeats(np.array(letters, np.int64), shortest, lambda r: True):
        assert len(starts) > 1
        assert length >= shortest
        assert len({tuple(letters[start : start + length]) for start in starts}) == 1
        for start in starts:
            places = set(range(start, start + length))
            assert len(places) == length
            assert not places & covered
            covered |= places


def test_repeats_take_those_that_save_most() -> None:
    layers = [*range(10), *range(4), *range(10, 14)] * 5
    assert repeats(np.array(layers, np.int64), 3, lambda r: True)[0] == Repeat(
        [0, 18, 36, 54, 72], 18
    )
    assert repeats(np.array(layers, np.int64), 3, lambda r: False) == []


def test_layers_are_found_among_many_short_runs() -> None:
    """Optimizers do one thing after the other, each for all parameters: runs of three letters and
    less."""
    layers = [*range(100)] * 24 + [*range(200, 304)] * 24
    updates = [
        1000 + 3 * step + part
        for step in range(8)
        for _ in range(24 * 16)
        for part in range(1 + step % 3)
    ]
    forward, backward = repeats(np.array(layers + updates, np.int64), 16, lambda r: r.length >= 64)[
        :2
    ]
    assert (len(forward.starts), forward.length) == (24, 104)
    assert (len(backward.starts), backward.length) == (24, 100)


@pytest.mark.parametrize(
    "letters", [[0] * 20000, [0, 1] * 10000, list(range(100)) * 200], ids=["one", "two", "hundred"]
)
def test_repeats_of_degenerate_sequences_are_found_soon(letters: Any) -> None:
    (found,) = repeats(np.array(letters, np.int64), 16, lambda r: True)[:1]
    assert found.weight > 19000 / 2


# --- Functions ------------------------------------------------------------------------------------


def test_layers_become_one_function() -> None:
    (found,) = functions(outlined(network, X, LAYERS, costs=CALLS_ONLY))
    assert found[0] == 6
    assert found[1] >= 9


def test_layers_and_their_gradients_become_functions() -> None:
    after = outlined(jax.value_and_grad(network, argnums=1), X, LAYERS, costs=CALLS_ONLY)
    assert sum(count for count, _ in functions(after)) >= 9
    assert len(after.eqns) < 60


def test_few_values_pass_between_layers() -> None:
    """A layer is cut where only x passes: its function takes x and w."""
    after = outlined(network, X, LAYERS, costs=CALLS_ONLY)
    calls = [eqn for eqn in after.eqns if eqn.primitive.name == "outlined_call"]
    assert [(len(eqn.invars), len(eqn.outvars)) for eqn in calls] == [(2, 1)] * 6


def test_literals_that_differ_become_arguments() -> None:
    def f(x: Any, w: Any) -> Any:
        for i in range(5):
            x = layer(x, w, 0.5 + i)
        return x

    (call, *_) = [
        e
        for e in outlined(f, X, LAYERS[0], costs=CALLS_ONLY).eqns
        if e.primitive.name == "outlined_call"
    ]
    assert len(call.invars) == 3


def test_flow_that_differs_makes_functions_of_their_own() -> None:
    """The same letters on other operands: sin(cos(x)) + ... where the operands of add are
    swapped."""

    def one(x: Any) -> Any:
        y = jnp.sin(x)
        z = jnp.cos(y)
        return jnp.tanh(y - z) * jnp.exp(x)

    def other(x: Any) -> Any:
        y = jnp.sin(x)
        z = jnp.cos(y)
        return jnp.tanh(z - y) * jnp.exp(x)

    after = outlined(lambda x: one(one(other(one(other(x))))), X, costs=CALLS_ONLY)
    assert sorted(count for count, _ in functions(after)) in ([3], [2, 3])


def test_repeats_within_functions() -> None:
    def head(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w) * jnp.cos(x @ w.T) + jnp.sin(x)

    def f(x: Any, ws: Any) -> Any:
        for w in ws:
            y = head(x, w) + head(x + 1, w) + head(x + 2, w)
            x = jnp.exp(-y * y) @ w + x
        return x

    after = outlined(f, X, LAYERS, costs=CALLS_ONLY)
    assert len(after.eqns) <= 12
    inner = [
        eqn.params["jaxpr"].jaxpr for eqn in after.eqns if eqn.primitive.name == "outlined_call"
    ]
    assert any(functions(jaxpr) for jaxpr in inner)


def test_constants_are_made_where_they_are_used() -> None:
    """A mask, computed in each layer and merged into one, is no argument of the layers."""

    def f(x: Any, ws: Any) -> Any:
        for w in ws:
            mask = jnp.tril(jnp.ones((3, 4), bool))
            x = jnp.where(mask, layer(x, w), 0.5)
        return x

    after = outlined(f, X, LAYERS, costs=CALLS_ONLY)
    (found,) = functions(after)
    assert found[0] == 6
    assert [len(eqn.invars) for eqn in after.eqns if eqn.primitive.name == "outlined_call"] == [
        2
    ] * 6


def test_cheap_values_are_computed_again_by_the_gradient() -> None:
    """Of 1 - tanh(y) ** 2 and means in the shape of x the functions hand on tanh(y) and the
    means."""

    def f(x: Any, ws: Any) -> Any:
        for w in ws:
            y = x - jnp.mean(x, axis=-1, keepdims=True)
            x = x + jnp.tanh(jnp.sin(y) @ w) * 0.5 * (3 - jnp.cos(y @ w.T)) * jnp.exp(-y * y)
            x = x - jnp.sort(x, axis=0) * 0.1
        return jnp.sum(x)

    after = outlined(
        jax.grad(f, argnums=1), rng(3, 20), [rng(20, 20) + i for i in range(12)], costs=CALLS_ONLY
    )
    jaxpr = traced(jax.grad(f, argnums=1), rng(3, 20), [rng(20, 20) + i for i in range(12)])
    without = _Program(jaxpr, CALLS_ONLY).outlined()
    assert handed_on(after) < handed_on(without)


def test_the_last_layer_is_like_the_others_though_the_loss_is_short() -> None:
    """What it makes is used by the gradient at once; what others make, much later."""

    def loss(ps: Any, x: Any) -> Any:
        first, *layers, last = ps
        x = x @ first
        for w in layers:
            x = (
                x
                + jax.nn.gelu((x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * w[0]) @ w)
                @ w.T
            )
        return jnp.mean((x @ last) ** 2)

    ps = [rng(4, 20), *(rng(20, 20) + i for i in range(8)), rng(20, 4)]
    after = outlined(jax.grad(loss), ps, rng(8, 4), costs=COSTS._replace(steps=10**9))
    assert [count for count, _ in functions(after)] == [8, 8]


def handed_on(jaxpr: Jaxpr) -> int:
    """How many arrays of the size of x the first function hands on."""
    first = next(eqn for eqn in jaxpr.eqns if eqn.primitive.name == "outlined_call")
    return sum(v.aval.size == 60 for v in first.outvars)


def test_recurrences_are_not_computed_again() -> None:
    """c of each step is kept: else every third would be, and no two steps be alike."""

    def f(x: Any, w: Any) -> Any:
        h = c = x
        for _ in range(12):
            gate = jnp.tanh(h @ w)
            c = gate * c + jnp.sin(h) * jnp.cos(h)
            h = jnp.tanh(c) * jnp.exp(-h * h)
        return jnp.sum(h)

    loops = functions(outlined(jax.grad(f, argnums=1), X, LAYERS[0]), "scan")
    assert [length for length, _ in loops] == [11, 10]


def test_jitted_functions_that_are_called_twice_are_functions() -> None:
    inner = jax.jit(layer)

    def f(x: Any, ws: Any) -> Any:
        x = jnp.sort(inner(x, ws[0]), axis=0)
        return inner(jnp.cumsum(x, axis=0), ws[1])

    assert [count for count, _ in functions(outlined(f, X, LAYERS[:2]))] == [2]
    text = compiled_text(f, X, LAYERS[:2], outline=True)
    assert len(re.findall("inlineable", text)) == 2
    assert text.count("stablehlo.tanh") == 1


def test_functions_stay_calls_in_the_compiled_program() -> None:
    compiled = jax.jit(network, outline=True).lower(X, LAYERS).compile()
    assert re.search(r"call\(|while\(", compiled.as_text())
    assert not re.search(
        r" call\(| while\(", jax.jit(network, outline=False).lower(X, LAYERS).compile().as_text()
    )


# --- Loops ----------------------------------------------------------------------------------------


def step(x: Any, w: Any, t: float) -> Any:
    return x + 0.1 * (jnp.tanh(x @ w + jnp.sin(t)) - 0.1 * x * jnp.cos(x))


def solve(x: Any, w: Any, steps: int = 12) -> Any:
    for i in range(steps):
        x = step(x, w, i * 0.1)
    return jnp.sum(x * x)


def test_steps_become_a_loop() -> None:
    after = outlined(solve, X, LAYERS[0])
    assert functions(after, "scan") == [(12, functions(after, "scan")[0][1])]
    (scan,) = [eqn for eqn in after.eqns if eqn.primitive.name == "scan"]
    assert scan.params["num_consts"] == 1
    assert scan.params["num_carry"] == 1


def test_the_gradient_of_steps_is_a_loop_over_what_the_first_stacked() -> None:
    after = outlined(jax.grad(solve, argnums=(0, 1)), X, LAYERS[0])
    forward, backward = [eqn for eqn in after.eqns if eqn.primitive.name == "scan"]
    assert backward.params["reverse"]
    stacked = set(forward.outvars[forward.params["num_carry"] :])
    slices = {
        eqn.outvars[0]
        for eqn in after.eqns
        if eqn.primitive.name == "slice" and eqn.invars[0] in stacked
    }
    assert (stacked | slices) & set(backward.invars)


def test_large_operands_are_not_stacked() -> None:
    big = [rng(200, 200) + i for i in range(6)]
    after = outlined(network, rng(3, 200), big, costs=COSTS._replace(short=4, fused=4, saved=4))
    assert not functions(after, "scan")
    assert [count for count, _ in functions(after)] == [6]


def test_a_step_that_looks_further_back_is_no_loop() -> None:
    def f(x: Any, w: Any) -> Any:
        before = x
        for _ in range(6):
            x, before = step(x, w, 0.1) + jnp.exp(-before * before), x
        return x

    def fibonacci(x: Any, w: Any) -> Any:
        xs = [x, x + 1]
        for _ in range(8):
            xs.append(step(xs[-1], w, 0.1) * jnp.cos(xs[-2]))
        return xs[-1]

    outlined(f, X, LAYERS[0])
    outlined(fibonacci, X, LAYERS[0])


def test_elements_of_an_array_are_read_by_the_loop() -> None:
    """Steps that take xs[0], xs[1], ... become a loop over xs itself, in the direction in which
    they take them."""

    def f(xs: Any, w: Any) -> Any:
        x = xs[0]
        for t in range(1, 7):
            x = step(x, w, 0.1) + xs[t]
        for t in reversed(range(7)):
            x = jnp.exp(-x * x) @ w - xs[t] * jnp.cos(x)
        return x

    after = outlined(f, rng(7, 3, 4), LAYERS[0])
    loops = [eqn for eqn in after.eqns if eqn.primitive.name == "scan"]
    assert sorted(eqn.params["length"] for eqn in loops) == [6, 7]
    assert not any(eqn.primitive.name == "stack" for eqn in after.eqns)
    both(f, rng(7, 3, 4), LAYERS[0])


def test_layers_of_stacked_weights_are_a_loop_over_them() -> None:
    def f(x: Any, ws: Any) -> Any:
        for i in range(6):
            x = layer(x, ws[i])
        return x

    ws = rng(6, 200, 200)
    after = outlined(f, rng(3, 200), ws, costs=COSTS._replace(short=4, fused=4, saved=4))
    (scan,) = [eqn for eqn in after.eqns if eqn.primitive.name == "scan"]
    assert after.invars[1] in scan.invars


def test_results_of_each_step_are_kept() -> None:
    def f(x: Any, w: Any) -> Any:
        xs = []
        for i in range(7):
            x = step(x, w, 0.1 * i)
            xs.append(jnp.sum(x))
        return xs[::-1], x

    assert functions(outlined(f, X, LAYERS[0]), "scan")


# --- Whole programs -------------------------------------------------------------------------------


def close(found: Any, expected: Any, error: float | None = None) -> None:
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert x.dtype == y.dtype
        assert x.weak_type == y.weak_type
        # XLA fuses other operations with each other, and may round once where it rounded twice.
        least = 1e-12 if x.dtype == np.float64 else 2e-6
        np.testing.assert_allclose(x, y, rtol=error or least, atol=error or least)


def both(f: Any, *args: Any, error: float | None = None, **options: Any) -> None:
    found, expected = (jax.jit(f, outline=mode, **options)(*args) for mode in (True, False))
    close(found, expected, error)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: f,
        lambda f: jax.grad(f, argnums=(0, 1)),
        lambda f: jax.hessian(lambda x, w: f(x[None], w)),
        lambda f: jax.vmap(f, in_axes=(0, None)),
        lambda f: (
            lambda x, w: lax.scan(lambda c, i: (c + f(x * i, w), f(x + c, w)), 0.0, jnp.arange(3.0))
        ),
        lambda f: lambda x, w: lax.cond(x[0, 0] > 0, f, lambda x, w: f(-x, w), x, w),
        lambda f: jax.grad(jax.checkpoint(f)),
        lambda f: (
            lambda x, w: lax.while_loop(
                lambda c: c[1] < 3, lambda c: (c[0] - 0.1 * jax.grad(f)(c[0], w), c[1] + 1), (x, 0)
            )[0]
        ),
    ],
    ids=["itself", "grad", "hessian", "vmap", "scan", "cond", "checkpoint", "while"],
)
@pytest.mark.parametrize("f", [network, solve], ids=["layers", "steps"])
def test_programs_give_the_same(f: Any, transform: Any) -> None:
    with jax.enable_x64(True):
        x = rng(3, 4).astype(np.float64)
        if transform.__code__.co_names[:1] == ("hessian",):
            x = x[0]
        if "vmap" in transform.__code__.co_names:
            x = np.stack([x, x + 1])
        w = [w.astype(np.float64) for w in LAYERS] if f is network else LAYERS[0].astype(np.float64)
        # The last bit of an x changes these results by 1e-10, and with outline=False tanh is XLA's,
        # which is 7 units off.
        both(transform(f), x, w, error=1e-8)


def test_random_numbers_and_keys() -> None:
    def f(key: Any, x: Any) -> Any:
        for i in range(5):
            key, sub = jax.random.split(key)
            x = (
                x * jnp.cos(x)
                + jax.random.normal(sub, x.shape)
                + jax.random.uniform(jax.random.fold_in(key, i))
            )
        return x, jax.random.key_data(key)

    both(f, jax.random.key(0), X)


def test_effects_keep_their_order(capfd: Any) -> None:
    def f(x: Any) -> Any:
        for i in range(4):
            x = jnp.sin(x) * jnp.cos(x) + jnp.tanh(x) * jnp.exp(-x) + jnp.sqrt(x * x)
            jax.debug.print("{i} {x:.3f}", i=i, x=x, ordered=True)
        return x

    jax.block_until_ready(jax.jit(f, outline=True)(1.0))
    jax.effects_barrier()
    first = capfd.readouterr().out
    jax.block_until_ready(jax.jit(f, outline=False)(1.0))
    jax.effects_barrier()
    assert first == capfd.readouterr().out
    assert [line[0] for line in first.splitlines()] == list("0123")


def test_donated_arguments() -> None:
    def f(ws: Any, x: Any) -> Any:
        return [
            w - 0.1 * g for w, g in zip(ws, jax.grad(lambda ws: network(x, ws))(ws), strict=True)
        ]

    ws = [jnp.asarray(w) for w in LAYERS]
    expected = jax.jit(f, outline=False)(ws, X)
    close(jax.jit(f, outline=True, donate_argnums=0)(ws, X), expected)
    assert all(w.is_deleted() for w in ws)


def test_the_option_and_the_argument_decide() -> None:
    def calls(**options: Any) -> int:
        return compiled_text(lambda x, ws: network(x, ws), X, LAYERS, **options).count(
            "inlineable"
        ) + compiled_text(lambda x, ws: solve(x, ws[0]), X, LAYERS, **options).count(
            "stablehlo.while"
        )

    assert calls(outline=False) == 0
    assert calls(outline=True) > 0
    with config.outline("off"):
        assert calls() == 0
        assert calls(outline=True) > 0
    with config.outline("force"):
        assert calls() > 0
        assert calls(outline=False) == 0


def test_convolutional_programs_get_loops_alone() -> None:
    """Fusion ends at convolutions anyway: functions between them would cost more than they
    bring."""

    def block(x: Any, w: Any) -> Any:
        y = x - jnp.mean(x, axis=(0, 2), keepdims=True)
        y = jnp.tanh(y) * jnp.exp(-y * y) + jnp.sin(y) * jnp.cos(y)
        return x + lax.conv_general_dilated(y, w, (1,), "SAME")

    def f(x: Any, ws: Any) -> Any:
        for w in ws:
            x = block(x, w)
        return x

    def same(x: Any, w: Any) -> Any:
        for _ in range(8):
            x = block(x, w)
        return x

    costs = COSTS._replace(short=4, fused=4, saved=4, stacked=0)
    ws = [rng(2, 2, 3) + i for i in range(8)]
    assert functions(outlined(f, rng(1, 2, 5), ws, costs=costs._replace(separated=0))) != []
    assert functions(outlined(f, rng(1, 2, 5), ws, costs=costs)) == []
    assert (
        functions(outlined(f, rng(1, 2, 5), ws, costs=costs._replace(carried=100))) != []
    )  # as executables of their own
    assert functions(outlined(same, rng(1, 2, 5), ws[0], costs=costs), "scan") != []


def test_loops_whose_results_unrolled_convolutions_take_are_not_rolled() -> None:
    """Slices at different places would make XLA compile each of the equal fusions behind them."""

    def conv(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))

    def f(blocks: Any, x: Any) -> Any:
        for a, b, scale in blocks:
            y = conv(x, a)
            y = (y - y.mean((0, 1))) / jnp.sqrt(y.var((0, 1)) + 1e-5) * scale
            x = x + conv(jax.nn.relu(y), b)
        return jnp.mean(jax.nn.log_softmax(x.mean(1)))

    def training(blocks: Any, x: Any) -> Any:
        return jax.tree.map(lambda p, g: p - 0.1 * g, blocks, jax.grad(f)(blocks, x))

    args = [(rng(3, 3, 3), rng(3, 3, 3) + i, rng(3)) for i in range(8)], rng(2, 5, 3)
    assert functions(outlined(f, *args, costs=COSTS), "scan") == [(8, 22)]
    assert (
        functions(outlined(training, *args, costs=COSTS._replace(steps=8)), "scan") == []
    )  # backward they are seven and one
    assert len(functions(outlined(training, *args, costs=COSTS), "scan")) == 2


def test_few_instances_must_save_more() -> None:
    """XLA makes much of many layers only, and each call costs copies
    (benchmarks/notes/outlining.md)."""
    costs = COSTS
    equation = traced(lambda x: jnp.sin(x) @ x, rng(3, 3)).eqns
    assert costs.pay(equation * 24, costs.few + 1) and not costs.pay(equation * 24, costs.few)
    assert costs.pay(equation * 43, costs.few) and not costs.pay(equation * 42, costs.few)
    assert FORCED_COSTS.pay(equation * 2, 2)


def test_small_programs_keep_the_functions_of_their_user() -> None:
    text = compiled_text(lambda x: jax.jit(jnp.sin)(x) + 1, X)
    assert text.count("func.func private") == 1


def test_other_platforms_are_left_alone() -> None:
    jaxpr = traced(network, X, LAYERS * 8)
    assert target_of("cuda").prepare(jaxpr, "auto") is jaxpr
    assert target_of("cpu").prepare(jaxpr, "auto") is not jaxpr
    for platform in ("cuda", "rocm", "tpu", "another"):
        assert target_of(platform).prepare(jaxpr, "force") is not jaxpr


# --- Random programs ------------------------------------------------------------------------------

UNARY: list[Callable[[Any], Any]] = [
    jnp.sin,
    jnp.tanh,
    lambda x: x * 0.5,
    lambda x: -x,
    lambda x: x - jnp.mean(x, axis=0),
    lambda x: x.T.T,
    lambda x: jnp.cumsum(x, axis=1) * 0.1,
    lambda x: jnp.where(x > 0, x, 0.1 * x),
]
BINARY: list[Callable[[Any, Any], Any]] = [
    jnp.add,
    jnp.subtract,
    jnp.multiply,
    jnp.maximum,
    lambda x, y: x @ y * 0.3,
]
STEP = st.tuples(st.integers(0, len(UNARY) + len(BINARY) - 1), st.integers(0, 9), st.integers(0, 9))
STEPS = st.lists(STEP, min_size=2, max_size=6)
BLOCKS = st.lists(STEPS, min_size=1, max_size=3)
PLAN = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=2, max_size=9)


def program(blocks: Any, plan: Any) -> Callable[..., Any]:
    """A function of matrices that runs blocks of steps as planned: each step is applied to some of
    the values so far."""

    def f(*xs: Any) -> Any:
        values = list(xs)
        for number, shift in plan:
            for op, a, b in blocks[number % len(blocks)]:
                window = values[-4:] if shift % 2 else values
                x, y = window[(a + shift) % len(window)], window[b % len(window)]
                values.append(UNARY[op](x) if op < len(UNARY) else BINARY[op - len(UNARY)](x, y))
        return values[-1], sum(jnp.sum(v) for v in values[::3])

    return f


@settings(max_examples=25)
@given(BLOCKS, PLAN, st.booleans())
def test_random_programs_keep_their_bits(blocks: Any, plan: Any, derived: bool) -> None:
    f = program(blocks, plan)
    args = (rng(4, 4), rng(4, 4) + 1)
    if derived:
        outlined(jax.grad(lambda *xs: f(*xs)[1], argnums=(0, 1)), *args)
    else:
        outlined(f, *args)


CYCLE: list[Callable[[Any], Any]] = [
    lax.sin,
    lax.tanh,
    lax.cos,
    lax.logistic,
    lax.erf,
    lax.atan,
    lax.asinh,
    lax.neg,
]
RUN = st.tuples(st.integers(4, 40), st.integers(0, 7), st.booleans())


@settings(max_examples=15)
@given(st.integers(3, 8), st.lists(RUN, min_size=2, max_size=3), st.booleans())
@example(8, [(29, 6, True), (25, 2, True)], False)
@example(6, [(40, 0, False), (10, 1, False), (40, 3, False)], False)
def test_runs_that_begin_anywhere_in_their_period_keep_their_bits(
    period: int, runs: Any, default: bool
) -> None:
    """Chains that go round the same operations from different places: their data flow is the same
    in every phase."""

    def f(x: Any, w: Any) -> list[Any]:
        outs = []
        for length, start, products in runs:
            y = x
            for i in range(length):
                y = CYCLE[(start + i) % period](lax.dot(y, w) if products else y)
            outs.append(y)
        return outs

    outlined(f, rng(2, 4), rng(4, 4), costs=COSTS if default else FORCED_COSTS)


@settings(max_examples=6)
@given(BLOCKS, PLAN)
def test_random_programs_compiled(blocks: Any, plan: Any) -> None:
    f = program(blocks, plan)
    with jax.enable_x64(True):
        args = (rng(4, 4).astype(np.float64) / 4, rng(4, 4).astype(np.float64) / 4 + 0.1)
        both(f, *args)


# --- Calls that carry rows of numbers, where XLA forgets copies between calls ---------------------


def test_calls_carry_rows_where_copies_are_forgotten(monkeypatch):
    """As with jaxlib 0.12: what crosses a call has one axis, and the results stay."""

    def solve(a, b):
        q, r = jnp.linalg.qr(a)
        return jax.scipy.linalg.solve_triangular(r, q.T @ b), r, q.T

    def network(a, b):
        for _ in range(3):  # too few for a loop
            b, r, q = solve(a + jnp.sin(b)[:, None], b)
            a = a + q / 8 + jnp.tanh(r) / 8
        return a, b

    a, b = np.eye(4, dtype=np.float32) * 3 + rng(4, 4) / 8, rng(4)
    expected = jax.jit(network, outline=False)(a, b)
    for missed in (True, False):
        monkeypatch.setattr(outlined_call, "MISSES_COPIES", missed)
        f = jax.jit(lambda a, b: network(a, b), outline=True)
        for got, want in zip(f(a, b), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        calls = [
            line
            for line in compiled_text(network, a, b, outline=True).splitlines()
            if "callee = @outlined" in line
        ]
        assert calls and all(("4x4xf32" in line) != missed for line in calls)
