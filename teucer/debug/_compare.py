"""The first operation of a program whose compiled form gives something else than the operation
alone."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np

from teucer._base import dtypes
from teucer._core import structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn, interpret
from teucer._derived.stages import jit
from teucer.debug._double import is_inexact, widened
from teucer.debug._walk import line_of, shown

if TYPE_CHECKING:
    from teucer._core.typing import Value, Values


_ROUNDINGS = 1000


class Difference(NamedTuple):
    """An operation whose compiled form differs, with its operands and both results.

    found: whether the operation is known; else fusion with others makes the difference, and `place`
    is of the result.
    """

    operation: str
    place: str
    text: str
    operands: tuple[str, ...]
    alone: str
    compiled: str
    size: float
    found: bool

    def __str__(self) -> str:
        said = [
            f"  {self.operation} at {self.place or 'an unknown line'}"
            if self.found
            else f"  {self.operation}: no operation differs by itself; they do where they are fused"
        ]
        said += [f"      {self.text}"] if self.text else []
        said += [f"    operand {i}: {x}" for i, x in enumerate(self.operands)]
        said += [
            f"    alone:    {self.alone}",
            f"    compiled: {self.compiled}",
            f"    relative difference: {self.size:.2g}",
        ]
        return "\n".join(said)


def first_difference(
    closed: ClosedJaxpr,
    args: Sequence[Value],
    alone: Sequence[object],
    compiled: Sequence[object],
    tolerance: float | None,
) -> Difference | None:
    """The first operation that differs beyond the tolerance, if a result does."""
    worst = max(
        range(len(alone)), key=lambda i: _excess(alone[i], compiled[i], tolerance), default=None
    )
    if worst is None or _excess(alone[worst], compiled[worst], tolerance) <= 1:
        return None
    return _search(closed, args, tolerance) or Difference(
        f"result {worst}",
        "",
        "",
        (),
        shown(alone[worst]),
        shown(compiled[worst]),
        _difference(alone[worst], compiled[worst]),
        False,
    )


def _search(closed: ClosedJaxpr, args: Values, tolerance: float | None) -> Difference | None:
    """The first equation that differs in a program that gives the results of all of them."""
    jaxpr = closed.jaxpr
    every = [v for eqn in jaxpr.eqns for v in eqn.outvars]
    program = ClosedJaxpr(jaxpr.replace(outvars=every), closed.consts)
    compiled = iter(jit(program.__call__)(*args))
    found: list[Difference] = []

    def handle(eqn: Eqn, operands: tuple[object, ...]) -> Any:
        outs = _alone(eqn, operands)
        others = [next(compiled) for _ in eqn.outvars]
        if not found:
            for y, other in zip(outs, others, strict=True):
                if _excess(y, other, tolerance) > 1:
                    found.append(_within(eqn, operands, y, other, tolerance))
                    break
        return others  # the next operation is compared on the same operands

    interpret(closed, args, handle)
    return found[0] if found else None


def _called(eqn: Eqn) -> ClosedJaxpr | None:
    """The program of an equation that does no more than to call it."""
    found = structure.of(eqn) or structure.presumed(eqn)
    return found.body if isinstance(found, structure.Call) else None


def _alone(eqn: Eqn, operands: Sequence[Value]) -> Sequence[Any]:
    """The results of an equation; a call is evaluated operation by operation."""
    inner = _called(eqn)
    if inner is not None:
        return interpret(inner, operands, _alone)
    outs: Sequence[Any] = eqn.primitive.call(*operands, **eqn.params)
    return outs


def _within(
    eqn: Eqn, operands: Sequence[Value], y: Value, other: object, tolerance: float | None
) -> Difference:
    inner = _called(eqn)
    deeper = _search(inner, operands, tolerance) if inner is not None else None
    if deeper is not None:
        return deeper
    where = line_of(eqn)
    return Difference(
        str(eqn.primitive),
        eqn.where(""),
        linecache.getline(*where).strip() if where else "",
        tuple(map(shown, operands)),
        shown(y),
        shown(other),
        _difference(y, other),
        True,
    )


def _excess(y: Any, other: object, tolerance: float | None) -> float:
    """How many times the tolerance two values differ."""
    if isinstance(getattr(y, "dtype", None), dtypes.ExtendedDType):
        return 0.0
    if not is_inexact(y):
        return 0.0 if np.array_equal(np.asarray(y), np.asarray(other)) else np.inf
    allowed = _ROUNDINGS * float(ml_dtypes.finfo(y.dtype).eps) if tolerance is None else tolerance
    return _difference(y, other) / allowed


def _difference(y: Value, other: object) -> float:
    """The largest difference beside the largest value; inf where one is not finite and the other
    is, or they are not numbers."""
    a, b = (np.asarray(x) for x in (y, other))
    if not is_inexact(y):
        return float(np.inf)
    a, b = a.astype(widened(a.dtype)), b.astype(widened(b.dtype))
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)) or not np.array_equal(
        a[~finite], b[~finite], equal_nan=True
    ):
        return float(np.inf)
    if not finite.any():
        return 0.0
    scale = max(float(np.max(np.abs(a[finite]))), float(np.max(np.abs(b[finite]))), 1e-300)
    return float(np.max(np.abs(a[finite] - b[finite]))) / scale
