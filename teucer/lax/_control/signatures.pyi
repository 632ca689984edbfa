"""The types of control flow, for type checkers and editors. At run time each function stands where `tools/stubs.py` says."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from teucer._core.typing import Array, ArrayLike

C = TypeVar("C")
R = TypeVar("R")
S = TypeVar("S")
X = TypeVar("X")
Y = TypeVar("Y")

# A carry that starts as a number of Python is an array.
@overload
def scan(
    f: Callable[[Any, X], tuple[Any, Y]],
    init: complex,
    xs: X | None = ...,
    length: int | None = ...,
    reverse: bool = ...,
    unroll: int | bool = ...,
    _split_transpose: bool = ...,
) -> tuple[Array, Y]:
    """A loop over the leading axis of arrays, with a carry, as one operation: (carry, x) -> (carry,
    y) at each step."""

@overload
def scan(
    f: Callable[[C, X], tuple[C, Y]],
    init: C,
    xs: X | None = ...,
    length: int | None = ...,
    reverse: bool = ...,
    unroll: int | bool = ...,
    _split_transpose: bool = ...,
) -> tuple[C, Y]:
    """A loop over the leading axis of arrays, with a carry, as one operation: (carry, x) -> (carry,
    y) at each step."""

def cond(
    pred: ArrayLike,
    true_fun: Callable[..., R],
    false_fun: Callable[..., S],
    *operands: Any,
    operand: Any = ...,
) -> R | S:
    """true_fun(*operands) if pred, else false_fun(*operands), decided while the program runs."""

def switch(
    index: ArrayLike, branches: Sequence[Callable[..., R]], *operands: Any, operand: Any = ...
) -> R:
    """branches[index](*operands), decided while the program runs; an index out of bounds takes the
    first or last branch."""

@overload
def while_loop(
    cond_fun: Callable[[Any], object], body_fun: Callable[[Any], object], init_val: complex
) -> Array:
    """body_fun applied again and again, as long as cond_fun of the value is true."""

@overload
def while_loop(cond_fun: Callable[[C], object], body_fun: Callable[[C], C], init_val: C) -> C:
    """body_fun applied again and again, as long as cond_fun of the value is true."""

@overload
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Any, Any], object],
    init_val: complex,
    *,
    unroll: int | bool | None = ...,
) -> Array:
    """val = body_fun(i, val) for i = lower, lower + 1, ..., upper - 1."""

@overload
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Any, C], C],
    init_val: C,
    *,
    unroll: int | bool | None = ...,
) -> C:
    """val = body_fun(i, val) for i = lower, lower + 1, ..., upper - 1."""

def map(f: Callable[[X], Y], xs: X, *, batch_size: int | None = ...) -> Y:
    """f of each element along the leading axis of arrays, one after the other, stacked: a loop,
    where vmap is one operation."""
