"""Kernels, programs in pieces, the speed of a device, and what was predicted of it."""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import teucer as jax
from teucer import numpy as jnp

ROOT = Path(__file__).parents[2]
TURNS = 5


def kernels(device: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The kernels of the examples, compiled for the device, beside plain functions in NumPy."""
    examples = _module(ROOT / "examples" / "pallas" / "kernels.py")
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    x, y, bias = draw(128, 128), draw(128, 128), draw(128)
    q, k, v = draw(64, 32), draw(64, 32), draw(64, 32)
    weights = np.exp(x - x.max(1, keepdims=True))
    scores = np.exp(q @ k.T / np.sqrt(np.float32(32)))
    normal = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-6)
    table: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
        "add": (examples.add, (x, y), x + y),
        "matmul": (examples.matmul, (x, y, bias), np.maximum(x @ y + bias, 0)),
        "softmax": (examples.softmax, (x,), weights / weights.sum(1, keepdims=True)),
        "layer_norm": (
            examples.layer_norm,
            (x, bias),
            normal * bias,
        ),
        "attention": (examples.attention, (q, k, v), scores / scores.sum(1, keepdims=True) @ v),
    }
    for name, (f, args, expected) in table.items():
        yield name, lambda f=f, a=args, e=expected: _close(f, a, e, device)


def _close(f: Callable[..., Any], args: Any, expected: Any, device: Any) -> dict[str, Any]:
    with jax.default_matmul_precision("highest"):
        found = np.asarray(jax.jit(f)(*jax.device_put(args, device)))
    error = float(abs(found - expected).max() / abs(expected).max())
    return {"verdict": "ok" if error < 1e-4 else "WRONG", "error": error}


def pieces(device: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Programs whose layers repeat: outlined, rolled and in pieces by force, beside the whole."""
    for layers, width in ((4, 64), (12, 256)):
        params, x = _mlp(layers, width, device)

        def check(params: Any = params, x: Any = x) -> dict[str, Any]:
            with jax.default_matmul_precision("highest"):
                whole, apart = (
                    jax.tree.leaves(jax.device_get(jax.jit(_step, outline=o)(params, x)))
                    for o in (False, True)
                )
            error = max(
                float(abs(a - b).max() / abs(b).max()) for a, b in zip(apart, whole, strict=True)
            )
            return {"verdict": "ok" if error < 1e-5 else "WRONG", "error": error}

        yield f"{layers} layers of {width}", check


def rates(device: Any, small: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What the device does in a second: products, memory, the host's link, a call."""
    n = 512 if small else 8192
    for dtype in ("float32", "bfloat16"):

        def product(dtype: str = dtype) -> dict[str, Any]:
            x = jax.device_put(jnp.ones((n, n), dtype), device)
            seconds = _time(jax.jit(lambda x: x @ x), x)
            return {"verdict": "figure", "tflops": 2 * n**3 / seconds / 1e12}

        yield f"a product of {n} in {dtype}", product

    def memory() -> dict[str, Any]:
        x = jax.device_put(jnp.ones(n * n, np.float32), device)
        return {"verdict": "figure", "gb_s": 8 * n * n / _time(jax.jit(lambda x: x + 1), x) / 1e9}

    def link() -> dict[str, Any]:
        x = np.ones(n * n, np.float32)
        start = time.perf_counter()
        y = jax.block_until_ready(jax.device_put(x, device))
        there = time.perf_counter() - start
        y = jax.block_until_ready(y + 0)  # which the host has no copy of
        start = time.perf_counter()
        np.asarray(y)
        back = time.perf_counter() - start
        return {
            "verdict": "figure",
            "to_gb_s": x.nbytes / there / 1e9,
            "from_gb_s": x.nbytes / back / 1e9,
        }

    def call() -> dict[str, Any]:
        x = jax.device_put(np.float32(1), device)
        return {"verdict": "figure", "us": _time(jax.jit(lambda x: x + 1), x) * 1e6}

    yield "its memory", memory
    yield "to the host and back", link
    yield "a call", call


# A program that runs under either library: argv has the depth, the width, and a platform.
_BESIDE = """
import json, statistics, sys, time
depth, width, platform = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
import {library} as jax
import {library}.numpy as jnp
device = jax.devices(platform)[0]
ws = jax.device_put([jnp.full((width, width), 1 / width)] * depth, device)
x = jax.device_put(jnp.ones((64, width)), device)
def loss(ws, x):
    for w in ws:
        x = jnp.tanh(x @ w)
    return (x * x).mean()
step = jax.jit(lambda ws, x: [w - 0.1 * g for w, g in zip(ws, jax.grad(loss)(ws, x))])
start = time.perf_counter()
ws = jax.block_until_ready(step(ws, x))
ready = time.perf_counter() - start
times = []
for _ in range(20):
    start = time.perf_counter()
    ws = jax.block_until_ready(step(ws, x))
    times.append(time.perf_counter() - start)
print(json.dumps([ready, statistics.median(times)]))
"""


def beside_jax(
    device: Any, python: str | None, small: bool
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """A step in a process of its own, by Teucer, and by JAX if its Python is given."""
    for depth, width in ((4, 64),) if small else ((4, 512), (24, 1024)):

        def check(depth: int = depth, width: int = width) -> dict[str, Any]:
            args = [str(depth), str(width), device.platform]
            ready, step = _child(sys.executable, "teucer", args)
            figures = {"verdict": "figure", "ready_s": ready, "step_ms": step * 1e3}
            if python is not None:
                theirs, their_step = _child(python, "jax", args)
                figures |= {"of_jax_ready": ready / theirs, "of_jax_step": step / their_step}
            return figures

        yield f"a step of {depth} layers of {width}", check


def predicted(device: Any, topology: str | None, small: bool) -> Iterator[tuple[str, Any]]:
    """Memory and time of a step as they were predicted, and as they are."""
    layers, width = (4, 64) if small else (12, 2048)
    params, x = _mlp(layers, width, device)

    def memory() -> dict[str, Any]:
        compiled = jax.jit(_step).lower(params, x).compile()
        said = compiled.memory_analysis()
        before = device.memory_stats() or {}
        kept = jax.block_until_ready(compiled(params, x))
        after = device.memory_stats() or {}
        del kept
        figures = {"verdict": "figure", "said_mb": said.temp_size_in_bytes / 1e6}
        if "peak_bytes_in_use" in after:
            rose = after["peak_bytes_in_use"] - before.get("bytes_in_use", 0)
            figures["measured_mb"] = rose / 1e6
        return figures

    yield f"memory of {layers} layers of {width}", memory
    if topology is None:
        return

    def seconds() -> dict[str, Any]:
        said = jax.debug.plan(_step, params, x, topology=topology, mesh={"data": 1}).seconds
        measured = _time(jax.jit(_step), params, x)
        return {"verdict": "figure", "said_ms": said and said * 1e3, "measured_ms": measured * 1e3}

    yield f"time of {layers} layers of {width}", seconds


def _mlp(layers: int, width: int, device: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    ws = [rng.standard_normal((width, width)).astype(np.float32) / width**0.5] * layers
    return jax.device_put(ws, device), jax.device_put(np.ones((32, width), np.float32), device)


def _step(ws: Any, x: Any) -> Any:
    def loss(ws: Any) -> Any:
        y = x
        for w in ws:
            y = jnp.tanh(y @ w)
        return (y * y).mean()

    return [w - 0.1 * g for w, g in zip(ws, jax.grad(loss)(ws), strict=True)]


def _time(f: Callable[..., Any], *args: Any) -> float:
    """Seconds of a call, the least of some, after the first."""
    jax.block_until_ready(f(*args))
    times = []
    for _ in range(TURNS):
        start = time.perf_counter()
        jax.block_until_ready(f(*args))
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _child(python: str, library: str, args: list[str]) -> tuple[float, float]:
    ended = subprocess.run(
        [python, "-c", _BESIDE.replace("{library}", library), *args],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    if ended.returncode:
        raise RuntimeError(ended.stderr.strip().splitlines()[-1])
    ready, step = json.loads(ended.stdout.splitlines()[-1])
    return ready, step


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
