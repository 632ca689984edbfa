"""Partial evaluation.

The parent computes operations on known values; operations on unknown values are recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

from teucer._core import dialects
from teucer._core.debug_info import DebugInfo
from teucer._core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr
from teucer._core.names import _names, apart, without
from teucer._core.places import NOWHERE
from teucer._core.provided import provided
from teucer._core.stage import StageTrace, StageTracer
from teucer._core.trace import EVAL, Trace, current_trace, using

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.typing import Aval, Params, Value


@final
class PartialTrace(StageTrace):
    """Computes operations on known values in the parent, and records the rest."""

    __slots__ = ("depth",)

    def __init__(self, parent: Trace | None, debug_info: DebugInfo | None = None) -> None:
        super().__init__(parent, debug_info)
        # How many scopes are around the program: no part of the record.
        self.depth = len(_names.scope)

    def close(self, outs: Sequence[Value]) -> tuple[Jaxpr, list[Any]]:
        if self.depth:
            own: dict[int, tuple[str, ...]] = {}  # by identity: equal scopes may have other tags
            for eqn in self.eqns:
                place, scopes = eqn.source or NOWHERE
                if id(scopes) not in own:
                    own[id(scopes)] = without(scopes, self.depth)
                eqn.source = place, own[id(scopes)]
        return super().close(outs)

    def lift(self, x: Value, aval: Aval) -> Any:
        return x if self.parent is None else self.parent.lift(x, aval)

    def staging(self) -> bool:
        return self.parent is not None and self.parent.staging()

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Params
    ) -> tuple[Any, ...]:
        for x in args:
            if type(x) is StageTracer and x._trace is self:
                break
        else:
            if primitive.standalone and self.parent is EVAL:
                # As EVAL would; a program of its own asks for no trace.
                return provided.runner(primitive, params)(*args)
            if dialects.deferred[type(primitive)]:
                return super().process(primitive, args, params)
            return self.evaluate_known(primitive, args, params)
        if primitive.partial_eval is not None:
            return primitive.partial_eval(self, args, params)  # type: ignore[no-any-return]
        return super().process(primitive, args, params)

    def evaluate_known(
        self, primitive: Primitive, args: tuple[Value, ...], params: Params
    ) -> tuple[Any, ...]:
        """Run a primitive on known values in the parent."""
        parent = self.parent
        assert parent is not None
        with using(parent):
            return parent.process(primitive, args, params)

    def is_unknown(self, x: Value) -> bool:
        """Whether `x` is not known."""
        return type(x) is StageTracer and x._trace is self

    def __repr__(self) -> str:
        return "a function being linearized"


class Split(NamedTuple):
    """A jaxpr cut in two: `known` maps known inputs to known results and residuals; `staged` maps
    residuals and unknown inputs to unknown results.

    Residuals that are inputs of the known part are not copied: residual i is input `forwarded[i]`
    where that is not None.
    """

    known: ClosedJaxpr
    staged: ClosedJaxpr
    unknown_outs: tuple[bool, ...]
    forwarded: tuple[int | None, ...]


def split_jaxpr(
    closed: ClosedJaxpr, unknown: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> Split:
    """Cut a jaxpr into the part that depends on its known inputs alone, and the rest. Kept on the
    jaxpr. instantiate: results that count as unknown even if they are known.
    """
    wanted = (
        (instantiate,) * len(closed.jaxpr.outvars)
        if isinstance(instantiate, bool)
        else tuple(instantiate)
    )
    made: Split = closed.kept(
        ("split", tuple(unknown), wanted), lambda: _split_jaxpr(closed, tuple(unknown), wanted)
    )
    return made


def _split_jaxpr(closed: ClosedJaxpr, unknown: tuple[bool, ...], wanted: tuple[bool, ...]) -> Split:
    outer = StageTrace(current_trace(), closed.jaxpr.debug_info)
    scopes = _names.scope
    _names.scope = apart(scopes)
    try:
        inner = PartialTrace(outer, closed.jaxpr.debug_info)
        args = [
            (inner if u else outer).new_arg(a)
            for u, a in zip(unknown, closed.in_avals, strict=True)
        ]
        with using(inner):
            outs = eval_jaxpr(closed.jaxpr, closed.consts, *args)
    finally:
        _names.scope = scopes
    unknown_outs = tuple(inner.is_unknown(y) or w for y, w in zip(outs, wanted, strict=True))
    staged, residuals = inner.close([y for y, u in zip(outs, unknown_outs, strict=True) if u])
    position = {v: i for i, v in enumerate(outer.invars)}
    # Constants of the program itself need not travel: they stay constants of the staged part.
    travelling = [type(r) is StageTracer and r._trace is outer for r in residuals]
    constants = [
        (v, r) for v, r, t in zip(staged.constvars, residuals, travelling, strict=True) if not t
    ]
    moved = [(v, r) for v, r, t in zip(staged.constvars, residuals, travelling, strict=True) if t]
    staged = Jaxpr(
        [v for v, _ in constants],
        [*(v for v, _ in moved), *staged.invars],
        staged.outvars,
        staged.eqns,
        staged.effects,
        staged.debug_info,
    )
    forwarded = tuple(position.get(r._var) for _, r in moved)
    known_outs = [y for y, u in zip(outs, unknown_outs, strict=True) if not u]
    known, consts = outer.close(
        [*known_outs, *(r for (_, r), f in zip(moved, forwarded, strict=True) if f is None)]
    )
    return Split(
        ClosedJaxpr(known, consts),
        ClosedJaxpr(staged, [r for _, r in constants]),
        unknown_outs,
        forwarded,
    )
