"""The planner on graphs and knapsacks: against all choices."""

import itertools
import time

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._derived.budget import graph as graphs
from teucer._derived.budget.choose import Load, choose, least
from teucer._derived.budget.graph import Graph, Maker, choice, frontier, undominated


def random_graph(rng, n, candidates):
    """Values 0 to n - 1, made of earlier ones, value n of nothing."""
    makers = tuple(
        Maker(
            tuple({n, *rng.integers(0, v, 2).tolist()} if v else {n}),
            (v,),
            float(rng.integers(1, 20)),
        )
        for v in range(n)
    )
    needed = frozenset(rng.choice(n, min(n, 6), replace=False).tolist())
    sizes = {int(v): int(rng.integers(1, 30)) for v in rng.choice(n, candidates, replace=False)}
    return Graph(makers, needed, sizes)


def best(graph, size):
    """The seconds of the best of all choices."""
    found = [
        choice(graph, some)
        for n in range(len(graph.sizes) + 1)
        for some in itertools.combinations(graph.sizes, n)
    ]
    return min(c.seconds for c in found if c.size <= size)


@pytest.mark.parametrize("seed", range(12))
def test_graphs_of_few_values(seed, monkeypatch):
    """Within 5 % of the optimum for every budget, where choices are tried; corners of the hull are
    optimal where they are cut."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(6, 16)), int(rng.integers(3, 7)))
    monkeypatch.setattr(graphs, "CHOICES", 4096)
    found = frontier(graph)
    for size in range(0, sum(graph.sizes.values()) + 1, 3):
        seconds = min(c.seconds for c in found if c.size <= size)
        assert seconds <= 1.05 * best(graph, size)
    monkeypatch.setattr(graphs, "EXHAUSTIVE", 0)
    for corner in frontier(graph):
        assert corner.seconds == best(graph, corner.size)
    assert len(undominated(found)) == len(found)


@pytest.mark.parametrize("seed", range(12))
def test_knapsacks(seed):
    rng = np.random.default_rng(seed)
    kinds = [
        [Load(*map(int, rng.integers(0, 40, 2)), float(rng.integers(1, 50))) for _ in range(4)]
        for _ in range(4)
    ]
    every = []
    for ways in itertools.product(range(4), repeat=4):
        loads = [kind[k] for kind, k in zip(kinds, ways, strict=True)]
        size = sum(x.kept for x in loads) + max(x.back for x in loads)
        every.append((size, sum(x.seconds for x in loads)))
    assert least(kinds) == min(every)[0]
    for budget in range(0, 200, 7):
        allowed = [seconds for size, seconds in every if size <= budget]
        found = choose(kinds, budget)
        if not allowed:
            assert found is None
        else:
            seconds = sum(kind[k].seconds for kind, k in zip(kinds, found, strict=True))
            assert seconds == min(allowed)


def test_96_layers_are_planned_soon():
    """In time of the processor, without the trace of the function."""

    def layer(w, x):
        h = jnp.tanh(x @ w[0])
        return x + jax.nn.gelu(h @ w[1]) @ w[2]

    def loss(ws, x):
        for w in ws:
            x = layer(w, x)
        return (x**2).sum()

    shape = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    args = [[shape] * 3] * 96, jax.ShapeDtypeStruct((512, 64), jnp.float32)
    jax.checkpoint(loss, budget="1 TiB").plan(*args)  # the trace
    f = jax.checkpoint(loss, budget=0.3)
    start = time.process_time()
    plan = f.plan(*args)
    seconds = time.process_time() - start
    assert max(row.times for row in plan.chosen) >= 95
    assert seconds < 2
