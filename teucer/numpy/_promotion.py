"""Operands of functions: the objects that count as arrays, and the dtype and the shape in which
several meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._base import config, dtypes, errors, memo
from teucer._base.source import warn
from teucer._core.trace import Tracer, _current, typeof
from teucer._core.types import aval_of, is_valid_type
from teucer._devices import partition
from teucer.lax import _structure

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, DTypeLike, Size, Value


# Changes to the dtype in which operands meet: none, to numbers (bool to int), to floats or complex,
# ...
ANY, NUMERIC, INEXACT, FLOATING, COMPLEX = "any", "numeric", "inexact", "floating", "complex"
_KIND = {
    NUMERIC: dtypes.to_numeric_dtype,
    INEXACT: dtypes.to_inexact_dtype,
    COMPLEX: dtypes.to_complex_dtype,
    FLOATING: dtypes.to_floating_dtype,
}
_PYTHON = frozenset({bool, int, float, complex})
_KNOWN = (ArrayImpl, Tracer, np.ndarray, np.generic, bool, int, float, complex)


def as_value(x: Any) -> Any:
    """The array that an object of a user's class with `__jax_array__` stands for; any other value
    as it is."""
    return x.__jax_array__() if not isinstance(x, _KNOWN) and hasattr(x, "__jax_array__") else x


def check_arraylike(name: str, *xs: Value, at: int = 0, none_ok: bool = False) -> None:
    """Raise TypeError if an operand is not an array or a number."""
    for i, x in enumerate(xs, at):
        if not isinstance(x, _KNOWN) and not (none_ok and x is None) and not is_valid_type(x):
            raise TypeError(
                f"{name} requires ndarray or scalar arguments, got {type(x)} at position {i}.\n"
                f"  Convert it first: jnp.asarray(...)."
            )


class _Plan(NamedTuple):
    """How operands of known types meet: a dtype, and for each operand whether it is converted, and
    to which shape and axes."""

    dtype: Any
    weak: bool
    steps: tuple[tuple[bool, Any], ...]


_plans: dict[Any, _Plan] = {}


def promote(name: str, kind: str, *xs: Any) -> Sequence[Any]:
    """Operands brought to one dtype, and to one shape by the rules of NumPy; scalars stay scalars.

    Raises TypeError for what is not an array, ValueError for dtypes or shapes that do not combine.
    """
    key = (
        kind,
        config.enable_x64.value,
        config.numpy_dtype_promotion.value,
        *[
            type(x)
            if type(x) in _PYTHON
            else x.aval
            if isinstance(x, Tracer)
            else _aval(name, xs, i, x)
            for i, x in enumerate(xs)
        ],
    )
    plan = _plans.get(key)
    if plan is None:
        plan = memo.remember(_plans, key, _plan(name, kind, xs), memo.RECENT)
    if config.numpy_rank_promotion.value != "allow":
        _report_ranks(name, [np.shape(x) for x in xs])
    dtype, weak, steps = plan
    if _current.trace.placed and any(target is not None for _, target in steps):
        xs = alike_before_repeated(*map(as_value, xs))
    out = []
    for x, (converted, target) in zip(xs, steps, strict=True):
        y = convert(x, dtype, weak) if converted else as_value(x)
        out.append(y if target is None else broadcast_axes(y, *target))
    return out


def alike_before_repeated(*xs: ArrayLike) -> tuple[Any, ...]:
    """Operands to be broadcast, cast to vary over the same mesh axes. So devices sum cotangents
    after these are reduced to the operands' shapes."""
    return partition.cast_alike(xs) if _current.trace.placed else xs


def _aval(name: str, xs: Any, i: int, x: Any) -> Any:
    check_arraylike(name, x, at=i)
    return aval_of(x)


def _plan(name: str, kind: str, xs: Sequence[Any]) -> _Plan:
    avals = [aval_of(x) for x in xs]
    nodes = tuple(
        dtypes.node_of(x if type(x) in _PYTHON else a) for x, a in zip(xs, avals, strict=True)
    )
    if any(a.dtype == dtypes.float0 for a in avals):
        raise errors.float0_refused(name)
    if any(map(dtypes.is_extended, nodes)) and (kind in _KIND or len(set(nodes)) > 1):
        raise TypeError(
            f"{name} does not accept dtype{'s' * (len(avals) > 1)} "
            f"{', '.join(a.dtype.name for a in avals)}."
        )
    dtype, weak = _met(nodes, avals)
    to_kind = _KIND.get(kind)
    if to_kind is not None and dtype != to_kind(dtype):
        # The operands were bools or integers; weakly typed integers become weakly typed floats.
        dtype = to_kind(dtype)
    shapes = [a.shape for a in avals]
    shape = broadcast_shapes(name, shapes)
    steps = []
    for aval in avals:
        target = None if not aval.shape or aval.shape == shape else _target(aval.shape, shape)
        converted = aval.dtype != dtype or aval.weak_type != weak
        steps.append((converted, target))
    return _Plan(dtype, weak, tuple(steps))


def _met(nodes: tuple[Any, ...], avals: Sequence[Any]) -> tuple[Any, bool]:
    """The dtype in which operands meet, and whether it is weak. Weak ones of one dtype keep it."""
    first = avals[0]
    if first.weak_type and all(a.weak_type and a.dtype == first.dtype for a in avals):
        return (first.dtype, True) if first.dtype != np.bool_ else dtypes.promote_nodes(nodes)
    return dtypes.promote_nodes(nodes)


def _target(shape: tuple[int, ...], result: tuple[object, ...]) -> tuple[Any, Any, Any]:
    """The shape without its axes of size 1 that are repeated, the result, and the axes that the
    others become."""
    offset = len(result) - len(shape)
    kept = [
        i
        for i, d in enumerate(shape)
        if not (type(d) is int and d == 1 and result[offset + i] != 1)
    ]
    return tuple(shape[i] for i in kept), result, tuple(offset + i for i in kept)


def broadcast_axes(
    x: Any, kept: tuple[Any, ...], shape: tuple[Any, ...], axes: tuple[int, ...]
) -> Any:
    """x reshaped to `kept`, whose axes become `axes` of the result of the given shape."""
    if len(kept) != np.ndim(x) and lays_out_ones(x):
        return _structure.broadcast_to(x, shape, range(len(shape) - np.ndim(x), len(shape)))
    return _structure.broadcast_in_dim_p.call(
        _structure.reshape(x, kept), shape=shape, broadcast_dimensions=axes, sharding=None
    )[0]


def lays_out_ones(x: ArrayLike) -> bool:
    """Whether an axis of size 1 lies over mesh axes, which a reshape would lose."""
    parts = typeof(x).partition
    return parts is not None and any(
        n == 1 and entry is not None
        for n, entry in zip(np.shape(x), parts.spec.partitions, strict=False)
    )


def broadcast_to(x: Any, shape: Sequence[Size]) -> Any:
    """x in a shape that it broadcasts to."""
    own, shape = np.shape(x), tuple(shape)
    return (
        x
        if own == shape and isinstance(x, ArrayImpl | Tracer)
        else broadcast_axes(x, *_target(own, shape))
    )


def broadcast_shapes(name: str, shapes: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The shape to which all shapes broadcast by the rules of NumPy.

    Raises, if there is none, TypeError for arrays of as many axes, else ValueError.
    """
    longest = max(shapes, key=len, default=())
    if all(s == longest or not s for s in shapes):
        return longest
    out = []
    for i in range(-len(longest), 0):
        sizes = [s[i] for s in shapes if len(s) >= -i]
        larger = [d for d in sizes if not (type(d) is int and d == 1)]
        if any(d != larger[0] for d in larger):
            listed = ", ".join(str(s) for s in shapes)
            what = (
                f"  Sizes along axis {i} are {', '.join(map(str, sizes))}; they must be equal, or "
                "1."
            )
            if len({len(s) for s in shapes if s}) > 1:
                raise ValueError(
                    f"Incompatible shapes for broadcasting: shapes=[{listed}]\n{what}\n"
                    f"  function: {name}"
                )
            raise TypeError(f"{name} got incompatible shapes for broadcasting: {listed}.\n{what}")
        out.append(larger[0] if larger else 1)
    return tuple(out)


def promote_shapes(name: str, *xs: ArrayLike) -> list[Any]:
    """Operands brought to one shape by the rules of NumPy; scalars stay scalars, and dtypes
    stay."""
    shapes = [np.shape(x) for x in xs]
    if config.numpy_rank_promotion.value != "allow":
        _report_ranks(name, shapes)
    shape = broadcast_shapes(name, shapes)
    xs = alike_before_repeated(*xs)
    return [
        x if not own or own == shape else broadcast_axes(x, *_target(own, shape))
        for x, own in zip(xs, shapes, strict=True)
    ]


def _report_ranks(name: str, shapes: Sequence[tuple[object, ...]]) -> None:
    """Warn or raise, as the option jax_numpy_rank_promotion asks, where operands differ in their
    number of axes."""
    ranks = {len(s) for s in shapes if s}
    if len(ranks) < 2:
        return
    listed = " ".join(map(str, shapes))
    if config.numpy_rank_promotion.value == "raise":
        raise ValueError(
            f"Operands could not be broadcast together for {name} on shapes {listed} and with the "
            "config option jax_numpy_rank_promotion='raise'.\n"
            "  Give the operands as many axes: x[None]."
        )
    warn(
        f"Following NumPy automatic rank promotion for {name} on shapes {listed}. Set the "
        "jax_numpy_rank_promotion config option to 'allow' to disable this warning."
    )


def convert(x: Any, dtype: Any, weak: bool = False) -> Any:
    """A value as another dtype; a number of Python or NumPy stays on the host, so that it is
    written into the program."""
    kind = type(x)
    if kind in _PYTHON:
        if weak:
            return dtypes.scalar_type_of(dtype)(x)
        if kind is int and isinstance(dtype, np.dtype) and dtype.kind in "iu":
            return _wrapped(x, dtype)
        return _structure.number(x, dtype)
    if (
        isinstance(x, np.ndarray | np.generic)
        and not x.shape
        and not weak
        and dtype.kind in "biufc"
    ):
        if x.dtype.kind == "c" and dtype.kind != "c":
            x = x.real
        with np.errstate(all="ignore"):
            return _structure.number(np.asarray(x).astype(dtype), dtype)
    return _structure.convert_element_type(as_value(x), dtype, weak)


def _wrapped(x: int, dtype: DTypeLike) -> Any:
    """A Python integer modulo the range of an integer dtype; OverflowError if it does not fit the
    default integer dtype."""
    default = dtypes.iinfo(dtypes.canonicalize_dtype(int))
    if (
        not default.min <= x <= default.max
        and not dtypes.iinfo(dtype).min <= x <= dtypes.iinfo(dtype).max
    ):
        raise OverflowError(
            f"Python int {x} too large to convert to {dtypes.canonicalize_dtype(int)}.\n"
            "  Integers are 32 bits wide unless the option jax_enable_x64 is set."
        )
    return _structure.number(np.asarray(x).astype(dtype), dtype)


def promote_dtypes(name: str, kind: str, *xs: Value) -> list[Any]:
    """Operands brought to one dtype; their shapes stay."""
    for i, x in enumerate(xs):
        check_arraylike(name, x, at=i)
    values = [as_value(x) for x in xs]
    nodes = tuple(dtypes.node_of(x if type(x) in _PYTHON else aval_of(x)) for x in values)
    dtype, weak = dtypes.promote_nodes(nodes)
    to_kind = _KIND.get(kind)
    if to_kind is not None and dtypes.is_extended(dtype):
        raise TypeError(f"{name} does not accept dtype {dtype.name}.")
    if to_kind is not None and dtype != to_kind(dtype):
        dtype = to_kind(dtype)
    return [convert(x, dtype, weak) for x in values]


def refuse_out(name: str, out: Any) -> None:
    """Raise NotImplementedError for the argument `out`: arrays are not written into."""
    if out is not None:
        raise NotImplementedError(
            f"The 'out' argument to jnp.{name} is not supported.\n"
            "  Arrays are immutable: use the result."
        )
