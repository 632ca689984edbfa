"""Derivatives at points where a result turns without bound, but functions of it have derivatives.

Eigenvectors of equal eigenvalues are any basis of their space, and the derivative of a basis is
infinite. A function of all of it, such as the exponential of the matrix, is smooth all the same.
Its derivative there is the limit of derivatives at eigenvalues w + e d, as e goes to 0, for
distinct numbers d. So a tangent there is a series turn / e + tangent, and a value is a series value
+ e direction. Both are cut behind these terms, which are enough for the limit:

    (value + e direction) (turn / e + tangent)
        = value turn / e + (value tangent + direction turn) + ...

Only the tangent of a result is returned. A turn that is left there says that the function
depends on the basis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from teucer._core import array_ops
from teucer._core.jaxpr import jaxprs_in_params
from teucer._core.trace import typeof
from teucer._core.types import Zero

if TYPE_CHECKING:
    from collections.abc import Callable

    from teucer._core.primitive import Primitive
    from teucer._core.typing import Cotangent, Params, Value


class Limit(NamedTuple):
    """A tangent that is a series, and the direction of its value; parts may be Zero."""

    tangent: Any
    turn: Any
    direction: Any


class Limits(tuple[Any, ...]):
    """The tangents that a jvp rule returns, with turns and directions; None is a zero.

    Where nothing follows them, it is a tuple of tangents like others.
    """

    turns: Sequence[Any]
    directions: Sequence[Any]

    def __new__(
        cls,
        tangents: Sequence[Cotangent],
        turns: Sequence[Cotangent],
        directions: Sequence[Cotangent],
    ) -> Self:
        made = super().__new__(cls, tangents)
        made.turns, made.directions = turns, directions
        return made

    def given(self) -> list[Any]:
        """The tangents of the tracers of a trace that follows limits."""
        return [
            t
            if turn is None and direction is None
            else Limit(t, _or_zero(turn, t), _or_zero(direction, t))
            for t, turn, direction in zip(self, self.turns, self.directions, strict=True)
        ]


def limits_of(tangents: Sequence[Cotangent]) -> Sequence[Any]:
    """Tangents of tracers, as a jvp rule returns them."""
    if not any(type(t) is Limit for t in tangents):
        return tangents
    parts = [t if type(t) is Limit else Limit(t, None, None) for t in tangents]
    return Limits(*([part[i] for part in parts] for i in range(3)))


def _or_zero(x: Cotangent, tangent: Cotangent) -> Any:
    return typeof(tangent).zero if x is None else x


def derivative(
    apply: Callable[..., tuple[Sequence[Value], Sequence[Cotangent]]],
    primitive: Primitive,
    primals: Sequence[Value],
    tangents: Sequence[Cotangent],
    /,
    **params: object,
) -> tuple[Sequence[Any], Sequence[Any]]:
    """The results of a primitive's jvp rule for tangents some of which are limits.

    apply: `jvp_flat`.
    """
    parts = [
        t if type(t) is Limit else Limit(t, typeof(p).zero, typeof(p).zero)
        for p, t in zip(primals, tangents, strict=True)
    ]
    plain, turns, directions = ([t[i] for t in parts] for i in range(3))
    if _none(plain):
        outs = primitive.call(*primals, **params)
        found: Sequence[Any] = [typeof(y).zero for y in outs]
    else:
        outs, found = primitive.jvp(primals, plain, **params)
    if not _is_followed(primitive, primals, params):
        return outs, found
    zeros = [typeof(t).zero if type(t) is not Zero else t for t in found]

    def along(values: Sequence[Value], changes: Sequence[Cotangent]) -> Sequence[Any]:
        return zeros if _none(changes) else primitive.jvp(values, changes, **params)[1]

    turned, directed = along(primals, turns), along(primals, directions)
    if not _none(turns) and not _none(directions):
        places: list[int] = []

        def moving(*values: Value) -> list[Any]:
            ts = along(values, directions)
            places[:] = [i for i, t in enumerate(ts) if type(t) is not Zero]
            return [ts[i] for i in places]

        _, crossed = apply(moving, primals, turns)
        found = list(found)
        for i, t in zip(places, crossed, strict=True):
            found[i] = array_ops.add_cotangents(found[i], t)
    given = found.given() if type(found) is Limits else found
    return outs, [
        t
        if type(t) is Limit or (type(turn) is Zero and type(direction) is Zero)
        else Limit(t, turn, direction)
        for t, turn, direction in zip(given, turned, directed, strict=True)
    ]


def _none(changes: Sequence[Cotangent]) -> bool:
    return all(type(t) is Zero for t in changes)


def _is_followed(primitive: Primitive, primals: Sequence[Value], params: Params) -> bool:
    """Whether the rule may be called again: it has no effects, and can be differentiated forwards,
    unlike the rule of a `custom_vjp` function."""
    if primitive.higher_order and _is_reverse_only(params):
        return False
    return all(not jaxpr.effects for jaxpr in jaxprs_in_params(params)) and (
        primitive.pure
        or "call_jaxpr" in params
        or not primitive.effects(*map(typeof, primals), **params)
    )


def _is_reverse_only(params: Params) -> bool:
    return "bwd" in params or any(
        _is_reverse_only(eqn.params)
        for jaxpr in jaxprs_in_params(params)
        for eqn in jaxpr.eqns
        if eqn.primitive.higher_order
    )
