"""Parts of the arrays of references. `numpy` states how they are read and written."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from teucer._base import dtypes
from teucer._core import array_ops
from teucer._core.high import low_values
from teucer._core.stage import stage_flat
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray

if TYPE_CHECKING:
    from teucer._core.typing import Array, ArrayLike, Aval


Views = tuple[Any, ...]
parts_of: dict[str, Callable[..., Any]] = {}


def install(
    *, read: Callable[..., object], write: Callable[..., object], text: Callable[..., str]
) -> None:
    """Say how to read(x, views, operands), write(operation, x, value, views, operands), and print
    text(name, views, operands)."""
    parts_of.update(read=read, write=write, text=text)


def read_part(x: ArrayLike, *operands: Array, views: Views) -> Any:
    return parts_of["read"](x, views, operands)


def set_part(x: ArrayLike, value: ArrayLike, *operands: Array, views: Views) -> Any:
    return parts_of["write"]("set", x, value, views, operands)


def add_part(x: ArrayLike, value: ArrayLike, *operands: Array, views: Views) -> Any:
    return parts_of["write"]("add", x, value, views, operands)


def swap_part(x: ArrayLike, value: ArrayLike, *operands: Array, views: Views) -> tuple[Any, Any]:
    return read_part(x, *operands, views=views), set_part(x, value, *operands, views=views)


@functools.lru_cache(4096)
def part_aval(inner: ShapedArray, views: Views, avals: Sequence[ShapedArray]) -> ShapedArray:
    """The type of a part of an array."""
    if not views:
        return inner
    jaxpr, _ = stage_flat(
        lambda x, *operands: [read_part(x, *operands, views=views)], [inner, *avals]
    )
    aval: ShapedArray = jaxpr.outvars[0].aval
    return aval


def by_types(self: object, *avals: Aval, **params: object) -> None:
    """The rule `shard`: types of results say how they are laid out."""


def by_parts(self: Any, operands: Sequence[object], avals: Sequence[Aval], **params: object) -> Any:
    """The rule `on_low`: a reference to a value of a high type becomes a reference to each of its
    low values."""
    outs = [
        self.call(*parts, **params) for parts in zip(*map(low_values, operands, avals), strict=True)
    ]
    return tuple(
        [
            a.raise_val(*column)
            for a, column in zip(self.types(*avals, **params), zip(*outs, strict=True), strict=True)
        ]
    )


def checked_value(part: Any, value: ArrayLike) -> Any:
    """A value to be written, converted if it is weakly typed and the part's dtype can hold it."""
    aval = typeof(value)
    if part.is_high:
        return value
    if (
        aval.dtype != part.dtype
        and aval.weak_type
        and not isinstance(part.dtype, dtypes.ExtendedDType)
        and dtypes.result_type(part, value) == part.dtype
    ):
        return array_ops.convert(value, part.strengthen())
    return value


def refuse_array(op: str, x: ArrayLike) -> NoReturn:
    """Raise the TypeError for something that is no reference."""
    raise TypeError(
        f"{op}: expected a reference, got {x!r:.100} of type {type(x)}.\n"
        "  References are made by jax.new_ref."
    )
