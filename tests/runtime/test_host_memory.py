"""Pages that large arrays let go are used again, where the option and the environment leave that to Teucer."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"),
                                reason="malloc is not glibc's")

# 64 MB of results a call: 16384 pages of 4 KB.
PROGRAM = """
import resource, teucer as jax
double = jax.jit(lambda x: (x + 1, x * 2))
x = jax.numpy.ones((8 << 20,))
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    jax.block_until_ready(double(x))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(min(faults() for _ in range(30)))
"""


def faults(**env):
    """The fewest page faults that a call with large results takes, in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    ended = subprocess.run([sys.executable, "-c", PROGRAM], env={**environment, **env}, capture_output=True, text=True, check=True)
    return int(ended.stdout)


def test_calls_take_the_pages_of_earlier_results():
    assert faults() < 1000


@pytest.mark.parametrize("env", [{"TEUCER_KEEP_MEMORY": "0"}, {"MALLOC_ARENA_MAX": "8"}])
def test_option_and_environment_leave_malloc_alone(env):
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if huge.exists() and "[always]" in huge.read_text():
        pytest.skip("huge pages make few faults of many")
    assert faults(**env) > 10000
