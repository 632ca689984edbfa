"""Products of vectors, matrices and tensors."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike, DTypeLike
from teucer.lax import _dot, _joining, _slicing, _structure
from teucer.lax import _elementwise as lax
from teucer.numpy import _promotion as promotion
from teucer.numpy._library import at_once, converting, fast
from teucer.numpy._ufuncs import is_kind

if TYPE_CHECKING:
    from teucer._core.typing import Axes
    from teucer._devices.specs import OutSharding
    from teucer.lax._precision import PrecisionLike

__all__ = [
    "cross", "dot", "inner", "kron", "matmul", "matvec", "outer", "tensordot", "vdot", "vecdot",
    "vecmat",
]  # fmt: skip


def product(
    x: Any, y: Any, dimension_numbers: Any, precision: Any, preferred: Any, out_sharding: Any = None
) -> Any:
    """`dot_general`, weakly typed only where both operands are and no dtype was asked for."""
    weak = typeof(x).weak_type and typeof(y).weak_type and preferred is None
    if preferred is None and typeof(x).dtype == typeof(y).dtype:
        preferred = typeof(x).dtype
    out = _dot.dot_general(x, y, dimension_numbers, precision, preferred, out_sharding=out_sharding)
    return _structure.convert_element_type(out, typeof(out).dtype, weak)


def _contracted(name: str, x: Array, i: int, y: Array, j: int) -> None:
    """Raise TypeError if the contracted axes differ in size."""
    if np.shape(x)[i] != np.shape(y)[j]:
        raise TypeError(
            "dot_general requires contracting dimensions to have the same shape, got "
            f"({np.shape(x)[i]},) and ({np.shape(y)[j]},).\n"
            f"    {name}: contracted axes differ in size\n"
            f"    x: {typeof(x).str_short(short_dtypes=True)}, axis {i}\n"
            f"    y: {typeof(y).str_short(short_dtypes=True)}, axis {j}"
        )


@fast(static=("precision", "preferred_element_type", "out_sharding"))
def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """The product over the last axis of a and the last but one of b, or the only one of b; a * b if
    one is a scalar.

    a: T[..., n], b: T[..., n, m] or T[n]  -> the other axes of a, then the other axes of b.
    Operands meet in one dtype. The result has it unless preferred_element_type says another.
    Raises TypeError if the contracted axes differ in size.

    >>> dot(np.float32([1, 2]), np.float32([3, 4]))
    Array(11., dtype=float32)
    """
    promotion.check_arraylike("dot", a, b)
    x, y = promotion.promote_dtypes("dot", promotion.ANY, a, b)
    x_ndim, y_ndim = np.ndim(x), np.ndim(y)
    if not x_ndim or not y_ndim:
        contract: Any = ((), ())
    else:
        contract = ((x_ndim - 1,), (max(0, y_ndim - 2),))
        _contracted("dot", x, x_ndim - 1, y, max(0, y_ndim - 2))
    return product(x, y, (contract, ((), ())), precision, preferred_element_type, out_sharding)


@fast(static=("precision", "preferred_element_type", "out_sharding"))
def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Matrix product of the last two axes; the axes before them broadcast. A vector is a row on the
    left, a column on the right.

    a: T[..., n, k] or T[k]; b: T[..., k, m] or T[k]  ->  T[..., n, m], without the axis of a
    vector.
    Raises ValueError for scalars and leading axes that do not broadcast, TypeError if contracted
    axes differ in size.

    >>> matmul(np.float32([[1, 2], [3, 4]]), np.float32([1, 1]))
    Array([3., 7.], dtype=float32)
    """
    promotion.check_arraylike("matmul", a, b)
    for i, v in enumerate((a, b)):
        if np.ndim(v) < 1:
            raise ValueError(
                f"matmul input operand {i} must have ndim at least 1, but it has ndim 0"
            )
    x, y = promotion.promote_dtypes("matmul", promotion.ANY, a, b)
    x_ndim, y_ndim = np.ndim(x), np.ndim(y)
    x_axis, y_axis = x_ndim - 1, max(0, y_ndim - 2)
    _contracted("matmul", x, x_axis, y, y_axis)
    if x_ndim <= 2 and y_ndim <= 2:
        return product(
            x,
            y,
            (((x_axis,), (y_axis,)), ((), ())),
            precision,
            preferred_element_type,
            out_sharding,
        )
    return _batched_matmul(x, y, precision, preferred_element_type, out_sharding)


def _batched_matmul(
    x: Array, y: Array, precision: PrecisionLike, preferred: object, out_sharding: OutSharding
) -> Any:
    """The product of stacks of matrices. Axes of only one operand are not repeated in the other,
    but multiplied out."""
    x_lead, y_lead = np.shape(x)[:-2], np.shape(y)[:-2]
    try:
        lead = promotion.broadcast_shapes("matmul", (x_lead, y_lead))
    except (TypeError, ValueError) as err:
        raise ValueError(
            f"Incompatible types for matmul arguments: {typeof(x)} and {typeof(y)}\n"
            "  The axes before the last two must broadcast together."
        ) from err
    n = len(lead)
    x_at, y_at = n - len(x_lead), n - len(y_lead)

    def held(v_lead: Any, at: int) -> list[int]:
        return [i for i in range(n) if i >= at and (v_lead[i - at] != 1 or lead[i] == 1)]

    x_held, y_held = held(x_lead, x_at), held(y_lead, y_at)
    x = _structure.reshape(x, (*(lead[i] for i in x_held), *np.shape(x)[max(0, np.ndim(x) - 2) :]))
    y = _structure.reshape(y, (*(lead[i] for i in y_held), *np.shape(y)[max(0, np.ndim(y) - 2) :]))
    both = [i for i in x_held if i in y_held]
    batch = (tuple(x_held.index(i) for i in both), tuple(y_held.index(i) for i in both))
    contract = (
        (np.ndim(x) - 1,),
        (max(0, np.ndim(y) - 2) if np.ndim(y) - len(y_held) == 2 else np.ndim(y) - 1,),
    )
    out = product(x, y, (contract, batch), precision, preferred, out_sharding)
    # The result has: both, only x, row of x, only y, column of y.
    x_row, y_column = np.ndim(x) - len(x_held) == 2, np.ndim(y) - len(y_held) == 2
    names: list[Any] = [
        *both,
        *(i for i in x_held if i not in both),
        *(["row"] if x_row else []),
        *(i for i in y_held if i not in both),
        *(["column"] if y_column else []),
    ]
    wanted = [i for i in range(n) if i in names] + ["row"] * x_row + ["column"] * y_column
    out = _structure.transpose(out, tuple(names.index(i) for i in wanted))
    tail = np.shape(out)[len(wanted) - x_row - y_column :]
    return _structure.reshape(out, (*lead, *tail))


@fast(static=("precision", "preferred_element_type"))
def vdot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The sum of conj(a) * b over all elements.

    Raises TypeError if they differ in number.

    >>> vdot(np.complex64([1j]), np.complex64([1j]))
    Array(1.+0.j, dtype=complex64)
    """
    promotion.check_arraylike("vdot", a, b)
    x, y = (_structure.reshape(promotion.as_value(v), (math.prod(np.shape(v)),)) for v in (a, b))
    x = lax.conj(x) if is_kind(x, np.complexfloating) else x
    return dot.__wrapped__(x, y, precision=precision, preferred_element_type=preferred_element_type)


@fast(static=("precision", "preferred_element_type"))
def inner(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The product over the last axes of a and b; a * b if one of them is a scalar.

    Raises TypeError if the last axes differ in size.

    >>> inner(np.float32([1, 2]), np.float32([3, 4]))
    Array(11., dtype=float32)
    """
    promotion.check_arraylike("inner", a, b)
    x, y = promotion.promote_dtypes("inner", promotion.ANY, a, b)
    axes: Any = ((np.ndim(x) - 1,), (np.ndim(y) - 1,)) if np.ndim(x) and np.ndim(y) else ((), ())
    if axes[0]:
        _contracted("inner", x, axes[0][0], y, axes[1][0])
    return product(x, y, (axes, ((), ())), precision, preferred_element_type)


@fast
def _outer(a: ArrayLike, b: ArrayLike) -> Any:
    x, y = promotion.promote(
        "outer",
        promotion.ANY,
        *(
            _structure.reshape(
                promotion.as_value(v), (math.prod(np.shape(v)), 1)[:: -1 if i else 1]
            )
            for i, v in enumerate((a, b))
        ),
    )
    return lax.bitwise_and(x, y) if typeof(x).dtype == np.bool_ else lax.mul(x, y)


@at_once(static=("out",))
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """All products of an element of a and one of b; both are flattened.

    >>> outer(np.int32([1, 2]), np.int32([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    promotion.refuse_out("outer", out)
    promotion.check_arraylike("outer", a, b)
    return _outer(a, b)


@converting
def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """The product over several axes: the last `axes` of a and the first of b, or the axes in two
    lists.

    Raises TypeError if axes is neither a number nor a pair, names different numbers of axes, or
    axes differ in size.

    >>> tensordot(np.ones((2, 3, 4), np.float32), np.ones((3, 4, 5), np.float32)).shape
    (2, 5)
    """
    promotion.check_arraylike("tensordot", a, b)
    pairs = _tensordot_axes(axes, np.shape(a), np.shape(b))
    return _tensordot(a, b, pairs, precision, preferred_element_type, out_sharding)


def _tensordot_axes(axes: Any, a_shape: Any, b_shape: Any) -> Any:
    a_ndim, b_ndim = len(a_shape), len(b_shape)
    if isinstance(axes, int | np.integer):
        n = operator.index(axes)
        if n < 0 or n > min(a_ndim, b_ndim):
            raise TypeError(
                f"Number of tensordot axes (axes {n}) exceeds input ranks ({a_shape} and {b_shape})"
            )
        return tuple(range(a_ndim - n, a_ndim)), tuple(range(n))
    if not isinstance(axes, tuple | list) or len(axes) != 2:
        raise TypeError(
            "tensordot axes argument must be an int, a pair of ints, or a pair of lists/tuples "
            f"of ints.\n    axes: {axes!r}"
        )
    if not all(isinstance(v, tuple | list) or hasattr(v, "__index__") for v in axes):
        raise TypeError(
            "tensordot requires both axes lists to be either ints, tuples or lists, got "
            f"{axes[0]} and {axes[1]}"
        )
    first, second = (
        tuple(v) if isinstance(v, tuple | list) else (operator.index(v),) for v in axes
    )
    if len(first) != len(second):
        raise TypeError(
            f"tensordot requires axes lists to have equal length, got {first} and {second}."
        )
    return (
        tuple(_structure.canonical_axis(i, a_ndim) for i in first),
        tuple(_structure.canonical_axis(i, b_ndim) for i in second),
    )


@fast(static=("axes", "precision", "preferred", "out_sharding"))
def _tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: tuple[Axes, Axes],
    precision: PrecisionLike,
    preferred: object,
    out_sharding: OutSharding,
) -> Any:
    x, y = promotion.promote_dtypes("tensordot", promotion.ANY, a, b)
    for i, j in zip(*axes, strict=True):
        _contracted("tensordot", x, i, y, j)
    return product(x, y, (axes, ((), ())), precision, preferred, out_sharding)


@fast(static=("axis", "precision", "preferred_element_type"))
def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The sum of conj(x1) * x2 along an axis; the other axes broadcast.

    Raises ValueError if the axes differ in size.

    >>> vecdot(np.float32([[1, 2], [3, 4]]), np.float32([1, 1]))
    Array([3., 7.], dtype=float32)
    """
    promotion.check_arraylike("vecdot", x1, x2)
    x, y = promotion.promote_dtypes("vecdot", promotion.ANY, x1, x2)
    i, j = (_structure.canonical_axis(axis, np.ndim(v)) for v in (x, y))
    if np.shape(x)[i] != np.shape(y)[j]:
        raise ValueError(
            f"axes must match; got shapes {np.shape(x)} and {np.shape(y)} with axis={axis}"
        )
    x, y = _structure.moveaxis(x, i, -1), _structure.moveaxis(y, j, -1)
    x = lax.conj(x) if is_kind(x, np.complexfloating) else x
    row, column = (
        _structure.reshape(x, (*np.shape(x)[:-1], 1, np.shape(x)[-1])),
        _structure.reshape(y, (*np.shape(y), 1)),
    )
    out = matmul.__wrapped__(
        row, column, precision=precision, preferred_element_type=preferred_element_type
    )
    return _structure.reshape(out, np.shape(out)[:-2])


@fast
def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Products of matrices and vectors: the last two axes of x1 and the last of x2; the other axes
    broadcast.

    >>> matvec(np.float32([[1, 2], [3, 4]]), np.float32([1, 1]))
    Array([3., 7.], dtype=float32)
    """
    promotion.check_arraylike("matvec", x1, x2)
    y = promotion.as_value(x2)
    out = matmul.__wrapped__(x1, _structure.reshape(y, (*np.shape(y), 1)))
    return _structure.reshape(out, np.shape(out)[:-1])


@fast
def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Products of conjugate vectors and matrices: the last axis of x1 and the last two of x2; the
    other axes broadcast.

    >>> vecmat(np.float32([1, 1]), np.float32([[1, 2], [3, 4]]))
    Array([4., 6.], dtype=float32)
    """
    promotion.check_arraylike("vecmat", x1, x2)
    x = promotion.as_value(x1)
    x = lax.conj(x) if is_kind(x, np.complexfloating) else x
    out = matmul.__wrapped__(_structure.reshape(x, (*np.shape(x)[:-1], 1, np.shape(x)[-1])), x2)
    return _structure.reshape(out, (*np.shape(out)[:-2], np.shape(out)[-1]))


@fast
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: each element of a times all of b, laid out block by block.

    >>> kron(np.int32([1, 2]), np.int32([1, 1]))
    Array([1, 1, 2, 2], dtype=int32)
    """
    promotion.check_arraylike("kron", a, b)
    x, y = promotion.promote_dtypes("kron", promotion.ANY, a, b)
    n = max(np.ndim(x), np.ndim(y))
    x_shape, y_shape = ((1,) * (n - np.ndim(v)) + tuple(np.shape(v)) for v in (x, y))
    x = _structure.reshape(x, tuple(d for size in x_shape for d in (size, 1)))
    y = _structure.reshape(y, tuple(d for size in y_shape for d in (1, size)))
    x, y = promotion.promote("kron", promotion.ANY, x, y)
    out = lax.bitwise_and(x, y) if typeof(x).dtype == np.bool_ else lax.mul(x, y)
    return _structure.reshape(out, tuple(p * q for p, q in zip(x_shape, y_shape, strict=True)))


@fast(static=("axisa", "axisb", "axisc", "axis"))
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """The cross product of vectors of 2 or 3 components along an axis. Two vectors of 2 components
    give the third component alone.

    Raises ValueError for vectors of other sizes.

    >>> cross(np.int32([1, 0, 0]), np.int32([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    promotion.check_arraylike("cross", a, b)
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promotion.promote_dtypes("cross", promotion.ANY, a, b)
    x, y = _structure.moveaxis(x, axisa, -1), _structure.moveaxis(y, axisb, -1)
    sizes = np.shape(x)[-1], np.shape(y)[-1]
    if any(size not in (2, 3) for size in sizes):
        raise ValueError(
            "Dimension must be either 2 or 3 for cross product\n"
            f"    a: {typeof(a).str_short()}, b: {typeof(b).str_short()}"
        )
    lead = promotion.broadcast_shapes("cross", [np.shape(v)[:-1] for v in (x, y)])
    p, q = ([_component(v, i, lead) for i in range(np.shape(v)[-1])] for v in (x, y))

    def minor(i: int, j: int) -> Any:
        terms = [
            lax.mul(p[s], q[t]) if s < len(p) and t < len(q) else None for s, t in ((i, j), (j, i))
        ]
        if terms[1] is None:
            return terms[0]
        return lax.neg(terms[1]) if terms[0] is None else lax.sub(terms[0], terms[1])

    if sizes == (2, 2):
        return minor(0, 1)
    parts = [_structure.reshape(minor(i, j), (*lead, 1)) for i, j in ((1, 2), (2, 0), (0, 1))]
    out = _joining.concatenate(parts, len(lead))
    return _structure.moveaxis(out, -1, axisc)


def _component(x: Array, i: int, lead: Sequence[int]) -> Any:
    """The i-th component of vectors along the last axis."""
    part = _at(x, i)
    return promotion.broadcast_to(part, lead) if np.shape(part) != tuple(lead) else part


def _at(x: Array, i: int) -> Any:
    return _structure.reshape(
        _slicing.slice_in_dim(x, i, i + 1, axis=np.ndim(x) - 1), np.shape(x)[:-1]
    )
