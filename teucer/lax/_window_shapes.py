"""Windows along the axes of an array: their parameters, their number, and their form on a padded
buffer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from teucer._dimensions.dimensions import dilated, is_symbolic, max_dim

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, Params, Size
    from teucer._dynamic.padding import Sizes


class PlainWindowParams(TypedDict):
    """Parameters of a primitive whose windows have no holes: fields of `Windows`."""

    window_dimensions: tuple[int, ...]
    window_strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]


class WindowParams(PlainWindowParams):
    """Parameters of a primitive with windows of any kind: all fields of `Windows`."""

    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]


class Windows(NamedTuple):
    """Windows along each axis: their size, the step from one to the next, padding, and the holes
    put between elements of the array and of the windows."""

    window_dimensions: tuple[int, ...]
    window_strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]

    def out_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """How many windows there are along each axis of an array."""
        out = []
        for n, w, s, (low, high), b, d in zip(shape, *self, strict=True):
            length = dilated(n, b) + low + high
            covered = dilated(w, d)
            out.append(max_dim((length - covered) // s + 1, 0))
        return tuple(out)

    def visited(self, shape: Sequence[int]) -> int:
        """How many elements all of the windows of an array hold together."""
        return math.prod(self.out_shape(shape)) * math.prod(self.window_dimensions)

    def at(self, axis: int) -> Windows:
        """The same windows on arrays with a batch dimension inserted."""
        new = (1, 1, (0, 0), 1, 1)
        fields: Any = (
            (*field[:axis], one, *field[axis:]) for field, one in zip(self, new, strict=True)
        )
        return Windows(*fields)

    def is_dilated(self) -> bool:
        """Whether there are holes between elements of the array or of the windows."""
        return any(d != 1 for d in (*self.base_dilation, *self.window_dilation))

    def check(self, x: Any) -> None:
        """Raise TypeError if the windows do not fit the number of axes of x, or are not
        positive."""
        n = len(self.window_dimensions)
        if n != x.ndim:
            raise TypeError(
                "reduce_window got the wrong number of window_dimensions for operand: got "
                f"operand shape {x.shape} with window_dimensions {self.window_dimensions}."
            )
        for name in ("window_strides", "base_dilation", "window_dilation"):
            if len(getattr(self, name)) != n:
                raise TypeError(
                    f"reduce_window got inconsistent {name} and window_dimensions: got {name} "
                    f"{getattr(self, name)} and window_dimensions {self.window_dimensions}."
                )
        if len(self.padding) != n:
            raise ValueError(
                "reduce_window got inconsistent padding and window_dimensions: got padding "
                f"{self.padding} and window_dimensions {self.window_dimensions}."
            )
        for name in ("window_dimensions", "window_strides", "base_dilation", "window_dilation"):
            if any(d <= 0 for d in getattr(self, name)):
                raise TypeError(
                    f"reduce_window {name} must have every element be strictly positive, got "
                    f"{getattr(self, name)}."
                )


def padded_windows(
    sizes: Sizes, shape: Sequence[Size], out_shape: Any, windows: WindowParams
) -> dict[str, Any]:
    """Windows on a buffer, moved by `moved_by_padding`: as many as the result is long at most;
    those behind the elements see the identity."""
    w, padding = Windows(**windows), []
    for n, m, size, s, (low, high), b, d in zip(shape, out_shape, *w, strict=True):
        if is_symbolic(size):
            sizes.refuse("windows of dynamic size")
        if is_symbolic(low):
            n, low = n + low, 0
        if is_symbolic(n) or is_symbolic(high):
            high = (
                (sizes.bounded(m) - 1) * s + dilated(size, d) - low - dilated(sizes.bounded(n), b)
            )
        padding.append((low, high))
    return w._replace(padding=tuple(padding))._asdict()


def moved_by_padding(
    sizes: Sizes, x: Array, lows: Sequence[Any], fill: object, dilations: Sequence[int]
) -> Any:
    """A buffer behind as much of `fill`, along each axis, as there is dynamic padding in front."""
    if not any(map(is_symbolic, lows)):
        return x
    if any(is_symbolic(low) and d != 1 for low, d in zip(lows, dilations, strict=True)):
        sizes.refuse("dynamic padding in front of elements with holes between them")
    return sizes.behind(x, [low if is_symbolic(low) else 0 for low in lows], fill)


def check_batch_only(sizes: Any, avals: Sequence[ShapedArray], params: Params) -> None:
    """Refuse dynamic axes along which there are windows."""
    for aval in avals:
        for n, size, stride, padding in zip(
            aval.shape,
            params["window_dimensions"],
            params["window_strides"],
            params["padding"],
            strict=False,
        ):
            if is_symbolic(n) and (size, stride, tuple(padding)) != (1, 1, (0, 0)):
                sizes.refuse("windows along a dynamic axis")
