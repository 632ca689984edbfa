"""The range of a symbolic dimension.

Interval arithmetic, after terms have been eliminated with known inequalities.

Method: Fourier-Motzkin elimination. Schrijver, Theory of Linear and Integer Programming (1986),
section 12.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

# How many inequalities may be combined to decide one comparison.
_DEPTH = 4


class Factor(NamedTuple):
    """A factor in polynomials: a variable (kind "", operand its name), or an operation on two
    sizes."""

    kind: str
    operands: tuple[Any, ...]

    def __str__(self) -> str:
        return (
            f"{self.kind}({self.operands[0]}, {self.operands[1]})"
            if self.kind
            else str(self.operands[0])
        )


# Factors with their powers, in order.
Monomial = tuple[tuple[Factor, int], ...]


class Fact(NamedTuple):
    """A polynomial that is not negative, and the words in which the user said so.

    checked: the check of arguments' sizes at run time, "GE" or "EQ" zero; "" if another fact
    implies it.
    """

    polynomial: Any
    text: str
    checked: Literal["GE", "EQ", ""]


class Interval(NamedTuple):
    """The least and the largest size, both included; math.inf where there is none."""

    low: float
    high: float


def divided(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """The monomial without the factors of another, None if it is not a multiple."""
    powers = dict(monomial)
    for factor, power in divisor:
        powers[factor] = powers.get(factor, 0) - power
        if powers[factor] < 0:
            return None
    return tuple((f, p) for f, p in powers.items() if p)


def range_of(size: Any) -> Interval:
    """The range of a `Dimension`, or of an int."""
    if type(size) is int:
        return Interval(size, size)
    facts = _facts(size)
    return Interval(_least(size, facts, _DEPTH), -_least(-size, facts, _DEPTH))


def _facts(size: Any) -> list[Any]:
    """Polynomials that are not negative and may help to bound `size`: the user's constraints, and
    facts about operations."""
    facts = [fact.polynomial for fact in size.scope.facts]
    said = list(facts)
    # Intervals alone do not tell what a bound on max or min means for its operands.
    for kind, operands in dict.fromkeys(
        f for x in said for f in _operations(x) if f.kind in ("max", "min")
    ):
        extremum = size.scope.operation(kind, *operands)
        facts += [extremum - x if kind == "max" else x - extremum for x in operands]
    for factor in dict.fromkeys(f for x in [size, *said] for f in _operations(x)):
        x, y = factor.operands
        if factor.kind not in ("floordiv", "mod") or _interval_of_operand(y).low <= 0:
            continue
        quotient, remainder = (size.scope.operation(kind, x, y) for kind in ("floordiv", "mod"))
        if factor.kind == "floordiv":
            facts += [x - y * quotient, y * quotient + y - 1 - x]
        else:
            facts += [y - 1 - remainder, remainder - x + y * quotient, x - y * quotient - remainder]
            if _interval_of_operand(x).low >= 0:
                facts.append(x - remainder)
    return [fact for fact in facts if type(fact) is not int]


def _operations(size: Any) -> Iterator[Factor]:
    for factors, _ in () if type(size) is int else size.terms:
        for factor, _ in factors:
            if factor.kind:
                yield factor
                for x in factor.operands:
                    yield from _operations(x)


def _interval_of_operand(size: Any) -> Interval:
    """The range of an operand of an operation, by intervals alone."""
    if type(size) is int:
        return Interval(size, size)
    return Interval(_least(size, (), 0), -_least(-size, (), 0))


def _least(size: Any, facts: Sequence[Any], depth: int) -> float:
    """A lower bound of `size`, from facts of which at most `depth` are combined."""
    if type(size) is int:
        return size
    (factors, c), scope = size.terms[0], size.scope
    if len(factors) == 1 and factors[0][1] == 1 and factors[0][0].kind in ("max", "min"):
        # Both operands stand for the operation, in turn.
        kind, operands = factors[0][0]
        rest = size - scope.made({factors: c})
        found = [_least(rest + x * c, facts, depth) for x in operands]
        best = max(found) if (kind == "max") is (c > 0) else min(found)
        return max([best, *_eliminated(size, factors, c, facts, depth)])
    least = 0.0
    for m, d in size.terms:
        low, high = _range(m, scope)
        least += d * (low if d > 0 else high) if m else d
    best = max(
        [
            least,
            *(found for m, d in size.terms if m for found in _eliminated(size, m, d, facts, depth)),
        ]
    )
    return int(best) if math.isfinite(best) else best


def _eliminated(
    size: Any, monomial: Monomial, d: int, facts: Sequence[Any], depth: int
) -> Iterator[float]:
    """Lower bounds of `size` by facts in which one of its terms, d times the monomial, comes up."""
    for fact in facts if depth else ():
        e = dict(fact.terms).get(monomial, 0)
        if e * d > 0:
            # abs(e) * size = abs(d) * fact + what is left, and fact >= 0.
            left = _least(size * abs(e) - fact * abs(d), facts, depth - 1)
            yield math.ceil(left / abs(e)) if math.isfinite(left) else left


def _range(monomial: Monomial, scope: Any) -> Interval:
    """The range of a product, by intervals."""
    low, high = 1.0, 1.0
    for factor, power in monomial:
        a, b = _factor_range(factor, scope)
        for _ in range(power):
            ends = [_times(u, v) for u in (low, high) for v in (a, b)]
            low, high = min(ends), max(ends)
        if power % 2 == 0 and a < 0 < b and len(monomial) == 1:
            low = 0
    return Interval(low, high)


def _times(x: float, y: float) -> float:
    return 0 if x == 0 or y == 0 else x * y


def _factor_range(factor: Factor, scope: Any) -> Interval:
    if not factor.kind:
        found: Interval = scope.ranges[factor.operands[0]]
        return found
    x, y = map(_interval_of_operand, factor.operands)
    if factor.kind == "max":
        return Interval(max(x.low, y.low), max(x.high, y.high))
    if factor.kind == "min":
        return Interval(min(x.low, y.low), min(x.high, y.high))
    if y.low <= 0:
        return (
            Interval(y.low + 1, 0)
            if factor.kind == "mod" and y.high < 0
            else Interval(-math.inf, math.inf)
        )
    if factor.kind == "mod":
        return Interval(0, min(y.high - 1, x.high) if x.low >= 0 else y.high - 1)
    ends = [u / v if math.isfinite(u) else u for u in x for v in y]
    low, high = min(ends), max(ends)
    return Interval(
        math.floor(low) if math.isfinite(low) else low,
        math.floor(high) if math.isfinite(high) else high,
    )
