"""Elements chosen by conditions: select, piecewise, choose, extract, compress."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._base import dtypes
from teucer._core.trace import Tracer
from teucer._core.typing import Array, ArrayLike
from teucer._transform.jit import jit
from teucer._transform.vmap import vmap
from teucer.lax import _shapes, _structure
from teucer.numpy._creation import zeros
from teucer.numpy._logic import where
from teucer.numpy._manipulation import broadcast_arrays, ravel
from teucer.numpy._nonzero import nonzero, places_of
from teucer.numpy._operands import axis_of, concrete, operand, operands, promoted
from teucer.numpy._promotion import ANY, convert, refuse_out
from teucer.numpy._stacking import stack
from teucer.numpy._taking import take, take_along_axis

__all__ = ["choose", "compress", "extract", "piecewise", "select"]


def select(condlist: Sequence[object], choicelist: Sequence[Any], default: ArrayLike = 0) -> Array:
    """For each element the choice that belongs to the first condition that holds there, or default.

    Raises ValueError unless there is one choice for each condition.

    >>> x = np.arange(4)
    >>> select([x > 2, x > 0], [x, -x], 9).tolist()
    [9, -1, -2, 3]
    """
    if len(condlist) != len(choicelist):
        raise ValueError(
            f"condlist must have length equal to choicelist ({len(condlist)} vs {len(choicelist)})"
        )
    if not len(condlist):
        raise ValueError("condlist must be non-empty")
    *choices, out = promoted("select", ANY, *choicelist, default)
    conditions = operands("select", *condlist)
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        out = where(condition, choice, out)
    return out


def piecewise(
    x: ArrayLike, condlist: object, funclist: Sequence[object], *args: object, **kw: object
) -> Array:
    """A function of x defined by pieces: for each element the function, or number, of the last
    condition that holds there.

    funclist: one for each condition, and if there is one more it holds elsewhere (else 0).
    Functions are given single elements, then args and kw. The result has the dtype of x.

    >>> x = np.array([-1., 2.])
    >>> piecewise(x, [x < 0, x >= 0], [lambda v: -v, 10.]).tolist()
    [1.0, 10.0]
    """
    value = operand("piecewise", x)
    given = len(funclist)
    conditions = (
        list(condlist) if isinstance(condlist, Sequence) else operand("piecewise", condlist)
    )
    if not isinstance(conditions, list):
        conditions = list(conditions) if conditions.ndim else [conditions]
    if given not in (len(conditions), len(conditions) + 1) and given in (1, 2):
        # As NumPy has it: one condition for all elements, not a condition for each part of the
        # array.
        conditions = [
            operand(
                "piecewise",
                condlist if not isinstance(condlist, Sequence) else np.asarray(condlist),
            )
        ]
    count = len(conditions)
    if given not in (count, count + 1):
        raise ValueError(
            f"with {count} condition(s), either {count} or {count + 1} functions are expected; "
            f"got {given}"
        )
    functions = list(funclist)
    out = _piece(functions[-1] if given == count + 1 else 0, value, args, kw)
    for condition, function in zip(conditions, functions, strict=False):
        out = where(operand("piecewise", condition), _piece(function, value, args, kw), out)
    return _shapes.broadcast_in_dim(out, value.shape, ()) if np.shape(out) != value.shape else out


def _piece(function: Callable[..., Any] | Any, x: Any, args: Any, kw: Any) -> Any:
    if not callable(function):
        return convert(operand("piecewise", function), x.dtype)
    flat = ravel(x)
    call = function if args or kw else jit(function)  # which is traced once
    one = lambda v: convert(call(v, *args, **kw), x.dtype)  # noqa: E731 - a name for the error messages of vmap
    return _structure.reshape(vmap(one)(flat), x.shape) if flat.shape[0] else x


def choose(
    a: ArrayLike, choices: ArrayLike | Sequence[ArrayLike], out: None = None, mode: str = "raise"
) -> Array:
    """Elements of `choices`: where a is i, the element is from choices[i]. All arrays broadcast
    together.

    mode: "raise" refuses numbers outside and needs a known array, "clip" takes the nearest, "wrap"
    counts around.

    >>> choose(np.array([1, 0]), [np.array([1, 2]), np.array([3, 4])]).tolist()
    [3, 2]
    """
    refuse_out("choose", out)
    numbers = operand("choose", a)
    if not dtypes.issubdtype(numbers.dtype, np.integer):
        raise ValueError(f"`a` array must be integer typed, got {numbers.dtype}")
    several: Any = choices
    options = list(
        operand("choose", several)
        if isinstance(several, ArrayImpl | Tracer | np.ndarray)
        else several
    )
    n = len(options)
    if mode == "raise":
        known = concrete(
            numbers,
            "choose",
            "The error occurred because jnp.choose was jit-compiled with mode='raise'. Use "
            "mode='wrap' or mode='clip' instead.",
        )
        if known.size and (known.min() < 0 or known.max() >= n):
            raise ValueError(
                f"invalid entry in choice array\n  Numbers must be at least 0 and less than {n}."
            )
    elif mode == "wrap":
        numbers = numbers % n
    elif mode != "clip":
        raise ValueError(f"mode={mode!r} not understood. Must be 'raise', 'wrap', or 'clip'")
    numbers, *options = broadcast_arrays(
        numbers, *(convert(v, v.dtype) for v in promoted("choose", ANY, *options))
    )
    return take_along_axis(
        stack(options),
        _shapes.expand_dims(numbers, (0,)),
        0,
        mode="clip",
        wrap_negative_indices=False,
    )[0]


def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0
) -> Array:
    """The elements of the flattened array where condition holds; size and fill_value as for
    `compress`.

    >>> extract(np.array([True, False]), np.array([3, 4])).tolist()
    [3]
    """
    return compress(ravel(operand("extract", condition)), arr, size=size, fill_value=fill_value)


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    """The parts of a along an axis where condition holds; of the flattened array if it is None.

    size: how many are given, cut off or filled up with fill_value; needed where condition is
    traced.

    >>> compress(np.array([False, True]), np.array([[1, 2], [3, 4]]), axis=0).tolist()
    [[3, 4]]
    """
    refuse_out("compress", out)
    x, mask = operand("compress", a, 1), operand("compress", condition)
    if mask.ndim != 1:
        raise ValueError(f"condition must be a 1D array\n    condition: shape {mask.shape}")
    if axis is None:
        x, axis = ravel(x), 0
    at = axis_of(x, axis)
    n = x.shape[at]
    if mask.shape[0] > n:
        rest = concrete(mask[n:], "compress", "condition is longer than the axis")
        if rest.any():
            raise ValueError("condition contains entries that are out of bounds")
        mask = mask[:n]
    if size is None:
        (found,) = places_of(
            "compress",
            mask,
            None,
            None,
            "The size argument of jnp.compress must be specified in order to use jnp.compress "
            "within JAX transformations like jax.jit, jax.vmap, and jax.grad.",
        )
        return take(x, found, at)
    if not 0 <= operator.index(size) <= mask.shape[0]:
        raise ValueError(
            "size must be positive and not greater than the size of the array axis; got "
            f"size={size} for a.shape[axis]={mask.shape[0]}"
        )
    (found,) = nonzero(mask, size=size, fill_value=n)
    return take(x, found, at, mode="fill", fill_value=fill_value) if n else zeros(x.shape, x.dtype)
