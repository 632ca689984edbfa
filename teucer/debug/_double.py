"""Operations in double precision: the results of an equation on 64-bit operands."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import config, dtypes
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, interpret
from teucer._core.stage import stage_jaxpr
from teucer._core.types import ShapedArray

if TYPE_CHECKING:
    from teucer._core.typing import DTypeLike, Params, Value


# These operations depend on the bits of a format, so that there is nothing to compare.
_OF_BITS = frozenset({"bitcast_convert_type", "reduce_precision", "nextafter"})


def is_inexact(x: Any) -> bool:
    """Whether a value, or a type, is of real or complex numbers."""
    return not isinstance(x.dtype, dtypes.ExtendedDType) and bool(
        dtypes.issubdtype(x.dtype, np.inexact)
    )


def widened(dtype: DTypeLike) -> Any:
    """float64 for a floating dtype, complex128 for a complex one, others as they are.

    >>> widened(np.dtype("float32")), widened(np.dtype("int32"))
    (dtype('float64'), dtype('int32'))
    """
    if isinstance(dtype, dtypes.ExtendedDType) or not dtypes.issubdtype(dtype, np.inexact):
        return dtype
    return np.dtype(np.complex128 if dtypes.issubdtype(dtype, np.complexfloating) else np.float64)


def in_double(eqn: Eqn, operands: Sequence[Value]) -> list[Any] | None:
    """The results of an equation on operands of double precision; None where there is no such
    thing, such as for a kernel."""
    if str(eqn.primitive) in _OF_BITS:
        return None
    try:
        with config.enable_x64(True):
            within = eqn.primitive.within
            with within(eqn.params) if within is not None else contextlib.nullcontext():
                params = _params(eqn.params)
            return list(eqn.primitive.call(*operands, **params))
    except (TypeError, ValueError, NotImplementedError, RuntimeError):
        return None  # it has no form of this precision


def _params(params: Params) -> dict[str, Any]:
    return {name: _param(value) for name, value in params.items()}


def _param(value: Value) -> Any:
    """A parameter for operands of double precision: dtypes and programs are made double too."""
    if isinstance(value, np.dtype):
        return widened(value)
    if isinstance(value, type) and issubclass(value, np.inexact):
        return widened(np.dtype(value)).type
    if isinstance(value, ClosedJaxpr):
        return _closed(value)
    if isinstance(value, Jaxpr) and not value.constvars:
        return _closed(ClosedJaxpr(value)).jaxpr
    if isinstance(value, tuple):
        parts = [_param(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def _closed(closed: ClosedJaxpr) -> ClosedJaxpr:
    made: ClosedJaxpr = closed.kept(
        "in double precision",
        lambda: stage_jaxpr(
            lambda *xs: interpret(
                closed,
                xs,
                lambda eqn, operands: eqn.primitive.call(
                    *map(_value, operands), **_params(eqn.params)
                ),
            ),
            [_aval(aval) for aval in closed.in_avals],
            closed.jaxpr.debug_info,
        ),
    )
    return made


def _aval(aval: ShapedArray) -> Any:
    return aval.update(dtype=widened(aval.dtype)) if isinstance(aval, ShapedArray) else aval


def _value(x: Value) -> Any:
    """A constant or literal in double precision; a traced value is it already."""
    if isinstance(x, float | complex | np.ndarray | np.generic):
        array = np.asarray(x)
        return array.astype(widened(array.dtype))
    return x
