"""Pages that large arrays let go are used again, where the option and the environment leave that to
Teucer."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"),
    reason="malloc is not glibc's",
)

# Six blocks of 20 MB, 30720 pages of 4 KB, two heaps of a thread: taken and given back again and
# again, as programs do.
PROGRAM = """
import ctypes, resource, sys, threading, teucer as jax
from teucer._targets import host_memory
jax.devices()
host_memory.keep_heaps()  # as the first program in pieces does
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [ctypes.c_void_p(libc.malloc(20 << 20)) for _ in range(6)]
    for block in blocks:
        libc.memset(block, 1, 20 << 20)
    for block in blocks:
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
def rounds():
    print(min([faults() for _ in range(6)][2:]))
if sys.argv[1] == "main":
    rounds()
else:
    thread = threading.Thread(target=rounds)
    thread.start()
    thread.join()
"""

# Kept pages go back when half of the memory, here none of it, is in use.
SCARCE = """
import ctypes, teucer as jax
from pathlib import Path
from teucer._targets import host_memory
jax.devices()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])
blocks = [ctypes.c_void_p(libc.malloc(20 << 20)) for _ in range(5)]
for block in blocks:
    libc.memset(block, 1, 20 << 20)
used = resident()
for block in blocks:
    libc.free(block)
host_memory.give_back_if_scarce()
kept = resident()
host_memory.give_back_if_scarce(0.0)
print(used - kept, kept - resident())
"""

# What malloc is told of its quick lists while an executable is loaded, before and after a program
# in pieces.
LOADING = """
import teucer as jax
from teucer._targets import host_memory
jax.devices()
told = []
class Recorder:
    def mallopt(self, parameter, value):
        told.append((parameter, value))
host_memory._libc = Recorder
def load():
    del told[:]
    try:
        with host_memory.joining():
            1 / 0
    except ZeroDivisionError:
        print(*[value for parameter, value in told if parameter == host_memory._MXFAST])
load()
host_memory.keep_heaps()
load()
"""


def run(program, *args, **env):
    """What a program prints, in a process whose malloc is as Teucer leaves it."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MALLOC_", "GLIBC_"))
    }
    return subprocess.run(
        [sys.executable, "-c", program, *args],
        env={**environment, **env},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def faults(where="main", **env):
    """The fewest page faults that a round takes."""
    return int(run(PROGRAM, where, **env))


@pytest.mark.parametrize("where", ["main", "thread"])
def test_blocks_take_the_pages_of_those_before(where):
    assert faults(where) < 1000


def test_pages_go_back_when_memory_is_scarce():
    freed, given_back = map(int, run(SCARCE).split())
    assert freed < 2000 and given_back > 20000  # of 25600 pages


def test_small_blocks_are_joined_while_an_executable_is_loaded():
    assert run(LOADING).splitlines() == [f"0 {16 * ctypes.sizeof(ctypes.c_void_p)}", ""]
    assert run(LOADING, TEUCER_KEEP_MEMORY="0").split() == []


@pytest.mark.parametrize("env", [{"TEUCER_KEEP_MEMORY": "0"}, {"MALLOC_ARENA_MAX": "8"}])
def test_option_and_environment_leave_malloc_alone(env):
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if huge.exists() and "[always]" in huge.read_text():
        pytest.skip("huge pages make few faults of many")
    assert faults(**env) > 10000
