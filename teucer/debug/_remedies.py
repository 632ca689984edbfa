"""What to do about operations that lose digits, or make NaN and infinity.

The usual remedies, by the operation and its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple


class Made(NamedTuple):
    """The origin of a value: an operation and its operands. A constant has its `value`."""

    op: str
    operands: tuple[Made, ...] = ()
    value: Any = None
    params: dict[str, Any] | None = None


_THROUGH = frozenset(
    {
        "broadcast_in_dim", "reshape", "squeeze", "convert_element_type", "copy", "copy_p",
        "expand_dims", "transpose", "stop_gradient", "reduce_precision",
    }
)  # fmt: skip


def _plain(x: Made) -> Made:
    """The value behind reshapes, conversions and the like."""
    while x.op in _THROUGH and x.operands:
        x = x.operands[0]
    return x


def _is(x: Made, *ops: str) -> bool:
    return _plain(x).op in ops


def _constant(x: Made, value: float) -> bool:
    x = _plain(x)
    return x.op == "constant" and x.value == value


def _parts(x: Made) -> tuple[Made, ...]:
    return tuple(map(_plain, _plain(x).operands))


def _either(x: Made, test: Callable[[Made], bool]) -> bool:
    return any(map(test, _parts(x)))


def _within(x: Made, *ops: str, depth: int = 6) -> bool:
    """Whether an operation is among the origins of a value."""
    return any(found.op in ops for found in _ancestors(_plain(x), depth))


def _ancestors(x: Made, depth: int) -> Iterator[Made]:
    yield x
    if depth:
        for part in x.operands:
            yield from _ancestors(part, depth - 1)


def _is_square(x: Made) -> bool:
    x = _plain(x)
    if x.op == "mul" and len(x.operands) == 2:
        return _plain(x.operands[0]) is _plain(x.operands[1]) or _plain(x.operands[0]) == _plain(
            x.operands[1]
        )
    return x.op == "square" or (x.op == "integer_pow" and (x.params or {}).get("y") == 2)


def _is_mean_of_squares(x: Made) -> bool:
    x = _plain(x)
    sums = (x, *x.operands) if x.op in ("div", "mul") else (x,)
    return any(_is(s, "reduce_sum") and _is_square(_parts(s)[0]) for s in sums)


class Remedy(NamedTuple):
    """Advice for an operation of some kinds on such operands."""

    ops: frozenset[str]
    holds: Callable[[Made], bool]
    text: str


def _rule(ops: str, holds: Callable[[Made], bool], text: str) -> Remedy:
    return Remedy(frozenset(ops.split()), holds, text)


def _always(x: Made) -> bool:
    return True


# The first that holds is named. Sources: N. J. Higham, Accuracy and Stability of Numerical
# Algorithms (2002), chapters 1, 3, 4.
_LOSSES: tuple[Remedy, ...] = (
    _rule(
        "log",
        lambda x: _is(x.operands[0], "add") and _either(x.operands[0], lambda p: _constant(p, 1.0)),
        "jnp.log1p(x) is log(1 + x) without forming 1 + x",
    ),
    _rule(
        "log",
        lambda x: _is(x.operands[0], "sub") and _constant(_parts(x.operands[0])[0], 1.0),
        "jnp.log1p(-x) is log(1 - x) without forming 1 - x",
    ),
    _rule(
        "log",
        lambda x: _is(x.operands[0], "div") and _within(x.operands[0], "exp"),
        "jax.nn.log_softmax takes the logarithm before digits are lost",
    ),
    _rule(
        "sub",
        lambda x: _is(x.operands[0], "exp") and _constant(x.operands[1], 1.0),
        "jnp.expm1(x) is exp(x) - 1 without cancellation",
    ),
    _rule(
        "sub",
        lambda x: _constant(x.operands[0], 1.0) and _is(x.operands[1], "exp"),
        "-jnp.expm1(x) is 1 - exp(x) without cancellation",
    ),
    _rule(
        "sub",
        lambda x: _constant(x.operands[0], 1.0) and _is(x.operands[1], "cos"),
        "1 - cos(x) is 2 * sin(x / 2) ** 2",
    ),
    _rule(
        "sub",
        lambda x: _constant(x.operands[0], 1.0) and _is(x.operands[1], "logistic", "tanh"),
        "1 - sigmoid(x) is sigmoid(-x); 1 - tanh(x) is 2 * sigmoid(-2 * x)",
    ),
    _rule(
        "sub",
        lambda x: _constant(x.operands[0], 1.0) and _is(x.operands[1], "erf"),
        "jax.scipy.special.erfc(x) is 1 - erf(x)",
    ),
    _rule(
        "sub",
        lambda x: (
            _is(x.operands[0], "sqrt")
            and (_is(x.operands[1], "sqrt") or _constant(x.operands[1], 1.0))
        ),
        "sqrt(a) - sqrt(b) is (a - b) / (sqrt(a) + sqrt(b))",
    ),
    _rule(
        "sub",
        lambda x: _is_mean_of_squares(x.operands[0]),
        "subtract the mean first: jnp.mean((x - jnp.mean(x)) ** 2), or jnp.var",
    ),
    _rule(
        "sub",
        lambda x: _is_square(x.operands[0]) and _is_square(x.operands[1]),
        "a**2 - b**2 is (a - b) * (a + b)",
    ),
    _rule(
        "sub",
        lambda x: _is(x.operands[0], "log") and _is(x.operands[1], "log"),
        "log(a) - log(b) is log1p((a - b) / b)",
    ),
    _rule(
        "sub",
        lambda x: _is(x.operands[0], "mul") and _is(x.operands[1], "mul"),
        "a*b - c*d cancels: compute it in float64, or rearrange it",
    ),
    _rule(
        "sub add add_any",
        _always,
        (
            "the operands nearly cancel: rearrange so that they are subtracted before digits are "
            "lost, or compute them in float64"
        ),
    ),
    _rule(
        "reduce_sum cumsum reduce_window_sum scatter-add",
        _always,
        "sum in float64 (dtype=jnp.float64), by halves, or with Kahan's correction",
    ),
    _rule(
        "dot_general conv_general_dilated",
        _always,
        (
            "precision='highest', or preferred_element_type=jnp.float64, keeps more digits of the "
            "sum of products"
        ),
    ),
    _rule("acos asin", _always, "near 1 the angle is jnp.arctan2(sqrt((1 - x) * (1 + x)), x)"),
    _rule(
        "sin cos tan",
        _always,
        "reduce the angle before it is large: jnp.mod of an exact period, or integers of turns",
    ),
    _rule(
        "exp exp2 pow integer_pow sinh cosh",
        _always,
        "a large argument multiplies the error of the argument: work with logarithms",
    ),
    _rule("log", _always, "the argument is near 1: compute its distance from 1, and use jnp.log1p"),
    _rule(
        "cholesky lu qr triangular_solve eigh svd",
        _always,
        "the matrix is nearly singular: scale it, add to its diagonal, or factor it in float64",
    ),
    _rule("convert_element_type", _always, "the narrower dtype has fewer digits: convert later"),
    _rule("rem", _always, "the remainder of a large number has few digits: keep the number small"),
)

_INFINITIES: tuple[Remedy, ...] = (
    _rule(
        "exp exp2",
        _always,
        "subtract the maximum first: jax.nn.logsumexp, jax.nn.softmax, jax.nn.log_softmax do",
    ),
    _rule(
        "log",
        _always,
        "log(0): add a small number, or choose with jnp.where before the logarithm is taken",
    ),
    _rule("log1p", _always, "log1p(-1) is -inf: keep the argument above -1"),
    _rule(
        "div",
        _always,
        "division by zero: choose a divisor that is not zero with jnp.where before dividing",
    ),
    _rule(
        "rsqrt pow",
        _always,
        "a power of zero with a negative exponent: choose with jnp.where before it is taken",
    ),
    _rule(
        "integer_pow square mul",
        _always,
        "the product overflows: scale first; jnp.hypot and jnp.linalg.norm scale",
    ),
    _rule(
        "reduce_sum add dot_general cumsum",
        _always,
        "the sum overflows: scale first, or sum in a wider dtype",
    ),
    _rule("convert_element_type", _always, "the number is too large for the narrower dtype"),
    _rule("atanh", _always, "atanh(1) is infinite: keep the argument within (-1, 1)"),
)

_NANS: tuple[Remedy, ...] = (
    _rule(
        "log log1p sqrt rsqrt",
        _always,
        "the argument is negative: clip it, or choose with jnp.where before the function",
    ),
    _rule(
        "acos asin atanh acosh",
        _always,
        "the argument is outside the domain, often by rounding only: jnp.clip it",
    ),
    _rule(
        "pow",
        _always,
        "a negative number to a power that is no integer: jnp.abs, or jnp.where before the power",
    ),
    _rule(
        "div",
        lambda x: _within(x.operands[0], "exp") and _within(x.operands[1], "exp"),
        "inf / inf: subtract the maximum first, as jax.nn.softmax does",
    ),
    _rule(
        "div",
        _always,
        "0 / 0 or inf / inf: choose a divisor that is not zero with jnp.where before dividing",
    ),
    _rule("sub add add_any reduce_sum", _always, "inf - inf: find where the infinity comes from"),
    _rule(
        "mul dot_general",
        _always,
        (
            "0 * inf, often where a derivative is infinite: choose a harmless argument with "
            "jnp.where before the function, too"
        ),
    ),
    _rule("rem", _always, "the remainder by zero: choose a divisor that is not zero before"),
    _rule("cholesky", _always, "the matrix is not positive definite: add to its diagonal"),
)

_OF: dict[str, tuple[Remedy, ...]] = {"loss": _LOSSES, "nan": _NANS, "inf": _INFINITIES}


def remedy(kind: str, made: Made) -> str:
    """The usual remedy for an operation; '' if there is none. kind: 'loss', 'nan', 'inf'.

    >>> one, x = Made("constant", value=1.0), Made("argument")
    >>> remedy("loss", Made("log", (Made("add", (one, x)),)))
    'jnp.log1p(x) is log(1 + x) without forming 1 + x'
    """
    return next(_holding(_OF[kind], made), "")


def _holding(rules: Iterable[Remedy], made: Made) -> Iterator[str]:
    for rule in rules:
        if made.op in rule.ops and rule.holds(made):
            yield rule.text
