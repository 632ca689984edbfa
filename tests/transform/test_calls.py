"""How many Python calls a library function takes that has not been compiled yet.

What its way to the compiler is made of.
"""

import subprocess
import sys

import numpy as np
import pytest

import teucer.numpy as jnp
from teucer import jit
from teucer._base.source import is_internal

COLD = """
import sys
import numpy as np
import teucer.numpy as jnp
from teucer._base.source import is_internal

sin, x = jnp.sin, jnp.asarray(np.ones(3, np.float32))
jnp.cos(x), jnp.tan(x)  # the backend is there, and what is loaded once
calls = depth = deepest = 0

def count(frame, event, argument):
    global calls, depth, deepest
    calls += event == "call"
    if is_internal(frame.f_code.co_filename):  # how deep pathlib is depends on the Python
        depth += (event == "call") - (event == "return")
        deepest = max(deepest, depth)

sys.setprofile(count)
sin(x)
sys.setprofile(None)
print(calls, deepest)
"""


@pytest.mark.parametrize("on_disk", [False, True])
def test_sine_takes_few_calls(tmp_path, on_disk):
    environment = {
        "XDG_CACHE_HOME": str(tmp_path),
        "HOME": str(tmp_path),
        "JAX_ENABLE_COMPILATION_CACHE": str(on_disk),
    }
    for _ in range(1 + on_disk):
        done = subprocess.run(
            [sys.executable, "-c", COLD],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
    calls, depth = map(int, done.stdout.split())
    most = 400 if sys.version_info >= (3, 12) else 420  # 3.11 calls comprehensions
    assert calls <= most and depth <= 16, (calls, depth)


X = np.float32([1, 2, 3])
WARM = {
    "average": lambda x: jnp.average(x),
    "ptp": lambda x: jnp.ptp(x),
    "count_nonzero": lambda x: jnp.count_nonzero(x),
    "searchsorted": lambda x: jnp.searchsorted(x, x),
    "take": lambda x: jnp.take(x, np.int32([2, 0])),
}


# Public functions that are one call of C++, checks included.
AT_ONCE = {
    "cumsum": lambda x: jnp.cumsum(x),
    "diff": lambda x: jnp.diff(x),
    "flip": lambda x: jnp.flip(x, axis=0),
    "moveaxis": lambda x: jnp.moveaxis(x[None], 0, 1),
    "nan_to_num": lambda x: jnp.nan_to_num(x),
    "argsort": lambda x: jnp.argsort(x, descending=True),
    "tile": lambda x: jnp.tile(x, (2, 1)),
    "tril": lambda x: jnp.tril(x[None]),
    "trace": lambda x: jnp.trace(x[None]),
}
CHECKS = {
    "axis_key",
    "axis_of",
    "axes_of",
    "call",
    "check_arraylike",
    "operand",
    "refuse_out",
    "_checked",
}


def entered_by(function, x):
    """What Python functions of Teucer a later call enters, the fewest of three calls, as other
    tests may have let C++ evict a program; the results of the first call and the last."""
    calls = []

    def note(frame, event, _):
        if event == "call" and is_internal(frame.f_code.co_filename):
            calls[-1].append(frame.f_code.co_name)

    expected = function(x)
    for _ in range(3):
        calls.append([])
        sys.setprofile(note)
        found = function(x)
        sys.setprofile(None)
    return min(calls, key=len), expected, found


@pytest.mark.parametrize("name", WARM)
def test_what_is_compiled_is_one_call_of_cpp(name):
    """Functions of several operations, called again, check their options and call one program."""
    entered, expected, found = entered_by(WARM[name], jnp.asarray(X))
    # `wrapper` is a library function, `call` a primitive that runs by itself.
    assert (
        found.tolist() == expected.tolist()
        and entered.count("wrapper") == 1
        and "call" not in entered
    ), entered


@pytest.mark.parametrize("name", AT_ONCE)
def test_checks_are_part_of_the_program(name):
    """A public function is one call of C++, and gives what it gives when it is traced."""
    x = jnp.asarray(X)
    own, _, _ = entered_by(lambda x: x[None], x)
    entered, expected, found = entered_by(AT_ONCE[name], x)
    entered = entered[len(own) :] if entered[: len(own)] == own else entered
    # After `wrapper` arguments are asked whether they are high values, once there are such types.
    assert entered[0] == "wrapper" and not CHECKS & {*entered} and entered.count("wrapper") == 1, (
        entered
    )
    assert found.tolist() == expected.tolist() == jit(AT_ONCE[name])(x).tolist()


def test_what_cpp_does_not_take_runs_as_python():
    """Lists of axes, arrays in the place of numbers, and what is wrong, told as it was given."""
    x = jnp.asarray(np.float32([[1, 2], [3, 4]]))
    assert jnp.moveaxis(x, [0, 1], [1, 0]).tolist() == x.T.tolist()
    assert jnp.tril(x, jnp.int32(1)).tolist() == x.tolist()
    assert jnp.tile(x, [1, 2]).shape == (2, 4)
    with pytest.raises(
        TypeError, match="flip requires ndarray or scalar arguments, got <class 'list'>"
    ) as caught:
        jnp.flip([1, 2])
    assert caught.value.__context__ is None
    with pytest.raises(ValueError, match="axis 5 is out of bounds for array of dimension 2"):
        jnp.flip(x, 5)
    with pytest.raises(NotImplementedError, match="'out' argument to jnp.cumsum"):
        jnp.cumsum(x, out=x)
