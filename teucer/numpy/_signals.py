"""Sequences.

Convolution, differences, gradients, areas, interpolation; and how variables vary together.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import Tracer, typeof
from teucer._core.typing import Array, ArrayLike, DTypeLike, Size
from teucer._dimensions.dimensions import is_size, is_symbolic, max_dim
from teucer.lax import _cumulative, _dot, _elementwise, _slicing, _structure
from teucer.lax._convolution import primitive as _convolution
from teucer.numpy import _ufuncs
from teucer.numpy._averages import average
from teucer.numpy._library import at_once, fast
from teucer.numpy._logic import where
from teucer.numpy._manipulation import flip, ravel
from teucer.numpy._operands import (
    axes_of,
    axis_of,
    broadcast_value,
    operand,
    positions,
    promoted,
    size_as,
)
from teucer.numpy._promotion import INEXACT, NUMERIC, broadcast_shapes, convert
from teucer.numpy._sorting import argsort, searchsorted
from teucer.numpy._stacking import concatenate

if TYPE_CHECKING:
    from teucer.lax._precision import PrecisionLike

__all__ = [
    "convolve", "corrcoef", "correlate", "cov", "diff", "ediff1d", "gradient", "interp",
    "trapezoid", "unwrap",
]  # fmt: skip


@at_once(static=("mode", "precision", "preferred_element_type"))
def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The convolution of two sequences: result[k] = sum of a[i] v[k - i].

    mode: "full": wherever they overlap; "same": as many elements as the longer one, of the middle;
    "valid": where they overlap wholly. Integers are converted to floats.
    Raises ValueError for empty arrays and those that have not one axis.

    >>> convolve(np.array([1., 2., 3.]), np.array([1., 1.])).tolist()
    [1.0, 3.0, 5.0, 3.0]
    """
    preferred = _preferred(preferred_element_type)
    x, y = promoted("convolve", _kind(preferred), a, v)
    _check_sequences("convolve", x, y, mode)
    return _convolve(x, y, mode, precision, preferred)


@at_once(static=("mode", "precision", "preferred_element_type"))
def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The correlation of two sequences: result[k] = sum of a[i + k] conj(v[i]). Modes as for
    `convolve`.

    >>> correlate(np.array([1., 2., 3.]), np.array([1., 0.])).tolist()
    [1.0, 2.0]
    """
    preferred = _preferred(preferred_element_type)
    x, y = promoted("correlate", _kind(preferred), a, v)
    _check_sequences("correlate", x, y, mode)
    if x.shape[0] >= y.shape[0]:
        return _convolve(x, flip(_ufuncs.conj(y)), mode, precision, preferred)
    return flip(_ufuncs.conj(_convolve(y, flip(_ufuncs.conj(x)), mode, precision, preferred)))


def _preferred(dtype: Any) -> Any:
    return None if dtype is None else dtypes.check_user_dtype_supported(dtype, "convolve")


def _kind(preferred: Any) -> str:
    """Integers stay integers if the result is to be of integers."""
    return (
        NUMERIC if preferred is not None and dtypes.issubdtype(preferred, np.integer) else INEXACT
    )


def _check_sequences(name: str, x: Array, y: Array, mode: str) -> None:
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(
            f"{name}() only support 1-dimensional inputs, got shapes {x.shape} and {y.shape}."
        )
    if 0 in (x.shape[0], y.shape[0]):
        raise ValueError(f"{name}: inputs cannot be empty, got shapes {x.shape} and {y.shape}.")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode must be one of ['full', 'same', 'valid'], got {mode!r}")


@fast(static=("mode", "precision", "preferred"))
def _convolve(x: Array, y: Array, mode: str, precision: Any, preferred: Any) -> Any:
    long, short = (x, y) if x.shape[0] >= y.shape[0] else (y, x)
    m = short.shape[0]
    padding = {"full": (m - 1, m - 1), "same": (m // 2, m - m // 2 - 1), "valid": (0, 0)}[mode]
    out = _convolution.conv_general_dilated(
        _structure.reshape(long, (1, 1, long.shape[0])),
        _structure.reshape(flip(short), (1, 1, m)),
        (1,),
        [padding],
        precision=precision,
        preferred_element_type=preferred,
    )
    return _structure.reshape(out, out.shape[2:])


@at_once(static=("n", "axis"))
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """The differences of neighbours along an axis, n times over; of booleans, whether they differ.

    prepend, append: values put before and after the others first.

    >>> diff(np.array([1, 4, 9])).tolist()
    [3, 5]
    """
    x = operand("diff", a)
    if x.ndim == 0:
        raise ValueError(f"diff requires input that is at least one dimensional; got {x.aval}")
    times = operator.index(n)
    if times == 0:
        return x
    if times < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    at = axis_of(x, axis)
    shape = tuple(1 if i == at else k for i, k in enumerate(x.shape))
    ends = [None if e is None else operand("diff", e) for e in (prepend, append)]
    ends = [broadcast_value(e, shape) if e is not None and e.ndim == 0 else e for e in ends]
    parts = [p for p in (ends[0], x, ends[1]) if p is not None]
    x = concatenate(parts, at) if len(parts) > 1 else x
    return _diff(x, times, at)


@fast(static=("times", "axis"))
def _diff(x: Array, times: int, axis: int) -> Any:
    difference = _elementwise.ne if x.dtype == np.bool_ else _elementwise.sub
    for _ in range(times):
        n = x.shape[axis]
        if n == 0:
            break
        x = difference(
            _slicing.slice_in_dim(x, 1, n, axis=axis), _slicing.slice_in_dim(x, 0, n - 1, axis=axis)
        )
    return x


def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """The differences of neighbours in the flattened array, with values put before and after them.

    >>> ediff1d(np.array([1, 4, 9]), to_begin=0).tolist()
    [0, 3, 5]
    """
    x = ravel(operand("ediff1d", ary))
    before, after = (
        None if e is None else convert(ravel(operand("ediff1d", e)), x.dtype)
        for e in (to_begin, to_end)
    )
    out = _elementwise.sub(x[1:], x[:-1])
    parts = [p for p in (before, out, after) if p is not None]
    return concatenate(parts) if len(parts) > 1 else out


@at_once(static=("axis", "edge_order"))
def gradient(
    f: ArrayLike,
    *varargs: ArrayLike,
    axis: int | Sequence[int] | None = None,
    edge_order: int | None = None,
) -> Array | list[Array]:
    """The derivative of f along each axis, by central differences of second order, one-sided at the
    ends.

    varargs: the distance of the elements: one number, or for each axis a number or the coordinates
    of its elements. Raises ValueError for an axis with fewer than two elements.

    >>> gradient(np.array([0., 1., 4.])).tolist()
    [1.0, 2.0, 3.0]
    """
    if edge_order is not None:
        raise NotImplementedError(
            "The 'edge_order' argument to jnp.gradient is not supported.\n"
            "  Leave it out: the differences at the edges are of first order."
        )
    x, *spacing = promoted("gradient", INEXACT, f, *varargs)
    axes = axes_of(x, axis)
    if len(spacing) not in (0, 1, len(axes)):
        raise TypeError(f"Invalid number of spacing arguments {len(spacing)} for axis={axis}")
    steps: list[Any] = (
        [1.0] * len(axes) if not spacing else spacing * len(axes) if len(spacing) == 1 else spacing
    )
    out = []
    for at, h in zip(axes, steps, strict=True):
        if x.shape[at] < 2:
            raise ValueError(
                "Shape of array too small to calculate a numerical gradient, at least 2 elements "
                "are required."
            )
        if np.ndim(h) > 1 or (np.ndim(h) == 1 and np.shape(h)[0] != x.shape[at]):
            raise ValueError(
                "gradient: distances must be numbers, or coordinates of each element along the "
                f"axis.\n    distances: shape {np.shape(h)}\n    axis {at} has size {x.shape[at]}"
            )
        out.append(_gradient(x, h, at))
    return out[0] if len(out) == 1 else out


@fast(static=("axis",))
def _gradient(x: Array, h: Array | float, axis: int) -> Any:
    n = x.shape[axis]

    def part(low: Size, high: Size) -> Array:
        return _slicing.slice_in_dim(x, low, high, axis=axis)

    if np.ndim(h) == 0:
        inner = (part(2, n) - part(0, n - 2)) * 0.5 / h
        first, last = (part(1, 2) - part(0, 1)) / h, (part(n - 1, n) - part(n - 2, n - 1)) / h
    else:
        shape = [1] * x.ndim
        shape[axis] = n - 1
        knots = operand("gradient", h)
        d = _structure.reshape(knots[1:] - knots[:-1], shape)
        before, after = (
            _slicing.slice_in_dim(d, 0, n - 2, axis=axis),
            _slicing.slice_in_dim(d, 1, n - 1, axis=axis),
        )
        # This difference is exact for quadratics, whatever the distances of the points.
        inner = (
            -after / (before * (before + after)) * part(0, n - 2)
            + (after - before) / (before * after) * part(1, n - 1)
            + before / (after * (before + after)) * part(2, n)
        )
        first = (part(1, 2) - part(0, 1)) / _slicing.slice_in_dim(d, 0, 1, axis=axis)
        last = (part(n - 1, n) - part(n - 2, n - 1)) / _slicing.slice_in_dim(
            d, n - 2, n - 1, axis=axis
        )
    return concatenate([first, inner, last], axis)


@at_once(static=("axis",))
def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """The area under y along an axis, by the trapezoidal rule; at places x, or dx apart.

    x, if it has one axis, are the places along the axis; else x, as dx, broadcasts with y.

    >>> float(trapezoid(np.array([1., 2., 3.])))
    4.0
    """
    if x is None:
        values, widths = promoted("trapezoid", INEXACT, *promoted("trapezoid", INEXACT, y), dx)
        values = (
            values if typeof(operand("trapezoid", y)).weak_type else convert(values, values.dtype)
        )
        return _area(values, widths, axis_of(values, axis), False)
    values, places = promoted("trapezoid", INEXACT, y, x)
    return _area(values, places, axis_of(values, axis), True)


@fast(static=("axis", "given"))
def _area(y: Array, x: Array, axis: int, given: bool) -> Any:
    if not given and not x.ndim and _is_long(y, axis):
        area = x * _sum_of_means(y, axis)
        return convert(area, area.dtype)
    behind = (
        axis - y.ndim
    )  # counted from the end, also for operands that broadcasting gives more axes
    if given and x.ndim == 1:
        x = _structure.reshape(_diff(x, 1, 0), (max_dim(x.shape[0] - 1, 0),) + (1,) * (-behind - 1))
    elif given:
        x = _diff(x, 1, axis_of(x, behind))
    before = (slice(None),) * axis
    pairs = y[(*before, slice(1, None))] + y[(*before, slice(None, -1))]
    shape = broadcast_shapes("trapezoid", [x.shape, pairs.shape])
    means = broadcast_value(x, shape) * broadcast_value(pairs, shape)
    area = _structure.reduce_sum(means, [means.ndim + behind]) * 0.5
    return convert(area, area.dtype)


def _is_long(y: Array, axis: int) -> bool:
    size = y.shape[axis]
    return not is_symbolic(size) and size > 1 and y.dtype.kind != "c"


def _sum_of_means(y: Array, axis: int) -> Any:
    """The sum of the means of neighbours: all, less half of the ends. Sums of slices would copy
    them."""
    before = (slice(None),) * axis
    ends = y[(*before, 0)] * 0.5 + y[(*before, -1)] * 0.5
    finite = where(_elementwise.is_finite(ends), ends, 0)
    return _structure.reduce_sum(y, [axis]) - finite


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: Any = None,
    right: Any = None,
    period: float | None = None,
) -> Array:
    """The values at x of the piecewise linear function through the points (xp, fp); xp ascends.

    left, right: the values before the first and after the last point (by default fp there), or
    "extrapolate".
    period: of a periodic function; xp need not ascend then.
    Raises ValueError unless xp and fp are sequences of one length.

    >>> interp(np.array([0.5, 9.]), np.array([0., 1.]), np.array([0., 4.])).tolist()
    [2.0, 4.0]
    """
    for name, side in (("left", left), ("right", right)):
        if isinstance(side, str) and side != "extrapolate":
            raise ValueError(
                f"the only valid string value of `{name}` is 'extrapolate', but got: {side!r}"
            )
    points = promoted("interp", INEXACT, x, xp, *(() if period is None else (period,)))
    (values,) = promoted("interp", INEXACT, fp)
    places, knots = points[:2]
    if any(operand("interp", v).dtype.kind == "c" for v in (x, xp)):
        raise ValueError(
            "jnp.interp: complex x values not supported, in x as in xp. Only fp may be complex."
        )
    if knots.ndim != 1 or knots.shape != values.shape:
        raise ValueError(
            f"xp and fp must be one-dimensional arrays of equal size\n    xp: {knots.shape}\n"
            f"    fp: {values.shape}"
        )
    if is_size("interp", knots.size, 0):
        raise ValueError("array of sample points is empty")
    if period is not None and np.ndim(period):
        raise ValueError(f"period must be a scalar; got {typeof(operand('interp', period))}")
    if period is not None and not isinstance(period, Tracer) and period == 0:
        raise ValueError(f"period must be a non-zero value; got {period}")
    beyond = tuple(
        s if isinstance(s, str) or s is None else operand("interp", s) for s in (left, right)
    )
    fixed = tuple(b for b in beyond if b is not None and not isinstance(b, str))
    rules = tuple("given" if b is not None and not isinstance(b, str) else b for b in beyond)
    return _interp(places, knots, values, points[2] if period is not None else None, fixed, rules)


@fast(static=("rules",))
def _interp(x: Any, xp: Any, fp: Any, period: Any, fixed: Any, rules: Any) -> Any:
    if period is not None:
        size = _ufuncs.abs(period)
        x, xp = x % size, xp % size
        order = argsort(xp)
        xp, fp = xp[order], fp[order]
        xp = concatenate([xp[-1:] - size, xp, xp[:1] + size])
        fp = concatenate([fp[-1:], fp, fp[:1]])
        rules = (None, None)
    n = xp.shape[0]
    if type(n) is int and n == 1:
        out = broadcast_value(fp[0], x.shape)
    else:
        # A size of one may be known only at run time. Both neighbours are then the same knot.
        place = convert(searchsorted(xp, x, "right"), np.dtype(np.int32))
        i = _elementwise.clamp(np.int32(1), place, size_as(n - 1, np.dtype(np.int32)))
        wide = np.dtype(np.float32) if x.dtype.itemsize < 4 else x.dtype
        low, high, at = (convert(v, wide) for v in (xp[i - 1], xp[i], x))
        width = high - low
        # XLA computes with 0 in the place of narrower numbers.
        flat = _ufuncs.abs(width) <= dtypes.finfo(wide).tiny
        # The derivative squares the width: both sides are scaled where that would vanish.
        large = 2 ** (int(dtypes.finfo(wide).maxexp) // 2 - 1)
        scale = where(
            _ufuncs.abs(width) * large ** (2 / 3) < 1,
            _structure.number(large, wide),
            _structure.number(1, wide),
        )
        slope = (fp[i] - fp[i - 1]) * scale / where(flat, 1, width * scale)
        out = where(flat, fp[i], fp[i - 1] + (at - low) * slope)
        out = convert(out, dtypes.promote_types(x.dtype, fp.dtype))
    given = iter(fixed)
    for rule, end, outside in ((rules[0], fp[0], x < xp[0]), (rules[1], fp[-1], x > xp[-1])):
        value = next(given) if rule == "given" else end
        if rule != "extrapolate":
            out = where(outside, value, out)
    return out


@at_once(static=("discont", "axis", "period"))
def unwrap(
    p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * np.pi
) -> Array:
    """p with jumps along an axis larger than discont (half the period by default) taken out by
    adding multiples of the period.

    >>> unwrap(np.array([0., 6.])).tolist()
    [0.0, -0.2831850051879883]
    """
    x = operand("unwrap", p)
    exact = dtypes.issubdtype(x.dtype, np.integer) and isinstance(period, int | np.integer)
    if not exact:
        is_bool = x.dtype == np.bool_
        x = convert(
            x, dtypes.canonicalize_dtype(float) if is_bool else dtypes.to_inexact_dtype(x.dtype)
        )
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        raise ValueError("jnp.unwrap does not support complex inputs.")
    if x.shape[axis_of(x, axis)] == 0:
        return x
    limit = operand("unwrap", period / 2 if discont is None else discont)
    return _unwrap(x, operand("unwrap", period), limit, axis_of(x, axis), exact)


@fast(static=("axis", "exact"))
def _unwrap(x: Array, period: Any, limit: Any, axis: int, exact: bool) -> Any:
    from_each = _diff(x, 1, axis)
    period = convert(period, x.dtype)
    low = -(period // 2) if exact else -period / 2
    turned = (from_each - low) % period + low
    edge = (period % 2 == 0) if exact else True
    turned = where(
        _elementwise.bitwise_and(turned == low, from_each > 0)
        if edge is True
        else (turned == low) & (from_each > 0) & edge,
        low + period,
        turned,
    )
    correction = where(_ufuncs.abs(from_each) < limit, 0, turned - from_each)
    first = _slicing.slice_in_dim(x, 0, 1, axis=axis)
    rest = _slicing.slice_in_dim(x, 1, x.shape[axis], axis=axis)
    return concatenate([first, rest + _cumulative.cumsum(convert(correction, x.dtype), axis)], axis)


@at_once(static=("rowvar", "bias", "ddof", "dtype"))
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """The covariance matrix of variables, which are the rows of m (the columns without rowvar), and
    of y.

    bias: divide by n, not by n - 1; ddof: by n - ddof. fweights: how often each observation counts;
    aweights: how much.

    >>> cov(np.array([[1., 2.], [3., 5.]])).tolist()
    [[0.5, 1.0], [1.0, 2.0]]
    """
    xs = [operand("cov", m)] + ([] if y is None else [operand("cov", y, 1)])
    if dtype is not None and not dtypes.issubdtype(dtype, np.inexact):
        raise ValueError(f"cov: dtype must be a subclass of float or complex; got dtype={dtype}")
    if any(x.ndim > 2 for x in xs):
        raise ValueError(
            "m has more than 2 dimensions" if xs[0].ndim > 2 else "y has more than 2 dimensions"
        )
    xs = promoted("cov", INEXACT, *xs)
    if dtype is not None:
        xs = [convert(x, dtypes.check_user_dtype_supported(dtype, "cov")) for x in xs]
    rows = [x if x.ndim == 2 else _structure.reshape(x, (1, x.size)) for x in xs]
    rows = [
        _structure.transpose(r, (1, 0)) if not rowvar and not is_size("cov", r.shape[0], 1) else r
        for r in rows
    ]
    table = concatenate(rows) if len(rows) > 1 else rows[0]
    if is_size("cov", table.shape[0], 0):
        return _structure.full((0, 0), 0, table.dtype)
    degrees = (0 if bias else 1) if ddof is None else ddof
    weights: list[Any] = []
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is None:
            weights.append(None)
            continue
        value = operand("cov", w)
        if value.ndim > 1:
            raise RuntimeError(f"cannot handle multidimensional {name}")
        if value.shape != (table.shape[1],):
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if name == "fweights" and not dtypes.issubdtype(value.dtype, np.integer):
            raise TypeError("fweights must be integer.")
        weights.append(_ufuncs.abs(value))
    return _covariance(table, weights[0], weights[1], operand("cov", degrees))


@fast
def _covariance(x: Any, frequencies: Any, importances: Any, ddof: Any) -> Any:
    real = dtypes.finfo(x.dtype).dtype
    frequencies, importances = (
        w if w is None or dtypes.issubdtype(w.dtype, np.inexact) else w.astype(real)
        for w in (frequencies, importances)
    )
    w = frequencies
    if importances is not None:
        w = importances if w is None else w * importances
    mean, total = average(x, 1, w, returned=True)
    total = total[0]
    if w is None or importances is None:
        factor = total - ddof
    else:
        factor = total - ddof * _structure.reduce_sum(w * importances, [0]) / total
    if w is not None and frequencies is None:
        factor = total - ddof * _structure.reduce_sum(w * w, [0]) / total
    # With no more observations than degrees of freedom there is no covariance, as in NumPy.
    factor = where(factor > 0, factor, 0) if not x.shape[1] else factor
    centred = x - _structure.reshape(mean, (x.shape[0], 1))
    other = centred if w is None else centred * _structure.reshape(w, (1, x.shape[1]))
    out = _dot.dot(centred, _structure.transpose(_ufuncs.conj(other), (1, 0))) / factor
    return _structure.reshape(out, ()) if is_size("cov", x.shape[0], 1) else out


@at_once(static=("rowvar", "dtype"))
def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike | None = None
) -> Array:
    """The correlation coefficients of variables; arguments as for `cov`.

    >>> corrcoef(np.array([[1., 2.], [2., 1.]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    if dtype is not None and not dtypes.issubdtype(dtype, np.inexact):
        raise ValueError(
            f"corrcoef: dtype must be a subclass of float or complex; got dtype={dtype}"
        )
    c = cov(x, y, rowvar, dtype=dtype)
    return _normalised(c) if c.ndim == 2 else c / c


@fast
def _normalised(c: Array) -> Any:
    n = c.shape[0]
    deviation = _elementwise.sqrt(_ufuncs.real(c[positions(n), positions(n)])).astype(c.dtype)
    out = c / _structure.reshape(deviation, (n, 1)) / _structure.reshape(deviation, (1, n))
    if dtypes.issubdtype(out.dtype, np.complexfloating):
        return _elementwise.complex(_bounded(_ufuncs.real(out)), _bounded(_ufuncs.imag(out)))
    return _bounded(out)


def _bounded(x: Array) -> Any:
    return _elementwise.clamp(_structure.number(-1, x.dtype), x, _structure.number(1, x.dtype))
