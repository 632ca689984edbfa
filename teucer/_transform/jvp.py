"""Forward-mode differentiation: each value travels with its tangent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, final

from teucer._arrays import transfer
from teucer._arrays.arrays import ArrayImpl
from teucer._core import array_ops, dialects
from teucer._core.jaxpr import ClosedJaxpr, eval_jaxpr, refers
from teucer._core.leaks import check_alive, check_leaks
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import Trace, Tracer, current_trace, end, typeof, using
from teucer._core.types import Zero
from teucer._transform.limits.tangents import Limit, Limits, derivative

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Params, Value


@final
class JVPTracer(Tracer):
    """A value and its tangent."""

    __slots__ = ("aval", "primal", "tangent")
    aval: Any
    primal: Any
    tangent: Any

    def __init__(self, trace: Trace, primal: Value, tangent: Value) -> None:
        self._trace, self.primal, self.tangent, self.aval = trace, primal, tangent, typeof(primal)

    def as_array(self) -> Any:
        x = self.primal
        if isinstance(x, ArrayImpl) or not typeof(x).moves:
            return self
        primal = (
            x.as_array()
            if isinstance(x, Tracer)
            else transfer.put(transfer.host_value(x, self.aval), None, aval=self.aval)
        )
        return JVPTracer(self._trace, primal, self.tangent)

    def concrete(self) -> Any:
        x = self.primal
        return x.concrete() if isinstance(x, Tracer) else x

    def origin(self) -> str:
        x = self.primal
        return x.origin() if isinstance(x, Tracer) else ""

    def __repr__(self) -> str:
        primal, tangent, parent = self.primal, self.tangent, self._trace.parent
        # In a linearization the parent records operations on tangents, and only these.
        if (
            getattr(tangent, "_trace", None) is parent
            and getattr(primal, "_trace", None) is not parent
        ):
            return (
                f"GradTracer(primal={primal}, "
                f"typeof(tangent)={tangent.aval.str_short(short_dtypes=True)})"
            )
        return f"JVPTracer(primal={primal}, tangent={tangent})"


class JVPTrace(Trace):
    """Runs each primitive's jvp rule in the parent."""

    __slots__ = ()

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Params
    ) -> tuple[Any, ...]:
        primals, tangents, moving, limited = [], [], False, False
        for x in args:
            if type(x) is JVPTracer and x._trace is self:
                primals.append(x.primal)
                tangents.append(x.tangent)
                moving = moving or type(x.tangent) is not Zero
                limited = limited or type(x.tangent) is Limit
            else:
                if isinstance(x, Tracer):
                    check_alive(x)
                primals.append(x)
                tangents.append(typeof(x).zero)
        parent = self.parent
        assert parent is not None
        if moving and primitive.higher_order and refers(args, params):
            # For functions that change references.
            from teucer._dialects.references.discharge import without_references

            found = without_references(self, primitive, args, params)
            if found is not None:
                return found
        with using(parent):
            if not moving and not dialects.makes_references[type(primitive)]:
                return parent.process(primitive, tuple(primals), params)
            rule = partial(derivative, jvp_flat, primitive) if limited else primitive.jvp
            outs, out_tangents = rule(primals, tangents, **params)
            if type(out_tangents) is Limits:
                out_tangents = out_tangents.given()
        if len(outs) == 1:
            (y,), (t,) = outs, out_tangents
            return (JVPTracer(self, y, t) if type(t) is not Zero else y,)
        return tuple(
            [
                JVPTracer(self, y, t) if type(t) is not Zero else y
                for y, t in zip(outs, out_tangents, strict=True)
            ]
        )

    def split(self, x: Value, is_part: bool = False) -> tuple[Any, Any]:
        """The value and the tangent of the result of a function, or of a part of one."""
        if type(x) is JVPTracer and x._trace is self:
            given = type(x.tangent) is Limit and not is_part
            return x.primal, x.tangent.tangent if given else x.tangent
        check_alive(x)
        return x, typeof(x).zero

    def __repr__(self) -> str:
        return "a function being differentiated (jvp)"


def jvp_flat(
    f: Callable[..., Sequence[object]],
    primals: Sequence[Value],
    tangents: Sequence[Value],
    is_part: bool = False,
) -> tuple[list[Any], list[Any]]:
    """The results of a function of flat values, and their tangents. A tangent may be Zero.

    is_part: whether tangents may be limits, too.
    """
    trace = JVPTrace(current_trace())
    args = [
        p if type(t) is Zero else JVPTracer(trace, p, t)
        for p, t in zip(primals, tangents, strict=True)
    ]
    with using(trace):
        outs = f(*args)
    pairs = [trace.split(y, is_part) for y in outs]
    end(trace)
    del args, outs
    check_leaks(trace)
    return [y for y, _ in pairs], [t for _, t in pairs]


def jvp_jaxpr(
    closed: ClosedJaxpr, moving: Sequence[bool], instantiate: bool | Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    """The jaxpr (primals, tangents of the moving ones) -> (results, tangents of the moving
    results).

    instantiate: which results shall have a tangent even if it is zero.
    Returns it with which results move. Kept on the jaxpr.
    """
    wanted = (
        (instantiate,) * len(closed.jaxpr.outvars)
        if isinstance(instantiate, bool)
        else tuple(instantiate)
    )
    made: tuple[ClosedJaxpr, list[bool]] = closed.kept(
        ("jvp", tuple(moving), wanted), lambda: _jvp_jaxpr(closed, moving, wanted)
    )
    return made


def _jvp_jaxpr(
    closed: ClosedJaxpr, moving: Sequence[bool], wanted: tuple[bool, ...]
) -> tuple[ClosedJaxpr, list[bool]]:
    out_moving: list[bool] = []

    def jvp(*args: Value) -> list[Any]:
        outs, out_tangents = jvp_flat(
            lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, *xs), *split_tangents(args, moving)
        )
        out_moving[:] = [
            type(t) is not Zero or w for t, w in zip(out_tangents, wanted, strict=True)
        ]
        return outs + [
            array_ops.instantiate(t) for t, m in zip(out_tangents, out_moving, strict=True) if m
        ]

    avals = closed.in_avals
    tangent_avals = [a.tangent_aval() for a, m in zip(avals, moving, strict=True) if m]
    return stage_jaxpr(jvp, [*avals, *tangent_avals], closed.jaxpr.debug_info), out_moving


def split_tangents(
    values: Sequence[object], moving: Sequence[bool]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """(*primals, *tangents of the moving ones), as a `jvp_jaxpr` takes and gives them: primals, and
    a tangent for each."""
    primals, rest = tuple(values[: len(moving)]), iter(values[len(moving) :])
    return primals, tuple(
        next(rest) if m else typeof(p).zero for p, m in zip(primals, moving, strict=True)
    )
