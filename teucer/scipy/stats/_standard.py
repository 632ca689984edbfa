"""Families of distributions.

A row states a distribution in its standard form. The functions of the module
of the distribution are made from the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from teucer import numpy as jnp
from teucer._core.typing import Array, ArrayLike
from teucer.numpy._library import LibraryFunction, fast
from teucer.scipy._operands import inexact, real

Function = Callable[..., Any]
# A point in a row: a number, or a function of the shape parameters.
Point = float | Function

_TEXTS = {
    "logpdf": "The logarithm of the density; -inf where there is none.",
    "pdf": "The density.",
    "logpmf": (
        "The logarithm of the probability of k; -inf for other numbers than the distribution's."
    ),
    "pmf": "The probability of k.",
    "cdf": "The probability of values up to {x}.",
    "logcdf": "The logarithm of `cdf`.",
    "sf": "The probability of values above {x}, accurate where that is small.",
    "logsf": "The logarithm of `sf`.",
    "ppf": "The least value up to which values are with probability {x}; nan outside [0, 1].",
    "isf": "The value above which values are with probability {x}; nan outside [0, 1].",
}


def all_positive(*shapes: Array) -> Array | bool:
    """Whether all shape parameters are positive."""
    valid: Array | bool = True
    for x in shapes:
        valid = valid & (x > 0)
    return valid


@dataclass(frozen=True, kw_only=True)
class Continuous:
    """A family of densities, of location 0 and scale 1; `z` is in the support in all calls.

    shapes: names of its shape parameters. low, high: ends of the support, None where it is all
    numbers on that side.
    whole: whether the formulas hold for all numbers, infinite ones included.
    inner: a point of the support: functions are evaluated there for points outside, so that
    derivatives are 0 and not nan.
    logpdf, cdf, logcdf, sf, logsf: functions of z and the shape parameters. ppf, isf: functions of
    a probability q and the shape parameters.
    valid: where shape parameters are valid, by default where all are positive;
    elsewhere results are nan, as for a scale that is not positive.
    analytic: whether the formulas hold for complex numbers; else these are refused.
    quantile: the name of q. example: arguments of the docstrings' examples. shown: their results,
    to three digits.
    """

    name: str
    logpdf: Function
    cdf: Function | None = None
    logcdf: Function | None = None
    sf: Function | None = None
    logsf: Function | None = None
    ppf: Function | None = None
    isf: Function | None = None
    shapes: str = ""
    low: Point | None = None
    high: Point | None = None
    whole: bool = False
    inner: Point = 0.5
    valid: Function = all_positive
    analytic: bool = False
    quantile: str = "q"
    example: tuple[float, ...] = (0.5,)
    shown: Mapping[str, float] = field(default_factory=dict)

    def functions(self, *kinds: str) -> list[LibraryFunction[..., Array]]:
        """The public functions of the kinds."""
        return [self._function(kind) for kind in kinds]

    def _function(self, kind: str) -> LibraryFunction[..., Array]:
        x = self.quantile if kind in ("ppf", "isf") else "x"
        if kind in ("logpdf", "pdf"):
            body = self._density(kind, jnp.exp if kind == "pdf" else lambda value: value)
        else:
            body = self._quantile(kind) if kind in ("ppf", "isf") else self._probability(kind)
        return _public(self, kind, x, (*self.shapes.split(), "loc=0", "scale=1"), body)

    def _density(self, kind: str, then: Function) -> Function:
        """The function x -> then(logarithm of the density at x)."""

        def density(x: ArrayLike, *parameters: ArrayLike) -> Any:
            z, *shapes, scale = self._standard(kind, x, parameters)
            value = self._within(
                lambda z: self.logpdf(z, *shapes) - jnp.log(scale), z, shapes, -jnp.inf, -jnp.inf
            )
            # After exp: XLA's code for the CPU gives random numbers for exp(where(scalar, x, nan)).
            return _where_valid(self, then(value), shapes, scale)

        return density

    def _probability(self, kind: str) -> Function:
        """The function cdf, sf, logcdf or logsf, as `kind` says."""
        below, above = (0.0, 1.0) if kind.endswith("cdf") else (1.0, 0.0)
        own, plain = getattr(self, kind), getattr(self, kind.removeprefix("log"))
        rest = self.sf if kind == "logcdf" else self.cdf
        if kind.startswith("log"):
            below, above = (-jnp.inf, 0.0) if kind == "logcdf" else (0.0, -jnp.inf)

        def probability(x: ArrayLike, *parameters: ArrayLike) -> Any:
            z, *shapes, scale = self._standard(kind, x, parameters)
            f = own or (lambda *args: log_of_share(plain, rest, *args))
            value = self._within(lambda z: f(z, *shapes), z, shapes, below, above)
            return _where_valid(self, value, shapes, scale)

        return probability

    def _quantile(self, kind: str) -> Function:
        def quantile(q: ArrayLike, *parameters: ArrayLike) -> Any:
            q, *shapes, loc, scale = real(f"{self.name}.{kind}", q, *parameters)
            q = jnp.where((q >= 0) & (q <= 1), q, jnp.nan)
            return _where_valid(self, loc + getattr(self, kind)(q, *shapes) * scale, shapes, scale)

        return quantile

    def _standard(self, kind: str, x: ArrayLike, parameters: tuple[Any, ...]) -> tuple[Any, ...]:
        """(x - loc) / scale, the shape parameters, and scale."""
        promote = inexact if self.analytic else real
        x, *shapes, loc, scale = promote(f"{self.name}.{kind}", x, *parameters)
        return ((x - loc) / scale, *shapes, scale)

    def _within(self, f: Function, z: Array, shapes: list[Any], below: float, above: float) -> Any:
        """f(z) in the support, constants outside of it, and nan for nan."""
        low, high, inner = (
            p(*shapes) if callable(p) else p for p in (self.low, self.high, self.inner)
        )
        if self.whole:
            return f(z)
        # An infinite number is in no support.
        too_low = (z == -jnp.inf) | (False if low is None else z < low)
        too_high = (z == jnp.inf) | (False if high is None else z > high)
        value = f(jnp.where(too_low | too_high | jnp.isnan(z), inner, z))
        value = jnp.where(too_low, below, jnp.where(too_high, above, value))
        return jnp.where(jnp.isnan(z), z, value)


@dataclass(frozen=True, kw_only=True)
class Discrete:
    """A family of probabilities of integers, of location 0; `k` is in the support in all calls.

    shapes, example, shown: as of `Continuous`. low, high: the least and the greatest integer, None
    where there is none.
    logpmf, cdf, sf, logsf: functions of k and the shape parameters; without logsf it is the
    logarithm of sf. ppf: a function of a probability q and the shape parameters.
    valid: where shape parameters are valid; elsewhere results are nan.
    """

    name: str
    logpmf: Function
    cdf: Function | None = None
    sf: Function | None = None
    logsf: Function | None = None
    ppf: Function | None = None
    shapes: str
    low: float = 0.0
    high: Point | None = None
    valid: Function
    example: tuple[float, ...] = (1,)
    shown: Mapping[str, float] = field(default_factory=dict)

    def functions(self, *kinds: str) -> list[LibraryFunction[..., Array]]:
        """The public functions of the kinds."""
        bodies = {
            "logpmf": self._logpmf,
            "pmf": self._pmf,
            "cdf": self._cdf,
            "logcdf": self._logcdf,
            "sf": self._sf,
            "logsf": self._logsf,
            "ppf": self._ppf,
        }
        return [
            _public(
                self,
                kind,
                "q" if kind == "ppf" else "k",
                (*self.shapes.split(), "loc=0"),
                bodies[kind],
            )
            for kind in kinds
        ]

    def _logpmf(self, k: ArrayLike, *parameters: ArrayLike) -> Any:
        return self._at("logpmf", self.logpmf, k, parameters, -jnp.inf, -jnp.inf, between=-jnp.inf)

    def _pmf(self, k: ArrayLike, *parameters: ArrayLike) -> Any:
        def mass(k: Array, *shapes: Array) -> Any:
            return jnp.exp(self.logpmf(k, *shapes))

        return self._at("pmf", mass, k, parameters, 0.0, 0.0, between=0.0)

    def _cdf(self, k: ArrayLike, *parameters: ArrayLike) -> Any:
        assert self.cdf is not None
        return self._at("cdf", self.cdf, k, parameters, 0.0, 1.0)

    def _logcdf(self, k: ArrayLike, *parameters: ArrayLike) -> Any:
        return log_of_share(self._cdf, self._sf, k, *parameters)

    def _sf(self, k: ArrayLike, *parameters: ArrayLike) -> Any:
        assert self.sf is not None
        return self._at("sf", self.sf, k, parameters, 1.0, 0.0)

    def _logsf(self, k: ArrayLike, *parameters: ArrayLike) -> Any:
        if self.logsf is None:
            return log_of_share(self._sf, self._cdf, k, *parameters)
        return self._at("logsf", self.logsf, k, parameters, 0.0, -jnp.inf)

    def _ppf(self, q: ArrayLike, *parameters: ArrayLike) -> Any:
        assert self.ppf is not None
        q, *shapes, loc = inexact(f"{self.name}.ppf", q, *parameters)
        return _where_valid(
            self, jnp.where((q >= 0) & (q <= 1), self.ppf(q, *shapes) + loc, jnp.nan), shapes
        )

    def _at(
        self,
        kind: str,
        f: Function,
        k: Any,
        parameters: tuple[object, ...],
        below: float,
        above: float,
        between: float | None = None,
    ) -> Any:
        """f at an integer of the support, constants outside of it, and nan for nan; between
        integers a constant, or as at the integer below."""
        k, *shapes, loc = inexact(f"{self.name}.{kind}", k, *parameters)
        k = k - loc
        whole = jnp.floor(k)
        high = self.high(*shapes) if callable(self.high) else self.high
        too_low = k < self.low
        too_high = (
            k == jnp.inf if high is None else k > high if between is not None else whole >= high
        )
        value = f(jnp.where(too_low | too_high | jnp.isnan(k), self.low, whole), *shapes)
        if between is not None:
            value = jnp.where(k == whole, value, between)
        value = jnp.where(too_low, below, jnp.where(too_high, above, value))
        return _where_valid(self, jnp.where(jnp.isnan(k), k, value), shapes)


def log_of_share(share: Function, rest: Function | None, *args: Any) -> Any:
    """The logarithm of a probability; near 1 computed by the complement."""
    p = share(*args)
    if rest is None or jnp.iscomplexobj(p):
        return jnp.log(p)
    is_large = p > 0.5
    # 0 - x, not -x: the logarithm of 1 is 0, not -0.
    other = jnp.log1p(0 - jnp.where(is_large, rest(*args), 0))
    return jnp.where(is_large, other, jnp.log(jnp.where(is_large, 1, p)))


def complement(p: Array, direct: Array, rest: Array) -> Any:
    """A probability, from `direct` (1 - p) or `rest` (computed from p). The result is `rest` where
    that is smaller, and where p is so small that 1 - p loses it."""
    is_lost = p < float(jnp.finfo(p.dtype).eps)
    return jnp.where((rest < 0.5) | is_lost, 1 - rest, direct)


def _where_valid(
    family: Continuous | Discrete, value: Array, shapes: list[Any], scale: Any = 1
) -> Any:
    """A value where the parameters are valid, else nan."""
    return jnp.where(family.valid(*shapes) & (scale > 0), value, jnp.nan)


def _public(
    family: Continuous | Discrete, kind: str, x: str, parameters: tuple[str, ...], body: Function
) -> LibraryFunction[..., Array]:
    """A function of x and the named parameters, written as text, as dataclasses are, so that these
    have their names."""
    names = [x, *(p.partition("=")[0] for p in parameters)]
    module = f"teucer.scipy.stats.{family.name}"
    scope = {"body": body, "Array": Array, "ArrayLike": ArrayLike, "__name__": module}
    exec(f"def {kind}({', '.join([x, *parameters])}):\n    return body({', '.join(names)})", scope)
    function: Any = scope[kind]
    function.__annotations__ = {**dict.fromkeys(names, "ArrayLike"), "return": "Array"}
    arguments = ", ".join(
        map(repr, (0.25, *family.example[1:]) if kind in ("ppf", "isf") else family.example)
    )
    function.__doc__ = f"""{_TEXTS[kind].format(x=x)}

    >>> round(float({kind}({arguments})), 3)
    {family.shown.get(kind)}
    """
    return fast(function)
