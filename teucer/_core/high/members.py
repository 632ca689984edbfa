"""Members of traced values that their types state: `aval_method`, `aval_property`, and operators (`_add` for `+`).

Traced values of arrays have members of the same names. Where a library has a type that states one, the member asks which of them is
meant; there is no such question in programs without high types.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

from teucer._core.references.types import RefType
from teucer._core.trace import Tracer

__all__ = ["found", "state_members"]

# The members that ask already.
_asking: set[str] = set()


def found(x: Any, name: str) -> Any:
    """The member of a traced value that its type states.

    Raises AttributeError if it states none of that name.
    """
    member = getattr(x.aval, name)
    kind = type(member).__name__
    if kind == "aval_property":
        return member.fget(x)
    return MethodType(member.fun, x) if kind == "aval_method" else member


def state_members(cls: type) -> None:
    """Let the members that a class of types states be those of traced values."""
    stated = {name for name, value in vars(cls).items() if type(value).__name__ in ("aval_method", "aval_property")}
    if "__getattr__" in vars(cls):  # it may state any
        stated.update(name for name in dir(Tracer) if not name.startswith("_"))
        stated -= {"aval", "shape", "dtype", "ndim", "size", "weak_type", "sharding", "concrete", "origin", "reason", "full_lower"}
    for name in sorted(stated - _asking):
        if hasattr(Tracer, name):
            _asking.add(name)
            setattr(Tracer, name, _asks(name, Tracer.__dict__.get(name, getattr(Tracer, name))))
    for name in vars(cls):
        operator = f"__{name[1:]}__"
        if name.startswith("_") and not name.startswith("__") and operator in _OPERATORS and operator not in _asking:
            _asking.add(operator)
            setattr(Tracer, operator, _asks_operator(name, operator, getattr(Tracer, operator, None)))


_NAMES = """getitem setitem len iter bool int float complex index round trunc floor ceil neg pos abs invert add sub mul matmul
truediv floordiv mod divmod pow lshift rshift and xor or radd rsub rmul rmatmul rtruediv rfloordiv rmod rdivmod rpow rlshift
rrshift rand rxor ror eq ne lt le gt ge"""
_OPERATORS = frozenset(f"__{name}__" for name in _NAMES.split())


def _states(aval: Any) -> bool:
    """Whether a type states members of its values; of references to such values the members are those of references."""
    return bool(aval.is_high) and type(aval) is not RefType


def _asks(name: str, of_array: Any) -> property:
    def member(x: Any) -> Any:
        return found(x, name) if _states(x.aval) else of_array.__get__(x, type(x))
    return property(member, doc=of_array.__doc__)


def _asks_operator(name: str, operator: str, of_array: Any) -> Any:
    def member(x: Any, *args: Any) -> Any:
        if _states(x.aval):
            return getattr(x.aval, name)(x, *args)
        if of_array is None:
            raise TypeError(f"{type(x).__name__} has no {operator}")
        return of_array(x, *args)
    member.__name__ = operator
    return member
