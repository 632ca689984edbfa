"""Updates go behind what they are made of, and change no bit; layers and their updates become one
function."""

from __future__ import annotations

import functools
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from optimize.stepwise import bits, stepwise
from targets.test_outline import (
    BLOCKS,
    CALLS_ONLY,
    LAYERS,
    PLAN,
    X,
    functions,
    network,
    outlined,
    program,
    rng,
    traced,
)

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._core.jaxpr import Jaxpr
from teucer._optimize.checker import check_jaxpr
from teucer._targets.outlining.recompute import recompute
from teucer._targets.outlining.updates import advance_updates

GRADIENT = jax.grad(network, argnums=1)


def sgd(x: Any, ws: Any) -> Any:
    return [w - 0.1 * g for w, g in zip(ws, GRADIENT(x, ws), strict=True)]


def adam(x: Any, ws: Any, ms: Any, vs: Any, t: Any) -> Any:
    grads = GRADIENT(x, ws)
    t = t + 1
    ms = [0.9 * m + 0.1 * g for m, g in zip(ms, grads, strict=True)]
    vs = [0.99 * v + 0.01 * g * g for v, g in zip(vs, grads, strict=True)]
    ws = [
        w - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.99**t)) + 1e-8) - 1e-4 * w
        for w, m, v in zip(ws, ms, vs, strict=True)
    ]
    return ws, ms, vs, t


def clipped_adam(x: Any, ws: Any, ms: Any, vs: Any, t: Any) -> Any:
    """Adam as libraries write it: one thing after the other, each for all parameters."""
    grads = GRADIENT(x, ws)
    norm = jnp.sqrt(sum([jnp.sum(g**2) for g in grads]))
    grads = [jnp.where(norm < 1, g, g / norm) for g in grads]
    t = t + 1
    ms = [0.9 * m + 0.1 * g for m, g in zip(ms, grads, strict=True)]
    vs = [0.99 * v + 0.01 * g * g for v, g in zip(vs, grads, strict=True)]
    mean = [m / (1 - 0.9**t) for m in ms]
    spread = [jnp.sqrt(v / (1 - 0.99**t)) + 1e-8 for v in vs]
    changes = [m / s for m, s in zip(mean, spread, strict=True)]
    return [w - 1e-3 * c for w, c in zip(ws, changes, strict=True)], ms, vs, t, norm


def advanced(f: Any, *args: Any) -> Jaxpr:
    """The jaxpr of f with its updates moved, which is well formed and has changed no bit of the
    results."""
    jaxpr = traced(f, *args)
    after = advance_updates(jaxpr)
    check_jaxpr(after)
    assert sorted(map(id, after.eqns)) == sorted(map(id, jaxpr.eqns))
    leaves = jax.tree.leaves(args)
    assert list(map(bits, stepwise(after, *leaves))) == list(map(bits, stepwise(jaxpr, *leaves)))
    return after


def names(jaxpr: Jaxpr) -> str:
    return " ".join(eqn.primitive.name for eqn in jaxpr.eqns)


def test_an_update_follows_its_gradient() -> None:
    def f(w: Any, u: Any) -> Any:
        g, h = w @ u, u @ w
        return w - 0.5 * g, u - 0.5 * h

    assert names(advanced(f, rng(3, 3), rng(3, 3) + 1)) == "dot_general mul sub dot_general mul sub"


def test_what_is_made_of_arguments_alone_goes_where_it_is_used_and_scalars_go_first() -> None:
    def f(w: Any, t: Any) -> Any:
        decay = jnp.tanh(w)
        g = jnp.sort(w @ w)
        return w - g / (t + 1) * decay, t + 1, jnp.cos(w)

    assert names(traced(f, rng(3, 3), np.float32(2))) == "tanh dot_general sort add div mul sub cos"
    assert (
        names(advanced(f, rng(3, 3), np.float32(2))) == "add dot_general sort div tanh mul sub cos"
    )


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (lambda w, g: lax.sort(w + 2 * g), "something else needs it"),
        (lambda w, g: jnp.sin(g), "it is no new value of an argument"),
        (lambda w, g: lax.broadcast(g, (2,))[0] + w, "it makes more than it takes"),
        (lambda w, g: lax.sort(g) + w, "XLA does not fuse a sort with what makes its operand"),
    ],
)
def test_others_stay(last: Any, why: str) -> None:
    def f(w: Any) -> Any:
        g, other = w @ w, jnp.sort(w.T @ w)
        return other, last(w, g)

    jaxpr = traced(f, rng(3, 3))
    assert advance_updates(jaxpr) is jaxpr, why


def test_effects_stay() -> None:
    def f(w: Any) -> Any:
        g, other = w @ w, jnp.sort(w)
        jax.debug.callback(lambda x: None, 2 * g)
        return other

    jaxpr = traced(f, rng(3, 3))
    assert advance_updates(jaxpr) is jaxpr


def test_layers_and_their_updates_are_one_function() -> None:
    costs, ms = CALLS_ONLY._replace(short=16), [0 * w for w in LAYERS]
    (count, length), *_ = functions(outlined(GRADIENT, X, LAYERS, costs=costs))
    for step, args, more in ((sgd, (), 2), (adam, (ms, ms, np.float32(3)), 16)):
        assert functions(outlined(step, X, LAYERS, *args, costs=costs))[0] == (count, length + more)


def test_a_norm_of_all_gradients_keeps_the_updates_of_each_layer_together() -> None:
    """Squares are summed with the layer, the sums added up behind all of them, and each layer's
    updates are one function."""
    costs, ms = CALLS_ONLY._replace(short=16), [0 * w for w in LAYERS]
    (count, length), *_ = functions(outlined(GRADIENT, X, LAYERS, costs=costs))
    backward, updates = functions(
        outlined(clipped_adam, X, LAYERS, ms, ms, np.float32(3), costs=costs)
    )
    assert backward == (count, length + 2)
    assert updates == (len(LAYERS), 16)


def test_what_updates_make_is_not_computed_again() -> None:
    """A number is used far behind, by updates that will be near."""

    def f(x: Any, ws: Any, t: Any) -> Any:
        last = t + 1 == 3
        return [
            jnp.where(last, w - 0.1 * g, w) for w, g in zip(ws, GRADIENT(x, ws), strict=True)
        ], t + 1

    jaxpr = traced(f, X, LAYERS, np.float32(2))
    assert names(jaxpr).split().count("eq") == names(recompute(jaxpr)).split().count("eq") == 1


def test_updates_that_wait_for_one_another_by_scalars() -> None:
    """The norms of updates need all moments, and are factors of other updates; the sum of moments
    is used by none."""

    def f(ws: Any, ms: Any) -> Any:
        ms = [0.9 * m + jnp.sin(w @ w) for m, w in zip(ms, ws, strict=True)]
        norms = [jnp.sum(m * m) for m in ms]
        steps = [m / n * norms[0] for m, n in zip(ms, norms[1:] + norms[:1], strict=True)]
        most = functools.reduce(jnp.maximum, [jnp.max(s) for s in steps])
        unused = jnp.sum((ws[0] @ ws[1]) * jnp.sum(ms[0]))
        return (
            [w - s / most for w, s in zip(ws, steps, strict=True)],
            ms,
            most,
            unused,
            jnp.sqrt(most) + 1,
        )

    ws = [rng(3, 3) + i for i in range(4)]
    assert names(advanced(f, ws, ws)) != names(traced(f, ws, ws))


OPERATIONS = st.tuples(
    st.sampled_from(["scale", "multiply", "sum", "add", "sort", "dot"]),
    st.integers(0, 5),
    st.integers(0, 5),
)


@settings(max_examples=300)
@given(
    st.lists(OPERATIONS, min_size=4, max_size=30),
    st.lists(st.integers(0, 30), min_size=2, max_size=6),
)
def test_random_flow_between_arrays_and_scalars(operations: Any, results: Any) -> None:
    def f(x: Any, y: Any, s: Any) -> Any:
        arrays, scalars = [x, y], [s]
        for name, i, j in operations:
            a, b, c, d = (kind[-1 - k % len(kind)] for kind in (arrays, scalars) for k in (i, j))
            if name in ("scale", "multiply", "sort"):
                arrays.append(
                    a * c if name == "scale" else a * b if name == "multiply" else lax.sort(a)
                )
            else:
                scalars.append(
                    jnp.sum(a) if name == "sum" else c + d if name == "add" else lax.dot(a, b)
                )
        return [(arrays + scalars)[::-1][i % (len(arrays) + len(scalars))] for i in results]

    advanced(f, rng(3), rng(3) + 1, np.float32(0.5))


@settings(max_examples=40)
@given(BLOCKS, PLAN, st.booleans())
def test_random_programs_keep_their_bits(blocks: Any, plan: Any, derived: bool) -> None:
    f = program(blocks, plan)
    args = (rng(4, 4), rng(4, 4) + 1)

    def update(*xs: Any) -> Any:
        grads = jax.grad(lambda *xs: f(*xs)[1], (0, 1))(*xs)
        norm = sum([jnp.sum(g * g) for g in grads])
        return [x - 0.1 * g / norm - 0.01 * jnp.sin(x) for x, g in zip(xs, grads, strict=True)]

    advanced(update if derived else f, *args)
