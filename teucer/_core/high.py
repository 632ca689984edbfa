"""High types, as the core knows them.

Values of such a type are made of values of low types, the types of arrays; some change, and have a
state. `_dialects.high` has the base classes for libraries, and the pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from teucer._core.reference_types import RefEffect
from teucer._core.trace import Trace, Tracer, current_trace, typeof
from teucer._core.types import Aval, Zero, aval_rules
from teucer._xla.arrays import ArrayImpl

if TYPE_CHECKING:
    from teucer._core.typing import Value


class MappingSpec:
    """How `vmap` maps a value of a high type. Each type has specs of its own."""


@final
class AvalQDD(Aval):
    """The type of a variable whose value changes, with the state in which its program finds it."""

    __slots__ = ("aval", "qdd")
    has_qdd = is_high = True
    vma: frozenset[str] = frozenset()
    sharding: Any = None
    aval: Any
    qdd: Any

    def __init__(self, aval: Aval, qdd: object) -> None:
        self.aval, self.qdd = aval, qdd

    def __eq__(self, other: object) -> bool:
        return type(other) is AvalQDD and self.aval == other.aval and self.qdd == other.qdd

    def __hash__(self) -> int:
        return hash((self.aval, self.qdd))

    def lo_ty(self) -> Sequence[Any]:
        """The low types that a value consists of."""
        return self.aval.lo_ty_qdd(self.qdd)  # type: ignore[no-any-return]

    def new_from_loval(self, *vals: Value) -> Any:
        """A new value."""
        return self.aval.new_from_loval(self.qdd, *vals)

    def read_loval(self, val: Value) -> Sequence[Any]:
        """The low values that a value consists of."""
        return self.aval.read_loval(self.qdd, val)  # type: ignore[no-any-return]

    def tangent_aval(self) -> Any:
        return AvalQDD(self.aval.to_tangent_aval(), self.qdd.to_tangent_qdd())

    def to_tangent_aval(self) -> Any:
        return self.tangent_aval()

    @property
    def zero(self) -> Zero:
        return Zero(self.aval.to_tangent_aval())

    def str_short(self, short_dtypes: bool = False, **options: object) -> str:
        text: str = self.aval.str_short(short_dtypes)
        return text

    def __repr__(self) -> str:
        return f"{self.aval}{{{self.qdd}}}"


@final
class StateEffect(RefEffect):
    """An operand is in another state afterwards. If there are several effects on one operand, the
    last holds."""

    __slots__ = ("state",)
    is_last = True

    def __init__(self, index: object, state: object) -> None:
        self.index, self.state = index, state

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is StateEffect
            and self.index == other.index
            and bool(self.state == other.state)
        )

    def __hash__(self) -> int:
        return hash((StateEffect, self.index))

    def at(self, index: object) -> StateEffect:
        return StateEffect(index, self.state)


def is_high(aval: Aval) -> bool:
    """Whether a type is high."""
    return bool(aval.is_high)


def is_mutable(aval: Aval) -> bool:
    """Whether values of a type can change."""
    return type(aval) is not AvalQDD and bool(aval.has_qdd)


def stated(x: Value, aval: Aval | None = None) -> Any:
    """The type that a variable for a value gets: with the current state, if the value changes."""
    aval = typeof(x) if aval is None else aval
    return AvalQDD(aval, cur_qdd(x)) if is_mutable(aval) else aval


def fits(avals: Sequence[Aval], consts: Sequence[Value]) -> bool:
    """Whether constants still have the states that they had when the program was traced. avals: the
    types of the constants at that time."""
    return all(
        type(a) is not AvalQDD or cur_qdd(c) == a.qdd for a, c in zip(avals, consts, strict=False)
    )


def cur_qdd(x: Value) -> Any:
    """The state in which a value that changes is now.

    Raises TypeError for a value that does not.

    >>> from teucer.experimental.hijax import Box
    >>> cur_qdd(Box(1.)).leaf_avals
    (ShapedArray(float32[], weak_type=True),)
    """
    if not is_mutable(typeof(x)):
        raise TypeError(
            f"cur_qdd: a value of type {typeof(x)} does not change.\n    value: {x!r:.100}"
        )
    return state_in(current_trace(), x)


def state_in(trace: Trace | None, x: Any) -> Any:
    """The state of a value as a trace knows it."""
    while trace is not None:
        if trace.state is not None:
            found = trace.state(x)
            if found is not None:
                return found
        x = getattr(x, "primal", x) if isinstance(x, Tracer) and x._trace is trace else x
        trace = trace.parent
    if isinstance(x, Tracer):
        raise TypeError(f"cur_qdd: the state of {x} is not known here.")
    return x.cur_qdd()


def as_array(x: Value) -> Any:
    """The array that stands for a value of a high type which gives one (`__jax_array__`); other
    values as they are."""
    if (
        type(x) is not ArrayImpl
        and type(x) in aval_rules
        and typeof(x).is_high
        and hasattr(x, "__jax_array__")
    ):
        return x.__jax_array__()
    return x


def refuse_high(op: str, *avals: Aval) -> None:
    """Raise NotImplementedError if one of the types is high: for functions that place arrays on
    devices."""
    for aval in avals:
        if aval.is_high:
            raise NotImplementedError(
                f"{op}: values of high types are not placed as a whole; one of type "
                f"{aval.str_short()} was given.\n  Place the arrays of which it is made, before "
                "it is made of them."
            )


def low_types(aval: Aval) -> list[Any]:
    """The low types that values of a type consist of."""
    return list(aval.lo_ty())


def low_values(x: Value, aval: Aval) -> list[Any]:
    """The low values that a value of a type consists of."""
    if type(aval) is AvalQDD:
        return list(aval.read_loval(x))
    return list(aval.lower_val(x))
