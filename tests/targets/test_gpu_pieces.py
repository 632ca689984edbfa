"""Programs for GPUs in pieces, without a GPU: what is cut, what for, and that pieces cut for a GPU
give on the CPU what the whole gives."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._core.jaxpr import Jaxpr
from teucer._derived import compile_pieces as programs
from teucer._devices.placement import placement_of
from teucer._optimize.dce import remove_dead
from teucer._optimize.passes import optimize
from teucer._programs import job as jobs
from teucer._programs.lower import lower
from teucer._programs.program import Steps
from teucer._targets.gpu import constants
from teucer._targets.gpu.target import CUDA, GPU, ROCm
from teucer._targets.gpu.whether_to_cut import Launches, busy, compiles_in, in_pieces, may_pay
from teucer._targets.interface import Kernels
from teucer._targets.outlining.cut_into_pieces import cut
from teucer._targets.outlining.outline import outlined
from teucer._targets.table import target_of
from teucer._transform.jit_calls import hoist_consts
from teucer._xla.client import jaxlib_version

WIDTH = 2048


def layer(x: Any, w: Any) -> Any:
    """Of more than 32 equations, forward and backward."""
    up, down, scale = w
    x = x - jnp.mean(x, -1, keepdims=True)
    y = x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * scale
    for _ in range(4):
        y = jnp.tanh(y) * jnp.sin(y) + jnp.exp(-y * y)
    return x + jax.nn.gelu(y @ up) @ down


def loss(ws: Any, x: Any) -> Any:
    for w in ws:
        x = layer(x, w)
    return jnp.mean(x * x)


def step(ws: Any, x: Any) -> Any:
    value, gradients = jax.value_and_grad(loss)(ws, x)
    return jax.tree.map(lambda w, g: w - 0.1 * g, ws, gradients), value


def shapes(layers: int, width: int = WIDTH, rows: int = 8192, dtype: Any = np.float32) -> Any:
    """Types of the arguments of `step`."""

    def array(*shape: int) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype)

    ws = [(array(width, 4 * width), array(4 * width, width), array(width)) for _ in range(layers)]
    return ws, array(rows, width)


def traced(f: Any, *args: Any) -> Jaxpr:
    jaxpr: Jaxpr = remove_dead(optimize(hoist_consts(jax.make_jaxpr(f)(*args).jaxpr).jaxpr))
    return jaxpr


def arrays(layers: int, width: int = 16, rows: int = 4) -> Any:
    rng = np.random.default_rng(0)
    return jax.tree.map(
        lambda s: jnp.asarray(rng.standard_normal(s.shape) / width**0.5, s.dtype),
        shapes(layers, width, rows),
    )


class GPUHere(GPU):
    """A GPU whose programs run on the CPU."""

    kernels: ClassVar[Kernels] = target_of("cpu").kernels


@pytest.fixture
def here(monkeypatch: Any) -> None:
    """Programs are cut as for a GPU on which even small pieces take longer than their start."""
    monkeypatch.setattr(jobs, "target_of", lambda platform: GPUHere())
    monkeypatch.setattr(constants, "DISPATCH", 1e-12)


def steps_of(f: Any, *args: Any, **options: Any) -> Steps | None:
    found: Steps | None = jax.jit(f, **options).lower(*args).compile().program.steps
    return found


@pytest.mark.parametrize("target", [CUDA(), ROCm(), GPU()], ids=["cuda", "rocm", "gpu"])
def test_equal_layers_compile_once(target: Any) -> None:
    jaxpr = traced(step, *shapes(24))
    assert target.prepare(jaxpr, "auto") is jaxpr and target.divides(jaxpr, "auto")
    found = target.pieces(jaxpr, "auto")
    calls = [piece.calls for piece in found.pieces if piece.calls]
    assert sum(calls) >= 44  # of 48: those at the ends may differ
    assert len({id(piece.jaxpr) for piece in found.pieces}) <= 6
    whole, apart = compiles_in(jaxpr, found)
    assert apart < 0.6 * whole
    assert target.pieces(traced(step, *shapes(48)), "auto") is not None


def test_the_deeper_the_more_is_saved() -> None:
    ratios = []
    for layers in (12, 24, 48):
        jaxpr = traced(step, *shapes(layers))
        found = in_pieces(jaxpr)
        assert found is not None
        whole, apart = compiles_in(jaxpr, found)
        ratios.append(whole / apart)
    assert ratios == sorted(ratios) and ratios[-1] > 3 * ratios[0] / 2


@pytest.mark.parametrize(
    "args",
    [shapes(1), shapes(2), shapes(24, width=64, rows=64), shapes(24, rows=64)],
    ids=["one layer", "two layers", "small", "few rows"],
)
def test_programs_that_the_host_could_not_start_in_time_stay_whole(args: Any) -> None:
    jaxpr = traced(step, *args)
    assert not CUDA().divides(jaxpr, "auto") or CUDA().pieces(jaxpr, "auto") is None


def test_both_predictions_decide(monkeypatch: Any) -> None:
    jaxpr = traced(step, *shapes(24))
    whole, apart = compiles_in(jaxpr, in_pieces(jaxpr) or pytest.fail("it stays whole"))
    for margin, pays in ((1.01 - apart / whole, False), (0.99 - apart / whole, True)):
        with monkeypatch.context() as patch:
            patch.setattr(constants, "MARGIN", margin)
            assert (in_pieces(jaxpr) is not None) == pays
    # Pieces of single calls of short layers would take the host longer than the GPU.
    short = traced(step, *shapes(24, rows=2048))
    found = in_pieces(short)
    assert found is not None and {piece.calls for piece in found.pieces} == {0, 1, 2}
    monkeypatch.setattr(Launches, "most", lambda self, function: 1)
    assert in_pieces(short) is None


def test_programs_in_which_nothing_repeats_stay_whole() -> None:
    def f(x: Any, ws: Any) -> Any:
        for i, w in enumerate(ws):
            x = (jnp.tanh, jnp.sin, jnp.exp, jnp.cos)[i % 4](x @ w) @ w.T
        return x

    ws = [jax.ShapeDtypeStruct((WIDTH, WIDTH + 64 * i), np.float32) for i in range(80)]
    jaxpr = traced(jax.grad(lambda x, ws: jnp.sum(f(x, ws))), ws[0], ws)
    assert may_pay(jaxpr) and in_pieces(jaxpr) is None


def test_steps_of_a_recurrence_are_too_short() -> None:
    def f(w: Any, xs: Any) -> Any:
        h = xs[0]
        for t in range(50):
            i, g, o = jnp.split((xs[t] + h) @ w, 3, axis=-1)
            h = jax.nn.sigmoid(o) * jnp.tanh(jax.nn.sigmoid(i) * jnp.tanh(g) + h)
        return jnp.sum(h)

    w, xs = jax.ShapeDtypeStruct((512, 1536), np.float32), jax.ShapeDtypeStruct((50, 64, 512), "f4")
    jaxpr = traced(jax.grad(f), w, xs)
    assert not may_pay(jaxpr) or in_pieces(jaxpr) is None


def test_effects_keep_a_program_whole() -> None:
    def f(ws: Any, x: Any) -> Any:
        jax.debug.print("{}", x[0, 0])
        return step(ws, x)

    assert CUDA().divides(traced(step, *shapes(24)), "auto")
    assert not CUDA().divides(traced(f, *shapes(24)), "auto")


def test_symbolic_sizes_keep_a_program_whole() -> None:
    from teucer import export

    (b,) = export.symbolic_shape("b")
    ws, _ = shapes(24)
    x = jax.ShapeDtypeStruct((8192 * b, WIDTH), np.float32)
    assert not CUDA().divides(jax.make_jaxpr(loss)(ws, x).jaxpr, "auto")


def test_a_choice_of_the_user_decides() -> None:
    small, large = traced(step, *shapes(4, 16, 4)), traced(step, *shapes(24))
    target = CUDA()
    assert not target.divides(large, "off")
    forced = target.prepare(small, "force")
    assert forced is not small and target.divides(forced, "force")
    assert target.pieces(forced, "force") is not None


def test_pieces_have_as_few_calls_as_keep_the_gpu_busy() -> None:
    @jax.jit
    def f(x: Any) -> Any:
        return x @ x

    one = f.trace(jax.ShapeDtypeStruct((4096, 4096), np.float32)).jaxpr.jaxpr
    wanted = constants.HIDDEN * constants.DISPATCH
    assert busy(one) == pytest.approx(2 * 4096**3 / 4.95e14)
    assert busy(one) < wanted < 2 * busy(one)
    assert Launches(4).most(one) == 2 and Launches(1).most(one) == 1
    assert Launches(4).large(one) and not Launches(1).large(one)
    short = f.trace(jax.ShapeDtypeStruct((2048, 2048), np.float32)).jaxpr.jaxpr
    assert not Launches(4).large(short)
    # 6.9 of them are needed: too many.
    assert math.ceil(wanted / busy(short)) > 4


def test_the_time_of_a_gpu_is_that_of_its_products() -> None:
    def of(f: Any, *args: Any) -> float:
        return busy(traced(f, *args))

    def array(*shape: int, dtype: Any = np.float32) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype)

    square = array(4096, 4096)
    once = of(lambda x: x @ x, square)
    assert of(lambda x: jnp.tanh(x + 1), square) == 0
    assert of(lambda x: jax.lax.scan(lambda c, _: (c @ c, None), x, None, 7)[0], square) == (
        pytest.approx(7 * once)
    )
    assert of(lambda x, p: jax.lax.cond(p, lambda x: x @ x, lambda x: x, x), square, True) == once
    half = array(4096, 4096, dtype=jnp.bfloat16)
    assert of(lambda x: x @ x, half) == pytest.approx(once / 2)
    # A product with one row takes as long as its matrix takes to be read.
    assert of(jnp.matmul, array(1, 4096), square) == pytest.approx(4 * 4096**2 / 3.35e12, rel=0.01)
    image, kernel = array(64, 256, 56, 56), array(256, 256, 3, 3)
    assert of(lambda x, k: jax.lax.conv(x, k, (1, 1), "SAME"), image, kernel) == pytest.approx(
        2 * 64 * 256 * 56 * 56 * 256 * 9 / 4.95e14
    )


def test_pieces_give_what_the_whole_gives(here: None) -> None:
    ws, x = arrays(12)
    steps = steps_of(step, ws, x)
    assert steps is not None and len({id(s.program) for s in steps.steps}) < len(steps.steps) / 2
    found, expected = jax.jit(step)(ws, x), jax.jit(step, outline=False)(ws, x)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), found, expected
    )
    found = jax.jit(step)(ws, x)  # again: constants are still there
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), found, expected
    )
    assert not any(w.is_deleted() for w in jax.tree.leaves((ws, x)))


def test_groups_of_calls_give_what_the_whole_gives(here: None, monkeypatch: Any) -> None:
    monkeypatch.setattr(Launches, "most", lambda self, function: self.grouped)
    ws, x = arrays(17)  # one of which is like no other
    steps = steps_of(step, ws, x)
    assert steps is not None and len(steps.steps) <= 12
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6),
        jax.jit(step)(ws, x),
        jax.jit(step, outline=False)(ws, x),
    )


def test_results_are_written_over_what_nothing_reads_later(here: None) -> None:
    ws, x = arrays(12)
    expected = jax.jit(step, outline=False)(ws, x)
    train = jax.jit(step, donate_argnums=0)
    texts = pieces_texts(step, ws, x, donate=True)
    assert any("tf.aliasing_output" in text for text in texts)
    for _ in range(2):
        given = jax.tree.map(lambda w: w + 0, ws)
        found = train(given, x)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), found, expected
        )
        assert all(w.is_deleted() for w in jax.tree.leaves(given)) and not x.is_deleted()


def pieces_texts(f: Any, *args: Any, donate: bool) -> list[str]:
    """The texts of the pieces of f, whose first argument is donated."""
    jaxpr = traced(f, *args)
    leaves = len(jax.tree.leaves(args[0]))
    donated = tuple(donate and i < leaves for i in range(len(jaxpr.invars)))
    placement = placement_of(())
    found = programs.pieces_of(jobs.Job(jaxpr, "f", placement, donated))
    assert found is not None
    return [lowering.text for lowering in found.lowerings.values()]


def test_arguments_that_are_not_donated_stay(here: None) -> None:
    def chain(ws: Any, x: Any) -> Any:
        for w in ws:
            x = layer(x, w)
        return x, ws[0]

    ws, x = arrays(12)
    for _ in range(2):
        y, w = jax.jit(chain)(ws, x)
    assert not any(v.is_deleted() for v in (y, x, *jax.tree.leaves((w, ws))))
    np.testing.assert_array_equal(w[0], ws[0][0])


def test_what_lies_in_the_memory_of_the_host_keeps_a_program_whole(here: None) -> None:
    def f(ws: Any, x: Any) -> Any:
        return step(ws, jax.device_put(x, jax.memory.Space.Device) * 1.0)

    ws, x = arrays(12)
    assert steps_of(step, ws, x) is not None
    host = jax.device_put(x, jax.memory.Space.Host)
    assert steps_of(f, ws, host) is None
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")
    assert steps_of(step, ws, x, out_shardings=sharding) is None


def test_functions_of_python_keep_a_program_whole(here: None) -> None:
    def f(ws: Any, x: Any) -> Any:
        found, value = step(ws, x)
        shape = jax.ShapeDtypeStruct((), np.float32)
        return found, jax.pure_callback(lambda v: np.float32(v), shape, value)

    ws, x = arrays(12)
    assert steps_of(f, ws, x) is None and float(jax.jit(f)(ws, x)[1]) > 0


def test_questions_are_answered_by_the_whole(here: None) -> None:
    ws, x = arrays(12)
    found = jax.jit(step).lower(ws, x).compile()
    assert found.program.steps is not None
    assert "ENTRY" in found.as_text() and found.cost_analysis()["flops"] > 1000
    assert found.memory_analysis().argument_size_in_bytes > 0
    whole = lower(jobs.Job(traced(step, ws, x), "f", found.program.placement, (False,) * 37))
    assert "inlineable" not in whole.text


@pytest.mark.parametrize("donate", [False, True])
@pytest.mark.parametrize("grouped", [1, 4])
def test_nothing_is_read_after_it_was_written_over(
    monkeypatch: Any, grouped: int, donate: bool
) -> None:
    """Nor are arguments that are not donated written over, nor constants, nor results."""

    def f(ws: Any, x: Any) -> Any:
        results, total = [], 0.0
        for i, w in enumerate(ws):
            x = layer(x * (i + 0.5), w)  # each layer takes a constant, and gives a number too
            total = jnp.sum(x) + total * (i + 1.5)
            if i in (3, 7):
                results.append(x)  # which some layers alone hand on
        return x, total, results, ws[1][2] + 1

    def training(ws: Any, x: Any) -> Any:
        gradients = jax.grad(lambda ws: jnp.sum(f(ws, x)[0]))(ws)
        return jax.tree.map(lambda w, g: w - 0.1 * g, ws, gradients)

    monkeypatch.setattr(constants, "DISPATCH", 1e-12)
    monkeypatch.setattr(Launches, "most", lambda self, function: grouped)
    written = 0
    for function in (f, training, step):
        jaxpr = traced(function, *shapes(17, 16, 4))
        found = cut(outlined(jaxpr, constants.COSTS), Launches(grouped))
        assert found is not None
        args = len(jaxpr.invars)
        donated = tuple(donate and i < args - 1 for i in range(args))
        fixed = {i for i in range(args + len(found.consts)) if i >= args or not donated[i]}
        over = programs.overwritten(found, donated)
        gone: set[int] = set()
        count = args + len(found.consts)
        for piece in found.pieces:
            assert gone.isdisjoint(piece.reads)
            new = [i for i, o in zip(piece.reads, over[piece.jaxpr], strict=True) if o]
            assert len({*new}) == len(new) and all(piece.reads.count(i) == 1 for i in new)
            gone |= set(new)
            count += len(piece.jaxpr.outvars)
            written += len(new)
        assert gone.isdisjoint(fixed) and gone.isdisjoint(found.results)
        assert max(gone, default=0) < count
    assert written > (30 if donate else 5)


def test_the_pieces_compile_for_an_h100() -> None:
    """By the compiler of XLA's CUDA plugin, if it is installed; no GPU is needed."""
    plugin = None
    if importlib.util.find_spec("jax_plugins") is not None:
        plugin = importlib.util.find_spec("jax_plugins.xla_cuda13")
    if plugin is None or plugin.origin is None:
        pytest.skip("jax-cuda13-pjrt is not installed")
    if importlib.metadata.version("jax-cuda13-pjrt") != jaxlib_version:
        pytest.skip("jax-cuda13-pjrt is of another release than jaxlib")
    jaxpr = traced(step, *shapes(24))
    found = CUDA().pieces(jaxpr, "auto")
    assert found is not None
    over = programs.overwritten(found, (False,) * len(jaxpr.invars))
    placement = placement_of(())
    texts = {
        str(k): lower(jobs.Job(piece, "f", placement, over[piece]), platforms=("cuda",)).text
        for k, piece in enumerate(over)
    }
    assert not any("inlineable" in text for text in texts.values())
    run = subprocess.run(
        [
            sys.executable,
            Path(__file__).parents[1] / "kernels" / "compile_for_h100.py",
            Path(plugin.origin).parent / "xla_cuda_plugin.so",
        ],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        timeout=900,
        check=True,
    )
    made = json.loads(run.stdout)
    assert set(made) == set(texts) and all(isinstance(size, int) for size in made.values()), made
