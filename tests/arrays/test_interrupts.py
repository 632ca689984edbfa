"""Ctrl-C while a value is waited for."""

import os
import subprocess
import sys

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer._arrays import reading

READS = [
    "float(y)", "int(y)", "complex(y)", "bool(y)", "str(y)", "repr(y)", "f'{y:.3f}'", "y.item()",
    "y.tolist()", "y.tobytes()", "np.asarray(y)", "np.array(y)", "np.asarray(y, np.float64)",
    "np.sin(y)", "y.__array__()", "jax.device_get([y])", "bool(y == 1.0)", "pickle.dumps(y)",
    "np.from_dlpack(y)", "np.testing.assert_allclose(y, 1.0)", "y.addressable_data(0).item()",
    "y.block_until_ready()", "jax.block_until_ready([y])",
]  # fmt: skip

QUICK = ["float(y)", "str(y)", "np.asarray(y)", "y.tolist()", "np.sin(y)", "bool(y == 1.0)"]

# Python callbacks would not do for what runs long: their programs run at the call.
PROGRAM = """
import os, pickle, signal, sys, threading
import numpy as np
import teucer as jax
import teucer.numpy as jnp

a = jnp.eye(200)

@jax.jit
def f(n):
    return jax.lax.fori_loop(0, n, lambda i, b: a @ b, a)[0, 0]

y = f(2)
for read in sys.argv[1:]:
    exec(read)  # what it loads and compiles is there

for read in sys.argv[1:]:
    y = f(10**9)  # for hours: nothing waits for it
    ended = threading.Event()

    def press():
        ended.wait(0.3)
        for _ in range(2):
            if not ended.is_set():
                os.kill(os.getpid(), signal.SIGINT)
                ended.wait(60)
        if not ended.is_set():
            print("not ended:", read, flush=True)
            os._exit(1)

    pressing = threading.Thread(target=press)
    try:
        pressing.start()
        exec(read)
        print("ended without Ctrl-C:", read)
    except KeyboardInterrupt:
        pass
    ended.set()
    pressing.join()
print("all", flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("reads", [QUICK, pytest.param(READS, marks=pytest.mark.slow)])
def test_a_wait_for_a_value_ends(reads):
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *reads],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        check=False,
    )
    assert ran.stdout.split() == ["all"], ran.stdout + ran.stderr


def test_what_ended_a_wait_is_told_once():
    """NumPy takes no exceptions from where it asks for memory."""
    x, y = jnp.ones(2), jnp.ones(2)
    reading._ended.array, reading._ended.error = x, KeyboardInterrupt()
    assert not reading.was_ended(y)
    with pytest.raises(KeyboardInterrupt):
        x.__array__()
    assert x.__array__().sum() == 2


def test_keys_give_no_words():
    with pytest.raises(TypeError, match="key_data"):
        np.asarray(jax.random.key(0))
    with pytest.raises((BufferError, SystemError)):
        memoryview(jax.random.key(0))


def test_values_are_read_in_place():
    x = jnp.arange(4.0)
    assert np.asarray(x).ctypes.data == x.unsafe_buffer_pointer()
    assert np.asarray(x.astype("bfloat16")).tolist() == [0, 1, 2, 3]
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(x)
