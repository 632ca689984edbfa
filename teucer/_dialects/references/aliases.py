"""References that a call is given twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from teucer._core.reference_types import RefType
from teucer._core.trace import typeof

if TYPE_CHECKING:
    from teucer._core.typing import Aval, Value


def refuse_aliases(
    avals: Sequence[Aval | None],
    args: Sequence[Value],
    consts: Sequence[Value],
    name: str,
    what: str,
    names: Callable[[], Sequence[str]],
) -> None:
    """Raise ValueError if one reference is given twice, or is given and closed over."""
    seen: dict[int, int] = {}
    head = (
        "only one reference to a mutable array may be passed as an argument to a function, but "
        "when tracing"
    )
    for i, (x, aval) in enumerate(zip(args, avals, strict=True)):
        if aval is None or (type(aval) is not RefType and not aval.has_qdd):
            continue
        first = seen.setdefault(id(x), i)
        if first != i:
            raise ValueError(
                f"{head} {name} for {what} the mutable array reference of type {aval.str_short()} "
                f"appeared at both {names()[first]} and {names()[i]}.\n"
                "  Two names for one array would hide which write comes first: pass it once."
            )
    for c in consts:
        at = seen.get(id(c))
        if at is not None:
            raise ValueError(
                f"when tracing {name} for {what}, a mutable array reference of type "
                f"{typeof(c).str_short()} was both closed over and passed as the argument "
                f"{names()[at]}.\n  Use it in one way only."
            )
