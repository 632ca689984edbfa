"""Polynomials with integer coefficients over factors, for `Dimension`.

An int is a constant polynomial.
"""

from __future__ import annotations

from typing import Any

from teucer._dimensions.intervals import Factor, Monomial, divided

# A polynomial: the coefficient of each monomial; the monomial () has the constant.
Polynomial = dict[Monomial, int]


def terms_of(size: Any) -> tuple[tuple[Monomial, int], ...]:
    if type(size) is int:
        return (((), size),) if size else ()
    found: tuple[tuple[Monomial, int], ...] = size.terms
    return found


def order(term: tuple[Monomial, int]) -> Any:
    """Terms of larger size first, so that elimination goes from operations to their operands."""
    factors = term[0]
    size = sum(_size(f) * power for f, power in factors)
    return (
        size,
        any(f.kind for f, _ in factors),
        len(factors),
        [(str(f), power) for f, power in reversed(factors)],
    )


def _size(factor: Factor) -> int:
    if not factor.kind:
        return 1
    return 1 + max((order(t)[0] for x in factor.operands for t in terms_of(x)), default=0)


def total(scope: Any, x: Any, y: Any, times: int = 1) -> Any:
    polynomial = dict(terms_of(x))
    for factors, c in terms_of(y):
        polynomial[factors] = polynomial.get(factors, 0) + c * times
    return scope.made(polynomial)


def product(scope: Any, x: Any, y: Any) -> Any:
    polynomial: Polynomial = {}
    for m, c in terms_of(x):
        for n, d in terms_of(y):
            powers = dict(m)
            for factor, power in n:
                powers[factor] = powers.get(factor, 0) + power
            both = tuple(sorted(powers.items(), key=lambda fp: (bool(fp[0].kind), str(fp[0]))))
            polynomial[both] = polynomial.get(both, 0) + c * d
    return scope.made(polynomial)


def quotient(scope: Any, x: Any, y: Any) -> Any:
    if y == 0:
        raise ZeroDivisionError(f"division by zero: '{x}' // '{y}'")
    whole, _ = _parts(scope, x, y)
    return scope.operation("floordiv", x, y) if whole is None else whole


def remainder(scope: Any, x: Any, y: Any) -> Any:
    if y == 0:
        raise ZeroDivisionError(f"modulo by zero: '{x}' % '{y}'")
    whole, rest = _parts(scope, x, y)
    return scope.operation("mod", x, y) if whole is None else rest


def _parts(scope: Any, x: Any, y: Any) -> tuple[Any, int]:
    """x // y and x % y, where the remainder is a constant; None for the first where it is not."""
    rest = sum(c for factors, c in terms_of(x) if not factors) if isinstance(y, int) else 0
    whole = _exact_quotient(scope, x - rest, y)
    return (whole, 0) if whole is None or not rest else (whole + rest // y, rest % y)


def _exact_quotient(scope: Any, x: Any, y: Any) -> Any:
    """q where x is q * y by long division, else None."""
    whole: Any = 0
    (divisor, d), steps = terms_of(y)[0], 2 * len(terms_of(x)) + 2
    while terms_of(x) and steps:
        steps -= 1
        factors, c = terms_of(x)[0]
        others = divided(factors, divisor)
        if c % d or others is None:
            return None
        part = scope.made({others: c // d})
        whole, x = whole + part, x - part * y
    return None if terms_of(x) else whole
