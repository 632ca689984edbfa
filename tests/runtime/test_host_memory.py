"""Pages that large arrays let go are used again, where the option and the environment leave that to Teucer."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"),
                                reason="malloc is not glibc's")

# Three blocks of 20 MB, 15360 pages of 4 KB, taken and given back again and again, as the calls of a program do.
PROGRAM = """
import ctypes, resource, teucer as jax
jax.devices()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [ctypes.c_void_p(libc.malloc(20 << 20)) for _ in range(3)]
    for block in blocks:
        libc.memset(block, 1, 20 << 20)
    for block in blocks:
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(min([faults() for _ in range(6)][2:]))
"""


def faults(**env):
    """The fewest page faults that a round takes, in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    ended = subprocess.run([sys.executable, "-c", PROGRAM], env={**environment, **env}, capture_output=True, text=True, check=True)
    return int(ended.stdout)


def test_blocks_take_the_pages_of_those_before():
    assert faults() < 1000


@pytest.mark.parametrize("env", [{"TEUCER_KEEP_MEMORY": "0"}, {"MALLOC_ARENA_MAX": "8"}])
def test_option_and_environment_leave_malloc_alone(env):
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if huge.exists() and "[always]" in huge.read_text():
        pytest.skip("huge pages make few faults of many")
    assert faults(**env) > 10000
