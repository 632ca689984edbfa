"""Kernels are compiled to machine code for an H100, by the compiler of XLA's CUDA plugin; no GPU is
needed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from experimental import test_pallas_triton as triton
from kernels import ways

import teucer as jax
from teucer.experimental import pallas as pl

# The plugin is made for one version of jaxlib: the last one of this Python.
VERSION = "0.11.2" if sys.version_info >= (3, 12) else "0.10.2"
PROGRAM = Path(__file__).parents[1] / "kernels" / "compile_for_h100.py"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A function of programs, by name, that gives what becomes of each."""
    folder = tmp_path_factory.mktemp("cuda")
    wanted = [f"jax-cuda13-pjrt=={VERSION}", f"jaxlib=={VERSION}"]
    installed = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, *wanted],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if installed.returncode:
        pytest.skip(f"the CUDA plugin cannot be installed here: {installed.stderr.strip()[-200:]}")
    plugin = folder / "jax_plugins" / "xla_cuda13" / "xla_cuda_plugin.so"

    def compile_all(programs):
        run = subprocess.run(
            [sys.executable, PROGRAM, plugin],
            input=json.dumps(programs),
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(folder)},
            timeout=900,
            check=False,
        )
        assert run.returncode == 0, run.stderr[-2000:]
        return json.loads(run.stdout)

    return compile_all


def program(f, *xs):
    shapes = jax.eval_shape(f, *xs)

    def kernel(*refs):
        refs[-1][...] = f(*(r[...] for r in refs[:-1]))

    return ways.lowered(pl.pallas_call(kernel, shapes), *xs)


@pytest.mark.slow
def test_the_examples_become_machine_code(compiled):
    programs = {name: ways.lowered(f, *args) for name, (f, args) in triton.EXAMPLES.items()}
    big = triton.numbers(256, 128), triton.numbers(128, 256), triton.numbers(256)
    programs["matmul_of_blocks"] = ways.lowered(
        lambda *a: triton.kernels.matmul(*a, 128, 128, 64), *big
    )
    half = [triton.numbers(256, 64).astype("bfloat16") for _ in range(3)]
    programs["attention_in_bfloat16"] = ways.lowered(
        lambda *a: triton.kernels.attention(*a, 64, 64), *half
    )
    programs["layer_norm_and_gradient"] = ways.lowered(
        jax.grad(lambda x, s: triton.kernels.layer_norm(x, s).sum(), (0, 1)),
        triton.numbers(16, 32),
        triton.numbers(32),
    )
    found = compiled(programs)
    assert {name: what for name, what in found.items() if type(what) is not int} == {}


@pytest.mark.slow
def test_operations_become_machine_code(compiled):
    x = triton.numbers(16, 32)
    programs = {
        f"structure_{name}": program(f, triton.numbers(4, 8)) for name, f in triton.SHAPES.items()
    }
    for name, p in triton.ELEMENTWISE.items():
        if (
            p in triton.TRITON
            and p.tangents is not None
            and len(p.tangents) == 1
            and np.dtype(np.float32) in p.accepts
        ):
            params = (
                {"y": 3}
                if name == "integer_pow"
                else {"rounding_method": 1}
                if name == "round"
                else {}
            )
            programs[name] = program(lambda x, p=p, params=params: p.call(x, **params)[0], x)
    found = compiled(programs)
    assert {name: what for name, what in found.items() if type(what) is not int} == {}
