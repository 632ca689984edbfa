"""Hypergeometric functions of real arguments, by their series after the transformation that makes
it converge fastest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from teucer import lax
from teucer import numpy as jnp
from teucer._core.typing import Array, ArrayLike
from teucer._derived.custom_jvp import custom_jvp
from teucer._derived.forward import jvp
from teucer.numpy._library import fast
from teucer.scipy._operands import real

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.typing import Value


_TERMS = 2000


@fast
def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's function 1F1(a; b; x), sum over k of (a)_k / (b)_k x^k / k!.

    a, b, x: real. Infinite where b is a pole: 0 or a negative integer, unless the sum ends before;
    1 for a = b = 0, as in JAX. Where terms are large and of both signs, as for large negative a,
    digits are lost.

    >>> round(float(hyp1f1(1.0, 2.0, 1.0)), 4)
    1.7183

    Method: the series; for large x the asymptotic one; for negative x the transformation exp(x)
    1F1(b - a; b; -x). DLMF 13.2.2, 13.2.39, 13.7.1.
    """
    return _hyp1f1(*_same("hyp1f1", a, b, x))


@fast
def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss' function 2F1(a, b; c; x), sum over k of (a)_k (b)_k / (c)_k x^k / k!.

    a, b, c, x: real. Infinite where c is a pole, as for `hyp1f1`, and at 1 for c <= a + b; nan for
    x > 1 unless the sum ends.

    >>> round(float(hyp2f1(1.0, 1.0, 2.0, 0.5)), 4)
    1.3863

    Method: the series up to 0.9; beyond, the transformation to 1 - x; for negative x that of Pfaff.
    Where the gamma functions of the former have poles, at integer c - a - b, it is interpolated in
    c. DLMF 15.2.1, 15.8.1, 15.8.4.
    """
    return _hyp2f1(*_same("hyp2f1", a, b, c, x))


def _same(name: str, *xs: Value) -> Any:
    """Real operands of one shape, strongly typed."""
    return jnp.broadcast_arrays(*(x.astype(x.dtype) for x in real(name, *xs)))


def _rule(function: Any, value: Callable[..., object], slope: Callable[..., Any]) -> None:
    """Derivatives: in the last operand slope(*operands); in parameters by the terms of the
    series."""

    def derivative(primals: Any, tangents: Sequence[Array]) -> tuple[Any, Any]:
        total = slope(*primals) * tangents[-1]
        for i, tangent in enumerate(tangents[:-1]):
            unit = tuple(
                jnp.ones_like(p) if i == j else jnp.zeros_like(p) for j, p in enumerate(primals)
            )
            total = total + jvp(value, primals, unit)[1] * tangent
        return function(*primals), total

    function.defjvp(derivative)


def _is_end(a: Array) -> Any:
    """Whether (a)_k is 0 from some k on: whether a is 0 or a negative integer."""
    return (a <= 0) & (a == jnp.floor(a))


def _series(tops: list[Any], bottoms: list[Any], x: Any, terms: int = _TERMS) -> Any:
    """The sum over k of product(top)_k / product(bottom)_k x^k / k!, until its terms no longer
    count."""
    eps = jnp.finfo(x.dtype).eps

    def unfinished(state: Any) -> Any:
        k, total, term = state
        return (k < terms) & jnp.any(jnp.abs(term) > 0.1 * eps * jnp.abs(total))

    def add(state: Any) -> Any:
        k, total, term = state
        at = k.astype(x.dtype)
        for top in tops:
            term = term * (top + at)
        for bottom in bottoms:
            term = jnp.where(term == 0, 0.0, term / jnp.where(term == 0, 1.0, bottom + at))
        term = term * x / (at + 1)
        return k + 1, total + term, term

    return lax.while_loop(unfinished, add, (jnp.int32(0), jnp.ones_like(x), jnp.ones_like(x)))[1]


def _hyp1f1_value(a: Array, b: Array, x: Array) -> Any:
    is_negative = x < 0
    top, z = jnp.where(is_negative, b - a, a), jnp.abs(x)
    is_far = (z > 60) & (z > 4 * (jnp.abs(top) + jnp.abs(b)) + 30) & ~_is_end(top) & ~_is_end(b)
    near = _series(
        [jnp.where(is_far, 1.0, top)], [jnp.where(is_far, 1.0, b)], jnp.where(is_far, 0.5, z)
    )
    scale = jnp.where(is_negative, jnp.exp(x), 1.0)
    result = jnp.where(
        is_far,
        _hyp1f1_far(
            jnp.where(is_far, top, 1.5),
            jnp.where(is_far, b, 1.0),
            jnp.where(is_far, z, 99.0),
            jnp.where(is_negative, 0.0, z),
        ),
        near * scale,
    )
    ends_first = _is_end(a) & (a > b)
    result = jnp.where(_is_end(b) & ~ends_first, jnp.inf, result)
    result = jnp.where((a == 0) & ((b == 0) | ~_is_end(b)), 1.0, result)
    return jnp.where(jnp.isnan(a + b + x), jnp.nan, result)


def _hyp1f1_far(a: Array, b: Array, x: Array, exponent: object) -> Any:
    """exp(exponent - x) 1F1(a; b; x) for large positive x: its terms fall as long as they are fewer
    than x."""
    total = term = jnp.ones_like(x)
    for k in range(25):
        term = term * (b - a + k) * (1 - a + k) / ((k + 1) * x)
        total = total + term
    sign = _gamma_sign(b) * _gamma_sign(a)
    return sign * jnp.exp(lax.lgamma(b) - lax.lgamma(a) + exponent + (a - b) * jnp.log(x)) * total


def _gamma_sign(x: Array) -> Any:
    return jnp.where((x < 0) & (jnp.floor(x) % 2 != 0), -1.0, 1.0)


_hyp1f1 = custom_jvp(_hyp1f1_value)
_rule(_hyp1f1, _hyp1f1_value, lambda a, b, x: a / b * _hyp1f1(a + 1, b + 1, x))


def _hyp2f1_value(a: Array, b: Array, c: Array, x: Array) -> Any:
    ends = _is_end(a) | _is_end(b)
    # Pfaff: (1 - x)^-a 2F1(a, c - b; c; x / (x - 1)), whose argument is in (0, 1). A sum that ends
    # does not need this.
    is_negative = (x < 0) & ~ends
    # The parameter that stays is the one that may end the transformed sum.
    stays, goes = jnp.where(_is_end(c - a), b, a), jnp.where(_is_end(c - a), a, b)
    base = jnp.where(is_negative, 1 - x, 1.0)
    first, second = jnp.where(is_negative, stays, a), jnp.where(is_negative, c - goes, b)
    z = jnp.where(is_negative, x / jnp.where(is_negative, x - 1, 1.0), x)
    inside = jnp.where((z < 1) | ends, z, 0.5)
    is_near_one = (inside > 0.9) & ~ends & ~_is_end(second)
    one = jnp.ones_like(x)
    direct = _series(
        [jnp.where(is_near_one, one, first), jnp.where(is_near_one, one, second)],
        [jnp.where(is_near_one, one, c)],
        jnp.where(is_near_one, 0.5, inside),
    )
    result = jnp.where(
        is_near_one, _near_one(first, second, c, jnp.where(is_near_one, inside, 0.95)), direct
    )
    result = result * jnp.where(is_negative, base**-stays, 1.0)
    result = jnp.where((z == 1) & ~ends, _at_one(a, b, c), result)
    result = jnp.where((x > 1) & ~ends, jnp.nan, result)
    ends_first = (_is_end(a) & (a > c)) | (_is_end(b) & (b > c))
    result = jnp.where(_is_end(c) & ~ends_first, jnp.inf, result)
    result = jnp.where((a == 0) | (b == 0), 1.0, result)
    return jnp.where(jnp.isnan(a + b + c + x), jnp.nan, result)


def _at_one(a: Array, b: Array, c: Array) -> Any:
    """Gauss' sum at 1; infinite where it diverges."""
    rest = c - a - b
    return jnp.where(
        rest > 0, _gamma_ratio([c, jnp.where(rest > 0, rest, 1.0)], [c - a, c - b]), jnp.inf
    )


def _gamma_ratio(tops: list[Any], bottoms: list[Any]) -> Any:
    """A product of gamma functions over another product; 0 where a gamma function in the divisor
    has a pole."""
    sign: Array | float = 1.0
    logarithm: Array | float = 0.0
    for x in tops:
        sign, logarithm = sign * _gamma_sign(x), logarithm + lax.lgamma(x)
    is_zero: Any = False
    for x in bottoms:
        is_pole = _is_end(x)
        is_zero, x = is_zero | is_pole, jnp.where(is_pole, 1.0, x)
        sign, logarithm = sign * _gamma_sign(x), logarithm - lax.lgamma(x)
    return jnp.where(is_zero, 0.0, sign * jnp.exp(logarithm))


def _near_one(a: Array, b: Array, c: Array, x: Array) -> Any:
    """By the transformation to 1 - x; near its poles, at integer c - a - b, interpolated between
    values of c around them.

    Euler's transformation takes negative c - a - b to positive ones, for which values are not
    singular.
    """
    is_singular = c < a + b
    scale = jnp.where(is_singular, (1 - x) ** jnp.where(is_singular, c - a - b, 0.0), 1.0)
    return scale * _interpolated(
        jnp.where(is_singular, c - a, a), jnp.where(is_singular, c - b, b), c, x
    )


def _interpolated(a: Array, b: Array, c: Array, x: Array) -> Any:
    step = 0.02 if jnp.finfo(x.dtype).bits <= 32 else 3e-4
    rest = c - a - b
    offset = rest - jnp.round(rest)
    is_pole = jnp.abs(offset) < step
    nodes = (-2 * step, -step, step, 2 * step)
    total = jnp.zeros_like(x)
    for i, node in enumerate(nodes):
        weight = jnp.ones_like(x)
        for j, other in enumerate(nodes):
            if j != i:
                weight = weight * (offset - other) / (node - other)
        total = total + weight * _to_complement(
            a, b, jnp.where(is_pole, c - offset + node, a + b + 0.5), x
        )
    return jnp.where(is_pole, total, _to_complement(a, b, jnp.where(is_pole, a + b + 0.5, c), x))


def _to_complement(a: Array, b: Array, c: Array, x: Array) -> Any:
    rest, y = c - a - b, 1 - x
    regular = _gamma_ratio([c, rest], [c - a, c - b]) * _series([a, b], [1 - rest], y)
    singular = _gamma_ratio([c, -rest], [a, b]) * y**rest * _series([c - a, c - b], [1 + rest], y)
    return regular + singular


_hyp2f1 = custom_jvp(_hyp2f1_value)
_rule(_hyp2f1, _hyp2f1_value, lambda a, b, c, x: a * b / c * _hyp2f1(a + 1, b + 1, c + 1, x))
