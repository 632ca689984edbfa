"""How many Python calls a library function takes that has not been compiled yet: what its way to the compiler is made of."""

import subprocess
import sys

import numpy as np
import pytest

import teucer.numpy as jnp

COLD = """
import sys
import numpy as np
import teucer.numpy as jnp

sin, x = jnp.sin, jnp.asarray(np.ones(3, np.float32))
jnp.cos(x), jnp.tan(x)  # the backend is there, and what is loaded once
calls = depth = deepest = 0

def count(frame, event, argument):
    global calls, depth, deepest
    if event == "call":
        calls, depth = calls + 1, depth + 1
        deepest = max(deepest, depth)
    elif event == "return":
        depth -= 1

sys.setprofile(count)
sin(x)
sys.setprofile(None)
print(calls, deepest)
"""


@pytest.mark.parametrize("on_disk", [False, True])
def test_sine_takes_few_calls(tmp_path, on_disk):
    environment = {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path), "JAX_ENABLE_COMPILATION_CACHE": str(on_disk)}
    for _ in range(1 + on_disk):
        done = subprocess.run([sys.executable, "-c", COLD], env=environment, capture_output=True, text=True, check=True)
    calls, depth = map(int, done.stdout.split())
    deepest = 16 if sys.version_info < (3, 12) else 17  # of whose pathlib one call more is deepest
    assert calls <= 400 and depth <= deepest, (calls, depth)


X = np.float32([1, 2, 3])
WARM = {
    "average": lambda x: jnp.average(x), "ptp": lambda x: jnp.ptp(x), "count_nonzero": lambda x: jnp.count_nonzero(x),
    "searchsorted": lambda x: jnp.searchsorted(x, x), "take": lambda x: jnp.take(x, np.int32([2, 0])),
}


@pytest.mark.parametrize("name", WARM)
def test_what_is_compiled_is_one_call_of_cpp(name):
    """Functions of several operations, called again, check their options and call one program."""
    x, entered = jnp.asarray(X), []

    def note(frame, event, _):
        if event == "call" and "teucer" in frame.f_code.co_filename:
            entered.append(frame.f_code.co_name)

    expected = WARM[name](x)
    sys.setprofile(note)
    found = WARM[name](x)
    sys.setprofile(None)
    # `face` is a library function, `call` a primitive that runs by itself.
    assert found.tolist() == expected.tolist() and entered.count("face") == 1 and "call" not in entered, entered
