"""The shape of arrays, and the order of their axes and elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from teucer._base import dtypes, errors
from teucer._core.trace import typeof
from teucer._core.types import is_valid_type
from teucer._core.typing import Array, ArrayLike
from teucer._dimensions.dimensions import as_size, is_constant, is_symbolic
from teucer._dimensions.refusals import not_a_shape
from teucer.lax import _dynamic, _joining, _shapes, _slicing, _structure
from teucer.numpy._library import at_once, converting, fast
from teucer.numpy._operands import axes_of, axis_of, broadcast_value, operand, operands, several

if TYPE_CHECKING:
    from teucer._core.typing import Value

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes",
    "broadcast_to", "expand_dims", "flip", "fliplr", "flipud", "matrix_transpose", "moveaxis",
    "ndim", "permute_dims", "ravel", "reshape", "roll", "rollaxis", "rot90", "shape", "size",
    "squeeze", "swapaxes", "transpose", "unstack",
]  # fmt: skip


@converting
def shape(a: Any) -> tuple[Any, ...]:
    """Sizes of the axes of an array or of nested lists.

    >>> shape([[1, 2, 3]])
    (1, 3)
    """
    return np.shape(a)


@converting
def ndim(a: Any) -> int:
    """Number of axes of an array or of nested lists.

    >>> ndim([[1, 2, 3]])
    2
    """
    return np.ndim(a)


@converting
def size(a: ArrayLike, axis: int | Sequence[int] | None = None) -> int:
    """Number of elements, in all or along axes.

    >>> size(np.zeros((2, 3)), 1)
    3
    """
    sizes = np.shape(a)
    if axis is None:
        return math.prod(sizes)
    axes = [_structure.canonical_axis(i, len(sizes)) for i in several(axis)]
    if len(set(axes)) < len(axes):
        raise ValueError(f"size: repeated axis: {axis}")
    return math.prod(sizes[i] for i in axes)


def reshape(
    a: ArrayLike,
    shape: Any,
    order: str = "C",
    *,
    copy: bool | None = None,
    out_sharding: Any = None,
) -> Array:
    """The elements of a in another shape.

    shape: an int or ints; one of them may be -1, for the size that is left.
    order: "C": the last axis runs fastest; "F": the first one.
    Raises TypeError if the number of elements changes, ValueError for another order.

    >>> reshape(np.arange(6), (2, -1)).shape
    (2, 3)
    """
    x = operand("reshape", a)
    sizes = _new_shape(x, shape)
    if order == "C":
        return (
            _shapes.reshape(x, sizes, out_sharding=out_sharding)
            if out_sharding is not None
            else _structure.reshape(x, sizes)
        )
    if out_sharding is not None:
        from teucer.lax._sharding import laid_out  # here and below, for arrays over meshes

        return laid_out("jnp.reshape", out_sharding, lambda x: reshape(x, sizes, order), x)
    if order == "F":
        backwards = _structure.reshape(_structure.transpose(x, range(x.ndim)[::-1]), sizes[::-1])
        return _structure.transpose(backwards, range(len(sizes))[::-1])
    if order == "A":
        raise NotImplementedError(
            "np.reshape order=A is not implemented.\n  Arrays have no order in memory: use C or F."
        )
    raise ValueError(f"Unexpected value for 'order' argument: {order}.\n  Orders: C, F.")


def _new_shape(x: Array, shape: Any) -> tuple[Any, ...]:
    given = shape
    if not isinstance(shape, Iterable) or getattr(shape, "ndim", 1) == 0:
        shape = (shape,)
    try:
        sizes = tuple([as_size(d) for d in shape])
    except TypeError as err:
        raise not_a_shape("reshape", [given] if shape is not given else given) from err
    unknown = [i for i, d in enumerate(sizes) if type(d) is int and d == -1]
    if len(unknown) > 1:
        raise TypeError(f"can only specify one unknown axis size with a `-1` value, got {given}")
    total = math.prod(x.shape)
    if unknown:
        rest = math.prod(d for i, d in enumerate(sizes) if i != unknown[0])
        empty = type(rest) is int and rest == 0
        if empty or total % rest != 0:
            if not empty and is_symbolic(total % rest):
                raise errors.InconclusiveDimensionOperation(
                    f"Cannot divide evenly the sizes of shapes {x.shape} and {sizes}. The "
                    f"remainder {total % rest} should be 0."
                )
            raise TypeError(
                f"cannot reshape array of shape {x.shape} (size {total}) into shape {given} "
                f"because the product of specified axis sizes ({rest}) does not evenly divide "
                f"{total}"
            )
        sizes = (*sizes[: unknown[0]], total // rest, *sizes[unknown[0] + 1 :])
    if math.prod(sizes) != total or any(type(d) is int and d < 0 for d in sizes):
        raise TypeError(
            f"cannot reshape array of shape {x.shape} (size {total}) into shape {given} (size "
            f"{math.prod(sizes)})"
        )
    return sizes


def ravel(a: ArrayLike, order: str = "C", *, out_sharding: Any = None) -> Array:
    """The elements of a along one axis.

    >>> ravel(np.array([[1, 2], [3, 4]]), order="F").tolist()
    [1, 3, 2, 4]
    """
    x = operand("ravel", a)
    if order == "K":
        raise NotImplementedError(
            "Ravel not implemented for order='K'.\n  Arrays have no order in memory: use C or F."
        )
    size = (math.prod(x.shape),)
    if order == "C" and out_sharding is None:
        return _structure.reshape(x, size)
    return reshape(x, size, order, out_sharding=out_sharding)


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """a with its axes permuted: axis i of the result is axis axes[i] of a; in reverse order by
    default.

    Raises TypeError if axes is no permutation.

    >>> transpose(np.zeros((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    x = operand("transpose", a)
    if axes is None:
        return _structure.transpose(x, range(x.ndim)[::-1])
    order = [_structure.canonical_axis(i, x.ndim) for i in axes]
    if sorted(order) != list(range(x.ndim)):
        raise TypeError(
            "transpose permutation isn't a permutation of operand dimensions, got permutation "
            f"{tuple(axes)} for operand shape {x.shape}."
        )
    return _structure.transpose(x, order)


def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """As `transpose`.

    >>> permute_dims(np.zeros((2, 3)), (1, 0)).shape
    (3, 2)
    """
    return transpose(a, axes)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """x with its last two axes swapped.

    Raises ValueError if it has fewer.

    >>> matrix_transpose(np.zeros((5, 2, 3))).shape
    (5, 3, 2)
    """
    x = operand("matrix_transpose", x)
    if x.ndim < 2:
        raise ValueError(
            f"x must be at least two-dimensional for matrix_transpose; got ndim={x.ndim}"
        )
    return swapaxes(x, -1, -2)


@at_once(static=("axis1", "axis2"))
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """a with two axes exchanged.

    >>> swapaxes(np.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    x = operand("swapaxes", a)
    order = list(range(x.ndim))
    i, j = axis_of(x, axis1), axis_of(x, axis2)
    order[i], order[j] = order[j], order[i]
    return _structure.transpose(x, order)


@at_once(static=("source", "destination"))
def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """a with axes moved to other places; the others keep their order.

    Raises ValueError if an axis is out of range or named twice, or the numbers of axes differ.

    >>> moveaxis(np.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = operand("moveaxis", a)
    old, new = axes_of(x, source), axes_of(x, destination)
    if len(old) != len(new):
        raise ValueError(
            f"Inconsistent number of elements: {len(old)} vs {len(new)}\n    source: {source}\n"
            f"    destination: {destination}"
        )
    if len(set(old)) != len(old) or len(set(new)) != len(new):
        raise ValueError(
            f"moveaxis: repeated axis.\n    source: {source}\n    destination: {destination}"
        )
    order = [i for i in range(x.ndim) if i not in old]
    for place, axis in sorted(zip(new, old, strict=True)):
        order.insert(place, axis)
    return _structure.transpose(x, order)


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """a with an axis moved to stand before the axis that is now at start.

    >>> rollaxis(np.zeros((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    x = operand("rollaxis", a)
    n = x.ndim
    if not -n <= start <= n:
        raise ValueError(f"start={start} must satisfy {-n}<=start<={n}")
    at, place = axis_of(x, axis), start + n if start < 0 else start
    return moveaxis(x, at, place - (at < place))


@at_once(static=("axis",))
def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """a with new axes of size 1, which are `axis` of the result.

    >>> expand_dims(np.zeros(3), (0, -1)).shape
    (1, 3, 1)
    """
    x = operand("expand_dims", a)
    return _shapes.expand_dims(x, several(axis))


def squeeze(a: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """a without axes of size 1: all of them, or those given.

    Raises ValueError if an axis has another size.

    >>> squeeze(np.zeros((1, 3, 1)), 0).shape
    (3, 1)
    """
    x = operand("squeeze", a)
    if axis is None:
        if not is_constant(x.shape):
            raise ValueError(
                "jnp.squeeze with axis=None is not supported with shape polymorphism: whether a "
                f"symbolic size is 1 is not known.\n    a: {x.aval}\n  Give the axes."
            )
        return _shapes.squeeze(x, [i for i, n in enumerate(x.shape) if n == 1])
    return _shapes.squeeze(x, several(axis))


def broadcast_to(array: ArrayLike, shape: Any, *, out_sharding: Any = None) -> Array:
    """array repeated along new leading axes and axes of size 1.

    Raises ValueError if the shape does not fit.

    >>> broadcast_to(np.arange(2), (3, 2)).tolist()
    [[0, 1], [0, 1], [0, 1]]
    """
    x = operand("broadcast_to", array)
    if out_sharding is not None:
        from teucer.lax._sharding import laid_out

        return laid_out("jnp.broadcast_to", out_sharding, lambda x: broadcast_to(x, shape), x)
    sizes = shape if isinstance(shape, tuple | list) or np.ndim(shape) else (shape,)
    return broadcast_value(x, _structure.canonical_shape(sizes, "broadcast_to"))


def broadcast_shapes(*shapes: Value) -> tuple[Any, ...]:
    """The shape to which arrays of given shapes broadcast.

    >>> broadcast_shapes((3, 1), 2)
    (3, 2)
    """
    return (
        _shapes.broadcast_shapes(*(s if isinstance(s, Sequence) else (s,) for s in shapes))
        if shapes
        else ()
    )


def broadcast_arrays(*args: Any) -> list[Array]:
    """Arrays broadcast to their common shape.

    >>> [x.shape for x in broadcast_arrays(np.zeros(3), np.zeros((2, 1)))]
    [(2, 3), (2, 3)]
    """
    xs = operands("broadcast_arrays", *args)
    common = _shapes.broadcast_shapes(*(x.shape for x in xs)) if xs else ()
    return [broadcast_value(x, common) for x in xs]


def _at_least(name: str, change: Callable[[Array], Array], arys: Sequence[object]) -> Any:
    if len(arys) == 1:
        return change(operand(name, arys[0]))
    return [change(operand(name, x, i)) for i, x in enumerate(arys)]


@overload
def atleast_1d(ary: ArrayLike, /) -> Array: ...
@overload
def atleast_1d(*arys: ArrayLike) -> list[Array]: ...
def atleast_1d(*arys: Any) -> Array | list[Array]:
    """Arrays, with an axis added to arrays that have none.

    >>> atleast_1d(np.float32(1)).shape
    (1,)
    """
    return _at_least("atleast_1d", lambda x: x if x.ndim else _structure.reshape(x, (1,)), arys)


@overload
def atleast_2d(ary: ArrayLike, /) -> Array: ...
@overload
def atleast_2d(*arys: ArrayLike) -> list[Array]: ...
def atleast_2d(*arys: Any) -> Array | list[Array]:
    """Arrays, with leading axes added to arrays that have fewer than two.

    >>> atleast_2d(np.zeros(3)).shape
    (1, 3)
    """
    return _at_least(
        "atleast_2d", lambda x: expand_dims(x, tuple(range(2 - x.ndim))) if x.ndim < 2 else x, arys
    )


@overload
def atleast_3d(ary: ArrayLike, /) -> Array: ...
@overload
def atleast_3d(*arys: ArrayLike) -> list[Array]: ...
def atleast_3d(*arys: Any) -> Array | list[Array]:
    """Arrays, with axes added to arrays that have fewer than three. The axis of an array with one
    stays in the middle.

    >>> atleast_3d(np.zeros(3)).shape, atleast_3d(np.zeros((2, 3))).shape
    ((1, 3, 1), (2, 3, 1))
    """
    new = ((0, 1, 2), (0, 2), (2,))
    return _at_least("atleast_3d", lambda x: expand_dims(x, new[x.ndim]) if x.ndim < 3 else x, arys)


@at_once(static=("axis",))
def flip(m: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """m with the order of elements along axes reversed, along all by default.

    >>> flip(np.arange(3)).tolist()
    [2, 1, 0]
    """
    x = operand("flip", m)
    return _shapes.rev(x, axes_of(x, axis))


def flipud(m: ArrayLike) -> Array:
    """m upside down: reversed along the first axis.

    >>> flipud(np.arange(3)).tolist()
    [2, 1, 0]
    """
    return flip(m, 0)


def fliplr(m: ArrayLike) -> Array:
    """m with left and right exchanged: reversed along the second axis.

    >>> fliplr(np.array([[1, 2], [3, 4]])).tolist()
    [[2, 1], [4, 3]]
    """
    return flip(m, 1)


@at_once(static=("k", "axes"))
def rot90(m: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    """m turned k times by 90 degrees in the plane of two axes, from the first to the second.

    >>> rot90(np.array([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
    x = operand("rot90", m)
    if x.ndim < 2:
        raise ValueError(
            "rot90 requires its first argument to have ndim at least two, but got first argument "
            f"of shape {x.shape}, which has ndim {x.ndim}"
        )
    i, j = axes_of(x, axes)
    if i == j:
        raise ValueError("Axes must be different")
    turns = k % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, (i, j))
    return swapaxes(flip(x, j), i, j) if turns == 1 else flip(swapaxes(x, i, j), j)


@converting
def roll(a: ArrayLike, shift: Any, axis: int | Sequence[int] | None = None) -> Array:
    """a with its elements moved along axes by shifts, those that leave at the end entering in
    front.

    shift: an integer or several, which may be traced. axis: where; None rolls the flattened array.

    >>> roll(np.arange(4), 1).tolist()
    [3, 0, 1, 2]
    """
    x = operand("roll", a)
    if axis is None:
        return _structure.reshape(roll(ravel(x), shift, 0), x.shape)
    axes = several(axis)
    shifts = several(shift)
    if len(shifts) == 1 and np.ndim(shifts[0]) == 1:
        shifts = tuple(shifts[0][i] for i in range(np.shape(shifts[0])[0]))
    if 1 not in (len(axes), len(shifts)) and len(axes) != len(shifts):
        raise ValueError(
            f"shape mismatch: objects cannot be broadcast to a single shape.\n    shift: {shift}\n"
            f"    axis: {axis}"
        )
    count = max(len(axes), len(shifts))
    axes, shifts = (t * count if len(t) == 1 else t for t in (axes, shifts))
    return _roll(x, shifts, tuple(axis_of(x, i) for i in axes))


@fast(static=("axes",))
def _roll(x: Any, shifts: Any, axes: tuple[int, ...]) -> Any:
    for shift, axis in zip(shifts, axes, strict=True):
        n = x.shape[axis]
        if n == 0:
            continue
        if isinstance(shift, int | np.integer):
            start: Any = -int(shift) % n
        else:
            if typeof(shift).dtype.kind in "biu":
                # Truth values are 0 and 1. Unsigned ones have no sign to change, and n may be more
                # than short ones hold.
                shift = _structure.convert_element_type(shift, dtypes.canonicalize_dtype(int))
            start = (-shift) % n
        if type(start) is int and typeof(x).partition is None:
            parts = [_slicing.slice_in_dim(x, a, b, 1, axis) for a, b in ((start, n), (0, start))]
            x = _joining.concatenate(parts, axis)
        else:
            x = _dynamic.dynamic_slice_in_dim(_joining.concatenate([x, x], axis), start, n, axis)
    return x


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The parts of x along an axis, without that axis.

    >>> [p.tolist() for p in unstack(np.array([[1, 2], [3, 4]]), axis=1)]
    [[1, 3], [2, 4]]
    """
    x = operand("unstack", x)
    return tuple(_joining.unstack(x, axis_of(x, axis)))


def _method_reshape(
    self: Any, *args: Any, order: str = "C", copy: bool | None = None, out_sharding: Any = None
) -> Any:
    """The elements in another shape, given as a tuple or as several ints; one may be -1."""
    return reshape(
        self, args[0] if len(args) == 1 else args, order, copy=copy, out_sharding=out_sharding
    )


def _method_transpose(self: Any, *args: Any) -> Any:
    """The array with its axes permuted; in reverse order by default. Axes are a tuple or several
    ints."""
    if not args or args == (None,):
        return transpose(self)
    return transpose(self, args[0] if len(args) == 1 and not is_valid_type(args[0]) else args)


def _flatten(self: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The elements along one axis."""
    return ravel(self, order, out_sharding=out_sharding)


# Members of arrays and tracers whose arguments differ from the function's.
METHODS: dict[str, Any] = {
    "reshape": _method_reshape,
    "transpose": _method_transpose,
    "flatten": _flatten,
    "T": property(transpose, doc="The array with its axes in reverse order."),
    "mT": property(matrix_transpose, doc="The array with its last two axes swapped."),
}
