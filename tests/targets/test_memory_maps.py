"""Loaded executables hold memory maps, of which a process has a number.

They are let go before there are too many.
"""

import concurrent.futures
import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import teucer as jax
from teucer._base import config
from teucer._executables import compile
from teucer._targets import memory_maps

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/sys/vm/max_map_count"), reason="memory maps are not counted here"
)


def run(program, **env):
    """What a program prints in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )


MANY = """
import numpy as np, teucer as jax
from teucer._executables import compile
from teucer._targets import memory_maps
functions = [jax.jit(lambda x, i=i: x * (i + 3)) for i in range(150)]
for _ in range(2):
    for i, f in enumerate(functions):
        for _ in range(2):
            assert float(f(np.float32(2))) == 2 * (i + 3)
print(len(compile._loaded) < 150, memory_maps.count() < {bound})
"""


def test_functions_in_use_outlive_their_machine_code():
    start = run(
        "import teucer as jax, numpy as np; jax.jit(lambda x: x)(np.float32(1))\n"
        "from teucer._targets import memory_maps; print(memory_maps.count())"
    )
    bound = int(start.stdout) + 160
    done = run(
        MANY.format(bound=bound + 128),
        TEUCER_MAX_MEMORY_MAPS=str(bound),
        TEUCER_WARN_AFTER_COMPILES="0",
    )
    assert (done.stdout, done.stderr) == ("True True\n", "")


# Pages of alternating protection cannot be joined to one map.
CROWDED = """
import ctypes, mmap
import teucer as jax
jax.jit(lambda x: x)(1.0)
from teucer._targets import memory_maps
pairs = (memory_maps._most() - 600 - memory_maps.count()) // 2
pages = mmap.mmap(-1, 2 * 4096 * pairs)
start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
mprotect = ctypes.CDLL(None).mprotect
for i in range(pairs):
    mprotect(ctypes.c_void_p(start + 2 * 4096 * i), 4096, mmap.PROT_READ)
memory_maps._loads_left = 0
for i in range(60):
    jax.jit(lambda x: x * (i + 2.5))(2.0)
assert memory_maps.count() < memory_maps._most() - 500
"""


@pytest.mark.skipif(
    os.path.exists("/proc/sys/vm/max_map_count") and memory_maps._most() > 1 << 18,
    reason="too many to use up",
)
def test_maps_used_up_by_others():
    """Our executables go first; where that is not enough there is an error and no crash."""
    assert run(CROWDED).returncode == 0
    done = run(CROWDED.replace("- 600", "- 300"))
    assert done.returncode == 1
    assert (
        "RuntimeError: compile: the process has 65" in done.stderr
        and "vm.max_map_count" in done.stderr
    )


def test_machine_code_comes_back():
    """For traced and primitive calls, for what is compiled ahead of time, and inside a call that
    has just been made."""
    f, x = jax.jit(lambda x: jax.numpy.sort(x * 2)), np.arange(3.0, dtype=np.float32)
    g = f.lower(x).compile()
    y = f(x)
    with config.max_memory_maps(0):  # each load has all others let go
        np.testing.assert_array_equal(f(x), y)
        np.testing.assert_array_equal(g(x), y)
        compile._let_go()
        memory_maps._loads_left = 0
        np.testing.assert_array_equal(g(x), y)
        np.testing.assert_array_equal(f(x) + 1, y + 1)
        np.testing.assert_array_equal(jax.grad(lambda x: f(x).sum())(x), [2, 2, 2])
    memory_maps._loads_left = 0
    assert g.cost_analysis() == f.lower(x).compile().cost_analysis()


def test_what_is_let_go_is_freed():
    before = memory_maps.count()
    kept = [jax.jit(lambda x, i=i: x * (i + 1.25)) for i in range(40)]
    for f in kept:
        f(np.float32(1))
    assert memory_maps.count() > before + 40
    while compile._let_go():
        pass
    gc.collect()
    assert memory_maps.count() < before + 40


def test_threads_that_load_and_let_go():
    functions = [jax.jit(lambda x, i=i: x + (i + 0.75)) for i in range(12)]

    def use(k):
        for i, f in enumerate(functions):
            if i % 4 == k:
                compile._let_go()
            assert float(f(np.float32(1))) == i + 1.75

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(use, k) for k in range(4)]:
            done.result()
