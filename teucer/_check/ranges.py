"""Which numbers a value may be: intervals that hold for all arguments.

Sound: no element lies outside, NaN aside. `attained` says more: both ends are (nearly) reached for
ordinary arguments, so that a negative lower end is a negative number that will come. It is lost
where operands depend on each other.
Source: Moore, Kearfott & Cloud, Introduction to Interval Analysis, SIAM 2009, chapters 2 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from teucer._base import dtypes

_INF = math.inf


class Range(NamedTuple):
    """All numbers from low to high."""

    low: float = -_INF
    high: float = _INF
    attained: bool = False

    @property
    def is_point(self) -> bool:
        return self.low == self.high

    def joined(self, other: Range) -> Range:
        """The smallest range that contains both."""
        return Range(
            min(self.low, other.low),
            max(self.high, other.high),
            self.attained and other.attained,
        )


def of_dtype(dtype: Any) -> Range:
    """All values of a type."""
    if dtype == np.bool_:
        return Range(0, 1, False)
    if dtypes.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return Range(int(info.min), int(info.max))
    return Range()


def of_array(x: Any) -> Range:
    """The values of a constant."""
    array = np.asarray(x)
    if dtypes.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float64)  # NumPy knows no kind of bfloat16
    if not array.size or array.dtype.kind not in "biuf":
        return of_dtype(array.dtype) if array.dtype.kind in "biu" else Range()
    if array.dtype.kind == "f" and np.isnan(array).any():
        return Range()
    low, high = array.min().item(), array.max().item()
    return Range(float(low), float(high), True) if array.dtype.kind == "f" else Range(
        int(low), int(high), True
    )  # fmt: skip


def _mul1(x: float, y: float) -> float:
    return 0 if x == 0 or y == 0 else x * y


def _corners(f: Callable[[Any, Any], float], x: Range, y: Range) -> tuple[float, float]:
    found = [f(a, b) for a in x[:2] for b in y[:2]]
    return min(found), max(found)


def _add(x: Range, y: Range) -> Range:
    return Range(x.low + y.low, x.high + y.high, x.attained and y.attained)


def _sub(x: Range, y: Range) -> Range:
    return Range(x.low - y.high, x.high - y.low, x.attained and y.attained)


def _mul(x: Range, y: Range) -> Range:
    return Range(*_corners(_mul1, x, y), x.attained and y.attained)


def _div(x: Range, y: Range) -> Range:
    if y.low <= 0 <= y.high:
        if x.low >= 0 and y.low >= 0:
            return Range(0, _INF)
        return Range()
    if math.isinf(y.low) or math.isinf(y.high):
        sign = 1 if y.low > 0 else -1
        bound = y.low if sign > 0 else y.high
        ends = [v / bound for v in x[:2] if not math.isinf(v)] + [
            sign * v for v in x[:2] if math.isinf(v)
        ]
        return Range(min(0, *ends), max(0, *ends), x.attained and y.attained)
    low, high = _corners(lambda a, b: a / b, x, y)
    return Range(low, high, x.attained and y.attained)


def _max(x: Range, y: Range) -> Range:
    return Range(max(x.low, y.low), max(x.high, y.high), x.attained and y.attained)


def _min(x: Range, y: Range) -> Range:
    return Range(min(x.low, y.low), min(x.high, y.high), x.attained and y.attained)


def _monotone(f: Callable[[float], float]) -> Callable[[Range], Range]:
    def applied(x: Range) -> Range:
        return Range(_at(f, x.low), _at(f, x.high), x.attained)

    return applied


def _at(f: Callable[[float], float], x: float) -> float:
    try:
        return f(x)
    except OverflowError:
        return _INF
    except ValueError:
        return math.nan


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _between(low: float, high: float, f: Callable[[float], float]) -> Callable[[Range], Range]:
    """Of a monotone function with bounded values, which are attained where the argument is free."""

    def applied(x: Range) -> Range:
        free = math.isinf(x.low) and math.isinf(x.high)
        return Range(
            low if x.low == -_INF else max(low, _at(f, x.low)),
            high if x.high == _INF else min(high, _at(f, x.high)),
            free or x.attained,
        )

    return applied


def _wave(x: Range) -> Range:
    return Range(-1, 1, math.isinf(x.low) and math.isinf(x.high))


def _square(x: Range) -> Range:
    ends = sorted((_mul1(x.low, x.low), _mul1(x.high, x.high)))
    return Range(0 if x.low <= 0 <= x.high else ends[0], ends[1], x.attained)


def _abs(x: Range) -> Range:
    ends = sorted((abs(x.low), abs(x.high)))
    return Range(0 if x.low <= 0 <= x.high else ends[0], ends[1], x.attained)


def _sqrt(x: Range) -> Range:
    return Range(_at(math.sqrt, max(x.low, 0)), _at(math.sqrt, max(x.high, 0)), x.attained)


def _log(x: Range) -> Range:
    if x.high <= 0:
        return Range()
    low = -_INF if x.low <= 0 else math.log(x.low)
    return Range(low, _INF if x.high == _INF else math.log(x.high), x.attained and x.low >= 0)


def _log1p(x: Range) -> Range:
    return _log(Range(x.low + 1, x.high + 1, x.attained))


def _sign(x: Range) -> Range:
    return Range(np.sign(x.low).item(), np.sign(x.high).item(), x.attained)


def _erf_inv(x: Range) -> Range:
    return Range(0 if x.low >= 0 else -_INF, 0 if x.high <= 0 else _INF, x.attained)


def _rsqrt(x: Range) -> Range:
    if x.low < 0:
        return Range(0, _INF)
    ends = [0 if v == _INF else (_INF if v == 0 else v**-0.5) for v in x[:2]]
    return Range(min(ends), max(ends), x.attained)


def _rem(x: Range, y: Range) -> Range:
    most = max(abs(y.low), abs(y.high))
    return Range(0 if x.low >= 0 else max(x.low, -most), 0 if x.high <= 0 else min(x.high, most))


RULES: dict[str, Callable[..., Range]] = {
    "add": _add, "add_any": _add, "sub": _sub, "mul": _mul, "div": _div, "max": _max, "min": _min,
    "rem": _rem, "neg": lambda x: Range(-x.high, -x.low, x.attained), "abs": _abs,
    "square": _square, "exp": _monotone(math.exp), "exp2": _monotone(lambda x: 2.0**x),
    "expm1": _monotone(math.expm1), "log": _log, "log1p": _log1p, "sqrt": _sqrt, "rsqrt": _rsqrt,
    "sin": _wave, "cos": _wave, "tanh": _between(-1, 1, math.tanh),
    "logistic": _between(0, 1, _sigmoid), "erf": _between(-1, 1, math.erf),
    "erfc": lambda x: Range(0, 2), "atan": _between(-math.pi / 2, math.pi / 2, math.atan),
    "asin": lambda x: Range(-math.pi / 2, math.pi / 2), "acos": lambda x: Range(0, math.pi),
    "erf_inv": _erf_inv, "sign": _sign, "cbrt": _monotone(math.cbrt),
    "floor": _monotone(lambda x: x if math.isinf(x) else math.floor(x)),
    "ceil": _monotone(lambda x: x if math.isinf(x) else math.ceil(x)),
    "round": _monotone(lambda x: x if math.isinf(x) else round(x)),
    "clamp": lambda low, x, high: _min(_max(x, low), high),
    "cosh": lambda x: Range(1, _INF),
}  # fmt: skip
"""How operations of numbers act on ranges; comparisons, moves and sums are in `of_operation`."""

# The elements of the result are elements of the first operand.
MOVES = frozenset(
    {
        "broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose", "rev", "slice",
        "dynamic_slice", "copy", "copy_p", "stop_gradient", "reduce_max", "reduce_min", "sort",
        "cummax", "cummin", "sharding_constraint", "reshard", "pvary", "device_put",
        "optimization_barrier",
        "all_gather", "pmax", "pmin", "ppermute", "all_to_all", "reduce_precision", "element",
        "stacked", "part", "whole", "pbroadcast", "reduce_window_max", "reduce_window_min", "real",
        "checkpoint_name", "name", "tile", "full_like",
    }
)  # fmt: skip
_COMPARISONS: dict[str, Callable[[Range, Range], bool | None]] = {
    "lt": lambda x, y: True if x.high < y.low else False if x.low >= y.high else None,
    "le": lambda x, y: True if x.high <= y.low else False if x.low > y.high else None,
    "gt": lambda x, y: True if x.low > y.high else False if x.high <= y.low else None,
    "ge": lambda x, y: True if x.low >= y.high else False if x.high < y.low else None,
    "eq": lambda x, y: False if x.high < y.low or y.high < x.low else None,
    "ne": lambda x, y: True if x.high < y.low or y.high < x.low else None,
}


def of_operation(
    op: str, params: dict[str, Any], operands: Sequence[Range], in_avals: Sequence[Any], aval: Any
) -> Range:
    """The range of a result, from the operands' ranges; all of its type where nothing is known."""
    everything = of_dtype(getattr(aval, "dtype", np.dtype(np.float32)))
    if op == "random_bits":
        return everything._replace(attained=True)
    if any(getattr(a, "dtype", None) is None or not _real(a.dtype) for a in (*in_avals, aval)):
        return everything
    found = _of_operation(op, params, operands, in_avals, aval)
    if found is None or math.isnan(found.low) or math.isnan(found.high):
        return everything
    if dtypes.issubdtype(aval.dtype, np.floating):
        return _rounded(found, dtypes.finfo(aval.dtype))
    if found.low < everything.low or found.high > everything.high:
        return everything  # an integer that wraps around
    return found


def _rounded(x: Range, info: Any) -> Range:
    """Numbers that are too large for a type are infinite, those that are too small may be 0."""
    most, least = float(info.max), float(info.smallest_normal)
    low = -_INF if x.low < -most else 0.0 if 0 < x.low < least else x.low
    high = _INF if x.high > most else 0.0 if -least < x.high < 0 else x.high
    return Range(most if low > most else low, -most if high < -most else high, x.attained)


def _real(dtype: Any) -> bool:
    return dtype == np.bool_ or dtypes.issubdtype(dtype, np.integer) or dtypes.issubdtype(
        dtype, np.floating
    )  # fmt: skip


def _of_operation(
    op: str, params: dict[str, Any], operands: Sequence[Range], in_avals: Sequence[Any], aval: Any
) -> Range | None:
    integer = not dtypes.issubdtype(aval.dtype, np.floating)
    if op in MOVES and operands:
        return operands[0]
    if op == "convert_element_type":
        x = operands[0]
        if aval.dtype == np.bool_:
            return None
        if integer and not any(map(math.isinf, x[:2])):
            return Range(math.trunc(x.low), math.trunc(x.high), x.attained)
        return x
    if op in _COMPARISONS and len(operands) == 2:
        known = _COMPARISONS[op](*operands)
        return None if known is None else Range(known, known, True)
    if op in ("concatenate", "phi", "stack", "pad", "select_and_gather_add"):
        found = operands[0]
        for x in operands[1:]:
            found = found.joined(x)
        return found
    if op == "select_n":
        which, *cases = operands
        if which.is_point and 0 <= which.low < len(cases):
            return cases[int(which.low)]
        found = cases[0]
        for x in cases[1:]:
            found = found.joined(x)
        return found
    if op == "iota":
        n = _size(aval.shape[params["dimension"]])
        return None if n is None else Range(0, max(n - 1, 0), True)
    if op in ("argmax", "argmin"):
        n = _size(in_avals[0].shape[params["axes"][0]])
        return None if n is None else Range(0, max(n - 1, 0))
    if op in ("reduce_sum", "cumsum", "psum"):
        return _summed(op, params, operands[0], in_avals[0])
    if op == "integer_pow":
        return _power(operands[0], params["y"])
    if op == "pow":
        x, y = operands
        if y.is_point and x.low >= 0 and y.low > 0:
            return Range(
                _at(lambda v: v**y.low, x.low), _at(lambda v: v**y.low, x.high), x.attained
            )
        return Range(0, _INF) if x.low >= 0 else None
    if op in _BITS:
        return _of_bits_operation(op, operands, in_avals, aval)
    if integer and op == "rem" and operands[1].low <= 0 <= operands[1].high:
        x = operands[0]  # by zero: as it is
        return Range(min(x.low, 0), max(x.high, 0))
    if integer and op == "div":
        x, y = operands
        if not any(map(math.isinf, (*x[:2], *y[:2]))) and not y.low <= 0 <= y.high:
            low, high = _corners(lambda a, b: math.trunc(a / b), x, y)
            return Range(low, high, x.attained and y.attained)
        return None
    if op == "reduce_and" or op == "reduce_or":
        return operands[0] if operands[0].is_point else None
    if op == "dot_general" or op == "conv_general_dilated":
        return Range(0, _INF) if all(x.low >= 0 for x in operands[:2]) else None
    rule = RULES.get(op)
    return None if rule is None else rule(*operands)


_BITS = frozenset(
    {"bitcast_convert_type", "shift_right_logical", "and", "or", "not", "xor"}
)  # fmt: skip


def _of_bits_operation(
    op: str, operands: Sequence[Range], in_avals: Sequence[Any], aval: Any
) -> Range | None:
    if op == "bitcast_convert_type":
        return _of_bits(operands[0], in_avals[0], aval)
    if op == "shift_right_logical":
        x, n = operands
        if x.low < 0 or not n.is_point or not 0 <= n.low < 64:
            return None
        return Range(int(x.low) >> int(n.low), int(x.high) >> int(n.low), x.attained)
    if op == "or" and aval.dtype != np.bool_:
        x, y = operands
        if x.low < 0 or y.low < 0:
            return None
        return Range(max(x.low, y.low), x.high + y.high, x.attained and y.attained)
    return None


def _of_bits(x: Range, taken: Any, aval: Any) -> Range | None:
    """The range of integers reinterpreted as floats. Positive floats have the order of their
    bits."""
    ends = [np.asarray(end, taken.dtype) for end in x[:2]] if x.low >= 0 else []
    if not ends or not dtypes.issubdtype(aval.dtype, np.floating):
        return None
    if taken.dtype.itemsize != aval.dtype.itemsize:
        return None
    low, high = (float(end.view(aval.dtype)) for end in ends)
    return Range(low, high, x.attained) if 0 <= low <= high else None


def _size(n: Any) -> int | None:
    return n if isinstance(n, int) else None


def _summed(op: str, params: dict[str, Any], x: Range, aval: Any) -> Range | None:
    if op == "psum":
        return Range(min(x.low, 0) * _INF if x.low < 0 else x.low,
                     x.high * _INF if x.high > 0 else x.high)  # fmt: skip
    axes = params["axes"] if op == "reduce_sum" else (params["axis"],)
    n = 1
    for axis in axes:
        size = _size(aval.shape[axis])
        if size is None:
            return Range(0 if x.low >= 0 else -_INF, 0 if x.high <= 0 else _INF, x.attained)
        n *= size
    if op == "cumsum":
        return Range(min(x.low, n * x.low) if n else 0, max(x.high, n * x.high) if n else 0, False)
    return Range(_mul1(n, x.low), _mul1(n, x.high), x.attained)


def _power(x: Range, n: int) -> Range | None:
    if n < 0:
        return None if x.low <= 0 else _div(Range(1, 1, True), _power(x, -n) or Range())
    if n % 2 == 0:
        x = _abs(x)
    return Range(_at(lambda v: v**n, x.low), _at(lambda v: v**n, x.high), x.attained)
