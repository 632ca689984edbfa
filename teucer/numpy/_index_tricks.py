"""Places of elements: of diagonals and triangles, flat and by axis; and grids written as slices."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import dtypes, errors
from teucer._base.config import numpy_dtype_promotion
from teucer._core.trace import Tracer
from teucer._core.typing import Array, ArrayLike, DTypeLike, Shape
from teucer._dimensions.dimensions import as_size, is_symbolic, max_dim, min_dim
from teucer.lax import _elementwise, _structure
from teucer.numpy import _matrices, _operands
from teucer.numpy._creation import arange, asarray, ones
from teucer.numpy._library import at_once, fast
from teucer.numpy._logic import where
from teucer.numpy._manipulation import moveaxis, ravel, reshape
from teucer.numpy._matrices import tril, triu
from teucer.numpy._nonzero import nonzero
from teucer.numpy._promotion import ANY, broadcast_shapes, convert
from teucer.numpy._stacking import concatenate, stack

if TYPE_CHECKING:
    from teucer._core.typing import Size

__all__ = [
    "c_", "diag_indices", "diag_indices_from", "diagonal", "fill_diagonal", "index_exp", "ix_",
    "mgrid", "ogrid", "r_", "ravel_multi_index", "s_", "tril_indices", "tril_indices_from",
    "triu_indices", "triu_indices_from", "unravel_index",
]  # fmt: skip

s_, index_exp = np.s_, np.index_exp


@at_once(static=("offset", "axis1", "axis2"))
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonals of a in the plane of two axes, as the last axis; offset counts to the right of
    the main one.

    Raises ValueError for fewer than two axes.

    >>> diagonal(np.arange(6).reshape(2, 3), 1).tolist()
    [1, 5]
    """
    x = _operands.operand("diagonal", a)
    if x.ndim < 2:
        raise ValueError("diagonal requires an array of at least two dimensions.")
    i, j = _operands.axis_of(x, axis1), _operands.axis_of(x, axis2)
    if i == j:
        raise ValueError("axis1 and axis2 cannot be same")
    return _diagonal(x, operator.index(offset), i, j)


@fast(static=("offset", "axis1", "axis2"))
def _diagonal(x: Any, offset: int, axis1: int, axis2: int) -> Any:
    return _matrices._diagonal(moveaxis(x, (axis1, axis2), (-2, -1)), offset)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The places of the main diagonal of an array of ndim axes of size n.

    >>> diag_indices(2)
    (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    size, axes = as_size(n), operator.index(ndim)
    if size < 0:
        raise ValueError(f"n argument to diag_indices must be nonnegative, got {n}")
    if axes < 0:
        raise ValueError(f"ndim argument to diag_indices must be nonnegative, got {ndim}")
    return (arange(size, dtype=_operands.index_dtype()),) * axes


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """The places of the main diagonal of an array, whose axes have one size.

    >>> len(diag_indices_from(np.zeros((2, 2))))
    2
    """
    shape = _operands.operand("diag_indices_from", arr).shape
    if len(shape) < 2:
        raise ValueError("input array must be at least 2-d")
    if any(n != shape[0] for n in shape):
        raise ValueError(f"All dimensions of input must be of equal length, got shape {shape}")
    return diag_indices(shape[0], len(shape))


def _symbolic_triangle(mask: Any, n: Any, k: int, m: Any) -> tuple[Any, Any] | None:
    """The places of a triangle of symbolic size, where there is a formula for their number; None
    for known sizes."""
    if not is_symbolic(n) or k or (m is not None and m != n):
        return None
    rows, columns = nonzero(mask(ones((n, n), np.bool_)), size=n * (n + 1) // 2)
    return rows, columns


def _triangle(places: tuple[np.ndarray[Any, Any], ...]) -> tuple[Any, Any]:
    rows, columns = places
    return asarray(rows.astype(_operands.index_dtype())), asarray(
        columns.astype(_operands.index_dtype())
    )


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The places on and below the k-th diagonal of an n x m array.

    >>> [i.tolist() for i in tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    return _symbolic_triangle(tril, n, k, m) or _triangle(
        np.tril_indices(operator.index(n), operator.index(k), m)
    )


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The places on and above the k-th diagonal of an n x m array.

    >>> [i.tolist() for i in triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return _symbolic_triangle(triu, n, k, m) or _triangle(
        np.triu_indices(operator.index(n), operator.index(k), m)
    )


def _plane(name: str, arr: ArrayLike) -> tuple[Any, ...]:
    shape: tuple[Any, ...] = np.shape(_operands.operand(name, arr))
    if len(shape) != 2:
        raise ValueError(f"Only 2-D inputs are accepted, got shape {shape}")
    return shape


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """The places on and below the k-th diagonal of an array of two axes.

    >>> [i.tolist() for i in tril_indices_from(np.zeros((2, 2)))]
    [[0, 1, 1], [0, 0, 1]]
    """
    n, m = _plane("tril_indices_from", arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """The places on and above the k-th diagonal of an array of two axes.

    >>> [i.tolist() for i in triu_indices_from(np.zeros((2, 2)))]
    [[0, 0, 1], [0, 1, 1]]
    """
    n, m = _plane("triu_indices_from", arr)
    return triu_indices(n, k, m)


def fill_diagonal(
    a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True
) -> Array:
    """a with its main diagonal replaced by a value, or values in turn; `inplace` must be False.

    >>> fill_diagonal(np.zeros((2, 2)), 5, inplace=False).tolist()
    [[5.0, 0.0], [0.0, 5.0]]
    """
    if inplace:
        raise NotImplementedError("JAX arrays are immutable, must use inplace=False")
    if wrap:
        raise NotImplementedError(
            "wrap=True is not implemented, must use wrap=False\n"
            "  Set the elements that are wrapped to with a.at[rows, columns].set(val)."
        )
    x, value = _operands.operands("fill_diagonal", a, val)
    if x.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if x.ndim > 2 and len(set(x.shape)) != 1:
        raise ValueError(f"All dimensions of input must be of equal length, got shape {x.shape}")
    n = functools.reduce(min_dim, x.shape)
    if n == 0 or value.size == 0:
        return x
    values = ravel(value)[_operands.positions(n) % value.size] if value.ndim else value
    return x.at[(_operands.positions(n),) * x.ndim].set(values)


def ix_(*args: object) -> tuple[Array, ...]:
    """Index arrays that name the block of all combinations of places, one array for each axis;
    masks give where they hold.

    >>> [i.shape for i in ix_(np.array([0, 2]), np.array([1, 2, 3]))]
    [(2, 1), (1, 3)]
    """
    out = []
    for i, x in enumerate(_operands.operands("ix", *args)):
        if x.ndim != 1:
            raise ValueError(
                f"Arguments to jax.numpy.ix_ must be 1-dimensional, got shape {x.shape}"
            )
        if x.dtype == np.bool_:
            known = _operands.concrete(x, "ix_", "a mask must be known")
            x = asarray(known.nonzero()[0].astype(_operands.index_dtype()))
        elif x.size == 0:
            x = convert(x, _operands.index_dtype())
        out.append(
            reshape(x, (1,) * i + (-1,) + (1,) * (len(args) - i - 1))
            if x.size
            else _structure.reshape(x, (1,) * i + (0,) + (1,) * (len(args) - i - 1))
        )
    return tuple(out)


def unravel_index(indices: ArrayLike, shape: Shape) -> tuple[Array, ...]:
    """The places by axis of places in the flattened array of a shape; those outside are moved
    inside.

    >>> [int(i) for i in unravel_index(5, (2, 3))]
    [1, 2]
    """
    places = _operands.operand("unravel_index", indices)
    sizes = tuple(shape) if isinstance(shape, Sequence) else _operands.several(shape)
    if not dtypes.issubdtype(places.dtype, np.integer):
        raise TypeError(f"unravel_index: indices must be integers, got {places.dtype}")
    kind = dtypes.result_type(
        places, *(n for n in sizes if not is_symbolic(n)), return_weak_type_flag=True
    )
    if any(isinstance(n, Tracer) for n in sizes):
        return tuple(_unravel_traced(places, _operands.operands("unravel_index", *sizes), kind))
    return tuple(_unravel(places, tuple(map(as_size, sizes)), kind))


@fast(static=("kind",))
def _unravel_traced(places: Array, sizes: Sequence[Array], kind: tuple[Any, bool]) -> Any:
    """As `_unravel`, of a shape that is known only when the program runs."""
    dtype = _counting_dtype(places)
    sizes = [_structure.convert_element_type(n, dtype) for n in sizes]
    return _by_axis(
        places, sizes, kind, lambda n, least: _elementwise.max(n, _structure.number(least, dtype))
    )


@fast(static=("shape", "kind"))
def _unravel(places: object, shape: tuple[int, ...], kind: tuple[Any, bool]) -> Any:
    dtype = _counting_dtype(places)
    return _by_axis(
        places, shape, kind, lambda n, least: _operands.size_as(max_dim(n, least), dtype)
    )


def _counting_dtype(places: Any) -> Any:
    return places.dtype if places.dtype.itemsize >= 4 else np.dtype(np.int32)


def _by_axis(
    places: object,
    sizes: Sequence[Size | Array],
    kind: tuple[Any, bool],
    at_least: Callable[[Any, int], Any],
) -> Any:
    """kind: the dtype of the results, and whether it is weak. at_least(size, number): the greater
    one, as an array."""
    dtype = _counting_dtype(places)
    flat, total = _structure.convert_element_type(places, dtype), math.prod(sizes)
    flat = where(flat < 0, flat + total, flat)
    flat = _elementwise.clamp(_structure.number(0, dtype), flat, at_least(total - 1, 0))
    out = []
    for n in reversed(sizes):
        out.append(_structure.convert_element_type(flat % at_least(n, 1), *kind))
        flat = flat // at_least(n, 1)
    return out[::-1]


def ravel_multi_index(
    multi_index: Sequence[object],
    dims: Sequence[int],
    mode: str | tuple[str, ...] | list[str] = "raise",
    order: str = "C",
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """The places in the flattened array of places by axis.

    mode: the treatment of places outside: "raise" (needs known values), "clip", "wrap", or
    "ignore": nothing; one for all axes or one for each.
    order: "C": the last axis runs fastest; "F": the first.
    dtype: by default the common dtype of the places by axis.
    Raises ValueError if dtype does not hold the greatest place.

    >>> int(ravel_multi_index((1, 2), (2, 3)))
    5
    """
    if len(multi_index) != len(dims):
        raise ValueError(f"len(multi_index)={len(multi_index)} != len(dims)={len(dims)}")
    sizes = tuple(
        operator.index(_operands.concrete(n, "ravel_multi_index", "dims must be known")[()])
        for n in dims
    )
    places = _operands.operands("ravel_multi_index", *multi_index)
    for p in places:
        if not dtypes.issubdtype(p.dtype, np.integer):
            raise TypeError("only int indices permitted")
    modes = tuple(mode) if isinstance(mode, tuple | list) else (mode,) * len(sizes)
    if any(m not in ("raise", "clip", "wrap", "ignore") for m in modes):
        raise ValueError(f"invalid mode={mode!r}. Expected 'raise', 'wrap', 'clip', or 'ignore'.")
    if order not in ("C", "F"):
        raise ValueError(f"invalid order={order!r}. Expected 'C' or 'F'")
    for p, n, m in zip(places, sizes, modes, strict=True):
        if m == "raise":
            known = _operands.concrete(
                p,
                "ravel_multi_index",
                "The error occurred because ravel_multi_index was jit-compiled with "
                "mode='raise'. Use mode='wrap' or mode='clip' instead.",
            )
            if np.any((known < 0) | (known >= n)):
                raise ValueError(
                    f"invalid entry in coordinates array\n    multi_index: {known.tolist()}, of "
                    f"an axis of size {n}"
                )
    wanted = (
        dtypes.result_type(*places)
        if dtype is None and multi_index
        else _operands.index_dtype()
        if dtype is None
        else dtypes.check_user_dtype_supported(dtype, "ravel_multi_index")
    )
    if math.prod(sizes) - 1 > dtypes.iinfo(wanted).max:
        raise ValueError(
            f"jnp.ravel_multi_index: dtype={wanted!r} not large enough to hold flattened index "
            f"for dims={sizes}.\n  dtype=np.min_scalar_type({math.prod(sizes)}) is."
        )
    return _ravel(places, sizes, modes, order, wanted)


@fast(static=("sizes", "modes", "order", "dtype"))
def _ravel(
    places: Any, sizes: tuple[int, ...], modes: tuple[str, ...], order: str, dtype: Any
) -> Any:
    shape = broadcast_shapes("ravel_multi_index", [p.shape for p in places]) if places else ()
    out = _structure.full(shape, 0, dtype)
    stride = 1
    for i in range(len(sizes)) if order == "F" else reversed(range(len(sizes))):
        p, n = convert(places[i], dtype), sizes[i]
        if modes[i] == "wrap":
            p = p % n
        elif modes[i] == "clip":
            p = _elementwise.clamp(_structure.number(0, dtype), p, _structure.number(n - 1, dtype))
        out = out + _operands.broadcast_value(p, shape) * _structure.number(stride, dtype)
        stride *= n
    return out


def _range(s: slice, name: str) -> Any:
    """The numbers that a slice stands for: start:stop:step, or start:stop:nj for n numbers with
    both ends."""
    for part in ("start", "stop", "step"):
        v = getattr(s, part)
        if isinstance(v, Tracer) and v.concrete() is None:
            raise errors.ConcretizationTypeError(v, f"It is the slice {part} of jnp.{name}.")
    start, step = (0 if s.start is None else s.start), (1 if s.step is None else s.step)
    if isinstance(step, complex):
        return asarray(np.linspace(start, s.stop, int(abs(step))))
    return arange(start, s.stop, step)


@final
class _Grid:
    """mgrid and ogrid: grids of the numbers that slices stand for; of full shape, or open to
    broadcast."""

    def __init__(self, *, sparse: bool) -> None:
        self.sparse, self.name = sparse, "ogrid" if sparse else "mgrid"

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _range(key, self.name)
        with numpy_dtype_promotion(
            "standard"
        ):  # no line is an argument that the user would convert
            lines = (
                _operands.promoted(self.name, ANY, *(_range(s, self.name) for s in key))
                if key
                else []
            )
        n = len(lines)
        opened = [
            _structure.reshape(x, (1,) * i + x.shape + (1,) * (n - i - 1))
            for i, x in enumerate(lines)
        ]
        if self.sparse:
            return opened
        shape = tuple(x.shape[0] for x in lines)
        return (
            stack([_operands.broadcast_value(x, shape) for x in opened])
            if opened
            else asarray([], _operands.index_dtype())
        )


@final
class _Joiner:
    """r_ and c_: arrays, numbers and slices joined along an axis.

    A string first gives the axis, how many axes all get at least, and where the own axes of an
    array with fewer stand.
    """

    def __init__(self, name: str, axis: int, ndmin: int, place: int) -> None:
        self.name, self.defaults = name, (axis, ndmin, place)

    def __getitem__(self, key: Any) -> Any:
        entries = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, place = self.defaults
        as_matrix = None
        if entries and isinstance(entries[0], str):
            directive = entries.pop(0)
            if directive in ("r", "c"):
                as_matrix = directive
            else:
                try:
                    given = [int(v) for v in directive.split(",")]
                except ValueError:
                    raise ValueError(
                        f"could not understand directive {directive!r}\n"
                        "  'r', 'c', or up to three integers, separated by commas."
                    ) from None
                if len(given) > 3:
                    raise ValueError(
                        f"string directive {directive!r}: expected at most three integers"
                    )
                axis, ndmin, place = (*given, *self.defaults[len(given) :])
        parts = [
            _at_least(_range(e, self.name) if isinstance(e, slice) else asarray(e), ndmin, place)
            for e in entries
        ]
        if as_matrix is None:
            return concatenate(parts, axis)
        flat = concatenate(parts, axis)
        if flat.ndim > 1:
            return flat
        return reshape(flat, (1, -1) if as_matrix == "r" else (-1, 1))


def _at_least(x: Array, ndmin: int, place: int) -> Any:
    """An array with new axes so that it has ndmin or more; its own ones stand from `place` on."""
    ndmin = max(ndmin, 1)
    missing = ndmin - x.ndim
    if missing <= 0:
        return x
    at = place if place >= 0 else place + missing + 1
    at = min(max(at, 0), missing)
    return _structure.reshape(x, (1,) * at + x.shape + (1,) * (missing - at))


mgrid, ogrid = _Grid(sparse=False), _Grid(sparse=True)
r_, c_ = _Joiner("r_", 0, 1, -1), _Joiner("c_", -1, 2, 0)
