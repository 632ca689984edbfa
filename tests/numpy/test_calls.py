"""Every function of jax.numpy that NumPy has gives what NumPy gives: the table `calls.txt`."""

import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import teucer.numpy as jnp

TEXT = (Path(__file__).parent / "calls.txt").read_text()
DTYPES = ("int32", "float32", "complex64")
CALLS = [
    (call.strip(), tuple(dtypes.split()) or DTYPES)
    for call, _, dtypes in (
        line.partition("  # ") for line in TEXT.splitlines() if not line.startswith("#")
    )
]
# What the table cannot say: results are no arrays, names of dtypes, files, or not those of NumPy by
# design.
ELSEWHERE = {
    "__array_namespace_info__",
    "argpartition",
    "array_repr",
    "array_str",
    "can_cast",
    "einsum_path",
    "empty",
    "empty_like",
    "fill_diagonal",
    "finfo",
    "from_dlpack",
    "frombuffer",
    "fromfile",
    "fromiter",
    "frompyfunc",
    "fromstring",
    "get_printoptions",
    "iinfo",
    "isdtype",
    "isneginf",
    "isposinf",
    "isscalar",
    "issubdtype",
    "iterable",
    "load",
    "nextafter",
    "partition",
    "place",
    "polydiv",
    "printoptions",
    "promote_types",
    "put",
    "put_along_axis",
    "result_type",
    "save",
    "savez",
    "set_printoptions",
    "spacing",
    "unpackbits",
    # Unique up to signs or orders only, or of arrays of special shapes: tests/numpy/test_linalg.py.
    *(
        f"linalg.{name}"
        for name in ("eig", "eigh", "eigvals", "lstsq", "qr", "tensorinv", "tensorsolve")
    ),
}


def operands(dtype):
    """The arrays of which the calls speak: small eighths, and integers from -4 to 5; xp, mp and sp
    are positive."""

    def a(*shape, seed=0, low=-4):
        rng = np.random.RandomState(seed)
        if dtype == "int32":
            x = rng.randint(low, 6, shape)
        else:
            x = np.round(rng.uniform(low / 2, 3, shape) * 8) / 8 + 0.125 * (low > 0)
        return np.asarray(
            x + 1j * np.round(rng.uniform(-2, 2, shape) * 8) / 8 if dtype == "complex64" else x
        ).astype(dtype)

    return {
        "a": a,
        "x": a(5),
        "x2": a(5, seed=1),
        "xp": a(5, seed=2, low=1),
        "s": a(seed=3),
        "sp": a(seed=3, low=1),
        "e": a(0),
        "e2": a(0, 3),
        "e3": a(3, 0),
        "m": a(3, 4, seed=4),
        "m2": a(3, 4, seed=5),
        "mp": a(3, 4, seed=4, low=1),
        "q": a(3, 3, seed=6),
        "q2": a(3, 3, seed=7),
        "t": a(2, 3, 4, seed=8),
        "t2": a(2, 3, 4, seed=9),
        "bq": a(2, 3, 3, seed=13),
    }


def flat(result):
    if isinstance(result, tuple | list):
        return [y for part in result for y in flat(part)]
    return [np.asarray(result)]


def check(call, dtype):
    values = operands(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # of divisions by zero, and of complex numbers that become real
        wanted, found = (flat(eval(call, {**values, "np": module})) for module in (np, jnp))
    assert [y.shape for y in found] == [y.shape for y in wanted]
    for y, z in zip(found, wanted, strict=True):
        y, z = y.astype(complex), z.astype(complex)
        size = np.abs(np.where(np.isfinite(z), z, 0)).max(initial=0)
        # A result is as exact as its greatest element.
        np.testing.assert_allclose(y, z, rtol=3e-5, atol=3e-6 * size)


def parameters(keep):
    return [
        pytest.param(call, dtype, id=f"{dtype}-{call}")
        for i, (call, dtypes) in enumerate(CALLS)
        for dtype in dtypes
        if keep(i, dtype)
    ]


@pytest.mark.parametrize(
    "call, dtype", parameters(lambda i, dtype: i % 20 == 0 and dtype == "float32")
)
def test_some_calls(call, dtype):
    check(call, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("call, dtype", parameters(lambda i, dtype: i % 20 or dtype != "float32"))
def test_calls(call, dtype):
    check(call, dtype)


def test_every_function_has_a_call():
    """A function that NumPy has too stands in the table, or is an exception."""
    found = set(re.findall(r"\bnp\.((?:(?:linalg|fft)\.)?\w+)", TEXT))
    public = {
        f"{prefix}{name}"
        for prefix, ours, theirs in (
            ("", jnp, np),
            ("linalg.", jnp.linalg, np.linalg),
            ("fft.", jnp.fft, np.fft),
        )
        for name in ours.__all__
        if hasattr(theirs, name)
        and callable(getattr(ours, name))
        and not inspect.isclass(getattr(ours, name))
        and not isinstance(getattr(theirs, name), type)
    }
    assert public - found - ELSEWHERE == set()
