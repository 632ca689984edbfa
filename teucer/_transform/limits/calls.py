"""Forward-mode differentiation of parts of a function.

They pass limits on (`limits.tangents`), as `jvp_flat` and `jvp_jaxpr` do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._core.jaxpr import ClosedJaxpr, eval_jaxpr
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import typeof
from teucer._core.types import Zero
from teucer._transform.jvp import jvp_flat, split_tangents
from teucer._transform.limits.tangents import Limits, limits_of

if TYPE_CHECKING:
    from teucer._core.typing import Value


def jvp_of_part(
    f: Callable[..., Sequence[object]], primals: Sequence[Value], tangents: Sequence[Value]
) -> tuple[list[Any], Sequence[Any]]:
    """As `jvp_flat`, as a jvp rule gives it."""
    outs, found = jvp_flat(f, primals, tangents, is_part=True)
    return outs, limits_of(found)


class Kinds(NamedTuple):
    """The parts of a result of `jvp_of_call`: a tangent, and for a limit a turn and a direction."""

    tangent: bool
    turn: bool
    direction: bool


def jvp_of_call(
    closed: ClosedJaxpr, moving: Sequence[bool]
) -> tuple[ClosedJaxpr, Callable[[Sequence[Any]], tuple[Sequence[Any], Sequence[Any]]]]:
    """As `jvp_jaxpr`, with limits: the jaxpr, and a function that turns its results into the result
    of a jvp rule."""
    made: tuple[ClosedJaxpr, Callable[[Sequence[Any]], tuple[Sequence[Any], Sequence[Any]]]] = (
        closed.kept(("jvp of call", tuple(moving)), lambda: _jvp_of_call(closed, moving))
    )
    return made


def _jvp_of_call(closed: ClosedJaxpr, moving: Sequence[bool]) -> Any:
    kinds: list[Kinds] = []

    def jvp(*args: Value) -> list[Any]:
        outs, tangents = jvp_of_part(
            lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs), *split_tangents(args, moving)
        )
        nothing = [None] * len(outs)
        of_limits = (
            (tangents.turns, tangents.directions)
            if type(tangents) is Limits
            else (nothing, nothing)
        )
        columns = [
            [None if type(t) is Zero else t for t in column] for column in (tangents, *of_limits)
        ]
        kinds[:] = [Kinds(*[t is not None for t in row]) for row in zip(*columns, strict=True)]
        return outs + [t for column in columns for t in column if t is not None]

    avals = closed.in_avals
    given = [*avals, *[a.tangent_aval() for a, m in zip(avals, moving, strict=True) if m]]
    jaxpr = stage_jaxpr(jvp, given, closed.jaxpr.debug_info)

    def taken(values: Sequence[Value]) -> tuple[Sequence[Any], Sequence[Any]]:
        outs, rest = values[: len(kinds)], iter(values[len(kinds) :])
        columns = [[next(rest) if kind[i] else None for kind in kinds] for i in range(3)]
        tangents = [
            typeof(y).zero if t is None else t for y, t in zip(outs, columns[0], strict=True)
        ]
        has_limits = any(kind.turn or kind.direction for kind in kinds)
        return outs, Limits(tangents, *columns[1:]) if has_limits else tangents

    return jaxpr, taken
