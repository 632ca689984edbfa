"""Universal functions as objects.

Called elementwise, and reduced, accumulated, applied at places, or to all pairs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike
from teucer._dimensions.dimensions import is_size
from teucer.lax import _cumulative, _structure
from teucer.lax._dynamic import dynamic_index_in_dim
from teucer.lax._identities import identity_of
from teucer.numpy import _floats, _reductions, _ufuncs
from teucer.numpy._creation import asarray
from teucer.numpy._logic import where as choose
from teucer.numpy._promotion import broadcast_to, check_arraylike, convert
from teucer.numpy._reductions import axes_of, axis_key, keep
from teucer.numpy._stacking import concatenate
from teucer.numpy._taking import take

if TYPE_CHECKING:
    from teucer._core.typing import Axis, DTypeLike, Value

__all__ = [
    "add", "bitwise_and", "bitwise_or", "bitwise_xor", "frompyfunc", "logaddexp", "logaddexp2",
    "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative",
    "subtract", "ufunc",
]  # fmt: skip


class ufunc:
    """A function of scalars that acts on all elements of arrays, which broadcast to one shape.

    func: of nin scalars, giving nout of them. identity: the value that leaves the other operand as
    it is, or None.
    call, reduce, accumulate, at, reduceat: faster ways for these methods, where there are.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Any = None,
        reduce: Any = None,
        accumulate: Any = None,
        at: Any = None,
        reduceat: Any = None,
    ) -> None:
        self.__doc__ = func.__doc__
        self.__name__ = name or getattr(func, "__name__", "ufunc")
        self._func, self._nin, self._nout, self._identity = (
            func,
            operator.index(nin),
            operator.index(nout),
            identity,
        )
        self._nargs = self._nin if nargs is None else nargs
        if call is None:
            from teucer.numpy._vectorize import vectorize  # for functions of users

            call = vectorize(func)
        self._call = call
        self._reduce, self._accumulate, self._at, self._reduceat = reduce, accumulate, at, reduceat

    nin = property(lambda self: self._nin, doc="Number of operands.")
    nout = property(lambda self: self._nout, doc="Number of results.")
    nargs = property(
        lambda self: self._nargs,
        doc="Number of operands that `where` and `out` do not count among.",
    )
    identity = property(
        lambda self: self._identity,
        doc="The value that leaves the other operand as it is, or None.",
    )

    def __hash__(self) -> int:
        return hash((self._func, self.__name__, self._nin, self._nout))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ufunc) and (
            self._func,
            self.__name__,
            self._nin,
            self._nout,
            self._identity,
        ) == (other._func, other.__name__, other._nin, other._nout, other._identity)

    def __repr__(self) -> str:
        return f"<jnp.ufunc '{self.__name__}'>"

    def __call__(self, *args: ArrayLike, out: None = None, where: None = None) -> Array:
        """The function of each element."""
        if out is not None:
            raise NotImplementedError(
                f"out argument of {self}\n  Arrays are immutable: use the result."
            )
        if where is not None:
            raise NotImplementedError(
                f"where argument of {self}\n  Choose among the results: jnp.where(condition, "
                "result, other)."
            )
        if len(args) > self._nargs:
            raise TypeError(
                f"{self.__name__}() takes {self._nargs} positional arguments but {len(args)} were "
                "given"
            )
        return self._call(*args)

    def _binary(self, method: str) -> None:
        if self._nin != 2:
            raise ValueError(
                f"{method} only supported for binary ufuncs\n    {self}: {self._nin} operands"
            )
        if self._nout != 1:
            raise ValueError(
                f"{method} only supported for functions returning a single value\n"
                f"    {self}: {self._nout} results"
            )

    def reduce(
        self,
        a: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        """The elements over axes joined by the function, from the first to the last.

        Raises ValueError for no elements where there is no identity, and for `where` without an
        identity or initial value.
        """
        self._binary("reduce")
        if out is not None:
            raise NotImplementedError(
                f"out argument of {self.__name__}.reduce()\n  Arrays are immutable: use the result."
            )
        check_arraylike(f"{self.__name__}.reduce", a)
        if initial is not None:
            check_arraylike(f"{self.__name__}.reduce", initial)
        if where is not None and self._identity is None and initial is None:
            raise ValueError(
                f"reduction operation {self.__name__!r} does not have an identity, so to use a "
                "where mask one has to specify 'initial'."
            )
        if self._reduce is not None:
            return self._reduce(
                a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
            )
        return self._folded(asarray(a), axis_key(axis), dtype, keepdims, initial, where)

    def _folded(
        self, x: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: object
    ) -> Any:
        x = x if dtype is None else convert(x, dtypes.check_user_dtype_supported(dtype, "reduce"))
        shape = x.shape
        axes = axes_of(axis, x.ndim)
        order = [*axes, *(i for i in range(x.ndim) if i not in axes)]
        n = math.prod(shape[i] for i in axes)
        rest = tuple(shape[i] for i in order[len(axes) :])
        line = _structure.reshape(_structure.transpose(x, order), (n, *rest))
        start = self._identity if initial is None else initial
        if where is not None:
            mask = _structure.reshape(
                _structure.transpose(
                    choose(
                        where, *(_structure.full(shape, v, np.dtype(bool)) for v in (True, False))
                    ),
                    order,
                ),
                (n, *rest),
            )
        if start is None:
            if is_size(f"{self.__name__}.reduce", n, 0):
                raise ValueError(
                    f"zero-size array to reduction operation {self.__name__} which has no identity"
                )
            carry, first = dynamic_index_in_dim(line, 0, 0, keepdims=False), 1
        else:
            carry, first = _structure.full(rest, convert(start, x.dtype), x.dtype), 0
        if type(n) is int and first == n:
            return keep(carry, shape, axes) if keepdims else carry
        for_type = typeof(self._call(carry, carry)).dtype
        carry = convert(carry, for_type)

        from teucer.lax._control.iteration import scan  # for functions that have no faster way

        def step(so_far: Any, element: Any) -> Any:
            x, taken = element
            joined = convert(self._call(so_far, x), for_type)
            return (joined if taken is None else choose(taken, joined, so_far)), None

        result = scan(step, carry, (line[first:], None if where is None else mask[first:]))[0]
        return keep(result, shape, axes) if keepdims else result

    def accumulate(self, a: Any, axis: Any = 0, dtype: Any = None, out: None = None) -> Any:
        """For each element the function applied to all elements up to it, along an axis."""
        self._binary("accumulate")
        if out is not None:
            raise NotImplementedError(
                f"out argument of {self.__name__}.accumulate()\n"
                "  Arrays are immutable: use the result."
            )
        check_arraylike(f"{self.__name__}.accumulate", a)
        if self._accumulate is not None:
            return self._accumulate(a, axis=axis, dtype=dtype)
        x = asarray(a, dtype)
        if axis is None or isinstance(axis, tuple | list):
            raise ValueError("accumulate does not allow multiple axes")
        axis = _structure.canonical_axis(axis, x.ndim)
        line = _structure.moveaxis(x, axis, 0)
        if is_size(f"{self.__name__}.accumulate", line.shape[0], 0):
            return x
        carry = dynamic_index_in_dim(line, 0, 0, keepdims=False)
        for_type = typeof(self._call(carry, carry)).dtype
        carry = convert(carry, for_type)

        from teucer.lax._control.iteration import scan  # the same

        def step(so_far: object, x: Array) -> Any:
            joined = convert(self._call(so_far, x), for_type)
            return joined, joined

        _, later = scan(step, carry, line[1:])
        return _structure.moveaxis(
            concatenate([_structure.reshape(carry, (1, *carry.shape)), later]), 0, axis
        )

    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Any:
        """a with the function applied at places, one after the other where a place is named twice;
        inplace must be False.

        Raises NotImplementedError for inplace, as arrays are immutable.
        """
        if inplace:
            raise NotImplementedError(
                "Because JAX arrays are immutable, jnp.ufunc.at() cannot operate inplace like "
                "np.ufunc.at().\n  Pass inplace=False and take the result: arr = "
                f"jnp.{self.__name__}.at(arr, ind, val, inplace=False)"
            )
        check_arraylike(f"{self.__name__}.at", a)
        if self._at is not None:
            return self._at(a, indices, b)
        x = asarray(a)
        if self._nin == 1:
            place = _places(x)[indices]
            return _at_places(self._call, x, place, None)
        return _at_places(self._call, x, _places(x)[indices], asarray(b))

    def reduceat(
        self, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None
    ) -> Any:
        """For each index, the elements from it up to the next index, joined in order; only the
        element at the index if the next one is not greater. For an index out of bounds: NaN, or the
        fill value of integers.

        Raises ValueError for indices that are no integers along one axis.
        """
        self._binary("reduceat")
        if out is not None:
            raise NotImplementedError(
                f"out argument of {self.__name__}.reduceat()\n  Arrays are immutable: use the "
                "result."
            )
        parts = _segments(a, indices, axis, dtype)
        joined = self._joined(parts) if self._reduceat is None else self._reduceat(parts)
        return _structure.moveaxis(joined, 0, parts.axis)

    def _joined(self, parts: _Segments) -> Any:
        """The result of each segment, joined element after element."""
        n, wide = parts.line.shape[0], (*parts.places.shape, *[1] * (parts.line.ndim - 1))
        for_type = typeof(self._call(parts.first, parts.first)).dtype

        from teucer.lax._control.iteration import scan  # the same

        def step(so_far: Any, i: Array) -> Any:
            place = _ufuncs.add(parts.places, i)
            there = _structure.reshape(_ufuncs.less(place, parts.ends), wide)
            joined = self._call(so_far, take(parts.line, place, axis=0, mode="clip"))
            return choose(there, convert(joined, for_type), so_far), None

        steps = np.arange(1, max(n, 1), dtype=parts.places.dtype)
        return scan(step, convert(parts.first, for_type), steps)[0]

    def outer(self, A: ArrayLike, B: ArrayLike, /) -> Any:
        """The function of all pairs of an element of A and one of B."""
        self._binary("outer")
        check_arraylike(f"{self.__name__}.outer", A, B)
        x, y = asarray(A), asarray(B)
        return self._call(
            _structure.reshape(x, (*x.shape, *[1] * y.ndim)),
            _structure.reshape(y, (*[1] * x.ndim, *y.shape)),
        )


def _places(x: Any) -> Any:
    """For each element of x its place in the flattened array."""
    return asarray(np.arange(x.size, dtype=np.int32).reshape(x.shape))


def _at_places(call: Callable[..., object], x: Any, places: Any, values: Any) -> Any:
    """x with `call` applied to its elements at `places`, one after the other. places: indices of
    the flattened x."""
    flat = _structure.reshape(x, (x.size,))
    n = places.size
    at = _structure.reshape(places, (n,))
    spread = (
        None if values is None else _structure.reshape(broadcast_to(values, places.shape), (n,))
    )

    from teucer.lax._control.iteration import scan  # the same

    def step(state: Any, i: Array) -> Any:
        place = dynamic_index_in_dim(at, i, 0, keepdims=False)
        old = dynamic_index_in_dim(state, place, 0, keepdims=False)
        new = (
            call(old)
            if spread is None
            else call(old, dynamic_index_in_dim(spread, i, 0, keepdims=False))
        )
        return state.at[place].set(convert(new, x.dtype)), None

    return _structure.reshape(scan(step, flat, np.arange(n, dtype=np.int32))[0], x.shape)


def frompyfunc(
    func: Callable[..., object], /, nin: int, nout: int, *, identity: object = None
) -> ufunc:
    """A universal function of a function of scalars.

    >>> frompyfunc(lambda x, y: x * y + 1, 2, 1)(np.int32([1, 2]), 3)
    Array([4, 7], dtype=int32)
    """
    return ufunc(func, nin, nout, identity=identity)


# The universal functions of this library


def _reduced(reduce: Callable[..., Any]) -> Callable[..., Any]:
    def way(
        a: ArrayLike,
        axis: Axis,
        dtype: DTypeLike | None,
        keepdims: bool,
        initial: ArrayLike | None,
        where: ArrayLike | None,
    ) -> Any:
        if reduce is _reductions.sum or reduce is _reductions.prod:
            return reduce(
                a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
            )
        x = a if dtype is None else asarray(a, dtype)
        return reduce(x, axis=axis, keepdims=keepdims, initial=initial, where=where)

    return way


def _accumulated(run: Callable[..., Any]) -> Callable[..., Any]:
    def way(a: ArrayLike, axis: int, dtype: DTypeLike | None) -> Any:
        x = asarray(a, dtype)
        x = x if x.dtype != np.bool_ else convert(x, dtypes.canonicalize_dtype(int))
        return run(x, _structure.canonical_axis(axis, x.ndim))

    return way


def _update(method: str) -> Callable[..., Any]:
    return lambda a, indices, b: getattr(asarray(a).at[indices], method)(b)


class _Segments(NamedTuple):
    """The segments of `reduceat`: the elements of `line` from places[i] to before ends[i], along
    the first axis, which was `axis`. first: the first element of each."""

    line: Any
    places: Any
    ends: Any
    first: Any
    axis: int


def _segments(a: ArrayLike, indices: ArrayLike, axis: Any, dtype: Any) -> _Segments:
    check_arraylike("reduceat", a, indices)
    x, places = asarray(a, dtype), asarray(indices)
    if not np.issubdtype(places.dtype, np.integer):
        raise ValueError(
            f"indices must have an integer type\n    reduceat: indices have dtype {places.dtype}."
        )
    if places.ndim != 1:
        raise ValueError(
            f"reduceat: indices must be one-dimensional, got indices.shape={places.shape}"
        )
    if axis is None or isinstance(axis, tuple | list):
        raise ValueError("reduceat requires a single integer axis.")
    axis = _structure.canonical_axis(axis, x.ndim)
    line = _structure.moveaxis(x, axis, 0)
    n = line.shape[0]
    ends = concatenate([places[1:], asarray(np.array([n], places.dtype))])
    is_place = _ufuncs.logical_and(_ufuncs.greater_equal(places, 0), _ufuncs.less(places, n))
    first = take(line, choose(is_place, places, n), axis=0, mode="fill")
    ends = choose(is_place, _ufuncs.maximum(ends, _ufuncs.add(places, 1)), places)
    return _Segments(line, places, ends, first, axis)


def _masked(method: str, neutral: Callable[[Value], object]) -> Callable[[_Segments], Any]:
    """`reduceat` by a reduction of all elements, but with neutral ones outside of each segment."""

    def way(parts: _Segments) -> Any:
        line, (m,) = parts.line, parts.places.shape
        n = line.shape[0]
        at = asarray(np.arange(n, dtype=parts.places.dtype))[None]
        inside = _ufuncs.logical_and(
            _ufuncs.greater_equal(at, parts.places[:, None]), _ufuncs.less(at, parts.ends[:, None])
        )
        inside = _structure.reshape(inside, (m, n, *[1] * (line.ndim - 1)))
        spread = _structure.reshape(line, (1, *line.shape))
        kept = choose(inside, spread, convert(neutral(line.dtype), line.dtype))
        integers = {"promote_integers": False} if method in ("sum", "prod") else {}
        joined = getattr(_reductions, method)(kept, axis=1, **integers)
        is_empty = _structure.reshape(
            _ufuncs.equal(parts.ends, parts.places), (m, *[1] * (line.ndim - 1))
        )
        return choose(is_empty, parts.first, joined)  # empty only where the index is out of bounds

    return way


def _of_dtype(op: str) -> Callable[[Any], Any]:
    return lambda dtype: identity_of(op, dtype)


def _object(
    function: Any,
    identity: Any,
    reduce: Any = None,
    accumulate: Any = None,
    at: str | None = None,
    reduceat: Any = None,
    nin: int = 2,
) -> ufunc:
    return ufunc(
        function,
        nin,
        1,
        name=function.__name__,
        identity=identity,
        call=function,
        reduce=None if reduce is None else _reduced(reduce),
        accumulate=None if accumulate is None else _accumulated(accumulate),
        at=None if at is None else _update(at),
        reduceat=reduceat,
    )


def _all(a: Array, axis: int, keepdims: bool, initial: Array, where: ArrayLike) -> Any:
    return _reductions.all(a, axis=axis, keepdims=keepdims, where=where)


def _any(
    a: ArrayLike, axis: int, keepdims: bool, initial: ArrayLike | None, where: ArrayLike | None
) -> Any:
    return _reductions.any(a, axis=axis, keepdims=keepdims, where=where)


add = _object(
    _ufuncs.add, 0, _reductions.sum, _cumulative.cumsum, "add", _masked("sum", _of_dtype("add"))
)
multiply = _object(
    _ufuncs.multiply,
    1,
    _reductions.prod,
    _cumulative.cumprod,
    "multiply",
    _masked("prod", _of_dtype("multiply")),
)
maximum = _object(
    _ufuncs.maximum,
    None,
    _reductions.max,
    _cumulative.cummax,
    "max",
    _masked("max", _of_dtype("maximum")),
)
minimum = _object(
    _ufuncs.minimum,
    None,
    _reductions.min,
    _cumulative.cummin,
    "min",
    _masked("min", _of_dtype("minimum")),
)
subtract = _object(_ufuncs.subtract, None, at="subtract")
negative = _object(_ufuncs.negative, None, nin=1)
bitwise_and = _object(_ufuncs.bitwise_and, -1)
bitwise_or = _object(_ufuncs.bitwise_or, 0)
bitwise_xor = _object(_ufuncs.bitwise_xor, 0)
logical_and = _object(_ufuncs.logical_and, True, _all)
logical_or = _object(_ufuncs.logical_or, False, _any)
logical_xor = _object(_ufuncs.logical_xor, False)
logaddexp = _object(_floats.logaddexp, -math.inf)
logaddexp2 = _object(_floats.logaddexp2, -math.inf)
