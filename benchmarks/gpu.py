"""What pieces bring on a GPU: when programs are ready, what a step and a piece take.

    python benchmarks/gpu.py                            on a machine with a GPU
    python benchmarks/gpu.py --compile PLUGIN           anywhere: compiles for an H100, runs nothing

The first prints, for each program, Teucer as a whole (`outline=False`), as it decides, and in
pieces by force: seconds to be ready, milliseconds of a step, peak of the GPU's memory. Then what a
piece costs: programs of equal pieces that do next to nothing. Give `--programs` to choose, and
`--quick` for small ones. Each program runs in a process of its own, without the disk cache.

PLUGIN is the xla_cuda_plugin.so of `jax-cuda13-pjrt`, of the release of jaxlib that runs this.
Nothing is tuned there. It prints what the target decides, how many pieces are runs of how many
executables, seconds of wall clock and of processor time, and the prediction that the decision rests
on (`teucer/_targets/gpu/whether_to_cut.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import programs
import transformer

PROGRAMS = (
    "wide_1",
    "wide_12",
    "wide_48",
    "transformer_1",
    "transformer_12",
    "transformer_48",
    "residual_convolutions",
    "unrolled_lstm",
    "varied_residual",
)
MODES = ("whole", "auto", "pieces")
STEPS, TURNS = 20, 5
USUAL = {name: n for name, n in vars(transformer).items() if name.isupper()}
WIDE = {"WIDTH": 1024, "HEADS": 16, "HIDDEN": 4096, "VOCABULARY": 8192, "BATCH": 8, "LENGTH": 512}


class _Shapes:
    """Stands for a generator of numbers whose arrays are types: a wide network fits no small
    machine."""

    def __init__(self, struct: Any, shape: Any = ()) -> None:
        self.struct, self.shape = struct, shape

    def standard_normal(self, shape: Any) -> Any:
        return _Shapes(self.struct, shape)

    def __truediv__(self, by: Any) -> Any:
        return self

    def astype(self, dtype: Any) -> Any:
        return self.struct(self.shape, dtype)


def wide(jax: Any, jnp: Any, layers: int, *, values: bool) -> Any:
    """A transformer of usual width: 1024, on 8 sequences of 512 tokens; its arguments as arrays, or
    as types."""
    step = programs.train_step(jax, transformer.make_loss(jax, jnp))
    if values:
        return step, (transformer.init_params(layers), *transformer.make_batch())
    shapes = _Shapes(jax.ShapeDtypeStruct)
    with mock.patch.object(np.random, "default_rng", return_value=shapes):
        params = transformer.init_params(layers)
    tokens = jax.ShapeDtypeStruct((8, 512), np.int32)
    return step, (params, tokens, tokens)


def program(jax: Any, jnp: Any, name: str, *, values: bool) -> Any:
    """A function and its arguments."""
    kind, _, layers = name.rpartition("_")
    for constant, value in {**USUAL, **(WIDE if kind == "wide" else {})}.items():
        setattr(transformer, constant, value)
    if kind == "wide":
        return wide(jax, jnp, int(layers), values=values)
    if kind == "transformer" and layers.isdigit():
        return programs.transformer_of(int(layers))(jax, jnp)
    return programs.PROGRAMS[name](jax, jnp)


# --- On a GPU -------------------------------------------------------------------------------------


def run_one(name: str, mode: str) -> dict[str, float]:
    """A program in this process: ready, s; step, ms; memory, MB; its pieces and executables."""
    import teucer as jax
    import teucer.numpy as jnp

    step, args = program(jax, jnp, name, values=True)
    args = jax.device_put(args)
    jax.block_until_ready(args)
    outline = {"whole": False, "auto": None, "pieces": True}[mode]
    f = jax.jit(step, donate_argnums=0, outline=outline)
    start = time.perf_counter()
    compiled = f.lower(*args).compile()
    ready = time.perf_counter() - start
    params, *batch = args
    took = []
    for _ in range(TURNS + 1):
        start = time.perf_counter()
        for _ in range(STEPS):
            params, value = compiled(params, *batch)
        jax.block_until_ready(value)
        took.append((time.perf_counter() - start) / STEPS)
    steps = compiled.program.steps
    stats = jax.devices()[0].memory_stats() or {}
    return {
        "ready": ready,
        "step": 1e3 * min(took[1:]),
        "memory": stats.get("peak_bytes_in_use", 0) / 2**20,
        "pieces": len(steps.steps) if steps else 1,
        "executables": len(compiled.program.executables),
        "loss": float(value),
    }


def run_pieces() -> dict[str, float]:
    """Microseconds of the host for a piece that does next to nothing, by its operands."""
    import teucer as jax
    import teucer.numpy as jnp

    found = {}
    for operands in (1, 8, 32):

        def layer(xs: Any) -> Any:
            return [jnp.tanh(x) * 2 + jnp.sin(x) - jnp.cos(x) for x in xs]

        def chain(xs: Any) -> Any:
            for _ in range(64):
                xs = jax.jit(layer, outline=True)(xs)
            return xs

        xs = [jnp.ones((256, 256)) for _ in range(operands)]
        times = []
        for outline in (True, False):
            f = jax.jit(chain, outline=outline)
            jax.block_until_ready(f(xs))
            took = []
            for _ in range(TURNS):
                start = time.perf_counter()
                for _ in range(STEPS):
                    last = f(xs)
                jax.block_until_ready(last)
                took.append((time.perf_counter() - start) / STEPS)
            times.append(min(took))
        found[f"{operands} operands"] = 1e6 * (times[0] - times[1]) / 64
    return found


def in_a_process(*args: str, limit: float | None = None) -> Any:
    env = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "0"}
    command = [sys.executable, __file__, *args]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, env=env, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not ready after {limit:.0f} s"}
    if run.returncode:
        return {"error": run.stderr.strip().splitlines()[-1:]}
    return json.loads(run.stdout.splitlines()[-1])


def on_a_gpu(names: list[str]) -> None:
    import teucer as jax

    device = jax.devices()[0]
    print(f"{device.device_kind}, {device.client.platform_version.splitlines()[0]}", flush=True)
    print("| program | as | ready, s | step, ms | memory, MB | pieces | executables | loss |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name in names:
        for mode in MODES:
            found = in_a_process("--one", name, mode)
            row = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in found.values()]
            print("|", " | ".join([name, mode, *row]), "|", flush=True)
    print("A piece costs, us:", in_a_process("--pieces"))


# --- Anywhere: compiled for an H100 ---------------------------------------------------------------


class Compiler:
    """XLA's compiler for an H100, on a machine without one."""

    def __init__(self, plugin: str) -> None:
        from jaxlib import _jax, xla_client

        sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "kernels"))
        from compile_for_h100 import H100

        xla_client.load_pjrt_plugin_dynamically("cuda", plugin)
        xla_client.initialize_pjrt_plugin("cuda")
        topology = _jax.get_default_c_api_topology(
            "cuda", "h100", {"target_config": H100, "topology": "1x1x8"}
        )
        self.device = topology._make_compile_only_devices()[0]
        self.list, self.options = _jax.DeviceList((self.device,)), xla_client.CompileOptions

    def __call__(self, text: str) -> Any:
        from teucer._xla import mlir

        module = mlir.parse(text)
        with module.context:
            return self.device.client.compile(module, self.list, self.options())


def compile_one(plugin: str, name: str, way: str) -> dict[str, Any]:
    """A program compiled in this process, as a whole or in pieces: seconds, MB, and what the
    target predicts and decides."""
    import teucer as jax
    import teucer.numpy as jnp
    from teucer._derived.compile_pieces import overwritten
    from teucer._devices.placement import placement_of
    from teucer._optimize.dce import remove_dead
    from teucer._optimize.passes import optimize
    from teucer._programs.job import Job
    from teucer._programs.lower import lower
    from teucer._targets.gpu import constants
    from teucer._targets.gpu import whether_to_cut as gpu
    from teucer._targets.outlining.cut_into_pieces import cut
    from teucer._targets.outlining.outline import outlined
    from teucer._transform.jit_calls import hoist_consts

    compiler = Compiler(plugin)
    placement = placement_of(())

    def text_of(jaxpr: Any, donated: Any) -> str:
        return lower(Job(jaxpr, "step", placement, donated, quiet=True), platforms=("cuda",)).text

    step, args = program(jax, jnp, name, values=False)
    jaxpr = remove_dead(optimize(hoist_consts(jax.make_jaxpr(step)(*args).jaxpr).jaxpr))
    params = len(jax.tree.leaves(args[0]))
    donated = tuple(i < params for i in range(len(jaxpr.invars)))
    decided = gpu.in_pieces(jaxpr) if gpu.may_pay(jaxpr) else None
    found = decided or cut(outlined(jaxpr, constants.COSTS), _Always())
    if way == "pieces" and found is None:
        return {"decided": "whole"}
    unique = {id(p.jaxpr): p.jaxpr for p in found.pieces} if found else {}
    over = overwritten(found, donated) if found else {}
    texts = (
        [text_of(jaxpr, donated)]
        if way == "whole"
        else [text_of(j, over[j]) for j in unique.values()]
    )
    compiler(text_of(jax.make_jaxpr(jnp.sin)(1.0).jaxpr, (False,)))  # what the first one takes
    wall, processor = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(compiler, texts))
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    memory = (
        _peak(made[0])
        if way == "whole"
        else _peak_of_steps(jaxpr, donated, found, dict(zip(unique, made, strict=True)))
    )
    predicted = gpu.compiles_in(jaxpr, found)[way == "pieces"] if found else None
    return {
        "decided": "pieces" if decided else "whole",
        "executables": f"{len(found.pieces)} of {len(unique)}" if way == "pieces" else "1",
        "wall": wall,
        "processor": processor,
        "predicted": predicted,
        "memory": memory / 2**20,
    }


def compiled_for_an_h100(plugin: str, names: list[str], limit: float) -> None:
    print("| program | as | decided | pieces | wall, s | processor, s | predicted, s | MB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name in names:
        for way in ("whole", "pieces"):
            found = in_a_process("--compile", plugin, "--one", name, way, limit=limit)
            row = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in found.values()]
            print("|", " | ".join([name, way, *row]), "|", flush=True)


class _Always:
    """Pieces wherever there are functions, however long the GPU works (`Cutting`)."""

    copied = groups = runs = 1

    def large(self, function: Any) -> bool:
        return True

    def most(self, function: Any) -> int:
        return 1

    def singly(self) -> _Always:
        return self


def _peak(executable: Any) -> int:
    """Bytes that an executable needs: arguments, results that lie elsewhere, temporaries."""
    stats = executable.get_compiled_memory_stats()
    return int(
        stats.argument_size_in_bytes
        + stats.output_size_in_bytes
        - stats.alias_size_in_bytes
        + stats.temp_size_in_bytes
    )


def _peak_of_steps(jaxpr: Any, donated: Any, found: Any, made: dict[int, Any]) -> int:
    """The most bytes that a sequence of pieces needs, which run in order on one stream."""
    from teucer._targets.outlining.bytes import bytes_of

    sizes = [bytes_of(v.aval) for v in jaxpr.invars] + [c.nbytes for c in found.consts]
    fixed = {i for i in range(len(sizes)) if i >= len(donated) or not donated[i]}
    held = set(range(len(sizes)))
    most = 0
    for piece in found.pieces:
        stats = made[id(piece.jaxpr)].get_compiled_memory_stats()
        alive = sum(sizes[i] for i in held)
        new = stats.output_size_in_bytes - stats.alias_size_in_bytes + stats.temp_size_in_bytes
        most = max(most, alive + new)
        held |= set(range(len(sizes), len(sizes) + len(piece.jaxpr.outvars)))
        sizes += [bytes_of(v.aval) for v in piece.jaxpr.outvars]
        held -= set(piece.drops) - fixed
    return most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--programs", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--quick", action="store_true", help="no networks of 48 layers")
    parser.add_argument("--compile", metavar="PLUGIN", help="compile for an H100 without a GPU")
    parser.add_argument("--limit", type=float, default=900, help="seconds for a compilation there")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--pieces", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = [n for n in options.programs if not (options.quick and n.endswith("_48"))]
    if options.one and options.compile:
        print(json.dumps(compile_one(options.compile, *options.one)))
    elif options.one:
        print(json.dumps(run_one(*options.one)))
    elif options.pieces:
        print(json.dumps(run_pieces()))
    elif options.compile:
        compiled_for_an_h100(options.compile, names, options.limit)
    else:
        on_a_gpu(names)


if __name__ == "__main__":
    main()
