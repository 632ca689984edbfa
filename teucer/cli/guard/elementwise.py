"""Functions of each element, alone and in chains, and conversions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import scipy.special

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer.cli.guard.answer import Answer, check_values

__all__ = ["ANSWERS"]

# Names of jnp and numpy: the range of their operands. Arrays have sizes around the sizes of vectors
# and of threads' parts.
_UNARY = {
    "exp": (-80, 80), "exp2": (-100, 100), "expm1": (-20, 20), "log": (1e-30, 1e30),
    "log2": (1e-30, 1e30), "log10": (1e-30, 1e30), "log1p": (-0.9, 1e6), "sqrt": (0, 1e30),
    "cbrt": (-1e6, 1e6), "sin": (-100, 100), "cos": (-100, 100), "tan": (-1.5, 1.5),
    "arcsin": (-1, 1), "arccos": (-1, 1), "arctan": (-1e3, 1e3), "sinh": (-20, 20),
    "cosh": (-20, 20), "tanh": (-10, 10), "arcsinh": (-1e6, 1e6), "arccosh": (1, 1e6),
    "arctanh": (-0.99, 0.99), "floor": (-1e6, 1e6), "ceil": (-1e6, 1e6), "rint": (-100, 100),
    "sign": (-1, 1), "abs": (-1e30, 1e30), "square": (-1e6, 1e6), "reciprocal": (1e-3, 1e3),
}  # fmt: skip
_BINARY = {
    "add": (-1e6, 1e6), "subtract": (-1e6, 1e6), "multiply": (-1e6, 1e6), "divide": (1, 1e6),
    "power": (0.1, 10), "arctan2": (-10, 10), "hypot": (-1e6, 1e6), "maximum": (-10, 10),
    "minimum": (-10, 10), "fmod": (1, 1e3), "logaddexp": (-50, 50), "copysign": (-5, 5),
}  # fmt: skip
_SPECIAL = {
    "erf": (-4, 4), "erfc": (-4, 4), "gammaln": (0.1, 100), "digamma": (0.1, 100),
    "expit": (-20, 20), "ndtri": (0.01, 0.99), "i0e": (-20, 20), "i1e": (-20, 20),
}  # fmt: skip
_SIZES = (1, 7, 64, 1000, 70_001)


def _grid(low: float, high: float, size: int, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(size)
    x = rng.uniform(low, high, size)
    if high / max(low, 1e-300) > 1e9 and low > 0:
        x = np.exp(rng.uniform(np.log(low), np.log(high), size))
    return x.astype(dtype)


def _unary(module: Any, oracle: Any, name: str, low: float, high: float, dtype: str) -> str:
    f, exact = getattr(module, name), getattr(oracle, name)
    for size in _SIZES:
        x = _grid(low, high, size, dtype)
        if text := check_values(f, [x], exact(x.astype("float64")), _tolerance(dtype)):
            return f"size {size}: {text}"
    return ""


def _binary(name: str, low: float, high: float, dtype: str) -> str:
    f, exact = getattr(jnp, name), getattr(np, name)
    for size in _SIZES:
        x, y = _grid(low, high, size, dtype), _grid(low, high, size, dtype)[::-1].copy()
        wanted = exact(x.astype("float64"), y.astype("float64"))
        if text := check_values(f, [x, y], wanted, _tolerance(dtype)):
            return f"size {size}: {text}"
    return ""


def _tolerance(dtype: str) -> float:
    return {"float32": 4e-6, "float64": 1e-13, "bfloat16": 1e-2, "float16": 2e-3}[dtype]


def _chain(depth: int) -> str:
    """A deep chain of cheap functions: one long kernel."""
    x = np.linspace(-1, 1, 4097)

    def chain(x: Any) -> Any:
        for i in range(depth):
            x = x * 0.99 + 0.01 * (i % 7) if i % 3 else -abs(x) + 0.5
        return x

    return check_values(chain, [x], chain(x), 1e-12)


def _exp_of_where() -> str:
    """exp of a choice by a scalar, one side of which is NaN."""
    x = np.linspace(-3, 3, 4097, dtype=np.float32)
    for flag in (True, False):
        wanted = np.exp(x) if flag else np.full_like(x, np.nan)
        f = lambda flag, x: jnp.exp(jnp.where(flag, x, jnp.nan))  # noqa: E731
        if text := check_values(f, [np.bool_(flag), x], wanted):
            return f"{flag}: {text}"
    return ""


def _conversion(source: str, target: str) -> str:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 100, 4097).astype(source)
    wanted = x.astype(target)
    return check_values(lambda x: x.astype(target), [x], wanted.astype("float64"), 0)


def _integers(name: str, dtype: str) -> str:
    """With overflow, as the processor's arithmetic has it."""
    rng = np.random.default_rng(1)
    info = np.iinfo(dtype)
    x, y = (rng.integers(info.min, info.max, 4097, dtype, endpoint=True) for _ in range(2))
    y[y == 0] = 1
    if name in ("left_shift", "right_shift"):
        y = (y % info.bits).astype(dtype)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x, y)
    found = np.asarray(jax.jit(getattr(jnp, name))(x, y))
    wrong = np.count_nonzero(found != wanted)
    return f"{wrong} of {found.size} values" if wrong else ""


def _bits(source: str, target: str) -> str:
    x = np.arange(1, 4097).astype(source)
    found = np.asarray(jax.jit(lambda x: lax.bitcast_convert_type(x, target))(x))
    return "" if (found == x.view(target).reshape(found.shape)).all() else "other bits"


def _selects() -> str:
    x = np.random.default_rng(2).standard_normal((65, 33))
    f: Callable[..., Any] = lambda x: jnp.where(x > 0, x, jnp.where(x > -1, 0.0, x + 1))  # noqa: E731
    return check_values(f, [x], np.where(x > 0, x, np.where(x > -1, 0.0, x + 1)), 0)


def _complex(name: str) -> str:
    rng = np.random.default_rng(3)
    x = rng.standard_normal(4097) + 1j * rng.standard_normal(4097)
    return check_values(getattr(jnp, name), [x], getattr(np, name)(x), 1e-12)


_FLOATS = ("float32", "float64")
ANSWERS = (
    [
        Answer(f"{name} {dtype}", functools.partial(_unary, jnp, np, name, *ends, dtype))
        for name, ends in _UNARY.items()
        for dtype in _FLOATS
    ]
    + [
        Answer(f"{name} {dtype}", functools.partial(_binary, name, *ends, dtype))
        for name, ends in _BINARY.items()
        for dtype in _FLOATS
    ]
    + [
        Answer(
            f"{name} float64",
            functools.partial(_unary, jax.scipy.special, scipy.special, name, *ends, "float64"),
        )
        for name, ends in _SPECIAL.items()
        if name not in ("i0e", "i1e", "ndtri", "digamma", "gammaln")
    ]
    + [
        Answer(
            f"{name} float32",
            functools.partial(_unary, jax.scipy.special, scipy.special, name, *ends, "float32"),
        )
        for name, ends in _SPECIAL.items()
        if name in ("gammaln", "digamma", "i0e", "i1e", "ndtri")
    ]
    + [Answer(f"a chain of {n} operations", functools.partial(_chain, n)) for n in (30, 300)]
    + [Answer("exp of a choice by a scalar", _exp_of_where), Answer("nested choices", _selects)]
    + [
        Answer(f"{a} to {b}", functools.partial(_conversion, a, b))
        for a, b in (
            ("float32", "float16"),
            ("float64", "float32"),
            ("float32", "int32"),
            ("int32", "float32"),
            ("int8", "int64"),
            ("uint8", "float16"),
            ("float32", ml_dtypes.bfloat16.dtype.name),
            (ml_dtypes.bfloat16.dtype.name, "float32"),
        )
    ]
    + [
        Answer(f"{name} {dtype}", functools.partial(_integers, name, dtype))
        for name in ("add", "multiply", "floor_divide", "remainder", "bitwise_xor", "left_shift")
        for dtype in ("int8", "int32", "uint64")
    ]
    + [
        Answer(f"bits of {a} as {b}", functools.partial(_bits, a, b))
        for a, b in (("float32", "uint32"), ("float64", "uint64"), ("float16", "int16"))
    ]
    + [
        Answer(f"{name} complex128", functools.partial(_complex, name))
        for name in ("exp", "log", "sqrt", "sin", "tanh", "abs")
    ]
)
