"""Places of the elements that are not zero: nonzero and its kin."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from teucer._core.typing import Array, ArrayLike
from teucer._dimensions.dimensions import is_symbolic
from teucer.lax import _cumulative, _elementwise, _joining, _reductions, _shapes, _structure
from teucer.lax._indexing import gather as _gather
from teucer.lax._indexing.numbers import ScatterDimensionNumbers
from teucer.lax._padding import dynamic_size
from teucer.numpy._creation import asarray
from teucer.numpy._library import fast
from teucer.numpy._logic import where
from teucer.numpy._manipulation import ravel
from teucer.numpy._operands import concrete, index_dtype, is_unknown, operand
from teucer.numpy._promotion import ANY, promote_dtypes

__all__ = ["argwhere", "flatnonzero", "nonzero"]

_SIZE = (
    "The size argument of jnp.{} must be statically specified to use jnp.{} within JAX "
    "transformations."
)


def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """The places of the elements that are not zero: for each axis an array of indices.

    size: how many are given, cut off or filled up with fill_value (0, or a number for each axis);
    needed where a is traced. Raises ValueError for an array without axes, ConcretizationTypeError
    for a traced one without size.

    >>> nonzero(np.array([[0, 1], [2, 0]]))
    (Array([0, 1], dtype=int32), Array([1, 0], dtype=int32))
    """
    x = operand("nonzero", a)
    if x.ndim == 0:
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use jnp.atleast_1d(scalar).nonzero() "
            "instead."
        )
    return places_of("nonzero", x, size, fill_value)


def places_of(
    name: str, x: Any, size: int | None, fill_value: Any, said: str | None = None
) -> tuple[Any, ...]:
    """`nonzero` for a function; said: the error if the size is not known."""
    if size is None and is_unknown(x):
        holds = x if x.dtype == np.bool_ else x != 0
        size = dynamic_size(
            _reductions.reduce_sum(_structure.convert_element_type(holds, np.int32), range(x.ndim)),
            x.size,
        )
    if size is None:
        known = concrete(x, name, said or _SIZE.format(name, name)).nonzero()
        return tuple(asarray(i.astype(index_dtype())) for i in known)
    count = (
        size
        if is_symbolic(size)
        else operator.index(concrete(size, name, "size must be a known integer")[()])
    )
    fill = (
        fill_value
        if isinstance(fill_value, tuple)
        else (0 if fill_value is None else fill_value,) * x.ndim
    )
    if len(fill) != x.ndim or any(np.ndim(f) for f in fill):
        raise ValueError(
            f"{name}: fill_value must be a number, or one for each of {x.ndim} axes, got "
            f"{fill_value}."
        )
    return tuple(_sized(x, fill, count))


@fast(static=("size",))
def _sized(x: Array, fill: Any, size: int) -> Any:
    flat = ravel(x)
    mask = flat if flat.dtype == np.bool_ else flat != 0
    n = mask.shape[0]
    dtype = index_dtype()
    # A fill value that is no integer makes floats, or complex numbers, of the places.
    fill = [where(False, _structure.full((size,), 0, dtype), f) for f in fill]
    if n == 0 or size == 0:
        return fill
    flags = _structure.convert_element_type(mask, np.int32)
    rank = _cumulative.cumsum(flags)
    target = _elementwise.select(mask, rank - 1, _structure.full((n,), size, np.int32))
    flat = _gather.scatter(
        _structure.full((size,), 0, np.int32),
        _structure.reshape(target, (n, 1)),
        _shapes.iota(np.int32, n),
        ScatterDimensionNumbers((), (0,), (0,)),
        mode="drop",
        unique_indices=False,
    )
    found = _shapes.iota(np.int32, size) < _structure.reduce_sum(flags, (0,))
    out = []
    for axis_size, filling in zip(reversed(x.shape), reversed(fill), strict=True):
        place = flat % axis_size if len(x.shape) > 1 else flat
        out.append(where(found, _structure.convert_element_type(place, dtype), filling))
        flat = flat // axis_size if len(x.shape) > 1 else flat
    return out[::-1]


def flatnonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The places of the elements of the flattened array that are not zero; size and fill_value as
    for `nonzero`.

    >>> flatnonzero(np.array([[0, 1], [2, 0]])).tolist()
    [1, 2]
    """
    return nonzero(ravel(operand("flatnonzero", a)), size=size, fill_value=fill_value)[0]


def argwhere(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The places of the elements that are not zero, a row each; size and fill_value as for
    `nonzero`.

    >>> argwhere(np.array([[0, 1], [2, 0]])).tolist()
    [[0, 1], [1, 0]]
    """
    x = operand("argwhere", a)
    if x.ndim == 0:
        flat = _structure.reshape(x, (1,))
        (places,) = places_of("nonzero", flat, size, None)
        return _structure.full((np.shape(places)[0], 0), 0, index_dtype())
    return _columns(promote_dtypes("argwhere", ANY, *places_of("argwhere", x, size, fill_value)))


@fast
def _columns(places: Any) -> Any:
    return _joining.concatenate([_structure.reshape(p, (p.shape[0], 1)) for p in places], 1)
