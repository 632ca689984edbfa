"""Loops that show how far they are."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest

import teucer as jax
from teucer import lax
from teucer import numpy as jnp
from teucer._progress import bars

TOLD: list[bars.Shown] = []


@pytest.fixture(autouse=True)
def nothing_told() -> None:
    TOLD.clear()


def loop(kind: Any, **options: Any) -> Callable[..., Any]:
    return jax.progress(kind, bar=TOLD.append, every=2, **options)


def told() -> list[tuple[int, float | None]]:
    jax.effects_barrier()
    return [(one.step, one.values.get("loss")) for one in TOLD]


def scanned(w: Any, reverse: bool = False) -> Any:
    def step(c: Any, x: Any) -> Any:
        return c * w + x, c

    scan = loop(lax.scan, show=lambda carry, y: carry)
    return scan(step, 0.0, jnp.arange(5.0), reverse=reverse)[0]


def plain(w: Any) -> Any:
    return lax.scan(lambda c, x: (c * w + x, c), 0.0, jnp.arange(5.0))[0]


STEPS = [(1, 0.0), (2, 1.0), (4, 11.0), (5, 26.0)]  # of w = 2


@pytest.mark.parametrize(
    "transform", [lambda f: f, jax.jit, jax.checkpoint], ids=["eager", "jit", "remat"]
)
def test_scan(transform: Any) -> None:
    assert transform(scanned)(2.0) == plain(2.0) == 26.0
    assert told() == STEPS
    assert {one.total for one in TOLD} == {5} and all(one.rate >= 0 for one in TOLD)


def test_scan_in_reverse_counts_from_its_first_step() -> None:
    scanned(1.0, reverse=True)
    assert [step for step, _ in told()] == [1, 2, 4, 5]


@pytest.mark.parametrize("transform", [jax.grad, jax.jacfwd, jax.hessian])
def test_derivatives_are_those_of_the_loop_alone(transform: Any) -> None:
    assert transform(scanned)(2.0) == transform(plain)(2.0)
    assert told() == STEPS  # once: what runs backwards is not shown


@pytest.mark.parametrize(
    "transform", [lambda f: f, jax.jit, lambda f: jax.grad(lambda w: f(w).sum())]
)
def test_vmap_has_one_bar_which_tells_means(transform: Any) -> None:
    ws = jnp.arange(3.0)
    assert (transform(jax.vmap(scanned))(ws) == transform(jax.vmap(plain))(ws)).all()
    means = [(1, 0.0), (2, 1.0), (4, 20 / 3), (5, 40 / 3)]
    assert [(step, pytest.approx(loss)) for step, loss in told()] == means


def test_fori_loop() -> None:
    run = loop(lax.fori_loop, show=lambda c: {"loss": c, "twice": 2 * c})
    assert run(3, 8, lambda i, c: c + i, 0) == 25
    assert told() == [(1, 3.0), (2, 7.0), (4, 18.0), (5, 25.0)]
    assert TOLD[-1].values["twice"] == 50.0 and TOLD[-1].total == 5


def test_bounds_that_are_known_when_the_program_runs() -> None:
    run = loop(lax.fori_loop, show=lambda c: c)
    assert jax.jit(lambda n: run(1, n, lambda i, c: c + i, 0))(6) == 15
    assert told() == [(1, 1.0), (2, 3.0), (4, 10.0), (5, 15.0)]
    assert TOLD[-1].total is None


def test_while_loop() -> None:
    run = loop(lax.while_loop, show=lambda c: c)

    def count(n: Any) -> Any:
        return run(lambda c: c < n, lambda c: c + 1, 0)

    assert jax.jit(count)(5) == 5
    assert told() == [(1, 1.0), (2, 2.0), (4, 4.0), (5, 5.0)]
    TOLD.clear()
    assert jax.vmap(count)(jnp.array([2, 5])).tolist() == [2, 5]
    assert told()[-1] == (5, 3.5)


def test_a_loop_of_no_steps_shows_nothing() -> None:
    loop(lax.fori_loop)(0, 0, lambda i, c: c, 0)
    loop(lax.scan)(lambda c, x: (c, x), 0.0, jnp.zeros(0))
    loop(lax.while_loop)(lambda c: False, lambda c: c, 0)
    assert told() == []


def test_nested_loops_have_a_bar_each() -> None:
    def inner(c: Any, _: Any) -> Any:
        return loop(lax.scan, label="inner")(lambda d, y: (d + y, None), c, jnp.arange(3.0))[
            0
        ], None

    out = loop(lax.scan, label="outer")(inner, 0.0, None, 2)
    assert out[0] == 6.0
    jax.effects_barrier()
    steps = {label: [s.step for s in TOLD if s.label == label] for label in ("inner", "outer")}
    assert steps == {"inner": [1, 2, 3] * 2, "outer": [1, 2]}


def test_a_call_begins_the_bar_anew() -> None:
    step = jax.jit(scanned)
    step(2.0)
    step(2.0)
    assert told() == STEPS * 2


def test_updates_are_a_hundred_unless_said() -> None:
    run = jax.progress(lax.fori_loop, bar=TOLD.append)
    run(0, 10_000, lambda i, c: c + 1, 0)
    assert len(told()) == 101


def test_trees_and_options_go_to_the_loop() -> None:
    state = {"a": jnp.zeros(2), "b": (jnp.ones(()),)}
    out, ys = loop(lax.scan)(
        lambda c, x: (c, x["x"] + c["a"]), state, {"x": jnp.ones((4, 2))}, unroll=2
    )
    assert out["b"][0] == 1 and ys.shape == (4, 2)


def test_what_is_refused() -> None:
    with pytest.raises(TypeError, match=r"progress\(jax\.lax\.scan\)\(f, init, xs\)"):
        jax.progress(map)
    with pytest.raises(ValueError, match="every is less than 1"):
        jax.progress(lax.scan, every=0)
    with pytest.raises(ValueError, match="there is no bar 'dots'"):
        jax.progress(lax.fori_loop, bar="dots")(0, 1, lambda i, c: c, 0)
    with pytest.raises(ValueError, match="`length` not provided"):
        jax.progress(lax.scan)(lambda c, x: (c, x), 0.0)


def test_lines_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    run = jax.progress(lax.fori_loop, "train", bar="text", every=1, show=lambda c: {"loss": c})
    run(0, 4, lambda i, c: c + 1.0, 0.0)
    jax.effects_barrier()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("train 1/4  0 steps/s  loss 1")
    assert re.fullmatch(r"train 4/4  \S+ steps/s  loss 4", lines[-1]) and len(lines) < 4


def test_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    console = pytest.importorskip("rich.console", reason="rich is not installed")
    out = io.StringIO()
    monkeypatch.setattr("rich._console", console.Console(file=out, force_terminal=True, width=120))
    run = jax.progress(lax.fori_loop, "train", bar="rich", show=lambda c: {"loss": c})
    run(0, 40, lambda i, c: c + 1.0, 0.0)
    jax.effects_barrier()
    assert "train" in out.getvalue() and "40/40" in out.getvalue() and "loss 40" in out.getvalue()
    assert bars._live.progress is None  # it does not go on


def test_tqdm(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    run = jax.progress(lax.fori_loop, "train", bar="tqdm", show=lambda c: {"loss": c})
    run(0, 40, lambda i, c: c + 1.0, 0.0)
    jax.effects_barrier()
    said = capsys.readouterr().err
    assert "train" in said and "40/40" in said and "loss=40" in said


def test_calls_out_of_order_do_not_go_back() -> None:
    bar = bars.Bar("", TOLD.append)
    for step in (1, 4, 2, 6):
        bar.tell(step, 8, {})
    assert [one.step for one in TOLD] == [1, 4, 6]


def test_whichever_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for installed, expected in (
        (("rich", "tqdm"), bars._Rich),
        (("tqdm",), bars._Tqdm),
        ((), bars._Text),
    ):
        monkeypatch.setattr("importlib.util.find_spec", lambda name, there=installed: name in there)
        assert bars._make("auto") is expected


def test_a_program_with_a_bar_calls_python_so_often_alone() -> None:
    """The cost: of 10,000 steps 101 call Python; the others take a comparison."""
    jaxpr = jax.make_jaxpr(lambda c: loop(lax.fori_loop)(0, 9, lambda i, c: c + 1, c))(0)
    (scan,) = [e for e in jaxpr.eqns if e.primitive.name in ("scan", "while")]
    body = str(scan)
    assert body.count("debug_callback") == 1 and "cond" in body
