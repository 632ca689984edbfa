"""Calls over several devices that C++ answers.

No Python, and no shards of an array that lies otherwise than the program wants.

C++ takes the shards of an argument with a NamedSharding as they are, and does not compare
(`_programs/run.py`, `_lies_as_wanted`).
"""

import subprocess
import sys

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import P

MESH = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
SPECS = [P("x"), P(None, "x"), P()]
X = np.arange(64.0, dtype=np.float32).reshape(8, 8)


def laid(spec, **options):
    return jax.NamedSharding(MESH, spec, **options)


def python_calls(f):
    calls = []

    def profile(frame, event, arg):
        if event == "call":
            calls.append(frame.f_code.co_qualname)

    sys.setprofile(profile)
    try:
        f()
    finally:
        sys.setprofile(None)
    return [name for name in calls if "python_calls" not in name and "<lambda>" not in name]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_no_python(spec):
    f, args = (
        jax.jit(lambda x, y: (x + y, x @ y)),
        (jax.device_put(X, laid(spec)), jax.device_put(X, laid(P("x")))),
    )
    f(*args), f(*args)
    assert python_calls(lambda: f(*args)) == []


def test_every_layout_gives_the_same_again_and_again():
    f = jax.jit(lambda x: jnp.sin(x) @ x)
    for _ in range(3):
        for spec in SPECS:
            for x in (jax.device_put(X, laid(spec)), X, jnp.asarray(X)):
                for _ in range(3):
                    np.testing.assert_allclose(f(x), np.sin(X) @ X, rtol=1e-5)


@pytest.mark.parametrize("wanted", SPECS, ids=str)
@pytest.mark.parametrize("given", SPECS, ids=str)
def test_in_shardings_are_kept(given, wanted):
    f = jax.jit(lambda x: x * 2, in_shardings=laid(wanted))
    good, other = jax.device_put(X, laid(wanted)), jax.device_put(X, laid(given))
    for _ in range(3):
        for _ in range(3):
            np.testing.assert_array_equal(f(good), 2 * X)
            np.testing.assert_array_equal(f(X), 2 * X)
        if given == wanted:
            continue
        with pytest.raises(ValueError, match="Sharding passed to jit does not match"):
            f(other)


def test_shardings_that_are_equal_in_another_way_are_taken():
    mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    f = jax.jit(lambda x: x - 1, in_shardings=laid(P("x")))
    x = jax.device_put(X, jax.NamedSharding(mesh, P(("a", "b"))))
    for _ in range(4):
        np.testing.assert_array_equal(f(x), X - 1)


def test_memory_kinds_are_not_mixed():
    f = jax.jit(lambda x: x + 1)
    host = jax.device_put(X, laid(P("x"), memory_kind="pinned_host"))
    for _ in range(3):
        np.testing.assert_array_equal(f(jax.device_put(X, laid(P("x")))), X + 1)
        np.testing.assert_array_equal(np.asarray(host), X)


def test_no_module_of_jax_stays():
    code = (
        "import sys, teucer; assert not [m for m in sys.modules if m.split('.')[0] == 'jax'], 'jax'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
