"""Errors for questions about sizes without an answer: the question, the line, and the remedy."""

from __future__ import annotations

from typing import Any, NoReturn

from teucer._base import errors, source
from teucer._base.errors import InconclusiveDimensionOperation
from teucer._dimensions.intervals import range_of


def inconclusive(x: Any, what: str) -> NoReturn:
    if x.scope.strict:
        low, high = range_of(x)
        raise InconclusiveDimensionOperation(
            f"{what}.\n    {x}: from {low} to {high}{_asked_at()}\n"
            "  The function is compiled once for all these sizes, and the answer is not the same "
            "for all. For an answer in each call make an\n"
            "  array of the size, jnp.asarray(x.shape[0]) for axis 0, and ask in jnp.where or "
            "lax.cond."
        )
    known = f"\n    {x.scope}" if x.scope.facts else ""
    raise InconclusiveDimensionOperation(
        f"{what}.{known}\n  The answer is not the same for all sizes that the symbolic "
        "dimensions may have. If it is for those that come up, say so with a\n  constraint: "
        'symbolic_shape(..., constraints=["a >= 8"]); else export for a known size.'
    )


def unsatisfiable(scope: Any, size: Any, text: str) -> NoReturn:
    """Refuse a constraint that no sizes meet; `size`: the size that it constrains."""
    if type(size) is int:
        raise ValueError(f"Unsatisfiable explicit constraint: {text}")
    raise ValueError(
        f"Unsatisfiable constraint: {text}\n    {scope}\n"
        "  Variables are at least 1, and no sizes meet it as well."
    )


def mixed(what: str, x: Any, y: Any) -> NoReturn:
    raise ValueError(
        f"Invalid mixing of symbolic scopes when {what}.\n    '{x}': {x.scope}\n"
        f"    '{y}': {y.scope}\n  Make all symbolic dimensions of a program with one scope: "
        "symbolic_shape(..., scope=...)."
    )


def differs(op: str, n: Any, size: int, low: float, high: float) -> NoReturn:
    """Refuse an axis that may have a size which a function treats specially."""
    raise InconclusiveDimensionOperation(
        f"{op}: Symbolic dimension comparison '{n}' == '{size}' is inconclusive; an axis of size "
        f"{size} is treated in another way.\n    {n}: from {low} to {high}{_asked_at()}\n"
        "  Give a range without it, dynamic_dims={x: {axis: (least, greatest)}}."
    )


def _asked_at() -> str:
    place = source.here()
    return f"\n    asked at {source.describe(place)}" if place else ""


def may_be_negative(op: str, size: Any, low: float, high: float) -> NoReturn:
    """Refuse a shape with a size that is negative for some sizes of the variables."""
    least = (
        "give a larger least size,\n  dynamic_dims={x: {axis: (least, greatest)}}"
        if size.scope.strict
        else (
            'say that it is not with a\n  constraint: symbolic_shape(..., constraints=["a >= 8"])'
        )
    )
    raise InconclusiveDimensionOperation(
        f"{op}: Symbolic dimension comparison '{size}' >= '0' is inconclusive; a size may not be "
        f"negative.\n    {size}: from {low} to {high}{_asked_at()}\n"
        f"  If it is never negative, {least}; else take jax.core.max_dim(size, 0)."
    )


def not_a_shape(op: str, shape: Any) -> TypeError:
    """The error for an invalid shape: which size is traced, and where it comes from, or which is no
    integer."""
    said = f"Shapes must be 1D sequences of concrete values of integer type, got {shape}."
    for i, size in enumerate(shape if isinstance(shape, tuple | list) else (shape,)):
        if hasattr(size, "origin"):  # it is traced
            origin = " ".join(size.origin().split())
            return TypeError(
                "\n".join(
                    [
                        (
                            f"{said}\nIf using `jit`, try using `static_argnums` or applying `jit` "
                            "to smaller subfunctions."
                        ),
                        (
                            f"    size {i}: "
                            f"{errors.describe(size.aval)}{', ' + origin if origin else ''}"
                        ),
                        *(f"  {line}" for line in size.reason().splitlines()),
                        (
                            f"  {op}: a size must be known while tracing. Mark its argument "
                            "static: jit(f, static_argnums=...)."
                        ),
                    ]
                )
            )
        if isinstance(size, float | complex | str | tuple | list | None):
            return TypeError(
                f"{said}\n    size {i}: {size!r:.100}, of type {type(size).__name__}\n"
                f"  {op}: sizes are integers."
            )
    return TypeError(f"{said}\n  {op}: a shape is an int or a sequence of ints.")
