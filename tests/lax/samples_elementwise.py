"""Sample inputs of the elementwise operations, made from their tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import scipy.special
from lax.sampling import Sample

import teucer.lax._elementwise
import teucer.lax._polynomial
import teucer.lax._special  # noqa: F401  fills the table
from teucer.lax._families import ELEMENTWISE, Elementwise

__all__ = ["ARITY", "DTYPES", "REFERENCES", "SAMPLES", "operands"]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = ("float32", "bfloat16", "float16")
COMPLEX = ("complex64",)
INTS = ("int32", "uint8", "int16")

# The NumPy or SciPy function of an operation, where one exists, by the public name.
REFERENCES: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rem": np.fmod, "neg": np.negative,
    "sign": np.sign, "abs": np.abs, "square": np.square, "floor": np.floor, "ceil": np.ceil, "is_finite": np.isfinite,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "max": np.maximum, "min": np.minimum, "real": np.real, "imag": np.imag, "complex": lambda x, y: x + 1j * y,
    "bitwise_not": np.bitwise_not, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor, "shift_left": np.left_shift, "shift_right_arithmetic": np.right_shift,
    "population_count": lambda x: np.bitwise_count(x.view(f"u{x.itemsize}")),
    "exp": np.exp, "exp2": lambda x: np.power(2.0, x), "expm1": np.expm1,
    "log2": np.log2, "one_minus_square": lambda x: (1 + x) * (1 - x),
    "log": np.log, "log1p": np.log1p, "logistic": lambda x: 1 / (1 + np.exp(-x)), "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "erf": scipy.special.erf,
    "erfc": scipy.special.erfc, "erf_inv": scipy.special.erfinv, "lgamma": scipy.special.gammaln,
    "digamma": scipy.special.psi, "zeta": scipy.special.zeta, "bessel_i0e": scipy.special.i0e,
    "bessel_i1e": scipy.special.i1e, "igamma": scipy.special.gammainc, "igammac": scipy.special.gammaincc,
    "betainc": scipy.special.betainc, "nextafter": None, "polygamma": None,
}
PUBLIC = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "not": "bitwise_not",
          "regularized_incomplete_beta": "betainc"}
ARITY = {"regularized_incomplete_beta": 3}
# Rows without a public function of one meaning: tested by themselves.
APART = frozenset({"integer_pow", "round", "conj", "eq_to", "lt_to", "le_to"})


def arity(op: Elementwise) -> int:
    """How many operands an operation takes."""
    if op.name in ARITY:
        return ARITY[op.name]
    if op.tangents is not None:
        return len(op.tangents)
    return 2


DTYPES = {name: tuple(d for d in (*FLOATS, *COMPLEX, *INTS, "bool")
                      if np.dtype(BFLOAT16 if d == "bfloat16" else d) in op.accepts) for name, op in ELEMENTWISE.items()}
DTYPES["atan2"] = FLOATS  # NumPy's has no complex form


def values(op: Elementwise, rng: np.random.Generator, dtype: Any, shape: Any) -> Any:
    """An operand within the interval that the row names."""
    dtype = BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype)
    low, high = op.tested.low, op.tested.high
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(1 if "shift" in op.name or dtype.kind == "u" else int(low), int(high), shape).astype(dtype)
    x = rng.uniform(low, high, shape)
    return (x + 1j * rng.uniform(low, high, shape) if dtype.kind == "c" else x).astype(dtype)


def operands(op: Elementwise, rng: np.random.Generator, dtype: Any, shape: Any = (17,)) -> tuple[Any, ...]:
    """Operands of an operation."""
    xs = [values(op, rng, dtype, shape) for _ in range(arity(op))]
    if op.name in ("div", "rem") and xs[1].dtype.kind in "iu":
        xs[1] = np.where(xs[1] == 0, xs[1].dtype.type(3), xs[1])
    if op.name == "polygamma":
        xs[0] = np.floor(xs[0].astype(np.float32) / 3).astype(xs[0].dtype)
    return tuple(xs)


def _maker(op: Elementwise) -> Callable[..., Any]:
    return lambda rng, dtype: (operands(op, rng, dtype), {})


SAMPLES = [
    Sample(PUBLIC.get(name, name), f"lax.{PUBLIC.get(name, name)}", _maker(op), DTYPES[name],
           REFERENCES.get(PUBLIC.get(name, name)), op.tangents is not None and any(op.tangents))
    for name, op in ELEMENTWISE.items() if name not in APART]
