"""What NumPy computes in the memory of arrays has the bits of compiled programs."""

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.numpy import _in_memory

DTYPES = sorted(d.name for d in _in_memory._DTYPES)
N = _in_memory.LEAST
RANDOM = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def _drawn(dtype):
    """Any numbers, many equal ones, ones, and what has several representations."""
    dtype = np.dtype(dtype)
    if dtype.kind != "f":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        x = RANDOM.integers(low, high, N, dtype, endpoint=True)
        return x, RANDOM.integers(0, 100, N, dtype), np.ones(N, dtype)
    x = RANDOM.standard_normal(N).astype(dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    odd = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, tiny, -tiny, 3 * tiny]
    odd = RANDOM.choice(np.array(odd, dtype), N)
    return x, np.round(x, 1), np.ones(N, dtype), odd, np.where(x > 1, odd, x), -np.abs(odd)


CALLS = {
    "sort": jnp.sort,
    "sort along an axis": lambda x: jnp.sort(x.reshape(4, -1), axis=0),
    "argsort": jnp.argsort,
    "max": jnp.max,
    "min": jnp.min,
    "max along an axis": lambda x: jnp.max(x.reshape(4, -1), axis=1, keepdims=True),
    "argmax": jnp.argmax,
    "argmin": lambda x: jnp.argmin(x, keepdims=True),
    "argmax of a matrix": lambda x: jnp.argmax(x.reshape(4, -1)),
}
QUICK = ("float32", "uint32")


@pytest.mark.parametrize(
    "dtype", [d if d in QUICK else pytest.param(d, marks=pytest.mark.slow) for d in DTYPES]
)
def test_bits_are_those_of_programs(dtype):
    programs = {name: (f, jax.jit(f)) for name, f in CALLS.items()}
    several = jax.jit(
        lambda x, size, equal_nan: jnp.unique(x, True, True, True, equal_nan=equal_nan, size=size),
        static_argnums=(1, 2),
    )
    for x in _drawn(dtype):
        for name, (f, program) in programs.items():
            found, expected = f(jnp.asarray(x)), program(x)
            assert found.aval == expected.aval, name
            assert np.asarray(found).tobytes() == np.asarray(expected).tobytes(), name
    for x in _drawn(dtype):
        x = x[:50]
        for equal_nan in (True, False):
            found = jnp.unique(jnp.asarray(x), True, True, True, equal_nan=equal_nan)
            expected = several(x, found[0].size, equal_nan)
            for y, z in zip(found, expected, strict=True):
                assert y.aval == z.aval
                assert np.asarray(y).tobytes() == np.asarray(z).tobytes()


def test_numpy_is_asked():
    x = jnp.asarray(RANDOM.standard_normal(N))
    assert _in_memory.sort(x) is not None
    assert _in_memory.sort(x, 0, stable=False) is not None
    assert _in_memory.argsort(x.astype(np.float32), axis=None) is not None
    assert _in_memory.extreme("max", x, None, False, None, None) is not None
    assert _in_memory.place("argmin", x, 0, True) is not None
    assert _in_memory.unique(x[:5], True) is not None


def test_programs_are_asked_where_numpy_differs():
    x = jnp.asarray(RANDOM.standard_normal(N))
    for args, options in [
        ((x,), {"descending": True}),
        ((x,), {"kind": "stable"}),
        ((x, 1), {}),
        ((x, 0), {"axis": 0}),
        ((x[:9],), {}),
        ((x.astype(jnp.bfloat16),), {}),
        ((np.asarray(x),), {}),
        ((), {"a": x}),
    ]:
        assert _in_memory.sort(*args, **options) is None
    assert _in_memory.extreme("max", jnp.zeros(N), None, False, None, None) is None
    assert _in_memory.extreme("max", x, None, False, 0.0, None) is None
    with jax.debug_nans(True):
        assert _in_memory.sort(x) is None
    with pytest.raises(ValueError, match="axis 1 is out of bounds"):
        jnp.sort(x, 1)
    with pytest.raises(TypeError, match="'kind' argument to sort is not supported"):
        jnp.sort(x, kind="stable")


def test_results_lie_where_the_array_lies():
    x = jnp.asarray(RANDOM.standard_normal(N))
    assert not jnp.sort(x).committed
    y = jax.device_put(x, jax.devices()[-1])
    assert jnp.sort(y).committed
    assert jnp.sort(y).devices() == y.devices()
    y.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        jnp.sort(y)


def test_distinct_elements_compile_nothing():
    jnp.unique(jnp.arange(3))
    with jax.no_tracing():
        for n in range(1, 40):
            assert jnp.unique(jnp.asarray(np.arange(n) // 2)).size == (n + 1) // 2
