"""Loops over small arrays that are joined into one kernel compute what they computed apart."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from optable.table import Op, all_ops, precision_of
from optable.test_values import check, evaluated
from optable.trees import flat_call
from optimize.stepwise import bits, stepwise
from targets.test_outline import traced

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._core.jaxpr import Jaxpr
from teucer._targets.cpu import joined as joined_module
from teucer._targets.cpu.constants import JOINED_MOST, JOINED_STEPS, REDUCED_MOST, JoinedRates
from teucer._targets.cpu.joined import joined
from teucer._targets.table import target_of

FREE = JoinedRates(kernel=0, loop=0, function=0)
# Bytes that are too many.
LARGE = JOINED_MOST // 4


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each region is joined."""
    monkeypatch.setattr(joined_module, "JOINED_RATES", FREE)
    monkeypatch.setattr(joined_module, "changed_once", lambda jaxpr, key, f: f(jaxpr))


def regions(f: Any, *args: Any) -> list[list[str]]:
    """The primitives of each region of f's jaxpr; joining them has changed no bit of the
    results."""
    jaxpr = target_of("cpu").prepare(traced(f, *args), "auto")
    after = joined(jaxpr)
    leaves = jax.tree.leaves(args)
    assert list(map(bits, stepwise(after, *leaves))) == list(map(bits, stepwise(jaxpr, *leaves)))
    return of_jaxpr(after)


def of_jaxpr(jaxpr: Jaxpr) -> list[list[str]]:
    return [
        [inner.primitive.name for inner in eqn.params["jaxpr"].eqns]
        for eqn in jaxpr.eqns
        if eqn.primitive.name == "joined_call"
    ]


def rng(*shape: int, seed: int = 0) -> Any:
    """Normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def vectors(n: int, seed: int = 0) -> list[Any]:
    """n vectors of different lengths."""
    return [rng(16 + i, seed=seed + i) for i in range(n)]


def update(params: list[Any], gradients: list[Any]) -> list[Any]:
    return [p - 0.1 * g for p, g in zip(params, gradients, strict=True)]


def cases() -> list[Any]:
    return [
        pytest.param(
            op,
            dtype,
            id=f"{op}-{dtype}",
            marks=op.marks(quick=dtype == op.vmap_dtype and i % 3 == 0),
        )
        for i, op in enumerate(all_ops().values())
        for dtype in op.dtypes
    ]


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize(("op", "dtype"), cases())
def test_operations_of_the_table(op: Op, dtype: str) -> None:
    """Twice, so that there are several loops; once between transpositions, for which XLA lays out
    operands and results as it likes."""

    def twice(f: Any, is_on: Any, *xs: Any) -> Any:
        turned = [jnp.where(is_on, x, jnp.zeros_like(x)).T for x in xs[len(xs) // 2 :]]
        turned = [jnp.where(is_on, x, jnp.zeros_like(x)) for x in turned]
        return f(*xs[: len(xs) // 2]), jax.tree.map(jnp.transpose, f(*turned))

    with precision_of(dtype):
        for i, (call, expected) in enumerate(
            zip(op.calls(dtype), evaluated(op.name, dtype), strict=True)
        ):
            leaves, f = flat_call(op, call)
            turned = [np.transpose(x) for x in leaves]
            got, back = jax.jit(functools.partial(twice, f))(True, *leaves, *turned)
            check(op, dtype, i, got, expected, "joined")
            check(op, dtype, i, jax.tree.map(np.transpose, back), expected, "joined, transposed")


STEPS: list[Any] = [
    lambda x, y: x * jnp.sum(y),
    lambda x, y: x + y if x.shape == y.shape else x - jnp.max(y),
    lambda x, y: jnp.sort(x, axis=None).reshape(x.shape) + y.reshape(-1)[0],
    lambda x, y: x.reshape(-1, 2).T if x.size % 2 == 0 else -x,
    lambda x, y: jnp.max(x, axis=-1, keepdims=True) - x if x.ndim else jnp.abs(x),
    lambda x, y: x @ x.T if x.ndim == 2 and x.shape[0] < 8 else jnp.sin(x),
    lambda x, y: jnp.exp(-jnp.abs(x)) * jnp.min(y),
    lambda x, y: jnp.sum(x, 0) if x.ndim else x + 1,
    lambda x, y: jnp.where(x > jnp.max(y) / 2, x, 2 * x),
    lambda x, y: jnp.cumsum(x.ravel()).reshape(x.shape),
    lambda x, y: x.astype(jnp.int32).astype(jnp.float32) + x,
    lambda x, y: jnp.broadcast_to(jnp.sum(x), (LARGE,)) + x.reshape(-1)[:1],
]


def random_program(seed: int) -> Any:
    """A program of small and other operations, which read each other at random."""
    draw = np.random.default_rng(seed)
    steps = [(STEPS[draw.integers(len(STEPS))], *draw.random(3)) for _ in range(25)]

    def f(*xs: Any) -> Any:
        values, results = list(xs), []
        for step, i, j, kept in steps:
            z = step(values[int(i * len(values))], values[int(j * len(values))])
            values.append(z / (1 + jnp.max(jnp.abs(z))))
            if kept < 0.3:
                results.append(values[-1])
        return [*results, values[-1]]

    return f


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed: int) -> None:
    args = [rng(4, 6, seed=seed), rng(8, seed=seed + 1), rng(seed=seed + 2)]
    f = random_program(seed)
    assert regions(f, *args)
    expected = jax.jit(f, outline=False)(*args)
    for got, right in zip(jax.jit(f)(*args), expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-5)


def test_updates_are_one_kernel() -> None:
    found = regions(update, vectors(8), vectors(8, seed=9))
    assert found == [["mul", "sub"] * 8]


def test_a_step_of_training_has_its_updates_in_one_kernel() -> None:
    """However late each gradient is known."""

    def loss(params: list[Any], x: Any) -> Any:
        for w, b in zip(params[::2], params[1::2], strict=True):
            x = jnp.tanh(x @ w + b)
        return jnp.mean(x**2)

    def step(params: list[Any], x: Any) -> Any:
        return update(params, jax.grad(loss)(params, x))

    sizes = [8, 12, 16, 20, 24]
    params = [a for i, o in itertools.pairwise(sizes) for a in (rng(i, o), rng(o, seed=1))]
    assert [region.count("sub") for region in regions(step, params, rng(4, 8))][-1] == 8


def test_equal_loops_stay_apart() -> None:
    """XLA compiles one of them."""
    vs = [rng(16, seed=i) for i in range(8)]
    assert regions(update, vs, vs[::-1]) == []


def test_products_of_vectors_are_part_of_it() -> None:
    """Those of matrices are calls of a library."""

    def f(a: Any, x: Any) -> Any:
        y = jnp.sin(x) * 2
        z = a @ y + x
        return y, z, a @ a + 1, jnp.sum(z)

    found = regions(f, rng(24, 24), rng(24))
    assert [region.count("dot_general") for region in found] == [1]
    large = rng(2 * REDUCED_MOST)
    found = regions(lambda x: (x @ x, x * 2, x + 1, x @ jnp.sin(x)), large)
    assert all("dot_general" not in region for region in found)


def test_equal_regions_stay_apart() -> None:
    """XLA compiles the loops of one of them."""

    def f(x: Any, ws: list[Any], *, same: bool) -> Any:
        for i, w in enumerate(ws):
            y = x @ w
            scale = 1 if same else i + 1
            x = jnp.tanh(y * scale) * scale + jnp.mean(y, axis=1 if same else i % 2, keepdims=True)
        return x

    args = rng(16, 16), [rng(16, 16, seed=i) for i in range(6)]
    assert regions(functools.partial(f, same=True), *args) == []


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("n", [100, 1000, 2000, 4000, 7000])
@pytest.mark.parametrize("function", [jnp.exp, lax.lgamma, lax.digamma, lax.erf_inv])
def test_elementary_functions(function: Any, n: int) -> None:
    """In jaxlib 0.10 threads share those of 1 024 elements and more, which fails in a kernel."""

    def f(x: Any) -> Any:
        y = function(x * x)
        return y + 1, y * 2 - x, jnp.flip(y) - 3, y[:-1] - y[1:]

    x = np.linspace(0.1, 0.9, n, dtype=np.float32)
    for got, right in zip(jax.jit(f)(x), jax.jit(f, outline=False)(x), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-4)


def test_one_loop_stays() -> None:
    assert regions(lambda x: jnp.sin(x) * 2 + 1, rng(16)) == []


def test_large_loops_stay() -> None:
    xs = [rng(LARGE, 1 + i) for i in range(4)]
    assert regions(update, xs, xs) == []


def test_large_reductions_stay() -> None:
    """YNNPACK computes them, which no kernel of several loops can call."""
    xs = [rng(2 * REDUCED_MOST + i) for i in range(4)]
    found = regions(lambda xs: [(jnp.sum(x), jnp.max(x), x + 1, x * x) for x in xs], xs)
    assert all("reduce_sum" not in region for region in found)
    jax.jit(lambda xs: [(jnp.sum(x), jnp.max(x), x + 1, x * x) for x in xs])(xs)


def test_what_large_loops_compute_stays_there() -> None:
    def f(x: Any, y: Any) -> Any:
        return [x * jnp.sqrt(v * v + 1)[:, None] for v in y]

    assert regions(f, rng(16, LARGE), [rng(16, seed=i) * i for i in range(6)]) == []


def test_what_lies_by_columns_stays() -> None:
    """Gradients of kernels of convolutions, and what LAPACK takes and gives."""

    def loss(ks: list[Any], x: Any) -> Any:
        for k in ks:
            x = lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=NHWC)
        return jnp.sum(x**2)

    ks = [rng(3, 3, 2 + i, 3 + i, seed=i) for i in range(4)]
    steps = regions(lambda ks, x: update(ks, jax.grad(loss)(ks, x)), ks, rng(1, 8, 8, 2))
    assert all("sub" not in region for region in steps)

    def solved(a: Any, b: Any) -> Any:
        a = a + jnp.eye(5)
        return [jnp.linalg.inv(a * i + 1) * 2 + i for i in range(1, 5)], b

    assert regions(solved, rng(5, 5), rng(5)) == []


NHWC = ("NHWC", "HWIO", "NHWC")


@pytest.mark.usefixtures("everything")
def test_what_xla_finds_unused() -> None:
    """XLA aborts where a function that is called has a parameter that nothing reads."""

    def f(x: Any, y: Any, z: Any) -> Any:
        return x * 0, (y - y) + 2, jnp.where(z == z, 1, z), jnp.zeros_like(x)[:3] * x[:3]

    args = [jnp.arange(5) + i for i in range(3)]
    for found, right in zip(jax.jit(f)(*args), f(*args), strict=True):
        np.testing.assert_array_equal(found, right)


@pytest.mark.usefixtures("everything")
def test_results_that_are_operands() -> None:
    def f(x: Any, y: Any) -> Any:
        z = x + y
        return x, z, z, y, jnp.zeros(3), z * 2

    got = jax.jit(f, donate_argnums=0)(jnp.arange(5.0), jnp.ones(5))
    assert list(map(list, got[:3])) == [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]


@pytest.mark.usefixtures("everything")
def test_prints_keep_their_order(capfd: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        total = 0.0
        for i in range(4):
            y = jnp.sum(x * i) + total
            jax.debug.print("{} {}", i, y, ordered=True)
            total = jnp.sqrt(y) if i % 2 else y
        return total

    jax.jit(f)(jnp.ones(4))
    jax.effects_barrier()
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "2", "3"]

    def g(x: Any) -> Any:  # what the first one prints is made with what comes after the second
        jax.debug.print("first {}", jnp.sum(x * 2), ordered=True)
        jax.debug.print("second", ordered=True)
        return jnp.sort(jnp.sort(x) * 3 + 1)

    jax.jit(g)(jnp.ones(16))
    jax.effects_barrier()
    assert capfd.readouterr().out.split() == ["first", "32.0", "second"]


def test_loops_whose_steps_xla_cannot_join() -> None:
    """A body with a sort has a kernel for the rest; one without has none of ours, nor has one of
    many steps: its kernels may run beside each other."""

    def body(of: Any, steps: int = JOINED_STEPS - 1) -> Any:
        def step(c: Any, _: Any) -> Any:
            c = of(c)
            return c, (jnp.sum(c), jnp.max(c) - c, c * 2, jnp.sum(c * c) + c[:3])

        return lambda c: lax.scan(step, c, None, length=steps)

    def inner(f: Any) -> Any:
        jaxpr = joined(target_of("cpu").prepare(traced(f, rng(8)), "auto"))
        (loop,) = [eqn for eqn in jaxpr.eqns if eqn.primitive.name in ("scan", "while")]
        return of_jaxpr(loop.params["jaxpr"].jaxpr)

    assert inner(body(lambda c: jnp.sort(jnp.sin(c))))
    assert inner(body(lambda c: jnp.flip(jnp.sin(c)))) == []
    assert inner(body(lambda c: jnp.sort(jnp.sin(c)), JOINED_STEPS)) == []


def test_fewer_kernels_and_one_switch() -> None:
    """`outline=False` keeps all loops apart, and so do lines for profiles."""
    args = vectors(8), vectors(8, seed=9)

    def calls(**options: Any) -> int:
        return str(jax.jit(update, **options).lower(*args).compile().as_text()).count("small_call")

    assert calls() == 1
    assert calls(outline=False) == 0
    with jax._base.config.locations(True):
        assert calls() == 0
