"""Functions of single elements or lines, applied to whole arrays.

Vectorize, apply_along_axis, apply_over_axes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._advice.guarding import guarded
from teucer._core.typing import Array, ArrayLike
from teucer._transform.vmap import vmap
from teucer.lax import _shapes, _structure
from teucer.numpy._operands import axis_of, operand
from teucer.numpy._promotion import broadcast_shapes

if TYPE_CHECKING:
    from teucer._core.typing import Arrays, Params

__all__ = ["apply_along_axis", "apply_over_axes", "vectorize"]

_AXES = r"\((?:\w+(?:,\w+)*)?\)"
_SIGNATURE = re.compile(rf"^{_AXES}(?:,{_AXES})*->{_AXES}(?:,{_AXES})*$")
_Core = list[tuple[str, ...]]


def _parse(signature: str) -> tuple[_Core, _Core]:
    """The names of the core axes of the arguments and of the results."""
    text = re.sub(r"\s+", "", signature)
    if not _SIGNATURE.match(text):
        raise ValueError(
            f"not a valid gufunc signature: {signature}\n  Like (n),(m)->(n,m); () is a scalar."
        )
    sides = [
        [tuple(re.findall(r"\w+", part)) for part in re.findall(_AXES, side)]
        for side in text.split("->")
    ]
    return sides[0], sides[1]


def vectorize(
    pyfunc: Callable[..., object],
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Any:
    """A function of arrays from a function of single elements, or of arrays with the axes that
    signature names.

    The other axes of the arguments, in front, broadcast together. excluded: arguments passed on as
    they are, by position or name. The function is traced with vmap, so it may be transformed.
    Raises ValueError for a bad signature, and the function for arguments that do not fit it.

    >>> dot = vectorize(lambda x, y: (x * y).sum(), signature="(n),(n)->()")
    >>> dot(np.ones((2, 1, 3)), np.ones((4, 3))).shape
    (2, 4)
    """
    if any(not isinstance(e, str | int) for e in excluded):
        raise TypeError(
            "jax.numpy.vectorize can only exclude integer or string arguments, but "
            f"excluded={frozenset(excluded)!r}"
        )
    if any(isinstance(e, int) and e < 0 for e in excluded):
        raise ValueError(f"excluded={frozenset(excluded)!r} contains negative numbers")
    cores = None if signature is None else _parse(signature)
    note = (
        f"on vectorized function with excluded={frozenset(excluded)!r} and signature={signature!r}"
    )

    @functools.wraps(pyfunc)
    def wrapped(*args: Any, **kwargs: object) -> Any:
        fixed = {i: args[i] for i in excluded if isinstance(i, int) and i < len(args)}
        named = {k: v for k, v in kwargs.items() if k in excluded}
        mapped_names = [k for k in kwargs if k not in excluded]
        given = [a for i, a in enumerate(args) if i not in fixed] + [
            kwargs[k] for k in mapped_names
        ]

        def call(*values: Any) -> Any:
            positional = len(args) - len(fixed)
            rest = iter(values[:positional])
            full = [fixed[i] if i in fixed else next(rest) for i in range(len(args))]
            return pyfunc(
                *full, **named, **dict(zip(mapped_names, values[positional:], strict=True))
            )

        no_axes: _Core = [()] * len(given)
        inputs, outputs = cores if cores is not None else (no_axes, None)
        if len(given) != len(inputs):
            raise TypeError(
                f"wrong number of positional arguments: expected {len(inputs)}, got {len(given)} "
                f"{note}"
            )
        return _vectorized(
            call, [operand("vectorize", a, i) for i, a in enumerate(given)], inputs, outputs, note
        )

    return guarded(wrapped)


def _vectorized(
    call: Callable[..., object], xs: Arrays, inputs: _Core, outputs: _Core | None, note: str
) -> Any:
    sizes: dict[str, Any] = {}
    loops = []
    for x, core in zip(xs, inputs, strict=True):
        if x.ndim < len(core):
            raise ValueError(
                f"input with shape {x.shape} does not have enough dimensions for all core "
                f"dimensions {core} {note}"
            )
        at = x.ndim - len(core)
        _bind_sizes(sizes, core, x.shape[at:], note)
        loops.append(x.shape[:at])
    loop = broadcast_shapes("vectorize", loops) if loops else ()
    checked = call if outputs is None else _checked(call, outputs, sizes, note)
    aligned = [
        _structure.reshape(x, tuple(n for n in shape if n != 1) + x.shape[len(shape) :])
        for x, shape in zip(xs, loops, strict=True)
    ]
    # Only axes that an argument really has are mapped for it; the last mapped is the first axis of
    # the loop.
    for place in reversed(range(len(loop))):
        ahead = [place - (len(loop) - len(shape)) for shape in loops]
        axes = tuple(
            0 if at >= 0 and shape[at] != 1 else None
            for at, shape in zip(ahead, loops, strict=True)
        )
        if any(a == 0 for a in axes):
            checked = vmap(checked, in_axes=axes)
        else:
            checked = _with_axis(checked)
    return checked(*aligned)


def _with_axis(f: Callable[..., Any]) -> Callable[..., Any]:
    """f with a leading axis of size 1 added to its results, for arguments that all have size 1
    along the mapped axis."""

    def expanded(*args: Any) -> Any:
        out = f(*args)
        return (
            tuple(_shapes.expand_dims(x, (0,)) for x in out)
            if isinstance(out, tuple)
            else _shapes.expand_dims(out, (0,))
        )

    return expanded


def _bind_sizes(sizes: Params, core: tuple[str, ...], shape: tuple[int, ...], note: str) -> None:
    for name, n in zip(core, shape, strict=True):
        if sizes.setdefault(name, int(name) if name.isdigit() else n) != n:
            raise ValueError(
                f"inconsistent size for core dimension {name!r}: {n} vs {sizes[name]} {note}"
            )


def _checked(
    call: Callable[..., Any], outputs: _Core, sizes: dict[str, Any], note: str
) -> Callable[..., Any]:
    """The function with its results compared with the signature."""

    def checked(*args: Any) -> Any:
        out = call(*args)
        several = isinstance(out, tuple)
        results = out if several else (out,)
        if len(results) != len(outputs):
            raise TypeError(
                f"wrong number of output arguments: expected {len(outputs)}, got {len(results)} "
                f"{note}"
            )
        for x, core in zip(results, outputs, strict=True):
            shape = np.shape(x)
            if len(shape) != len(core) or any(
                sizes.get(k, n) != n for k, n in zip(core, shape, strict=True)
            ):
                raise ValueError(
                    f"output shape {shape} does not match core dimensions {core} {note}"
                )
        return out

    return checked


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Array:
    """A function of arrays of one axis applied to each line of arr along an axis; its axes take the
    place of that one.

    >>> apply_along_axis(lambda v: v[:1], 0, np.array([[1, 2], [3, 4]])).tolist()
    [[1, 2]]
    """
    x = operand("apply_along_axis", arr)
    at = axis_of(x, axis)
    f: Callable[..., Any] = lambda line: func1d(line, *args, **kwargs)  # noqa: E731 - vmap names it in messages
    for _ in range(x.ndim - at - 1):
        f = vmap(f, in_axes=-1, out_axes=-1)
    for _ in range(at):
        f = vmap(f, in_axes=0, out_axes=0)
    return f(x)


def apply_over_axes(
    func: Callable[[Any, int], Any], a: ArrayLike, axes: int | Sequence[int]
) -> Array:
    """A reduction func(x, axis) applied along one axis after another; the axes stay, with size 1.

    >>> apply_over_axes(np.sum, np.ones((2, 3)), [0, 1]).tolist()
    [[6.0]]
    """
    x: Any = a
    for axis in axes if isinstance(axes, Sequence | np.ndarray) else (axes,):
        out = func(x, axis)
        if np.ndim(out) == np.ndim(x) - 1:
            out = _shapes.expand_dims(operand("apply_over_axes", out), (axis % np.ndim(x),))
        elif np.ndim(out) != np.ndim(x):
            raise ValueError(
                "function is not returning an array of the correct shape\n"
                f"    operand: shape {np.shape(x)}\n    result: shape {np.shape(out)}"
            )
        x = out
    return operand("apply_over_axes", x)
