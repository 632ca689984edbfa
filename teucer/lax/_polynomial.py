"""Polynomials by Horner's rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._core import array_ops, dialects
from teucer._core.primitive import Primitive, Undefined
from teucer._core.trace import typeof
from teucer._core.types import Zero
from teucer._core.typing import Array, ArrayLike
from teucer._devices.partition import aligned
from teucer.lax import _arithmetic as arithmetic
from teucer.lax import _elementwise as elementwise
from teucer.lax import _families as families
from teucer.lax import _structure
from teucer.lax._control.iteration import scan
from teucer.lax._costs import FUSED
from teucer.lax._joining import concatenate

if TYPE_CHECKING:
    from teucer._core.primitive import Axis
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Dims, Tangents
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = ["polynomial", "polynomial_p"]


def _horner(x: Any, terms: Sequence[Any]) -> Any:
    """The polynomial by Horner's rule: in a loop if there are many coefficients."""
    if len(terms) <= _WRITTEN_OUT:
        total = terms[-1]
        for term in reversed(terms[:-1]):
            total = arithmetic.add(arithmetic.mul(total, x), term)
        return total
    zeros = _structure.full(typeof(x).shape, 0, typeof(x).dtype)
    rows = concatenate(
        [_structure.expand(arithmetic.add(zeros, term), 1, 0) for term in reversed(terms)], 0
    )
    return scan(
        lambda total, row: (arithmetic.add(arithmetic.mul(total, x), row), None), zeros, rows
    )[0]


# Up to how many coefficients the rule is written out.
_WRITTEN_OUT = 8


@final
class Polynomial(Primitive):
    """coeffs[0] + coeffs[1] x + ..., at least two coefficients, of x of floating or complex numbers
    or integers.

    (C1) the operands have one dtype.  (C2) coefficients are scalars or have the shape of x.
    """

    __slots__ = ()
    name = "polynomial"
    cost = FUSED
    shard = aligned
    padded = dialects.through

    def types(self, x: ShapedArray, *coeffs: ShapedArray, unroll: int | None = None) -> Any:
        families.check_dtypes("polynomial", families.NUMERIC, (x, *coeffs))
        families.check_same("polynomial", (x, *coeffs), scalars=True)
        for place, c in enumerate(coeffs):
            if c.shape and c.shape != x.shape:
                raise TypeError(
                    "polynomial: a coefficient is a scalar or has the shape of x.\n"
                    f"    x: {x.str_short(True)}\n    coeffs[{place}]: {c.str_short(True)}"
                )
        weak = x.weak_type and all(c.weak_type for c in coeffs)
        return (x if weak == x.weak_type else x.strengthen(),)

    def lower(self, ctx: Context, x: Value, *coeffs: Value, unroll: int | None = None) -> Any:
        return ctx.trace(lambda x, *terms: (_horner(x, terms),), x, *coeffs)

    def jvp(
        self, primals: Sequence[ArrayLike], tangents: Tangents, *, unroll: int | None = None
    ) -> Any:
        outs = self.call(*primals, unroll=unroll)
        (x, *coeffs), (t, *moved) = primals, tangents
        total: Any = None
        if type(t) is not Zero:
            slopes = [
                c if k == 1 else arithmetic.mul(c, families.scalar_like(c, k))
                for k, c in enumerate(coeffs)
            ][1:]
            total = arithmetic.mul(t, _evaluated(x, slopes, unroll))
        if any(type(c) is not Zero for c in moved):
            zero = families.scalar_like(x, 0)
            change = _evaluated(x, [zero if type(c) is Zero else c for c in moved], unroll)
            total = array_ops.add_cotangents(total, change)
        return outs, (typeof(outs[0]).zero if total is None else total,)

    def transpose(
        self, cts: Sequence[Array], x: Array, *coeffs: Array | Undefined, unroll: int | None = None
    ) -> Any:
        (ct,) = cts
        found: list[Any] = [None]
        for k, c in enumerate(coeffs):
            if type(c) is not Undefined:
                found.append(None)
                continue
            part = ct if k == 0 else arithmetic.mul(ct, elementwise.integer_pow(x, k))
            axes = tuple(range(typeof(part).ndim)) if not c.aval.shape else ()
            found.append(_structure.reduce_sum(part, axes) if axes else part)
        return tuple(found)

    def batch(self, axis: Axis, args: Sequence[ArrayLike], dims: Dims, **params: object) -> Any:
        if typeof(args[0]).ndim == (dims[0] is not None):
            args = [array_ops.to_axis(v, d, axis.size, 0) for v, d in zip(args, dims, strict=True)]
            return self.call(*args, **params), (0,)
        return families.batch_elementwise(self, axis, args, dims, params)


polynomial_p = Polynomial()


def _evaluated(x: Any, terms: Sequence[Any], unroll: int | None) -> Any:
    """The polynomial of one coefficient or several, of the shape of x."""
    if len(terms) == 1:
        return arithmetic.add(arithmetic.mul(x, families.scalar_like(x, 0)), terms[0])
    return polynomial_p.call(x, *terms, unroll=unroll)[0]


def polynomial(x: ArrayLike, coeffs: Sequence[object], *, unroll: int | None = None) -> Array:
    """The polynomial coeffs[0] + coeffs[1] x + ..., by Horner's rule. Its derivatives are
    polynomials of lower degree.

    x: T[...]. coeffs: numbers, or arrays that broadcast with x; none give 0.
    unroll: accepted for programs written for JAX; up to 8 coefficients the rule is written out,
    beyond it is a loop. Raises TypeError if dtypes differ, ValueError if shapes do not fit.

    >>> polynomial(3.0, [1.0, 5.0, 2.0])
    Array(34., dtype=float32, weak_type=True)
    """
    terms = list(coeffs)
    if not terms:
        return arithmetic.mul(x, families.scalar_like(x, 0))
    x, *terms = families.operands(x, *terms)
    try:
        shape = np.broadcast_shapes(typeof(x).shape, *(typeof(t).shape for t in terms))
    except ValueError:
        raise TypeError(
            "polynomial got incompatible shapes for broadcasting: "
            f"{', '.join(str(typeof(v).shape) for v in (x, *terms))}."
        ) from None
    return _evaluated(
        _spread(x, shape), [_spread(c, shape) if typeof(c).shape else c for c in terms], unroll
    )


def _spread(x: object, shape: tuple[int, ...]) -> Any:
    own = typeof(x).shape
    return (
        x
        if own == shape
        else _structure.broadcast_to(x, shape, range(len(shape) - len(own), len(shape)))
    )
