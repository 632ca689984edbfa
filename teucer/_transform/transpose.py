"""Transposition.

A linear jaxpr run backwards, from cotangents of its results to cotangents of its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from teucer._core import array_ops, dialects
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from teucer._core.missing import NotLinear
from teucer._core.names import NO_SCOPES, _names, joined
from teucer._core.places import NOWHERE
from teucer._core.primitive import Primitive, Undefined
from teucer._core.reference_types import RefType
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import Tracer, current_trace
from teucer._core.types import Zero
from teucer._devices.partition import as_primal
from teucer._xla.arrays import ArrayImpl

if TYPE_CHECKING:
    from teucer._core.typing import Atom, Cotangent, Value


def backward_pass(
    jaxpr: Jaxpr,
    consts: Sequence[Value],
    args: Sequence[Value],
    cts: Sequence[Value],
    wanted: Sequence[bool] | None = None,
) -> list[Any]:
    """Cotangents of the arguments that are Undefined; None for the others.

    Equations that do not depend on Undefined arguments are evaluated first (a remat's
    recomputation, say).
    wanted: which arguments' cotangents are used; other cotangents may be wrong. None: all.
    """
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    linear: set[Any] = set()
    for v, x in zip(jaxpr.invars, args, strict=True):
        if type(x) is Undefined:
            linear.add(v)
        else:
            env[v] = x
    trace = current_trace()
    linear_eqns: list[Eqn] = []
    used: set[Atom] | None = None
    ct_of: dict[Var, Any] = {}
    saved, outer, own = _names.place, _names.scope, NO_SCOPES
    try:
        # Plain loops: this runs for every equation of every gradient (benchmarks/).
        for eqn in jaxpr.eqns:
            for u in eqn.invars:
                if type(u) is not Literal and u in linear:
                    linear.update(eqn.outvars)
                    linear_eqns.append(eqn)
                    break
            else:
                if dialects.deferred[type(eqn.primitive)]:
                    linear.update(eqn.outvars)
                    linear_eqns.append(eqn)
                    continue
                place, scopes = eqn.source or NOWHERE
                _names.place = place or saved
                if scopes is not own:
                    own, _names.scope = scopes, joined(outer, scopes)
                operands = tuple([u.val if type(u) is Literal else env[u] for u in eqn.invars])
                env.update(
                    zip(
                        eqn.outvars, trace.process(eqn.primitive, operands, eqn.params), strict=True
                    )
                )
        for out, ct in zip(jaxpr.outvars, cts, strict=True):
            if type(out) is not Literal and out in linear:
                _accumulate(ct_of, out, ct)
        if wanted is not None:
            linear_eqns = _leading_to(
                linear_eqns, {v for v, used in zip(jaxpr.invars, wanted, strict=True) if used}
            )
        # Reversed, because a cotangent is complete only when every later use has added to it.
        for eqn in reversed(linear_eqns):
            place, scopes = eqn.source or NOWHERE
            _names.place = place or saved
            if scopes is not own:
                own, _names.scope = scopes, joined(outer, scopes)
            if not _pull(eqn, env, linear, ct_of) and dialects.pulls_zeros[type(eqn.primitive)]:
                if used is None:
                    used = _used(linear_eqns, jaxpr.outvars)
                if not used.isdisjoint(eqn.outvars):
                    _pull_given(
                        eqn, [v.aval.zero_cotangent for v in eqn.outvars], env, linear, ct_of
                    )
    finally:
        _names.place, _names.scope = saved, outer
    return [
        None if type(x) is not Undefined else ct_of.get(v, v.aval.zero_cotangent)
        for v, x in zip(jaxpr.invars, args, strict=True)
    ]


def _leading_to(eqns: Sequence[Eqn], wanted: set[Var]) -> list[Eqn]:
    """The equations that pull cotangents to the given variables, or that do more than give
    results."""
    kept = []
    for eqn in eqns:
        if (
            eqn.effects
            or dialects.deferred[type(eqn.primitive)]
            or any(type(u) is Var and (u in wanted or type(u.aval) is RefType) for u in eqn.invars)
        ):
            wanted.update(eqn.outvars)
            kept.append(eqn)
    return kept


def _used(eqns: Sequence[Eqn], results: Sequence[Atom]) -> set[Atom]:
    """The variables that the results depend on."""
    used = set(results)
    for eqn in reversed(eqns):
        if not used.isdisjoint(eqn.outvars):
            used.update([u for u in eqn.invars if type(u) is Var])
    return used


def _pull(eqn: Eqn, env: dict[object, object], linear: set[object], ct_of: dict[Var, Any]) -> bool:
    """Add the cotangents of the operands of an equation, if its results have any; whether they
    have."""
    given, found = [], False
    for v in eqn.outvars:
        ct = ct_of.pop(v, None)
        given.append(v.aval.zero_cotangent if ct is None else ct)
        found = found or ct is not None
    for u in eqn.invars:
        if type(u) is Var and type(u.aval) is RefType and u in linear:
            found = ct_of.setdefault(u, Accumulator(u.aval)).used or found
    if found:
        _pull_given(eqn, given, env, linear, ct_of)
    return found


def _pull_given(
    eqn: Eqn,
    given: Sequence[Cotangent],
    env: dict[object, object],
    linear: set[object],
    ct_of: dict[Var, Cotangent],
) -> None:
    """Add the cotangents of the operands of an equation, from the cotangents of its results."""
    invars, values = eqn.invars, []
    for u in invars:
        if type(u) is Literal:
            values.append(u.val)
        elif u not in linear:
            values.append(env[u])
        else:
            values.append(ct_of[u] if type(u.aval) is RefType else Undefined(u.aval))
    try:
        in_cts = eqn.primitive.transpose(given, *values, **eqn.params)
    except NotLinear:
        in_cts = None
    if in_cts is None:  # said out here, so that the error has no other as its context
        Primitive.transpose(eqn.primitive, given, *values)
    for u, value, ct in zip(invars, values, in_cts, strict=True):
        if ct is not None and type(value) is Undefined:
            _accumulate(ct_of, u, ct)


class Accumulator:
    """The operand of a transpose rule that stands for a reference of tangents.

    It holds the reference of their cotangents.
    """

    __slots__ = ("aval", "_ref")

    def __init__(self, aval: RefType) -> None:
        self.aval = aval
        self._ref: Any = None

    def ref(self) -> Any:
        """The reference in which cotangents are summed. It is made at first use, with zeros."""
        if self._ref is None:
            self._ref = array_ops.new_reference(array_ops.zeros(self.aval.inner))
        return self._ref

    def begin(self, ct: Value) -> None:
        """Let the reference begin with a cotangent."""
        self._ref = array_ops.new_reference(ct)

    @property
    def used(self) -> bool:
        return self._ref is not None


def _accumulate(ct_of: dict[Any, Any], v: Atom, ct: Cotangent) -> None:
    if ct is None or type(ct) is Zero:
        return
    aval = ct._carried if type(ct) is ArrayImpl else ct.aval if isinstance(ct, Tracer) else v.aval
    if v.aval.placed or aval.placed:
        ct = as_primal(ct, v.aval)
    before = ct_of.get(v)
    ct_of[v] = ct if before is None else array_ops.add_cotangents(before, ct)


def transpose_jaxpr(
    closed: ClosedJaxpr, linear: Sequence[bool], ct_given: Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    """The jaxpr (values of the non-linear inputs, given cotangents of results) -> cotangents of the
    linear inputs.

    ct_given: which results have a nonzero cotangent. Also returns which linear inputs get a nonzero
    cotangent (only these are results). Kept on the jaxpr.
    """
    made: tuple[ClosedJaxpr, list[bool]] = closed.kept(
        ("transpose", tuple(linear), tuple(ct_given)),
        lambda: _transpose_jaxpr(closed, linear, ct_given),
    )
    return made


def _transpose_jaxpr(
    closed: ClosedJaxpr, linear: Sequence[bool], ct_given: Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    in_avals, out_avals = closed.in_avals, closed.out_avals
    nonzero: list[bool] = []

    def transposed(*args: Value) -> list[Any]:
        rest = iter(args)
        operands = [
            Undefined(a) if lin else next(rest) for a, lin in zip(in_avals, linear, strict=True)
        ]
        cts = [
            next(rest) if given else a.zero_cotangent
            for a, given in zip(out_avals, ct_given, strict=True)
        ]
        in_cts = backward_pass(closed.jaxpr, closed.consts, operands, cts)
        found_cts = [ct for ct, lin in zip(in_cts, linear, strict=True) if lin]
        nonzero[:] = [type(ct) is not Zero for ct in found_cts]
        return [ct for ct, nz in zip(found_cts, nonzero, strict=True) if nz]

    avals = [a for a, lin in zip(in_avals, linear, strict=True) if not lin]
    ct_avals = [a.cotangent_aval() for a, given in zip(out_avals, ct_given, strict=True) if given]
    return stage_jaxpr(transposed, [*avals, *ct_avals], closed.jaxpr.debug_info), nonzero
