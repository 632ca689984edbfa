"""Identities of operations that hold bit for bit.

Units, operations that undo themselves, and scalars that NumPy computes as XLA does.

The passes over jaxprs (`teucer._optimize.passes`) ask the primitives for these rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes

if TYPE_CHECKING:
    from teucer._core.typing import Array, Atom, DTypeLike, HostArray


# The integer of which all bits are set: the unit of `and`.
ALL_BITS = -1


def unit(left: float | None, right: float | None) -> Callable[..., Any]:
    """The rule of an operation with a unit: if one operand is this number, the result is the other
    operand. None: no unit on that side.

    -0.0 is the unit of addition, since 0.0 + -0.0 is 0.0; of integers it is 0. A complex product
    with 1 is no identity.
    """

    def simplify(known: Any, x: Atom, y: Atom) -> Any:
        for constant, number, other in (
            (known.constant(y), right, x),
            (known.constant(x), left, y),
        ):
            if constant is not None and number is not None and _is(constant, number):
                return other
        return None

    return simplify


def _is(literal: Any, number: float) -> bool:
    """Whether a literal is a number, its sign included."""
    dtype = literal.aval.dtype
    if dtypes.issubdtype(dtype, np.floating):
        return bool(literal.val == number and np.signbit(literal.val) == np.signbit(number))
    if dtypes.issubdtype(dtype, np.complexfloating):
        return False
    return bool(np.asarray(literal.val, dtype) == np.asarray(int(number)).astype(dtype))


def involution(primitive: Callable[[], object]) -> Callable[..., Any]:
    """The rule of an operation that undoes itself."""

    def simplify(known: Any, x: Atom) -> Any:
        made = known.made.get(x)
        return made.invars[0] if made is not None and made.primitive is primitive() else None

    return simplify


# --- Scalars --------------------------------------------------------------------------------------


def by_kind(
    integers: Callable[..., object] | None, floats: Callable[..., object] | None = None
) -> Callable[..., Any]:
    """A function of scalars for integers and booleans, and another for floats; None where it is not
    known."""

    def fold(*xs: HostArray) -> Any:
        f = floats if dtypes.issubdtype(xs[0].dtype, np.floating) else integers
        return None if f is None else f(*xs)

    return fold


def divide(x: Array, y: Array) -> Any:
    """The quotient of integers towards zero, as XLA has it: x / 0 is -1, and the least integer / -1
    is itself."""
    if y == 0:
        return np.asarray(-1).astype(x.dtype)
    if x.dtype.kind == "i" and y == -1:
        return np.negative(x)
    return (x - np.fmod(x, y)) // y


def remainder(x: HostArray, y: HostArray) -> Any:
    """The remainder of integers with the sign of x, as XLA has it: of x / 0 it is x."""
    return x if y == 0 else np.zeros_like(x) if x.dtype.kind == "i" and y == -1 else np.fmod(x, y)


def shift(f: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """A shift of x by y bits: f on integers of a kind, 'int' or 'uint', as which x is
    reinterpreted.

    A shift by the width or more, or by a negative number, leaves only copies of the sign.
    """

    def fold(x: Array, y: Array) -> Any:
        width = dtypes.bit_width(x.dtype)
        bits = x.view(f"{kind}{width}")
        moved = (
            f(bits, bits.dtype.type(y))
            if 0 <= y < width
            else np.asarray(-1 if bits < 0 else 0, f"int{width}")
        )
        return moved.view(x.dtype)

    return fold


def convert(x: HostArray, dtype: DTypeLike) -> Any:
    """A number in another dtype, where that is rounded once at most, and no number out of range
    becomes an integer."""
    y = x.astype(dtype)
    floats = dtypes.issubdtype(x.dtype, np.floating) and dtypes.issubdtype(dtype, np.floating)
    rounded_once = floats and not (x.dtype == np.float64 and y.dtype.itemsize < 4)
    return y if rounded_once or (y if np.iscomplexobj(x) else y.real).astype(x.dtype) == x else None
