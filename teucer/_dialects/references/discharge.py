"""Discharge of references.

A jaxpr that reads and writes references becomes one on the values of their arrays.

An array that is changed is a further result. Reads and writes of one reference keep their order,
since each write gives the value that later reads see; operations on different references may change
their order.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, final

import numpy as np

from teucer._core import array_ops, dialects
from teucer._core.dialects import REFERENCES
from teucer._core.jaxpr import (
    ClosedJaxpr,
    Eqn,
    Jaxpr,
    Literal,
    eval_jaxpr,
    interpret,
    jaxprs_in_params,
)
from teucer._core.places import where
from teucer._core.primitive import FunctionCall
from teucer._core.reference_types import RefType, touched
from teucer._core.stage import stage_jaxpr
from teucer._core.trace import current_trace, typeof, using
from teucer._optimize.passes import map_jaxprs

if TYPE_CHECKING:
    from teucer._core.primitive import Primitive
    from teucer._core.trace import Trace
    from teucer._core.typing import Params, Source, Value


@final
class Cell:
    """The array of a reference, as it is at the equation that is being discharged."""

    __slots__ = ("aval", "changed", "gone", "value")

    def __init__(self, aval: RefType, value: Value) -> None:
        self.aval, self.value, self.changed, self.gone = aval, value, False, ""

    def read(self) -> Any:
        """The array. Raises ValueError if the reference was frozen or freed before."""
        if self.gone:
            raise ValueError(
                f"a reference of type {self.aval.str_short()} is used after it was {self.gone}.\n"
                f"  Read or write it before, or make another with jax.new_ref."
            )
        return self.value

    def write(self, value: Value) -> None:
        self.read()
        self.value, self.changed = array_ops.convert(value, self.aval.inner), True


class Discharged(NamedTuple):
    """A jaxpr on values: (values of references and the other inputs) -> (results, last arrays of
    the changed groups)."""

    jaxpr: ClosedJaxpr
    changed: tuple[int, ...]
    n_outs: int

    def split(self, outs: Sequence[Value]) -> tuple[Sequence[Any], dict[int, Any]]:
        """Results, and by group the arrays that have changed."""
        return outs[: self.n_outs], dict(zip(self.changed, outs[self.n_outs :], strict=True))


def discharged(
    closed: ClosedJaxpr, groups: Sequence[int | None] = (), wanted: tuple[int, ...] | None = None
) -> Discharged:
    """A jaxpr with arrays in the place of references. Kept on it.

    groups: for each input None, or the number of the reference whose array stands there; inputs of
    one number are one reference.
    wanted: the groups whose last arrays are to be results; by default those that are changed.
    """
    key = ("discharged", tuple(groups), wanted, _under.transformation)
    found: Discharged = closed.kept(
        key, lambda: _discharged(closed, groups or (None,) * len(closed.in_avals), wanted)
    )
    return found


class _Under(threading.local):
    """Whether the discharged program will be differentiated or batched, so that rules of custom
    functions must stay."""

    transformation = False


_under = _Under()


def _discharged(
    closed: ClosedJaxpr, groups: Sequence[int | None], wanted: tuple[int, ...] | None
) -> Discharged:
    changed: list[int] = []

    def on_values(*args: Value) -> list[Any]:
        cells: dict[int, Cell] = {}
        given = [
            x if g is None else cells.setdefault(g, Cell(aval, x))
            for x, g, aval in zip(args, groups, closed.in_avals, strict=True)
        ]
        outs = interpret(closed, given, _on_cells)
        changed[:] = [g for g, cell in cells.items() if cell.changed] if wanted is None else wanted
        return [*outs, *(cells[g].value for g in changed)]

    avals = [a if g is None else a.inner for a, g in zip(closed.in_avals, groups, strict=True)]
    jaxpr = with_literals(stage_jaxpr(on_values, avals, closed.jaxpr.debug_info))
    return Discharged(jaxpr, tuple(changed), len(closed.jaxpr.outvars))


def with_literals(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A jaxpr with the arrays of the host that it closes over, index arrays say, as literals: a
    program has no more inputs."""
    pairs = zip(closed.jaxpr.constvars, closed.consts, strict=True)
    literals: dict[Any, Any] = {
        v: Literal(c, v.aval) for v, c in pairs if isinstance(c, np.ndarray)
    }
    if not literals:
        return closed
    jaxpr = closed.jaxpr
    eqns = [
        eqn.replace(invars=[literals.get(v, v) for v in eqn.invars])
        if any(v in literals for v in eqn.invars)
        else eqn
        for eqn in jaxpr.eqns
    ]
    kept = [
        (v, c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True) if v not in literals
    ]
    outvars = [literals.get(v, v) for v in jaxpr.outvars]
    return ClosedJaxpr(
        jaxpr.replace(constvars=[v for v, _ in kept], eqns=eqns, outvars=outvars),
        [c for _, c in kept],
    )


def discharge(jaxpr: Jaxpr) -> Jaxpr:
    """The pass: a jaxpr without constants whose inputs are arrays, without the references that it
    makes within."""
    found: ClosedJaxpr = discharged(ClosedJaxpr(jaxpr, ())).jaxpr
    assert not found.consts
    return found.jaxpr


def uses_references(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr, or one in it, makes references or takes them."""
    return REFERENCES in jaxpr.dialects


def _on_cells(eqn: Eqn, operands: tuple[Value, ...]) -> Sequence[Any]:
    """An equation with cells in the place of references, under the current trace."""
    cells = any(type(x) is Cell for x in operands)
    rule = dialects.discharge.of(eqn.primitive)
    if rule is not None and (cells or dialects.makes_references[type(eqn.primitive)]):
        return rule(*operands, **eqn.params)  # type: ignore[no-any-return]
    if cells:
        return _call_on_values(eqn, operands)
    return current_trace().process(eqn.primitive, operands, pure_params(eqn.primitive, eqn.params))


def _call_on_values(eqn: Eqn, operands: Sequence[Value]) -> Sequence[Any]:
    """A call that is given cells, made with their arrays."""
    on_values = dialects.on_values.of(eqn.primitive)
    if on_values is None or (
        dialects.keeps_references[type(eqn.primitive)] and _under.transformation
    ):
        refuse_call(eqn.primitive, eqn.source)
    cells = list(dict.fromkeys(x for x in operands if type(x) is Cell))
    groups = tuple([cells.index(x) if type(x) is Cell else None for x in operands])
    given = [x.read() if type(x) is Cell else x for x in operands]
    outs, new = on_values(given, groups, **eqn.params)
    for g, value in new.items():
        cells[g].write(value)
    return outs  # type: ignore[no-any-return]


def refuse_call(primitive: Primitive, at: Source = None) -> NoReturn:
    line = where(at, "\n    at ")
    raise NotImplementedError(
        f"{primitive}: a function that it calls reads or writes a reference from outside of "
        f"it.{line}\n  Read the array before (ref[...]), pass it, and write what is returned."
    )


def pure_params(primitive: Primitive, params: Params) -> dict[str, Any]:
    """The parameters of a call with the references discharged that its jaxprs make within."""
    if not primitive.higher_order or not any(map(uses_references, jaxprs_in_params(params))):
        return params
    eqn = Eqn(primitive, (), (), params, frozenset(), None)
    with contextlib.nullcontext() if primitive.within is None else primitive.within(params):
        return map_jaxprs(
            eqn, lambda jaxpr: _pure(jaxpr) if uses_references(jaxpr) else jaxpr
        ).params


def _pure(jaxpr: Jaxpr) -> Jaxpr:
    """A jaxpr without the references that it makes; those among its inputs stay."""
    if not makes_references(jaxpr):
        return jaxpr
    found = discharged(
        ClosedJaxpr(jaxpr.replace(constvars=(), invars=[*jaxpr.constvars, *jaxpr.invars]), ())
    ).jaxpr
    n = len(jaxpr.constvars)
    invars = found.jaxpr.invars
    assert not found.consts
    return found.jaxpr.replace(constvars=invars[:n], invars=invars[n:])


def makes_references(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr, or one in it, makes references."""
    return any(
        dialects.makes_references[type(eqn.primitive)]
        or any(map(makes_references, jaxprs_in_params(eqn.params)))
        for eqn in jaxpr.eqns
    )


def without_references(
    trace: Trace, primitive: Primitive, args: Sequence[Value], params: Params
) -> tuple[Any, ...] | None:
    """A call under a transformation, without references: the transformation's rules of calls know
    nothing of them.

    The references that its jaxprs make within are discharged. Of those among its operands the
    arrays are read before, and written after. References without any access, which only rules of
    custom derivatives use, are handed on as they are. None if there is nothing to do.
    """
    if dialects.keeps_references[type(primitive)]:
        return None
    avals = [typeof(x) for x in args]
    refs = [i for i, a in enumerate(avals) if type(a) is RefType]
    places = {i for i in refs if getattr(args[i], "_trace", None) is trace}
    if refs:
        places.update(*touched(primitive.effects(*avals, **params)))
    if not places:
        pure = pure_params(primitive, params)
        return None if pure is params else trace.process(primitive, tuple(args), pure)
    with using(trace):
        if isinstance(primitive, FunctionCall):
            closed = params["jaxpr"]
            return tuple(eval_jaxpr(closed.jaxpr, closed.consts, *args))
        on_values = dialects.on_values.of(primitive)
        if on_values is None:
            refuse_call(primitive)
        cells = list({id(args[p]): args[p] for p in sorted(places)}.values())
        number = {id(r): g for g, r in enumerate(cells)}
        groups = tuple([number.get(id(x)) for x in args])
        given = [
            x if g is None else array_ops.read_reference(x)
            for x, g in zip(args, groups, strict=True)
        ]
        before, _under.transformation = _under.transformation, True
        try:
            outs, new = on_values(given, groups, **params)
        finally:
            _under.transformation = before
        for g, value in new.items():
            array_ops.write_reference(cells[g], value)
        return tuple(outs)
