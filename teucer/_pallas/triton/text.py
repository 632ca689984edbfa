"""Triton IR as text: values with types, constants, and the operations that all rules share."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._base import dtypes
from teucer._core.primitive import MissingRule

if TYPE_CHECKING:
    from teucer._core.typing import DType, DTypeLike


BOOL, I32, I64 = np.dtype(bool), np.dtype(np.int32), np.dtype(np.int64)
Bounds = tuple[int, int]

_ELEMENTS = {
    "bool": "i1",
    "int8": "i8",
    "uint8": "i8",
    "int16": "i16",
    "uint16": "i16",
    "int32": "i32",
    "uint32": "i32",
    "int64": "i64",
    "uint64": "i64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e5m2": "f8E5M2",
}


class Refused(MissingRule):
    """An operation that a target refuses, and the nearest way around it."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}.\n  {remedy}")
        self.what, self.remedy = what, remedy


class Value(NamedTuple):
    """A value of a program: a scalar where the shape is ().

    bounds: the least and greatest that an integer may be, where they are known.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    bounds: Bounds | None = None

    @property
    def type(self) -> str:
        return type_text(self.dtype, self.shape)


def element(dtype: Any) -> str:
    """The element type of a dtype. Raises Refused for those that Triton does not have."""
    found = _ELEMENTS.get(getattr(dtype, "name", ""))
    if found is None:
        raise Refused(
            f"Triton has no elements of type {dtype}",
            "Convert arrays before the kernel: integers of 8 bits or more, floats; complex "
            "numbers as two arrays; keys by jax.random.key_data.",
        )
    return found


def type_text(dtype: Any, shape: Sequence[int]) -> str:
    """The text of a type. Raises Refused for shapes that Triton does not have."""
    if not shape:
        return element(dtype)
    if any(type(n) is not int or n < 1 or n & (n - 1) for n in shape):
        raise Refused(
            f"an array of shape {tuple(shape)}, where Triton takes sizes that are powers of 2",
            "Let blocks be powers of 2, pl.next_power_of_2(n), and mask what lies outside: "
            "blocks that reach over the end of an array are masked by themselves.",
        )
    return f"tensor<{'x'.join(map(str, shape))}x{element(dtype)}>"


def is_float(dtype: Any) -> bool:
    return dtypes.issubdtype(dtype, np.floating)


def is_signed(dtype: DType) -> bool:
    return dtype.kind == "i"


def exact(value: Any, dtype: Any) -> str:
    """A number as the text of an attribute, to the bit."""
    if dtype == BOOL:
        return "true" if value else "false"
    if not is_float(dtype):
        n = int(value)
        half = 1 << (dtype.itemsize * 8 - 1)
        return str(n - 2 * half if n >= half else n)
    number = float(np.asarray(value, dtype))
    if not math.isfinite(number):
        bits = np.asarray(value, dtype).view(f"u{dtype.itemsize}")
        return f"0x{int(bits):0{2 * dtype.itemsize}X}"
    text = repr(number)
    mantissa, _, power = text.partition("e")
    mantissa = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{mantissa}e{power}" if power else mantissa


class Writer:
    """Writes the body of a function, line by line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[tuple[str, str], str] = {}
        self.first: list[str] = []
        self.count = 0
        self.depth = 2
        self.used: set[Any] = (
            set()
        )  # variables of the jaxpr that is being written that something uses

    def name(self) -> str:
        self.count += 1
        return f"%{self.count}"

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def make(
        self, text: str, dtype: Any, shape: Sequence[int] = (), bounds: Bounds | None = None
    ) -> Value:
        """Write an operation with one result."""
        value = Value(self.name(), np.dtype(dtype), tuple(shape), bounds)
        self.line(f"{value.name} = {text}")
        return value

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """Indent the lines that are written in this context, as those of a region."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def constant(self, value: Any, dtype: Any, shape: Sequence[int] = ()) -> Value:
        """A number, or an array of one number; written once, where the function begins."""
        dtype = np.dtype(dtype)
        kind, number = type_text(dtype, shape), exact(value, dtype)
        name = self.constants.get((kind, number))
        if name is None:
            name = self.constants[kind, number] = f"%c{len(self.constants)}"
            literal = (
                f"dense<{number}> : {kind}"
                if shape
                else (number if dtype == BOOL else f"{number} : {kind}")
            )
            self.first.append(f"    {name} = arith.constant {literal}")
        known = (int(value), int(value)) if dtype.kind in "iu" else None
        return Value(name, dtype, tuple(shape), known)

    # --- Shapes -------------------------------------------------------------------------------

    def spread(self, x: Value, shape: Sequence[int]) -> Value:
        """A scalar, or an array of as many axes with some of size 1, repeated to a shape."""
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if not x.shape:
            return self.make(
                f"tt.splat {x.name} : {x.type} -> {type_text(x.dtype, shape)}",
                x.dtype,
                shape,
                x.bounds,
            )
        assert len(x.shape) == len(shape), (x, shape)
        return self.make(
            f"tt.broadcast {x.name} : {x.type} -> {type_text(x.dtype, shape)}",
            x.dtype,
            shape,
            x.bounds,
        )

    def alike(self, *xs: Value) -> tuple[Value, ...]:
        """Values repeated to one shape; arrays have as many axes."""
        shapes = [x.shape for x in xs if x.shape]
        if not shapes:
            return xs
        shape = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
        return tuple(self.spread(x, shape) for x in xs)

    def expand(self, x: Value, axis: int) -> Value:
        """An array with a new axis of size 1."""
        if not x.shape:
            return self.spread(x, (1,))
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        return self.make(
            f"tt.expand_dims {x.name} {{axis = {axis} : i32}} : {x.type} -> "
            f"{type_text(x.dtype, shape)}",
            x.dtype,
            shape,
            x.bounds,
        )

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if not x.shape:
            return self.spread(x, shape)
        if not shape:
            flat = self.reshape(x, (1,))
            return self.reduce(flat, 0, "arith.addf" if is_float(x.dtype) else "arith.ori")
        return self.make(
            f"tt.reshape {x.name} : {x.type} -> {type_text(x.dtype, shape)}",
            x.dtype,
            shape,
            x.bounds,
        )

    def places(self, shape: Sequence[int], axis: int, *, full: bool = True) -> Value:
        """The number of each element along an axis, int32. full: of the shape; else of size 1 along
        other axes."""
        n = shape[axis]
        if n == 1:
            return self.constant(0, I32, shape if full else (1,) * len(shape))
        type_text(I32, (n,))
        x = self.make(
            f"tt.make_range {{end = {n} : i32, start = 0 : i32}} : tensor<{n}xi32>",
            I32,
            (n,),
            (0, n - 1),
        )
        for i in range(len(shape)):
            if i != axis:
                x = self.expand(x, i)
        return self.spread(x, shape) if full else x

    def reduce(self, x: Value, axis: int, operation: str) -> Value:
        """Combine the elements along an axis."""
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        kind = element(x.dtype)
        out = Value(self.name(), x.dtype, shape)
        a, b, c = self.name(), self.name(), self.name()
        self.line(f'{out.name} = "tt.reduce"({x.name}) <{{axis = {axis} : i32}}> ({{')
        self.line(f"^bb0({a}: {kind}, {b}: {kind}):")
        self.line(f"  {c} = {operation} {a}, {b} : {kind}")
        self.line(f"  tt.reduce.return {c} : {kind}")
        self.line(f"}}) : ({x.type}) -> {out.type}")
        return out

    # --- Integers, whose bounds are followed ----------------------------------------------------

    def add(self, x: Value, y: Value) -> Value:
        if y.bounds == (0, 0) and len(y.shape) <= len(x.shape) and _covers(x, y):
            return x
        if x.bounds == (0, 0) and _covers(y, x):
            return y
        x, y = self.alike(x, y)
        known = x.bounds and y.bounds and (x.bounds[0] + y.bounds[0], x.bounds[1] + y.bounds[1])
        return self.make(
            f"arith.addi {x.name}, {y.name} : {x.type}", x.dtype, x.shape, fitting(known, x.dtype)
        )

    def times(self, x: Value, n: int) -> Value:
        """An integer times a known one."""
        if n == 1:
            return x
        known = x.bounds and sorted((x.bounds[0] * n, x.bounds[1] * n))
        if n == 0 or known == [0, 0]:
            return self.constant(0, x.dtype, x.shape)
        return self.make(
            f"arith.muli {x.name}, {self.constant(n, x.dtype, x.shape).name} : {x.type}",
            x.dtype,
            x.shape,
            fitting(tuple(known) if known else None, x.dtype),
        )

    def at_least(self, x: Value, low: int) -> Value:
        if x.bounds and x.bounds[0] >= low:
            return x
        known = (low, max(low, x.bounds[1])) if x.bounds else (low, _top(x.dtype))
        return self.make(
            f"arith.maxsi {x.name}, {self.constant(low, x.dtype, x.shape).name} : {x.type}",
            x.dtype,
            x.shape,
            known,
        )

    def at_most(self, x: Value, high: int) -> Value:
        if x.bounds and x.bounds[1] <= high:
            return x
        known = (min(high, x.bounds[0]), high) if x.bounds else (-_top(x.dtype) - 1, high)
        return self.make(
            f"arith.minsi {x.name}, {self.constant(high, x.dtype, x.shape).name} : {x.type}",
            x.dtype,
            x.shape,
            known,
        )

    def compare(self, how: str, x: Value, y: Value) -> Value:
        x, y = self.alike(x, y)
        op = "arith.cmpf" if is_float(x.dtype) else "arith.cmpi"
        return self.make(f"{op} {how}, {x.name}, {y.name} : {x.type}", BOOL, x.shape)

    def both(self, x: Value | None, y: Value | None) -> Value | None:
        """Where both conditions hold; None holds everywhere."""
        if x is None or y is None:
            return y if x is None else x
        x, y = self.alike(x, y)
        return self.make(f"arith.andi {x.name}, {y.name} : {x.type}", BOOL, x.shape)

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        x, y = self.alike(x, y)
        if condition.shape:
            condition, x, y = self.alike(condition, x, y)
            return self.make(
                f"arith.select {condition.name}, {x.name}, {y.name} : {condition.type}, {x.type}",
                x.dtype,
                x.shape,
            )
        return self.make(
            f"arith.select {condition.name}, {x.name}, {y.name} : {x.type}", x.dtype, x.shape
        )

    def wide(self, x: Value) -> Value:
        """An integer of 64 bits."""
        if x.dtype.itemsize == I64.itemsize:
            return x
        kind = type_text(I64, x.shape)
        return self.make(f"arith.extsi {x.name} : {x.type} to {kind}", I64, x.shape, x.bounds)


def _covers(x: Value, y: Value) -> bool:
    """Whether x already has the shape to which x and y broadcast."""
    return not y.shape or (
        len(x.shape) == len(y.shape) and all(n >= m for n, m in zip(x.shape, y.shape, strict=True))
    )


def _top(dtype: DTypeLike) -> int:
    return int(np.iinfo(dtype).max)


def fitting(bounds: Any, dtype: DType) -> Bounds | None:
    """Bounds, if numbers within them do not overflow."""
    if bounds is None or dtype.kind not in "iu":
        return None
    info = np.iinfo(dtype)
    return tuple(bounds) if info.min <= bounds[0] and bounds[1] <= info.max else None
