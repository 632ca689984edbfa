"""The tpu dialect as text: values, references to memory, and the operations all rules share."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._base import dtypes, source
from teucer._pallas.semaphores import SemaphoreType
from teucer._pallas.triton.text import (
    BOOL,
    I32,
    Bounds,
    Refused,
    exact,
    fitting,
    is_float,
)
from teucer.lax._attributes import quoted

if TYPE_CHECKING:
    from teucer._core.jaxpr import Eqn

F32 = np.dtype(np.float32)

_ELEMENTS = {
    "bool": "i1",
    "int4": "i4",
    "uint4": "i4",
    "int8": "i8",
    "uint8": "i8",
    "int16": "i16",
    "uint16": "i16",
    "int32": "i32",
    "uint32": "i32",
    "bfloat16": "bf16",
    "float32": "f32",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e5m2": "f8E5M2",
    "float8_e4m3b11fnuz": "f8E4M3B11FNUZ",
    "float4_e2m1fn": "f4E2M1FN",
}


def element(dtype: Any) -> str:
    """The element type of a dtype. Raises Refused for those that TPUs do not have."""
    found = _ELEMENTS.get(getattr(dtype, "name", ""))
    if found is None:
        raise Refused(
            f"TPU kernels have no elements of type {dtype}",
            "Convert arrays before the kernel: floats and integers of up to 32 bits; complex "
            "numbers as two arrays; keys by jax.random.key_data.",
        )
    return found


def is_signed(dtype: Any) -> bool:
    """Whether integers of a dtype have a sign. Those of 4 bits have a kind of their own."""
    return bool(dtypes.issubdtype(dtype, np.signedinteger))


def bits(dtype: Any) -> int:
    """How many bits an element has in memory."""
    name = element(dtype)
    return 32 if name == "i1" else int("".join(c for c in name.partition("E")[0] if c.isdigit()))


def type_text(dtype: Any, shape: Sequence[int]) -> str:
    """The text of the type of a value: a scalar, or a vector."""
    if not shape:
        return element(dtype)
    if math.prod(shape) == 0:
        raise Refused(
            f"an array of shape {tuple(shape)}, without elements",
            "Leave it out: TPU kernels have no empty vectors.",
        )
    return f"vector<{'x'.join(map(str, shape))}x{element(dtype)}>"


class Value(NamedTuple):
    """A value of a kernel: a scalar where the shape is (), else a vector.

    bounds: the least and greatest that an integer may be, where they are known.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    bounds: Bounds | None = None

    @property
    def type(self) -> str:
        return type_text(self.dtype, self.shape)


class Ref(NamedTuple):
    """Memory that a kernel sees. shape: of the memory. seen: the axes that the kernel sees.

    space: where it is, as the dialect says it; semaphores are in memory of their own.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    space: Any
    seen: tuple[int, ...]

    @staticmethod
    def whole(name: str, dtype: Any, shape: Sequence[int], space: Any) -> Ref:
        return Ref(name, dtype, tuple(shape), space, tuple(range(len(shape))))

    @property
    def type(self) -> str:
        return memory_text(self.dtype, self.shape, self.space)


_SEMAPHORES = {
    SemaphoreType.REGULAR: "!tpu.semaphore",
    SemaphoreType.DMA: "!tpu.dma_semaphore",
    SemaphoreType.BARRIER: "!tpu.semaphore",
}


def memory_text(dtype: Any, shape: Sequence[int], space: Any) -> str:
    """The type of memory. Booleans are 32 bits there."""
    kind = _SEMAPHORES.get(space) or ("i32" if dtype == BOOL else element(dtype))
    where = "semaphore_mem" if space in _SEMAPHORES else space
    sizes = "".join(f"{n}x" for n in shape)
    return f"memref<{sizes}{kind}, #tpu.memory_space<{where}>>"


class Writer:
    """Writes the body of a function, line by line.

    used: variables of the jaxpr being written that something uses. where: the line of the user's
    program, as operations say it. remote: whether other devices are spoken to. mesh: the axes of
    the mesh with their sizes, row by row. cores: places along axes of cores.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.first: list[str] = []
        self.constants: dict[tuple[str, str], str] = {}
        self.count = 0
        self.depth = 2
        self.used: set[Any] = set()
        self.where = ""
        self._places: dict[Any, str] = {}
        self.remote = False
        self.mesh: tuple[tuple[Any, int], ...] = ()
        self.cores: dict[Any, Value] = {}

    def name(self) -> str:
        self.count += 1
        return f"%{self.count}"

    def line(self, text: str) -> None:
        opens = text.endswith("{") or text.startswith(("^", "}"))
        self.lines.append("  " * self.depth + text + ("" if opens else self.where))

    def at(self, eqn: Eqn) -> str:
        """The line of the user's program that an equation comes from, as MLIR says it."""
        records = source.records(eqn.source[0] if eqn.source is not None else None)
        if not records:
            return self.where
        found = self._places.get(records[0])
        if found is None:
            place = source.spelled_out(records[0])
            at = f"{quoted(place.file)}:{place.line}:{place.column}"
            found = f" loc({quoted(str(eqn.primitive))}({at}))"
            self._places[records[0]] = found
        return found

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
        """A number, or a vector of one number; written once, where the function begins."""
        dtype = np.dtype(dtype)
        kind, number = type_text(dtype, shape), exact(value, dtype)
        name = self._constant(kind, f"dense<{number}>" if shape else number)
        known = (int(value), int(value)) if dtype.kind in "iu" else None
        return Value(name, dtype, tuple(shape), known)

    def _constant(self, kind: str, literal: str) -> str:
        name = self.constants.get((kind, literal))
        if name is None:
            name = self.constants[kind, literal] = f"%c{len(self.constants)}"
            said = literal if kind == "i1" else f"{literal} : {kind}"
            self.first.append(f"    {name} = arith.constant {said}")
        return name

    def index(self, x: Value | int) -> str:
        """The name of a place as an index."""
        known = x if isinstance(x, int) else _single(x)
        if known is not None:
            return self._constant("index", str(known))
        assert isinstance(x, Value)
        name = self.name()
        self.line(f"{name} = arith.index_cast {x.name} : {x.type} to index")
        return name

    # --- Shapes -------------------------------------------------------------------------------

    def spread(self, x: Value, shape: Sequence[int]) -> Value:
        """A scalar, or a vector of as many axes with some of size 1, repeated to a shape."""
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if x.dtype == BOOL and x.shape:  # masks have layouts of their own
            wide = self.spread(self.as_int(x), shape)
            return self.compare("ne", wide, self.constant(0, I32, shape))
        kind = type_text(x.dtype, shape)
        return self.make(
            f"vector.broadcast {x.name} : {x.type} to {kind}", x.dtype, shape, x.bounds
        )

    def as_int(self, x: Value) -> Value:
        """Booleans as int32."""
        kind = type_text(I32, x.shape)
        return self.make(f"arith.extui {x.name} : {x.type} to {kind}", I32, x.shape, (0, 1))

    def as_bool(self, x: Value) -> Value:
        """Whether integers are not 0."""
        return self.compare("ne", x, self.constant(0, x.dtype, x.shape))

    def alike(self, *xs: Value) -> tuple[Value, ...]:
        """Values repeated to one shape; vectors have as many axes."""
        shapes = [x.shape for x in xs if x.shape]
        if not shapes:
            return xs
        shape = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
        return tuple(self.spread(x, shape) for x in xs)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        shape = tuple(shape)
        if x.shape == shape:
            return x
        if not x.shape:
            return self.spread(x, shape)
        if x.dtype == BOOL:
            return self.as_bool(self.reshape(self.as_int(x), shape))
        if not shape:
            ones = (1,) * max(len(x.shape), 2)
            flat = self.reshape(x, ones)
            at = ", ".join("0" for _ in ones)
            return self.make(
                f"vector.extract {flat.name}[{at}] : {element(x.dtype)} from {flat.type}",
                x.dtype, (), x.bounds,
            )  # fmt: skip
        kind = type_text(x.dtype, shape)
        return self.make(
            f"vector.shape_cast {x.name} : {x.type} to {kind}", x.dtype, shape, x.bounds
        )

    def expand(self, x: Value, axis: int) -> Value:
        """A vector with a new axis of size 1."""
        return self.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        if list(order) == sorted(order):
            return x
        shape = tuple(x.shape[i] for i in order)
        moved = [i for i in order if x.shape[i] != 1]
        if moved == sorted(moved):
            return self.reshape(x, shape)
        if x.dtype == BOOL:
            return self.as_bool(self.transpose(self.as_int(x), order))
        axes = ", ".join(map(str, order))
        return self.make(
            f"tpu.transpose {x.name}, [{axes}] : {x.type} -> {type_text(x.dtype, shape)}",
            x.dtype, shape, x.bounds,
        )  # fmt: skip

    def places(self, shape: Sequence[int], axis: int) -> Value:
        """The number of each element along an axis, int32."""
        if len(shape) == 1:
            return self.reshape(self.places((1, *shape), 1), shape)
        kind = type_text(I32, shape)
        return self.make(
            f"tpu.iota {{dimensions = array<i32: {axis}>}} : {kind}",
            I32, shape, (0, shape[axis] - 1),
        )  # fmt: skip

    # --- Conversions ----------------------------------------------------------------------------

    def convert(self, x: Value, dtype: Any) -> Value:
        """The elements as another dtype. Narrow ones go by 32 bits."""
        old, dtype = x.dtype, np.dtype(dtype)
        if old == dtype:
            return x
        if old == BOOL:
            return self.convert(self.as_int(x), dtype)
        wide = self._widened(x)
        if dtype == BOOL:
            how = "une" if is_float(wide.dtype) else "ne"
            return self.compare(how, wide, self.constant(0, wide.dtype, x.shape))
        if is_float(old) and is_float(dtype):
            out = wide
        elif is_float(old):
            middle = I32 if is_signed(dtype) else np.dtype(np.uint32)
            wide = self._within(wide, dtype)
            out = self._cast("arith.fptosi" if is_signed(dtype) else "arith.fptoui", wide, middle)
        elif is_float(dtype):
            out = self._cast("arith.sitofp" if is_signed(wide.dtype) else "arith.uitofp", wide, F32)
        else:
            known = fitting(x.bounds, dtype)
            out = Value(wide.name, I32 if is_signed(dtype) else np.dtype(np.uint32), x.shape, known)
        return self._narrowed(out, dtype)

    def _within(self, x: Value, dtype: Any) -> Value:
        """Floats clamped to the range of an integer dtype, as XLA's conversions clamp. Mosaic's
        conversions to int32 clamp by themselves."""
        size, signed = bits(dtype), is_signed(dtype)
        if signed and size == bits(I32):
            return x
        low, high = (-(2 ** (size - 1)), 2 ** (size - 1) - 1) if signed else (0, 2**size - 1)
        for op, edge in (("maximumf", low), ("minimumf", high)):
            if edge < 2**24:  # others are no floats, and the conversion's to judge
                to = self.constant(edge, F32, x.shape)
                x = self.make(f"arith.{op} {x.name}, {to.name} : {x.type}", F32, x.shape)
        return x

    def _widened(self, x: Value) -> Value:
        """A number of 32 bits."""
        if is_float(x.dtype):
            return x if x.dtype == F32 else self._cast("arith.extf", x, F32)
        wide = I32 if is_signed(x.dtype) else np.dtype(np.uint32)
        if bits(x.dtype) == bits(wide):
            return x
        return self._cast("arith.extsi" if is_signed(x.dtype) else "arith.extui", x, wide)

    def _narrowed(self, x: Value, dtype: Any) -> Value:
        if is_float(dtype):
            return x if dtype == F32 else self._cast("arith.truncf", x, dtype)
        if bits(dtype) == bits(I32):
            return x
        return self._cast("arith.trunci", x, dtype)

    def _cast(self, op: str, x: Value, dtype: Any) -> Value:
        kind, known = type_text(dtype, x.shape), None
        if not is_float(dtype) and not is_float(x.dtype):
            known = fitting(x.bounds, np.dtype(dtype))
        return self.make(f"{op} {x.name} : {x.type} to {kind}", dtype, x.shape, known)

    # --- Integers, whose bounds are followed ----------------------------------------------------

    def add(self, x: Value, y: Value) -> Value:
        if y.bounds == (0, 0) and not y.shape:
            return x
        if x.bounds == (0, 0) and x.shape == y.shape:
            return y
        known = x.bounds and y.bounds and (x.bounds[0] + y.bounds[0], x.bounds[1] + y.bounds[1])
        known = fitting(known, x.dtype)
        if known and known[0] == known[1] and not x.shape:
            return self.constant(known[0], x.dtype)
        x, y = self.alike(x, y)
        return self.make(f"arith.addi {x.name}, {y.name} : {x.type}", x.dtype, x.shape, known)

    def times(self, x: Value, n: int) -> Value:
        """An integer times a known one."""
        if n == 1:
            return x
        known = fitting(x.bounds and tuple(sorted((x.bounds[0] * n, x.bounds[1] * n))), x.dtype)
        if known and known[0] == known[1]:
            return self.constant(known[0], x.dtype, x.shape)
        by = self.constant(n, x.dtype, x.shape)
        return self.make(f"arith.muli {x.name}, {by.name} : {x.type}", x.dtype, x.shape, known)

    def from_end(self, x: Value, n: int) -> Value:
        """A place: a negative one counts from the end of an axis of n."""
        if x.bounds and x.bounds[0] >= 0:
            return x
        moved = self.add(x, self.constant(n, x.dtype))
        return self.select(self.compare("slt", x, self.constant(0, x.dtype)), moved, x)

    def compare(self, how: str, x: Value, y: Value) -> Value:
        x, y = self.alike(x, y)
        if how == "une":  # which libtpu lacks
            same = self.compare("oeq", x, y)
            true = self.constant(True, BOOL, x.shape)
            return self.make(f"arith.xori {same.name}, {true.name} : {same.type}", BOOL, x.shape)
        op = "arith.cmpf" if is_float(x.dtype) else "arith.cmpi"
        return self.make(f"{op} {how}, {x.name}, {y.name} : {x.type}", BOOL, x.shape)

    def both(self, x: Value, y: Value) -> Value:
        x, y = self.alike(x, y)
        return self.make(f"arith.andi {x.name}, {y.name} : {x.type}", BOOL, x.shape)

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """x where the condition holds, else y."""
        if condition.shape:
            condition, x, y = self.alike(condition, x, y)
        else:
            x, y = self.alike(x, y)
        if x.dtype == BOOL and x.shape:
            return self.as_bool(self.select(condition, self.as_int(x), self.as_int(y)))
        kinds = f"{condition.type}, {x.type}" if condition.shape else x.type
        return self.make(
            f"arith.select {condition.name}, {x.name}, {y.name} : {kinds}", x.dtype, x.shape
        )


def _single(x: Value) -> int | None:
    return x.bounds[0] if x.bounds and x.bounds[0] == x.bounds[1] else None


__all__ = [
    "BOOL", "F32", "I32", "Ref", "Refused", "Value", "Writer", "bits", "dtypes", "element",
    "fitting", "is_float", "is_signed", "memory_text", "type_text",
]  # fmt: skip
