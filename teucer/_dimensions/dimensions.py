"""Symbolic dimensions: sizes that are not known while a program is traced.

A symbolic dimension is a polynomial with integer coefficients over factors: variables, and floordiv, mod, max and min of
polynomials. It belongs to a scope, which holds the range of each variable and what is known beyond ranges. A polynomial
that is constant is an int, so that a type's shape holds ints wherever sizes are known.

Comparisons are decided by bounds (`intervals`). What is not decided raises InconclusiveDimensionOperation. Equality is
never refused: polynomials that are not known to be equal are different, as are those of different scopes.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn, final

import numpy as np

from teucer._base.errors import InconclusiveDimensionOperation
from teucer._dimensions.intervals import Factor, Interval, Monomial, range_of

__all__ = ["Dimension", "Interval", "Scope", "as_size", "bounds", "ceil_div", "is_constant", "is_known_below",
           "is_symbolic", "max_dim", "min_dim", "substitute", "variables_of"]

# A polynomial: the coefficient of each monomial, that of () the constant.
Polynomial = dict[Monomial, int]


@final
class Fact(NamedTuple):
    """A polynomial that is not negative, and the words in which the user said so."""

    polynomial: Any
    text: str


class Scope:
    """Variables that may stand in one shape, their ranges, and what is known of them.

    A variable is at least 1 unless its range says otherwise.
    """

    def __init__(self) -> None:
        self.ranges: dict[str, Interval] = {}
        self.facts: list[Fact] = []
        # A monomial times a number that equals a polynomial: replaced by it wherever it comes up.
        self.equalities: dict[Monomial, tuple[int, Any]] = {}
        self.bounds: dict[Dimension, Interval] = {}

    def variable(self, name: str, low: float = 1, high: float = math.inf) -> Any:
        """The variable called `name`; if it is new to the scope, its range."""
        self.ranges.setdefault(name, Interval(low, high))
        return self.made({((Factor("", (name,)), 1),): 1})

    def made(self, polynomial: Polynomial) -> Any:
        """A polynomial as a size: by the equalities of the scope, in order, an int if it is constant."""
        for monomial in [m for m in polynomial if m in self.equalities]:
            divisor, size = self.equalities[monomial]
            times, rest = divmod(polynomial[monomial], divisor)
            if not rest:
                del polynomial[monomial]
                return self.made(polynomial) + size * times
        terms = sorted([t for t in polynomial.items() if t[1]], key=_order, reverse=True)
        if not terms or (len(terms) == 1 and not terms[0][0]):
            return terms[0][1] if terms else 0
        return Dimension(self, tuple(terms))

    def operation(self, kind: str, x: Any, y: Any) -> Any:
        """floordiv, mod, max or min of two sizes, as a factor."""
        return self.made({((Factor(kind, (x, y)), 1),): 1})

    def not_negative(self, size: Any, text: str) -> None:
        """Add the knowledge that size >= 0.

        Raises ValueError if that cannot be.
        """
        if not isinstance(size, Dimension):
            if size < 0:
                raise ValueError(f"Unsatisfiable explicit constraint: {text}")
            return
        self.facts.append(Fact(size, text))
        self.bounds.clear()
        self._narrow(size)

    def equal(self, monomial: Any, size: Any, text: str) -> None:
        """Add the knowledge that monomial == size, where monomial is a product.

        Raises ValueError if it is a sum, or if that cannot be.
        """
        if not isinstance(monomial, Dimension):
            monomial, size = size, monomial
        if not isinstance(monomial, Dimension):
            if monomial != size:
                raise ValueError(f"Unsatisfiable explicit constraint: {text}")
            return
        if monomial == size:
            return
        if len(monomial.terms) != 1:
            raise ValueError("Invalid equality constraint: the left-hand side must be of the form `term * coefficient`.\n"
                             f"    constraint: {text}")
        ((factors, coefficient),) = monomial.terms
        self.facts += [Fact(monomial - size, text), Fact(size - monomial, text)]
        self.equalities[factors] = (coefficient, size)
        self.bounds.clear()
        if size == 0 and len(factors) == 1 and factors[0][0].kind == "mod":
            x, y = factors[0][0].operands
            if x is not y and len(_terms(y)) == 1:
                self.equal((x // y) * y, x, f"{(x // y) * y} == {x}")

    def _narrow(self, size: Dimension) -> None:
        """Take a fact of one variable into its range."""
        terms = dict(size.terms)
        constant = terms.pop((), 0)
        if len(terms) != 1:
            return
        ((factors, c),) = terms.items()
        if len(factors) == 1 and factors[0][1] == 1 and not factors[0][0].kind:
            name = factors[0][0].operands[0]
            low, high = self.ranges[name]
            self.ranges[name] = Interval(max(low, -(constant // c)), high) if c > 0 else Interval(low, min(high, constant // -c))

    @property
    def constraints(self) -> list[str]:
        """What the user said of the variables."""
        return list(dict.fromkeys(fact.text for fact in self.facts))

    def __str__(self) -> str:
        listed = "".join(f"\n      {text}" for text in self.constraints)
        return f"scope {id(self)}" + (f" with constraints:{listed}" if listed else "")


def _operators(sign: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    return (lambda x, y: _arithmetic(sign, x, y)), (lambda y, x: _arithmetic(sign, x, y))


@final
class Dimension:
    """A symbolic dimension. Made by `Scope.variable` and by arithmetic."""

    __slots__ = ("scope", "terms", "_hash")
    # NumPy's operators give way to these.
    __array_priority__: ClassVar[int] = 1000
    # How a dimension becomes an array while a program is traced; the upper floors install it (teucer.lax).
    as_array: ClassVar[Any] = None

    def __init__(self, scope: Scope, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.scope, self.terms = scope, terms
        self._hash = hash(terms)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dimension):
            # A variable that may be known to have one size only.
            return type(other) is int and bool(self.scope.facts) and bounds(self) == (other, other)
        if self.scope is not other.scope:
            return False
        if self._hash == other._hash and self.terms == other.terms:
            return True
        return bool(self.scope.facts) and bounds(self - other) == (0, 0)

    def __ge__(self, other: Any) -> Any:
        return _compare(self, other, ">=", self, other, 0)

    def __gt__(self, other: Any) -> Any:
        return _compare(self, other, ">", self, other, 1)

    def __le__(self, other: Any) -> Any:
        return _compare(self, other, "<=", other, self, 0)

    def __lt__(self, other: Any) -> Any:
        return _compare(self, other, "<", other, self, 1)

    def __bool__(self) -> bool:
        low, high = bounds(self)
        if low <= 0 <= high:
            if low == high:
                return False
            _inconclusive(self, f"Symbolic dimension comparison '{self}' != '0' is inconclusive")
        return True

    def __index__(self) -> NoReturn:  # noqa: PLE0305  (it always raises)
        _inconclusive(self, f"Symbolic dimension '{self}' used in a context that requires a constant")

    __int__ = __float__ = __index__

    __add__, __radd__ = _operators("+")
    __sub__, __rsub__ = _operators("-")
    __mul__, __rmul__ = _operators("*")
    __floordiv__, __rfloordiv__ = _operators("//")
    __mod__, __rmod__ = _operators("%")

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __truediv__(self, other: Any) -> Any:
        return self.__jax_array__() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.__jax_array__()

    def __pow__(self, power: Any, modulo: None = None) -> Any:
        if type(power) is not int:
            return self.__jax_array__() ** power
        if power < 0:
            raise ValueError(f"Symbolic dimension cannot be raised to negative powers: '{self}' ** '{power}'")
        return math.prod([self] * power)

    def __rpow__(self, base: Any) -> Any:
        return base ** self.__jax_array__()

    def __neg__(self) -> Any:
        return self * -1

    def __jax_array__(self) -> Any:
        return Dimension.as_array(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a symbolic dimension belongs to its scope and cannot be pickled: '{self}'")

    def __str__(self) -> str:
        parts: list[str] = []
        for factors, c in self.terms:
            product = "*".join([str(f) if power == 1 else f"{f}^{power}" for f, power in factors])
            size = abs(c)
            text = product if size == 1 and factors else "*".join([str(size), *filter(None, [product])])
            sign = "- " if c < 0 else "+ "
            parts.append(sign + text if parts or c < 0 else text)
        return " ".join(parts)

    __repr__ = __str__

    def fold(self, variable: Callable[[str], Any], number: Callable[[int], Any],
             apply: Callable[[str, Any, Any], Any]) -> Any:
        """The value of the polynomial, where apply(kind, x, y) is the value of x + y, x * y (kinds "add", "multiply"),
        or of a factor of that kind."""
        def value(size: Any) -> Any:
            return size.fold(variable, number, apply) if isinstance(size, Dimension) else number(size)

        def factor(f: Factor) -> Any:
            return apply(f.kind, *map(value, f.operands)) if f.kind else variable(f.operands[0])

        def term(factors: Monomial, c: int) -> Any:
            values = [factor(f) for f, power in factors for _ in range(power)]
            return functools.reduce(functools.partial(apply, "multiply"),
                                    values if c == 1 and values else [*values, number(c)])

        return functools.reduce(functools.partial(apply, "add"), [term(*t) for t in self.terms])


_PYTHON: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "multiply": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod}


def substitute(size: Any, sizes: Mapping[str, Any]) -> Any:
    """A size with variables replaced by the given sizes.

    >>> a = Scope().variable("a")
    >>> substitute(2 * a + 1, {"a": 3})
    7
    """
    if not isinstance(size, Dimension):
        return size
    operations = {**_PYTHON, "max": max_dim, "min": min_dim}
    return size.fold(sizes.__getitem__, int, lambda kind, x, y: operations[kind](x, y))


def as_size(x: Any) -> Any:
    """An integer as an int; a symbolic dimension as it is.

    Raises TypeError for anything else.
    """
    return x if type(x) is int or isinstance(x, Dimension) else operator.index(x)


def is_symbolic(size: Any) -> bool:
    """Whether a size is not a constant.

    >>> is_symbolic(3)
    False
    """
    return isinstance(size, Dimension)


def is_constant(shape: Sequence[Any]) -> bool:
    """Whether all sizes of a shape are constants.

    >>> is_constant((2, 3))
    True
    """
    for size in shape:  # noqa: SIM110  (a plain loop takes half as long, and runs for each operation lowered)
        if type(size) is Dimension:
            return False
    return True


def variables_of(shapes: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    """The names of the variables that occur in shapes, in the order in which they do."""
    return tuple(dict.fromkeys(name for shape in shapes for size in shape for name in _variables(size)))


def _variables(size: Any) -> Iterator[str]:
    for factors, _ in _terms(size):
        for factor, _ in factors:
            if factor.kind:
                for x in factor.operands:
                    yield from _variables(x)
            else:
                yield factor.operands[0]


def max_dim(x: Any, y: Any) -> Any:
    """The larger of two sizes.

    >>> a = Scope().variable("a")
    >>> max_dim(a, 1), max_dim(a, 3)
    (a, max(a, 3))
    """
    return _extremum("max", x, y)


def min_dim(x: Any, y: Any) -> Any:
    """The smaller of two sizes."""
    return _extremum("min", x, y)


def is_known_below(x: Any, y: Any) -> bool:
    """Whether 0 <= x < y for certain.

    >>> a = Scope().variable("a")
    >>> is_known_below(a - 1, a), is_known_below(a - 2, a)
    (True, False)
    """
    return bounds(x).low >= 0 and bounds(y - x).low > 0


def ceil_div(x: Any, y: Any) -> Any:
    """x / y, rounded up.

    >>> ceil_div(7, 2), ceil_div(Scope().variable("a"), 2)
    (4, floordiv(a + 1, 2))
    """
    return (x + y - 1) // y


def bounds(size: Any) -> Interval:
    """The range in which a size is known to lie."""
    if not isinstance(size, Dimension):
        return Interval(size, size)
    found = size.scope.bounds.get(size)
    if found is None:
        found = size.scope.bounds[size] = range_of(size)
    return found


def _compare(x: Dimension, y: Any, sign: str, larger: Any, smaller: Any, margin: int) -> Any:
    """Whether larger - smaller >= margin, for the question `x sign y`."""
    if not isinstance(y, int | np.integer | Dimension):
        return NotImplemented
    if isinstance(y, Dimension) and y.scope is not x.scope:
        _mixed(f"comparing '{x}' {sign} '{y}'", x, y)
    low, high = bounds(larger - smaller)
    if low < margin <= high:
        _inconclusive(x, f"Symbolic dimension comparison '{x}' {sign} '{y}' is inconclusive")
    return low >= margin


def _inconclusive(x: Dimension, what: str) -> NoReturn:
    known = f"\n    {x.scope}" if x.scope.facts else ""
    raise InconclusiveDimensionOperation(
        f"{what}.{known}\n  The answer is not the same for all sizes that the symbolic dimensions may have. If it is for those "
        "that come up, say so with a\n  constraint: symbolic_shape(..., constraints=[\"a >= 8\"]); else export for a known size.")


def _mixed(what: str, x: Dimension, y: Dimension) -> NoReturn:
    raise ValueError(f"Invalid mixing of symbolic scopes when {what}.\n    '{x}': {x.scope}\n    '{y}': {y.scope}\n"
                     "  Make all symbolic dimensions of a program with one scope: symbolic_shape(..., scope=...).")


def _terms(size: Any) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(size, Dimension):
        return size.terms
    return (((), size),) if size else ()


def _order(term: tuple[Monomial, int]) -> Any:
    """Terms of larger size first, so that elimination goes from operations to their operands."""
    factors = term[0]
    size = sum(_size(f) * power for f, power in factors)
    return size, any(f.kind for f, _ in factors), len(factors), [(str(f), power) for f, power in reversed(factors)]


def _size(factor: Factor) -> int:
    if not factor.kind:
        return 1
    return 1 + max((_order(t)[0] for x in factor.operands for t in _terms(x)), default=0)


def _arithmetic(sign: str, x: Any, y: Any) -> Any:
    scope = x.scope if isinstance(x, Dimension) else y.scope
    sizes = []
    for z in (x, y):
        if isinstance(z, Dimension):
            if z.scope is not scope:
                _mixed(f"computing '{x}' {sign} '{y}'", x, y)
        elif type(z) is not int:
            if not isinstance(z, int | np.integer):
                u, v = (w.__jax_array__() if isinstance(w, Dimension) else w for w in (x, y))
                return _ON_ARRAYS[sign](u, v)
            z = int(z)
        sizes.append(z)
    return _ON_SIZES[sign](scope, *sizes)


def _sum(scope: Scope, x: Any, y: Any, times: int = 1) -> Any:
    polynomial = dict(_terms(x))
    for factors, c in _terms(y):
        polynomial[factors] = polynomial.get(factors, 0) + c * times
    return scope.made(polynomial)


def _product(scope: Scope, x: Any, y: Any) -> Any:
    polynomial: Polynomial = {}
    for m, c in _terms(x):
        for n, d in _terms(y):
            powers = dict(m)
            for factor, power in n:
                powers[factor] = powers.get(factor, 0) + power
            product = tuple(sorted(powers.items(), key=lambda fp: (bool(fp[0].kind), str(fp[0]))))
            polynomial[product] = polynomial.get(product, 0) + c * d
    return scope.made(polynomial)


def _quotient(scope: Scope, x: Any, y: Any) -> Any:
    if y == 0:
        raise ZeroDivisionError(f"division by zero: '{x}' // '{y}'")
    quotient, _ = _parts(scope, x, y)
    return scope.operation("floordiv", x, y) if quotient is None else quotient


def _remainder(scope: Scope, x: Any, y: Any) -> Any:
    if y == 0:
        raise ZeroDivisionError(f"modulo by zero: '{x}' % '{y}'")
    quotient, rest = _parts(scope, x, y)
    return scope.operation("mod", x, y) if quotient is None else rest


def _parts(scope: Scope, x: Any, y: Any) -> tuple[Any, int]:
    """x // y and x % y, where the remainder is a constant; None for the first where it is not."""
    rest = sum(c for factors, c in _terms(x) if not factors) if isinstance(y, int) else 0
    quotient = _exact_quotient(scope, x - rest, y)
    return (quotient, 0) if quotient is None or not rest else (quotient + rest // y, rest % y)


def _exact_quotient(scope: Scope, x: Any, y: Any) -> Any:
    """q where x is q * y by long division, else None."""
    quotient: Any = 0
    (divisor, d), steps = _terms(y)[0], 2 * len(_terms(x)) + 2
    while _terms(x) and steps:
        steps -= 1
        factors, c = _terms(x)[0]
        powers = dict(factors)
        for factor, power in divisor:
            powers[factor] = powers.get(factor, 0) - power
        if c % d or any(power < 0 for power in powers.values()):
            return None
        part = scope.made({tuple((f, p) for f, p in powers.items() if p): c // d})
        quotient, x = quotient + part, x - part * y
    return None if _terms(x) else quotient


def _extremum(kind: str, x: Any, y: Any) -> Any:
    if not isinstance(x, Dimension) and not isinstance(y, Dimension):
        return max(x, y) if kind == "max" else min(x, y)
    low, high = bounds(x - y)
    if low >= 0 or high <= 0:
        return x if (low >= 0) is (kind == "max") else y
    return (x if isinstance(x, Dimension) else y).scope.operation(kind, x, y)


_ON_SIZES: Mapping[str, Callable[[Scope, Any, Any], Any]] = {
    "+": _sum, "-": functools.partial(_sum, times=-1), "*": _product, "//": _quotient, "%": _remainder}
_ON_ARRAYS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}
