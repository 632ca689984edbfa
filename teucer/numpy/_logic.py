"""Comparison up to a tolerance, choice, and questions about kinds of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._base import dtypes
from teucer._core.trace import Tracer, typeof
from teucer._core.types import is_valid_type
from teucer._core.typing import Array, ArrayLike
from teucer.lax import _elementwise as lax
from teucer.lax import _reductions, _structure
from teucer.lax._families import scalar_like
from teucer.numpy import _creation
from teucer.numpy import _promotion as promotion
from teucer.numpy._library import fast
from teucer.numpy._ufuncs import constant, filled_like, is_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teucer._core.typing import Size

__all__ = [
    "allclose", "array_equal", "array_equiv", "clip", "iscomplex", "iscomplexobj", "isclose",
    "isreal", "isrealobj", "isscalar",
]  # fmt: skip


def _all(x: Array) -> Any:
    return _reductions.reduce_and(x, tuple(range(np.ndim(x)))) if np.ndim(x) else x


def _close(a: ArrayLike, b: ArrayLike, rtol: object, atol: object, equal_nan: bool) -> Any:
    x, y = promotion.promote("isclose", promotion.ANY, a, b)
    if not is_kind(x, np.inexact):
        if is_kind(x, np.bool_) or typeof(x).extended:
            return lax.eq(x, y)
        # Integers are compared as floats.
        wide = dtypes.to_inexact_dtype(typeof(x).dtype)
        x, y = (_structure.convert_element_type(v, wide) for v in (x, y))
    same = lax.eq(x, y)
    size = lax.abs(y)
    allowed = lax.add(_tolerance(size, atol), lax.mul(_tolerance(size, rtol), size))
    near = lax.bitwise_and(lax.le(lax.abs(lax.sub(x, y)), allowed), _finite(x))
    close = lax.bitwise_or(same, lax.bitwise_and(near, _finite(y)))
    return (
        lax.bitwise_or(close, lax.bitwise_and(lax.ne(x, x), lax.ne(y, y))) if equal_nan else close
    )


def _tolerance(like: object, value: Any) -> Any:
    return _structure.convert_element_type(value, typeof(like).dtype)


def _finite(x: ArrayLike) -> Any:
    if is_kind(x, np.complexfloating):
        return lax.bitwise_and(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
    return lax.is_finite(x)


@fast(static=("equal_nan",))
def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Whether |a - b| <= atol + rtol |b|; equal infinities are close, nan only if equal_nan.

    a, b: numbers, which broadcast to one shape  ->  bool[shape]

    >>> isclose(1.0, 1.000001)
    Array(True, dtype=bool)
    """
    promotion.check_arraylike("isclose", a, b)
    return _close(a, b, rtol, atol, equal_nan)


@fast(static=("equal_nan",))
def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Whether all elements are close, as `isclose` has it.

    >>> allclose(np.float32([1, 2]), np.float32([1, 2]))
    Array(True, dtype=bool)
    """
    promotion.check_arraylike("allclose", a, b)
    return _all(_close(a, b, rtol, atol, equal_nan))


@fast(static=("equal_nan",))
def _array_equal(a: Array, b: Array, equal_nan: bool) -> Any:
    x, y = promotion.promote("array_equal", promotion.ANY, a, b)
    same = lax.eq(x, y)
    same = lax.bitwise_or(same, lax.bitwise_and(lax.ne(x, x), lax.ne(y, y))) if equal_nan else same
    return lax.convert_element_type(_all(same), np.dtype(bool))


def array_equal(
    a1: ArrayLike | Sequence[Any], a2: ArrayLike | Sequence[Any], equal_nan: bool = False
) -> Array:
    """Whether two arrays, or objects that can be made into arrays, have one shape and equal
    elements.

    >>> array_equal([1, 2], [1, 2])
    Array(True, dtype=bool)
    """
    a, b = _creation.asarray(a1), _creation.asarray(a2)
    if a.shape != b.shape:
        return _creation.array(False)
    return _array_equal(a, b, equal_nan)


def array_equiv(a1: ArrayLike | Sequence[Any], a2: ArrayLike | Sequence[Any]) -> Array:
    """Whether two arrays broadcast to one shape and are then equal.

    >>> array_equiv([1, 1], 1)
    Array(True, dtype=bool)
    """
    a, b = _creation.asarray(a1), _creation.asarray(a2)
    try:
        promotion.broadcast_shapes("array_equiv", (a.shape, b.shape))
    except (TypeError, ValueError):
        return _creation.array(False)
    return _array_equal(a, b, False)


# Choice


@fast
def _clip(x: ArrayLike, low: ArrayLike | None, high: ArrayLike | None) -> Any:
    promotion.check_arraylike("clip", x)
    for bound in (x, low, high):
        if bound is not None and is_kind(bound, np.complexfloating):
            raise ValueError(
                "Clip received a complex value either through the input or the min/max keywords. "
                "Complex values have no ordering and cannot be clipped.\n"
                "  Clip jnp.real(x) and jnp.imag(x)."
            )
    x = promotion.as_value(x)
    if low is not None:
        x = lax.max(*promotion.promote("maximum", promotion.ANY, low, x))
    if high is not None:
        x = lax.min(*promotion.promote("minimum", promotion.ANY, high, x))
    return x


def clip(
    arr: ArrayLike | None = None, /, min: ArrayLike | None = None, max: ArrayLike | None = None
) -> Array:
    """arr brought between min and max, each of which may be None; nan stays.

    arr, min, max: real numbers, which meet in one dtype and shape. Where min > max the result is
    max. Raises ValueError for complex numbers.

    >>> clip(np.float32([-1, 0.5, 3]), 0, 1)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    if arr is None:
        raise ValueError("At most one of min, max and arr may be None: no array given to clip.")
    promotion.check_arraylike("clip", *[x for x in (arr, min, max) if x is not None])
    return _clip(arr, min, max)


@fast
def where(condition: Any, x: Any, y: Any) -> Any:
    """`where` with its three arguments."""
    promotion.check_arraylike("where", condition, x, y)
    pred = promotion.as_value(condition)
    if typeof(pred).dtype != np.bool_:
        pred = lax.ne(pred, scalar_like(pred, 0))
    a, b = promotion.promote_dtypes("where", promotion.ANY, x, y)
    shapes = [np.shape(v) for v in (pred, a, b)]
    try:
        shape = promotion.broadcast_shapes("where", shapes)
    except (TypeError, ValueError) as err:
        raise ValueError(f"where: Incompatible shapes for broadcasting: shapes={shapes}") from err
    pred, a, b = promotion.alike_before_repeated(pred, a, b)
    if not np.shape(pred):
        return lax.select(pred, *(_in_shape(v, shape) for v in (a, b)))
    return lax.select(promotion.broadcast_to(pred, shape), _in_shape(a, shape), _in_shape(b, shape))


def _in_shape(x: ArrayLike, shape: Sequence[Size]) -> Any:
    return x if not shape else promotion.broadcast_to(x, shape)


# Kinds of numbers


@fast
def iscomplex(x: ArrayLike) -> Array:
    """Whether elements have an imaginary part other than 0.

    >>> iscomplex(1 + 2j)
    Array(True, dtype=bool, weak_type=True)
    """
    promotion.check_arraylike("iscomplex", x)
    if not is_kind(x, np.complexfloating):
        return filled_like(x, False, typeof(x).weak_type and not np.ndim(x))
    part = lax.imag(x)
    return lax.ne(part, constant(part, 0))


@fast
def isreal(x: ArrayLike) -> Array:
    """Whether elements have no imaginary part other than 0.

    >>> isreal(1 + 2j)
    Array(False, dtype=bool, weak_type=True)
    """
    promotion.check_arraylike("isreal", x)
    return lax.bitwise_not(iscomplex.__wrapped__(x))


def iscomplexobj(x: Any) -> bool:
    """Whether x is complex by its dtype.

    >>> iscomplexobj(1 + 0j)
    True
    """
    if x is None:
        return False
    if isinstance(x, list | tuple):
        return any(map(iscomplexobj, x))
    try:
        dtype = typeof(x).dtype
    except TypeError:
        dtype = np.asarray(x).dtype
    return dtypes.issubdtype(dtype, np.complexfloating)


def isrealobj(x: ArrayLike) -> bool:
    """Whether x is not complex by its dtype.

    >>> isrealobj(1.0)
    True
    """
    return not iscomplexobj(x)


def isscalar(element: object) -> bool:
    """Whether the element is a number, or an array without axes.

    >>> isscalar(3.0), isscalar([3.0])
    (True, False)
    """
    if isinstance(element, ArrayImpl | Tracer) or (
        not isinstance(element, np.ndarray) and hasattr(element, "__jax_array__")
    ):
        return np.ndim(promotion.as_value(element)) == 0
    return (
        bool(np.isscalar(element)) and (is_valid_type(element) or isinstance(element, str | bytes))
    ) or (isinstance(element, np.ndarray) and element.ndim == 0)
