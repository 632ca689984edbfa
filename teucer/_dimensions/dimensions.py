"""Symbolic dimensions: sizes that are not known while a program is traced.

A symbolic dimension is a polynomial with integer coefficients over factors: variables, and
floordiv, mod, max and min of polynomials. It belongs to a scope, which holds the range of each
variable, and facts beyond ranges. A polynomial that is constant is an int, so that a type's shape
holds ints wherever sizes are known.

Comparisons are decided by bounds (`intervals`). A comparison that is not decided raises
InconclusiveDimensionOperation. Equality is not refused: polynomials that are not known to be equal
are different, as are polynomials of different scopes. Only in a strict scope, of a function
compiled once for many sizes, the user's own code gets an error instead.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Self, final

import numpy as np

from teucer._base import source
from teucer._dimensions import polynomials
from teucer._dimensions.intervals import Fact, Factor, Interval, Monomial, divided, range_of
from teucer._dimensions.polynomials import Polynomial, order, terms_of
from teucer._dimensions.refusals import differs, inconclusive, may_be_negative, mixed, unsatisfiable

__all__ = [
    "Dimension", "Interval", "Scope", "as_size", "bounds", "ceil_div", "check_not_negative",
    "dilated", "is_constant", "is_known_below", "is_size", "is_symbolic", "max_dim", "min_dim",
    "substitute", "variables_of",
]  # fmt: skip


class Scope:
    """Variables that may stand in one shape, with their ranges and the facts about them.

    A variable is at least 1 unless its range says otherwise. In a strict scope an equality that is
    not decided is refused if the user asks.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.ranges: dict[str, Interval] = {}
        self.facts: list[Fact] = []
        # For a monomial m the pair (n, p) of the constraint n * m == p. A multiple of n * m is
        # replaced by that of p wherever it comes up.
        self.equalities: dict[Monomial, tuple[int, Any]] = {}
        self.bounds: dict[Any, Interval] = {}
        # Variables of one group are known to have different sizes.
        self.groups: dict[str, Any] = {}

    def variable(self, name: str, low: float = 1, high: float = math.inf) -> Any:
        """The variable called `name`; if it is new to the scope, its range."""
        self.ranges.setdefault(name, Interval(low, high))
        return self.made({((Factor("", (name,)), 1),): 1})

    def made(self, polynomial: Polynomial) -> Any:
        """A polynomial as a size: by the equalities of the scope, in order, an int if it is
        constant."""
        for known, (divisor, size) in self.equalities.items():
            for monomial, c in polynomial.items():
                others = None if c % divisor or not c else divided(monomial, known)
                if others is not None:
                    del polynomial[monomial]
                    return self.made(polynomial) + self.made({others: c // divisor}) * size
        if self.strict:
            for monomial, times in polynomial.items():
                kind, operands = monomial[0][0] if monomial else ("", ())
                if kind == "min" and times == -1 and len(monomial) == 1 and monomial[0][1] == 1:
                    # n - min(n, k) is max(n - k, 0).
                    rest = self.made({m: c for m, c in polynomial.items() if m != monomial})
                    x, y = operands
                    if rest in (x, y):
                        return max_dim(rest - (y if rest == x else x), 0)
        terms = sorted([t for t in polynomial.items() if t[1]], key=order, reverse=True)
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
        if bounds(size).high < 0:
            unsatisfiable(self, size, text)
        if isinstance(size, Dimension):
            self.facts.append(Fact(size, text, "GE"))
            self.bounds.clear()
            self._narrow(size)

    def equal(self, monomial: Any, size: Any, text: str) -> None:
        """Add the knowledge that monomial == size, where monomial is a product.

        Raises ValueError if it is a sum, or if that cannot be.
        """
        if not isinstance(monomial, Dimension):
            monomial, size = size, monomial
        difference = monomial - size
        if isinstance(difference, Dimension) and len(monomial.terms) != 1:
            raise ValueError(
                "Invalid equality constraint: the left-hand side must be of the form `term * "
                f"coefficient`.\n    constraint: {text}"
            )
        low, high = bounds(difference)
        if low > 0 or high < 0:
            unsatisfiable(self, difference, text)
        if not isinstance(difference, Dimension):
            return
        ((factors, coefficient),) = monomial.terms
        self.facts += [Fact(difference, text, "EQ"), Fact(-difference, text, "")]
        self.bounds.clear()
        if not self._leads_to(size, {factor for factor, _ in factors}):
            self.equalities[factors] = (coefficient, size)
        if type(size) is int and not size and len(factors) == 1 and factors[0][0].kind == "mod":
            x, y = factors[0][0].operands
            if type(y) is int and y < 0:
                self.equal(self.operation("mod", x, -y), 0, text)
            whole = (x // y) * y
            if len(terms_of(y)) == len(terms_of(whole)) == 1:
                self.equal(whole, x, text)

    def _leads_to(self, size: Any, factors: set[Factor]) -> bool:
        """Whether one of the factors occurs in a size, or in its form by the equalities of the
        scope."""
        reached: set[Factor] = set()
        sizes = [size]
        while sizes:
            reached.update(_factors(sizes.pop()))
            sizes = [
                x
                for known, (_, x) in self.equalities.items()
                if not reached.isdisjoint(f for f, _ in known)
                and not reached.issuperset(_factors(x))
            ]
        return not reached.isdisjoint(factors)

    def _narrow(self, size: Dimension) -> None:
        """Narrow the range of a variable by a fact about it alone."""
        terms = dict(size.terms)
        constant = terms.pop((), 0)
        if len(terms) != 1:
            return
        ((factors, c),) = terms.items()
        if len(factors) == 1 and factors[0][1] == 1 and not factors[0][0].kind:
            name = factors[0][0].operands[0]
            low, high = self.ranges[name]
            self.ranges[name] = (
                Interval(max(low, -(constant // c)), high)
                if c > 0
                else Interval(low, min(high, constant // -c))
            )

    @property
    def constraints(self) -> list[str]:
        """The user's constraints on the variables."""
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
    # How a dimension becomes an array while a program is traced; the upper layers install it
    # (teucer.lax).
    as_array: ClassVar[Any] = None

    def __init__(self, scope: Scope, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.scope, self.terms = scope, terms
        self._hash = hash(terms)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> Any:
        if self is other or _known_equal(self, other):
            return True
        # Inside the library, sizes that may differ count as different: shapes that must agree are
        # equal polynomials.
        return (
            self.scope.strict
            and source.asked_by_user(sys._getframe(1))
            and _equal_for_user(self, other)
        )

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
            inconclusive(self, f"Symbolic dimension comparison '{self}' != '0' is inconclusive")
        return True

    def __index__(self) -> NoReturn:  # noqa: PLE0305  (it always raises)
        inconclusive(
            self, f"Symbolic dimension '{self}' used in a context that requires a constant"
        )

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
            raise ValueError(
                f"Symbolic dimension cannot be raised to negative powers: '{self}' ** '{power}'"
            )
        return math.prod([self] * power)

    def __rpow__(self, base: Any) -> Any:
        return base ** self.__jax_array__()

    def __neg__(self) -> Any:
        return self * -1

    def __jax_array__(self) -> Any:
        return Dimension.as_array(self)

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a symbolic dimension belongs to its scope and cannot be pickled: '{self}'"
        )

    def __str__(self) -> str:
        parts: list[str] = []
        for factors, c in self.terms:
            product = "*".join([str(f) if power == 1 else f"{f}^{power}" for f, power in factors])
            size = abs(c)
            text = (
                product
                if size == 1 and factors
                else "*".join([str(size), *filter(None, [product])])
            )
            sign = "- " if c < 0 else "+ "
            parts.append(sign + text if parts or c < 0 else text)
        return " ".join(parts)

    __repr__ = __str__

    def fold(
        self,
        variable: Callable[[str], Any],
        number: Callable[[int], Any],
        apply: Callable[[str, Any, Any], Any],
    ) -> Any:
        """The value of the polynomial, where apply(kind, x, y) is the value of x + y, x * y (kinds
        "add", "multiply"), or of a factor of that kind."""

        def value(size: Any) -> Any:
            return (
                size.fold(variable, number, apply) if isinstance(size, Dimension) else number(size)
            )

        def factor(f: Factor) -> Any:
            return apply(f.kind, *map(value, f.operands)) if f.kind else variable(f.operands[0])

        def term(factors: Monomial, c: int) -> Any:
            values = [factor(f) for f, power in factors for _ in range(power)]
            return functools.reduce(
                functools.partial(apply, "multiply"),
                values if c == 1 and values else [*values, number(c)],
            )

        return functools.reduce(functools.partial(apply, "add"), [term(*t) for t in self.terms])


_PYTHON: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "multiply": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
}


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
    return tuple(
        dict.fromkeys(name for shape in shapes for size in shape for name in _variables(size))
    )


def _variables(size: Any) -> Iterator[str]:
    return (factor.operands[0] for factor in _factors(size) if not factor.kind)


def _factors(size: Any) -> Iterator[Factor]:
    """The factors of a size, then recursively the factors in the operands of each factor."""
    for factors, _ in terms_of(size):
        for factor, _ in factors:
            yield factor
            for x in factor.operands if factor.kind else ():
                yield from _factors(x)


def max_dim(d1: Any, d2: Any) -> Any:
    """The larger of two sizes.

    >>> a = Scope().variable("a")
    >>> max_dim(a, 1), max_dim(a, 3)
    (a, max(a, 3))
    """
    return _extremum("max", d1, d2)


def min_dim(d1: Any, d2: Any) -> Any:
    """The smaller of two sizes."""
    return _extremum("min", d1, d2)


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


def dilated(n: Any, step: int) -> Any:
    """The length of n elements with step - 1 holes between neighbours.

    >>> dilated(3, 2), dilated(0, 2), dilated(Scope().variable("a", 0), 2)
    (5, 0, max(2*a - 1, 0))
    """
    return max_dim((n - 1) * step + 1, 0)


def bounds(size: Any) -> Interval:
    """The range in which a size is known to lie."""
    if not isinstance(size, Dimension):
        return Interval(size, size)
    # By terms: sizes of one hash are compared by their difference, and that by its bounds.
    found = size.scope.bounds.get(size.terms)
    if found is None:
        found = size.scope.bounds[size.terms] = range_of(size)
    return found


def check_not_negative(op: str, shape: Sequence[Any]) -> None:
    """Raise InconclusiveDimensionOperation if a symbolic size of a shape may be negative."""
    for size in shape:
        if type(size) is Dimension and bounds(size).low < 0:
            may_be_negative(op, size, *bounds(size))


def is_size(op: str, n: Any, size: int) -> bool:
    """Whether n is `size`, for a function that treats an axis of that size specially.

    Raises InconclusiveDimensionOperation if that is not decided in a strict scope.
    """
    if isinstance(n, Dimension) and n.scope.strict:
        low, high = bounds(n)
        if low <= size <= high and low != high:
            differs(op, n, size, low, high)
        return low == high == size
    return bool(n == size)


def _known_equal(x: Dimension, y: Any) -> bool:
    if not isinstance(y, Dimension):
        # A variable that may be known to have one size only.
        return type(y) is int and bool(x.scope.facts) and bounds(x) == (y, y)
    if x.scope is not y.scope:
        return False
    if x._hash == y._hash and x.terms == y.terms:
        return True
    return bool(x.scope.facts) and bounds(x - y) == (0, 0)


def _equal_for_user(x: Dimension, y: Any) -> Any:
    """Whether a size is another for all sizes of the variables: a branch of Python is taken once
    for all of them."""
    if isinstance(y, float | np.floating):
        return float(y).is_integer() and _equal_for_user(x, int(y))
    if not isinstance(y, int | np.integer | Dimension):
        return NotImplemented
    if isinstance(y, Dimension) and (y.scope is not x.scope or _of_one_group(x, y)):
        return False
    low, high = bounds(x - y)
    if low <= 0 <= high and low != high:
        inconclusive(x, f"Symbolic dimension comparison '{x}' == '{y}' is inconclusive")
    return low == high == 0


def _of_one_group(x: Dimension, y: Dimension) -> bool:
    groups = x.scope.groups
    return str(x) in groups and groups[str(x)] == groups.get(str(y))


def _compare(x: Dimension, y: Any, sign: str, larger: Any, smaller: Any, margin: int) -> Any:
    """Whether larger - smaller >= margin, for the question `x sign y`."""
    if not isinstance(y, int | np.integer | Dimension):
        return NotImplemented
    if isinstance(y, Dimension) and y.scope is not x.scope:
        mixed(f"comparing '{x}' {sign} '{y}'", x, y)
    low, high = bounds(larger - smaller)
    if low < margin <= high:
        inconclusive(x, f"Symbolic dimension comparison '{x}' {sign} '{y}' is inconclusive")
    return low >= margin


def _arithmetic(sign: str, x: Any, y: Any) -> Any:
    scope = x.scope if isinstance(x, Dimension) else y.scope
    sizes = []
    for z in (x, y):
        if isinstance(z, Dimension):
            if z.scope is not scope:
                mixed(f"computing '{x}' {sign} '{y}'", x, y)
        elif type(z) is not int:
            if not isinstance(z, int | np.integer):
                u, v = (w.__jax_array__() if isinstance(w, Dimension) else w for w in (x, y))
                return _ON_ARRAYS[sign](u, v)
            z = int(z)
        sizes.append(z)
    return _ON_SIZES[sign](scope, *sizes)


def _extremum(kind: str, x: Any, y: Any) -> Any:
    if not isinstance(x, Dimension) and not isinstance(y, Dimension):
        return max(x, y) if kind == "max" else min(x, y)
    x, y = as_size(x), as_size(y)
    low, high = bounds(x - y)
    if low >= 0 or high <= 0:
        return x if (low >= 0) is (kind == "max") else y
    scope = (x if isinstance(x, Dimension) else y).scope
    # One order, so that equal sizes are equal polynomials; export prints operands in the order in
    # which JAX does.
    return scope.operation(
        kind, *(sorted((x, y), key=lambda z: (type(z) is int, str(z))) if scope.strict else (x, y))
    )


_ON_SIZES: Mapping[str, Callable[[Scope, Any, Any], Any]] = {
    "+": polynomials.total,
    "-": functools.partial(polynomials.total, times=-1),
    "*": polynomials.product,
    "//": polynomials.quotient,
    "%": polynomials.remainder,
}
_ON_ARRAYS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
