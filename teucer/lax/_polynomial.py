"""Polynomials, and operations that are better than what they abbreviate: 1 - x^2, the logarithm to base 2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer.lax import _arithmetic as arithmetic
from teucer.lax import _elementwise as elementwise
from teucer.lax import _structure
from teucer.lax._control.iteration import scan
from teucer.lax._families import INEXACT, NUMERIC, Checked, scalar_like, unary
from teucer.lax._joining import concatenate
from teucer.lax._programs import traced

__all__ = ["log2", "log2_p", "one_minus_square", "one_minus_square_p", "polynomial"]


def _scaled(x: Any, factor: float) -> Any:
    """x over a real number; of complex numbers by their parts, so that infinities stay."""
    if not dtypes.issubdtype(typeof(x).dtype, np.complexfloating):
        return arithmetic.div(x, scalar_like(x, factor))
    re, im = arithmetic.real(x), arithmetic.imag(x)
    return arithmetic.complex(arithmetic.div(re, scalar_like(re, factor)), arithmetic.div(im, scalar_like(im, factor)))


log2_p, log2 = unary("log2", INEXACT, traced(lambda x: _scaled(elementwise.log(x), math.log(2))),
                     lambda t, y, x, **_: arithmetic.div(t, arithmetic.mul(x, scalar_like(x, math.log(2)))), Checked(0.01, 9, 4),
                     "Logarithm to base 2; of negative real numbers nan.", accuracy=True)


def _difference(x: Any) -> Any:
    one = scalar_like(x, 1)
    return arithmetic.mul(arithmetic.add(x, one), arithmetic.sub(one, x))


def _lower_difference(ctx: Any, x: Any) -> Any:
    """Integers overflow as they do in their own width."""
    if x.dtype.kind in "iu":
        return ctx.trace(lambda x: (_difference(x),), x)[0]
    return traced(_difference)(ctx, x)


one_minus_square_p, one_minus_square = unary(
    "one_minus_square", NUMERIC, _lower_difference, lambda t, y, x: arithmetic.mul(t, arithmetic.mul(scalar_like(x, -2), x)),
    Checked(-9, 9, 4), "1 - x^2, accurate near 1: (1 + x) (1 - x).")


def polynomial(x: Any, coeffs: Sequence[Any], *, unroll: int | None = None) -> Any:
    """The polynomial coeffs[0] + coeffs[1] x + ..., by Horner's rule.

    x: T[...]. coeffs: numbers, or arrays that broadcast with x; none give 0.
    unroll: up to how many coefficients the rule is written out, 8 by default; beyond, it is a loop.
    Raises TypeError if shapes do not fit.

    >>> polynomial(3.0, [1.0, 5.0, 2.0])
    Array(34., dtype=float32, weak_type=True)
    """
    unroll = 8 if unroll is None else unroll
    terms = list(coeffs)
    if not terms:
        return arithmetic.mul(x, scalar_like(x, 0))
    if len(terms) == 1:
        return arithmetic.add(arithmetic.mul(x, scalar_like(x, 0)), terms[0])
    if len(terms) <= unroll:
        total = terms[-1]
        for term in reversed(terms[:-1]):
            total = arithmetic.add(arithmetic.mul(total, x), term)
        return total
    zeros = _structure.full(np.broadcast_shapes(typeof(x).shape, *(typeof(t).shape for t in terms)), 0, typeof(x).dtype)
    rows = concatenate([_structure.expand(arithmetic.add(zeros, term), 1, 0) for term in reversed(terms)], 0)
    return scan(lambda total, row: (arithmetic.add(arithmetic.mul(total, x), row), None), zeros, rows)[0]
