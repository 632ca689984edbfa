"""Rules on precision: formulas that lose digits, and their stable forms."""

from __future__ import annotations

import math
from collections.abc import Iterator

import ml_dtypes

from teucer._check.graph import Value, alike, composed, is_constant, number_of, plain
from teucer._check.program import Found, Program

_FORM = frozenset({"broadcast_in_dim", "reshape", "squeeze", "expand_dims", "copy", "pvary"})


def formulas(program: Program) -> Iterator[Found]:
    """T401: formulas that have a stable function of their own."""
    for v in program.graph.of("log", "sub", "sqrt"):
        if not (v.is_users and v.is_float):
            continue
        if v.op == "log":
            yield from _log(v)
        elif v.op == "sub":
            x, one = v.operands
            made = plain(x)
            if number_of(one) == 1.0 and made.op == "exp" and composed(v, made):
                yield Found(
                    "T401",
                    "exp(x) - 1 loses all digits where x is small.",
                    v,
                    "Use jnp.expm1(x).",
                )


def _log(v: Value) -> Iterator[Found]:
    x = plain(v.operands[0])
    if x.op in ("add", "sub") and composed(v, x):
        a, b = x.operands
        constant = number_of(a) == 1.0 or (x.op == "add" and number_of(b) == 1.0)
        other = plain(b if number_of(a) == 1.0 else a)
        if constant and not is_constant(other) and not _is_whole(other):
            if other.op == "exp":
                yield Found(
                    "T401",
                    "log(1 + exp(x)) overflows where x is large.",
                    v,
                    "Use jax.nn.softplus(x), or jnp.logaddexp(x, 0.0).",
                )
            elif x.op == "add":
                yield Found(
                    "T401",
                    "log(1 + x) loses digits where x is small: 1 + x rounds them off.",
                    v,
                    "Use jnp.log1p(x).",
                )
            elif other.op not in ("logistic", "exp"):
                yield Found(
                    "T401",
                    "log(1 - x) loses digits where x is small: 1 - x rounds them off.",
                    v,
                    "Use jnp.log1p(-x).",
                )
            elif other.op == "logistic":
                yield Found(
                    "T401",
                    "log(1 - sigmoid(x)) is -inf where x is large.",
                    v,
                    "Use jax.nn.log_sigmoid(-x).",
                )
    elif x.op == "logistic" and composed(v, x):
        yield Found(
            "T401",
            "log(sigmoid(x)) is -inf where x is very negative.",
            v,
            "Use jax.nn.log_sigmoid(x).",
        )
    elif _is_softmax(x) and composed(v, x):
        yield Found(
            "T401",
            "log(softmax(x)) is -inf where a probability rounds to 0.",
            v,
            "Use jax.nn.log_softmax(x).",
        )
    elif x.op == "reduce_sum" and composed(v, x):
        e = plain(x.operands[0])
        if e.op == "exp" and composed(v, x, e) and not _is_shifted(e):
            yield Found(
                "T401",
                "log(sum(exp(x))) overflows where x is large.",
                v,
                "Use jax.nn.logsumexp(x).",
            )


def _is_whole(x: Value) -> bool:
    """Whether a value holds whole numbers, so that 1 + x is exact."""
    for _ in range(4):
        if x.dtype is None:
            return False
        if x.dtype.kind in "biu":
            return True
        if x.op in ("round", "floor", "ceil"):
            return True
        if x.op not in ("convert_element_type", *_FORM):
            return False
        x = x.operands[0]
    return False


def _is_softmax(x: Value) -> bool:
    return "_softmax" in x.context.calls and x.op == "div"


def _is_shifted(e: Value) -> bool:
    """Whether exp is of numbers that something was taken off, or that are bounded."""
    x = plain(e.operands[0])
    while x.op in ("mul", "div", "neg", "select_n", "min") and x.operands:
        if x.op in ("select_n", "min"):
            x = plain(x.operands[-1])
        else:
            x = plain(x.operands[0] if not is_constant(x.operands[0]) else x.operands[-1])
            if x.op == "constant":
                return True
    limit = 80.0
    if e.operands[0].range.high <= limit:
        return True
    return x.op == "sub"


def softmaxes(program: Program) -> Iterator[Found]:
    """T402: exp(x) / sum(exp(x)) without taking off the maximum first."""
    for v in program.graph.of("div"):
        if not v.is_users or not v.is_float:
            continue
        above, below = (plain(x) for x in v.operands)
        if below.op != "reduce_sum" or above.op != "exp":
            continue
        e = plain(below.operands[0])
        if alike(e, above) and composed(v, below, e) and not _is_shifted(e):
            yield Found(
                "T402",
                "exp(x) / sum(exp(x)) overflows to inf / inf = NaN: in float32 from x = 89 on.",
                v,
                "Use jax.nn.softmax(x), or take x.max() off first.",
            )


def variances(program: Program) -> Iterator[Found]:
    """T403: mean(x**2) - mean(x)**2."""
    for v in program.graph.of("sub"):
        if not v.is_users or not v.is_float:
            continue
        a, b = (plain(x) for x in v.operands)
        inner = _squared(b)
        if inner is None or not composed(v, a):
            continue
        of_squares = _mean_of(a)
        of_values = _mean_of(plain(inner))
        if of_squares is None or of_values is None:
            continue
        base = _squared(of_squares)
        if base is not None and alike(base, of_values):
            yield Found(
                "T403",
                "mean(x**2) - mean(x)**2 loses all digits where the mean is large, and may be "
                "negative.",
                v,
                "Use jnp.var(x), or mean((x - mean(x))**2).",
            )


def _squared(x: Value) -> Value | None:
    """The value whose square a value is."""
    x = plain(x)
    if x.op == "square" or (x.op == "integer_pow" and x.params["y"] == 2):
        return x.operands[0]
    if x.op == "mul" and alike(x.operands[0], x.operands[1]):
        return x.operands[0]
    if x.op == "pow" and number_of(x.operands[1]) == 2.0:
        return x.operands[0]
    return None


def _mean_of(x: Value) -> Value | None:
    """The values whose mean a value is: a sum, divided by a number."""
    x = plain(x)
    if x.op == "div" and number_of(x.operands[1]) is not None:
        total = plain(x.operands[0])
    elif x.op == "mul" and any(number_of(y) is not None for y in x.operands):
        total = plain(next(y for y in x.operands if number_of(y) is None))
    else:
        return None
    return plain(total.operands[0]) if total.op == "reduce_sum" else None


def sums(program: Program) -> Iterator[Found]:
    """T404: sums and counters that are too long for the digits of their type."""
    for v in program.graph.of("carry"):
        step = v.next
        if not v.is_float or step is None or v.context.backward:
            continue
        made = plain(step)
        if made.op != "add" or not made.is_users or made.dtype != v.dtype:
            continue
        own = [plain(x) is v for x in made.operands]
        if sum(own) != 1:
            continue
        other = made.operands[own.index(False)]
        times = v.context.times
        most = 2.0 / float(ml_dtypes.finfo(v.dtype).eps)
        if times >= most and other.range.low >= 0 and other.range.high > 0:
            yield Found(
                "T404",
                f"{v.dtype.name} holds whole numbers up to {most:.0f} only; after so many of "
                f"{times} steps, what is added is rounded off.",
                made,
                "Count in int32, or sum in a wider type and convert the total.",
            )
    for v in program.graph.of("reduce_sum", "cumsum"):
        if not v.is_float or not v.is_users or v.dtype.itemsize > 2:
            continue
        x = v.operands[0]
        sizes = [x.shape[a] for a in v.params.get("axes", (v.params.get("axis", 0),))]
        n = math.prod(n for n in sizes if isinstance(n, int))
        if n * float(ml_dtypes.finfo(v.dtype).eps) >= 4:
            yield Found(
                "T404",
                f"a sum of {n} numbers in {v.dtype.name} keeps no digit.",
                v,
                "Sum in float32: jnp.sum(x, dtype=jnp.float32).",
            )
    for v in program.graph.of("iota", "convert_element_type"):
        if not v.is_float or not v.is_users or v.dtype.itemsize > 4 or len(v.shape) == 0:
            continue
        if v.op == "convert_element_type" and plain(v).op != "iota":
            continue
        most = 2.0 / float(ml_dtypes.finfo(v.dtype).eps)
        if v.range.high > most and v.range.attained:
            yield Found(
                "T404",
                f"{v.dtype.name} cannot tell whole numbers above {most:.0f} apart; these go up to "
                f"{v.range.high:.0f}.",
                v,
                "Keep them as integers, or use a wider type.",
            )


# Which operand of an operation has the infinite derivative, and where.
_SINGULAR = {
    "log": 0, "sqrt": 0, "rsqrt": 0, "div": 1, "pow": 0, "asin": 0, "acos": 0, "atanh": 0,
    "acosh": 0, "log1p": 0, "cbrt": 0,
}  # fmt: skip
_ELEMENTWISE = frozenset({"add", "sub", "mul", "neg", "exp", "tanh", "square", "max", "min", "abs"})


def wheres(program: Program) -> Iterator[Found]:
    """T405, T406: where(x > 0, log(x), 0): 0 times an infinite derivative is NaN."""
    for v in program.graph.of("select_n"):
        if not v.is_users or not v.is_float or len(v.operands) != 3:
            continue
        test = plain(v.operands[0])
        if test.op not in ("gt", "ge", "lt", "le", "eq", "ne"):
            continue
        compared = [plain(x) for x in test.operands if not is_constant(x)]
        for case in v.operands[1:]:
            made = _singular(case, compared, 4)
            if made is None or not composed(v, made):
                continue
            differentiated = made.is_differentiated
            when = "is" if differentiated else "would be"
            yield Found(
                "T405" if differentiated else "T406",
                f"the gradient {when} NaN where the condition fails: the derivative of {made.op} "
                "is infinite or NaN there, and jnp.where multiplies it by 0.",
                v,
                "Choose a harmless argument first: y = jnp.where(cond, x, 1.0), then "
                f"jnp.where(cond, {made.op}(y), other).",
            )
            break


def _singular(x: Value, compared: list[Value], depth: int) -> Value | None:
    """The operation with an infinite derivative that makes a value, if its operand is in the
    condition."""
    x = plain(x)
    if x.op in _SINGULAR and x.is_float:
        operand = x.operands[_SINGULAR[x.op]]
        if x.op == "pow" and (number_of(x.operands[1]) or 1.0) >= 1.0:
            return None
        if any(alike(operand, y) for y in compared) and operand.range.low <= 0:
            return x
    if depth and x.op in (*_ELEMENTWISE, *_SINGULAR):
        for operand in x.operands:
            found = _singular(operand, compared, depth - 1)
            if found is not None:
                return found
    return None
