"""Prefixes combined: cumsum, cumprod, cummax, cummin, cumlogsumexp."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import dtypes
from teucer._core import dialects
from teucer._core.primitive import Primitive
from teucer._core.trace import typeof
from teucer._core.typing import Array
from teucer._devices.partition import Labels, whole
from teucer._dimensions.dimensions import max_dim
from teucer._hlo import rare_hlo
from teucer.lax import _elementwise, _structure
from teucer.lax._associative import prefixes
from teucer.lax._families import INEXACT, NUMERIC, Accepts
from teucer.lax._identities import identity_of
from teucer.lax._reductions import scalar_body
from teucer.lax._selection import where_else
from teucer.lax._shapes import rev

if TYPE_CHECKING:
    from teucer._core.primitive import Axis, Undefined
    from teucer._core.types import ShapedArray
    from teucer._core.typing import ArrayLike, Arrays, Avals
    from teucer._dynamic.padding import Sizes
    from teucer._lower.context import Context
    from teucer._lower.value import Value

__all__ = [
    "cumlogsumexp", "cumlogsumexp_p", "cummax", "cummax_p", "cummin", "cummin_p", "cumprod",
    "cumprod_p", "cumsum", "cumsum_p",
]  # fmt: skip


class Cumulative(Primitive):
    """The prefixes of x along an axis (suffixes if reverse), each combined by an associative
    operation.

    (C1) axis is not negative.  (C2) it is one of x.  (C3) the dtype is accepted.
    tangent: combines two lists [value, tangent]; the scan by it gives the tangent of the result.
    """

    __slots__ = ()

    def __init__(
        self,
        name: str,
        accepts: Accepts,
        body: Callable[[Context], Callable[..., Sequence[Value]]],
        start: Callable[[Any], Any],
        tangent: Callable[..., Sequence[object]] | None,
    ) -> None:
        self.name, self.accepts, self.body, self.start, self.tangent = (
            name,
            accepts,
            body,
            start,
            tangent,
        )

    def types(self, x: ShapedArray, *, axis: int, reverse: object) -> Any:
        if axis < 0:
            raise ValueError(
                f"{self.name}: XLA operations do not allow negative axes.\n    axis: {axis}"
            )
        if axis >= x.ndim:
            raise ValueError(f"axis {axis} is out of bounds for array of shape {x.shape}")
        if x.dtype not in self.accepts:
            kinds = "number" if self.accepts is NUMERIC else self.accepts
            raise TypeError(
                f"{self.name} does not accept dtype {x.dtype}. Accepted dtypes are subtypes of "
                f"{kinds}."
            )
        return (x,)

    def shard(self, x: ShapedArray, *, axis: int, **params: object) -> Any:
        labels = whole(x, (axis,))
        return Labels(
            [labels], [labels], whole="Input should be unsharded over the axis being reduced"
        )

    def lower(self, ctx: Context, x: Value, *, axis: int, reverse: bool) -> Any:
        n, ndim = x.shape[axis], len(x.shape)
        if n == 0:
            return (x,)
        n, ones = max_dim(n, 1), (1,) * ndim
        window = tuple(n if i == axis else 1 for i in range(ndim))
        padding = [
            ((0, n - 1) if reverse else (n - 1, 0)) if i == axis else (0, 0) for i in range(ndim)
        ]
        # XLA rewrites a window as wide as the axis into a tree of small ones: O(n log n) work.
        return rare_hlo.reduce_window(
            ctx,
            [x],
            [ctx.constant(self.start(x.dtype), x.dtype)],
            self.body(ctx),
            [x.aval],
            window=window,
            strides=ones,
            padding=padding,
            base_dilation=ones,
            window_dilation=ones,
        )

    def jvp(self, primals: Arrays, tangents: Arrays, *, axis: int, reverse: bool) -> Any:
        (x,), (t,) = primals, tangents
        if np.shape(x)[axis] == 0:
            return self.call(x, axis=axis, reverse=reverse), (t,)
        pair = [rev(z, (axis,)) if reverse else z for z in (x, t)]
        assert self.tangent is not None
        # The tangents need the prefixes in this order: windows would compute them once more.
        out, moved = [rev(z, (axis,)) if reverse else z for z in prefixes(self.tangent, pair, axis)]
        return (out,), (moved,)

    def batch(
        self, mapped: Axis, args: Arrays, dims: Sequence[int], /, *, axis: int, reverse: bool
    ) -> Any:
        return self.call(*args, axis=axis + (axis >= dims[0]), reverse=reverse), dims

    @dialects.padded.rule
    def padded(
        self, sizes: Sizes, args: Arrays, avals: Avals, outs: Arrays, *, axis: int, reverse: bool
    ) -> Any:
        (x,), (aval,) = args, avals
        # Padding behind the elements comes first in a backward scan.
        x = sizes.mask(x, aval, self.start(aval.dtype), (axis,)) if reverse else x
        return self.call(x, axis=axis, reverse=reverse)


@final
class CumulativeSum(Cumulative):
    """The running sum, which is linear."""

    __slots__ = ()
    linear_in = "sum"

    def jvp(self, primals: Sequence[Array], tangents: Sequence[object], **params: object) -> Any:
        return self.call(*primals, **params), self.call(*tangents, **params)

    def transpose(
        self, cts: Sequence[object], x: ArrayLike | Undefined, *, axis: int, reverse: object
    ) -> Any:
        return self.call(*cts, axis=axis, reverse=not reverse)


def _product_tangent(a: Sequence[Array], b: Sequence[Array]) -> Any:
    mul, add = _elementwise.mul, _elementwise.add
    return [mul(a[0], b[0]), add(mul(a[1], b[0]), mul(a[0], b[1]))]


def _weighted(y: Array, a: Arrays, b: Arrays, weight: Callable[[Any], Any]) -> Any:
    """The tangent of y, made of a and b: each one's by its weight; if both are equal to y, by
    half."""
    eq, full = _elementwise.eq, _structure.full
    kind = typeof(a[1]).dtype
    one, half = full((), 1, kind), full((), 0.5, kind)

    def part(p: Sequence[Array], q: Sequence[Array]) -> Any:
        whole = where_else(eq(q[0], y), half, one)
        return _elementwise.mul(p[1], where_else(eq(p[0], y), whole, weight(p[0])))

    return _elementwise.add(part(a, b), part(b, a))


def _extreme_tangent(name: str) -> Callable[..., Any]:
    def combine(a: Any, b: Any) -> Any:
        y = getattr(_elementwise, name)(a[0], b[0])
        return [y, _weighted(y, a, b, lambda p: _structure.full((), 0, typeof(a[1]).dtype))]

    return combine


def _logaddexp(a: ArrayLike, b: ArrayLike) -> Any:
    """log(exp(a) + exp(b)), without overflow. Infinities of one sign give that infinity."""
    lax = _elementwise
    if dtypes.issubdtype(typeof(a).dtype, np.complexfloating):
        return _complex_logaddexp(a, b)
    greater, difference = lax.max(a, b), lax.sub(a, b)
    smooth = lax.add(greater, lax.log1p(lax.exp(lax.neg(lax.abs(difference)))))
    return lax.select(lax.ne(difference, difference), lax.add(a, b), smooth)


def _complex_logaddexp(a: ArrayLike, b: ArrayLike) -> Any:
    """As `_logaddexp`; the imaginary part is brought to (-pi, pi]."""
    lax = _elementwise
    greater = lax.select(lax.gt(lax.real(a), lax.real(b)), a, b)
    lesser = lax.select(lax.gt(lax.real(a), lax.real(b)), b, a)
    empty = lax.eq(
        lax.real(greater),
        _structure.full(np.shape(lax.real(a)), -np.inf, typeof(lax.real(a)).dtype),
    )
    out = lax.add(greater, lax.log1p(lax.exp(lax.sub(lesser, greater))))
    out = lax.select(empty, greater, out)
    angle = lax.imag(out)
    return lax.complex(lax.real(out), lax.atan2(lax.sin(angle), lax.cos(angle)))


def _logaddexp_tangent(a: Sequence[Array], b: Sequence[Array]) -> Any:
    y = _logaddexp(a[0], b[0])
    return [y, _weighted(y, a, b, lambda p: _elementwise.exp(_elementwise.sub(p, y)))]


def _by(op: str) -> tuple[Callable[..., Any], Callable[[Any], Any]]:
    return (lambda ctx: scalar_body(ctx, op)), (lambda dtype: identity_of(op, dtype))


def _logaddexp_body(ctx: Context) -> Callable[..., Any]:
    return lambda a, b: ctx.trace(lambda x, y: (_logaddexp(x, y),), a, b)


cumsum_p = CumulativeSum("cumsum", NUMERIC, *_by("add"), None)
cumprod_p = Cumulative("cumprod", NUMERIC, *_by("multiply"), _product_tangent)
cummax_p = Cumulative("cummax", NUMERIC, *_by("maximum"), _extreme_tangent("max"))
cummin_p = Cumulative("cummin", NUMERIC, *_by("minimum"), _extreme_tangent("min"))
cumlogsumexp_p = Cumulative(
    "cumlogsumexp", INEXACT, _logaddexp_body, lambda dtype: -np.inf, _logaddexp_tangent
)


def _cumulative(primitive: Primitive, operand: ArrayLike, axis: int, reverse: bool) -> Any:
    return primitive.call(operand, axis=operator.index(axis), reverse=bool(reverse))[0]


def cumsum(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """The sums of all prefixes of operand along an axis; of all suffixes if reverse.

    Raises ValueError if the axis, counted from the front, is out of bounds; TypeError if elements
    are not numbers.

    >>> cumsum(np.float32([1, 2, 3]))
    Array([1., 3., 6.], dtype=float32)
    """
    return _cumulative(cumsum_p, operand, axis, reverse)


def cumprod(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """The products of all prefixes of operand along an axis; of all suffixes if reverse.

    >>> cumprod(np.float32([1, 2, 3]))
    Array([1., 2., 6.], dtype=float32)
    """
    return _cumulative(cumprod_p, operand, axis, reverse)


def cummax(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """The greatest elements of all prefixes of operand along an axis; of all suffixes if reverse.

    >>> cummax(np.float32([1, 3, 2]))
    Array([1., 3., 3.], dtype=float32)
    """
    return _cumulative(cummax_p, operand, axis, reverse)


def cummin(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """The least elements of all prefixes of operand along an axis; of all suffixes if reverse.

    >>> cummin(np.float32([2, 3, 1]))
    Array([2., 2., 1.], dtype=float32)
    """
    return _cumulative(cummin_p, operand, axis, reverse)


def cumlogsumexp(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """log(sum(exp(prefix))) for all prefixes of operand along an axis; all suffixes if reverse.

    >>> cumlogsumexp(np.float32([0, 0]))
    Array([0.       , 0.6931472], dtype=float32)
    """
    return _cumulative(cumlogsumexp_p, operand, axis, reverse)
