"""Arrays with x[key] changed.

Dynamic_update_slice where the key says the places, one scatter where index arrays do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer.lax import _dynamic, _elementwise, _shapes, _slicing, _structure
from teucer.lax._indexing import gather as _gather
from teucer.lax._indexing.numbers import GatherScatterMode, ScatterDimensionNumbers
from teucer.numpy._index_keys import INT, SCALAR, Key, is_basic, may_lie_outside, needs_places
from teucer.numpy._operands import broadcast_value, positions
from teucer.numpy._promotion import convert
from teucer.numpy._reading import (
    Options,
    access,
    as_indices,
    basic_windows,
    first_last_step,
    is_static,
    window_size,
    with_fresh_axes,
)

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, Size


Function = Callable[..., Any]


def _replace(old: Any, new: Any) -> Any:
    return new


# How a new value meets the old one, and the scatter that does it.
OPERATIONS: dict[str, tuple[Function, Function]] = {
    "set": (_replace, _gather.scatter),
    "add": (_elementwise.add, _gather.scatter_add),
    "subtract": (_elementwise.sub, _gather.scatter_sub),
    "multiply": (_elementwise.mul, _gather.scatter_mul),
    "min": (_elementwise.min, _gather.scatter_min),
    "max": (_elementwise.max, _gather.scatter_max),
}
_ANYWHERE = (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS)


def write(
    operation: str | Function, x: Any, value: Any, key: Key, options: Options = Options()
) -> Any:
    """x with x[key] changed by an operation and a value, or by a function of the old elements where
    the value is None.

    Places outside are left alone, or moved inside with the mode "clip". The result has the dtype of
    x. Raises ValueError if the value does not broadcast to the shape of x[key].

    >>> from teucer.numpy._index_keys import parse
    >>> write("set", np.int32([1, 2, 3]), 7, parse(-1, (3,))).tolist()
    [1, 2, 7]
    """
    aval = typeof(x)
    if value is not None:
        dtype = aval.dtype if operation == "set" else dtypes.result_type(x, value)
        x, value = _structure.convert_element_type(x, dtype, aval.weak_type), convert(value, dtype)
    # A slice never lies outside; a single place that does is moved inside by a window, and dropped
    # by scatter.
    if (
        is_basic(key)
        and not needs_places(key, np.shape(x))
        and (options.mode in _ANYWHERE or not may_lie_outside(key))
    ):
        out = _write_window(operation, x, value, key, options)
    else:
        out = _scatter(operation, x, value, key, options)
    return _structure.convert_element_type(out, aval.dtype, aval.weak_type)


def _write_window(
    operation: str | Function, x: ArrayLike, value: ArrayLike, key: Key, options: Options
) -> Any:
    items, starts, new = basic_windows(key, np.shape(x), options.wrap_negative_indices)
    window = tuple(window_size(item, n) for item, n in zip(items, np.shape(x), strict=True))
    touched = tuple(
        item[2] if item[0] == "steps" else n for item, n in zip(items, window, strict=True)
    )
    if 0 in touched:
        broadcast_value(value, _result_shape(items, touched, new)) if value is not None else None
        return x
    whole = window == np.shape(x)
    old = x if whole or (operation == "set" and touched == window) else _window(x, starts, window)
    if value is not None:
        fitted = broadcast_value(
            value, touched if not np.shape(value) else _result_shape(items, touched, new)
        )
        fitted = _structure.reshape(fitted, touched)
        backwards = [i for i, item in enumerate(items) if item[0] == "steps" and item[3] < 0]
        value = _shapes.rev(fitted, backwards) if backwards else fitted
    out = _change(operation, old, value, items, touched != window)
    if not is_static(starts) or not whole:
        return _dynamic.dynamic_update_slice_p.call(x, out, *as_indices(starts))[0]
    return out


def _result_shape(
    items: Sequence[object], touched: Sequence[object], new: Sequence[int]
) -> tuple[Any, ...]:
    shape = [n for item, n in zip(items, touched, strict=True) if item not in (INT, SCALAR)]
    for axis in new:
        shape.insert(axis, 1)
    return tuple(shape)


def _window(x: ArrayLike, starts: Sequence[Any], sizes: tuple[Size, ...]) -> Any:
    if is_static(starts):
        return _slicing.slice(x, starts, [a + n for a, n in zip(starts, sizes, strict=True)])
    return _dynamic.dynamic_slice_p.call(x, *as_indices(starts), slice_sizes=sizes)[0]


def _change(
    operation: str | Function, old: Any, value: ArrayLike, items: Sequence[Any], stepped: bool
) -> Any:
    """The window with its elements changed; only those at the steps, if there are steps."""
    combine: Function = (
        (lambda part, _: _applied(operation, part))
        if callable(operation)
        else OPERATIONS[operation][0]
    )
    if not stepped:
        return combine(old, value)
    bounds = [
        first_last_step(item) if item[0] == "steps" else (0, n - 1, 1)
        for item, n in zip(items, np.shape(old), strict=True)
    ]
    part = (
        value
        if operation == "set"
        else combine(
            _slicing.slice(
                old,
                [a for a, _, _ in bounds],
                [b + 1 for _, b, _ in bounds],
                [s for _, _, s in bounds],
            ),
            value,
        )
    )
    padding = [(a, n - 1 - b, s - 1) for (a, b, s), n in zip(bounds, np.shape(old), strict=True)]
    spread = _slicing.pad(part, _structure.full((), 0, typeof(part).dtype), padding)
    return _elementwise.select(_on_steps(np.shape(old), bounds), spread, old)


def _on_steps(shape: Sequence[Any], bounds: Sequence[Any]) -> Any:
    """Which elements of a window lie on the steps."""
    mask: Any = None
    for axis, (n, (first, last, step)) in enumerate(zip(shape, bounds, strict=True)):
        if step == 1:
            continue
        place = positions(n)
        on = (place >= first) & (place <= last) & ((place - first) % step == 0)
        along = _structure.broadcast_to(on, shape, (axis,))
        mask = along if mask is None else _elementwise.bitwise_and(mask, along)
    return mask


def _applied(function: Any, x: Any) -> Any:
    out = function(x)
    if np.shape(out) != np.shape(x):
        raise ValueError(
            f"apply: the function must keep the shape of its operand.\n    operand: {typeof(x)}\n"
            f"    result: {typeof(out)}"
        )
    return convert(out, typeof(x).dtype)


def _scatter(operation: str | Function, x: Any, value: Any, key: Key, options: Options) -> Any:
    shape = np.shape(x)
    x = with_fresh_axes(x, key)
    found = access(np.shape(x), key, options.wrap_negative_indices)
    if value is not None:
        value = _structure.reshape(broadcast_value(value, found.shape), found.inner_shape)
    if 0 in found.shape or 0 in shape:
        return _structure.reshape(x, shape)
    single = all(n == 1 for n in np.shape(found.indices)[:-1])
    numbers = ScatterDimensionNumbers(found.window_dims, found.collapsed, found.mapped)
    change: Function = (
        functools.partial(_gather.scatter_apply, update_shape=found.inner_shape)
        if callable(operation)
        else OPERATIONS[operation][1]
    )
    out = change(
        x,
        found.indices,
        operation if callable(operation) else value,
        numbers,
        indices_are_sorted=options.indices_are_sorted or single,
        unique_indices=options.unique_indices or single,
        mode=options.mode,
    )
    return _structure.reshape(out, shape)
