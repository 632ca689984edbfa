"""Dtypes of values, and the dtypes in which values meet: `element_types` and `promotion`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np

from teucer._base import config
from teucer._base.element_types import (
    ALL,
    ALL_SET,
    COMPLEX,
    FLOATS,
    INEXACT,
    INTEGERS,
    NARROWED,
    DType,
    ExtendedDType,
    as_dtype,
    bfloat16,
    bit_width,
    bool_,
    canonicalize_dtype,
    extended,
    finfo,
    float0,
    iinfo,
    is_extended,
    is_string,
    issubdtype,
    prng_key,
    python_kinds,
    python_scalar_dtypes,
    string,
    to_complex_dtype,
    to_floating_dtype,
    to_inexact_dtype,
    to_numeric_dtype,
)
from teucer._base.errors import TypePromotionError
from teucer._base.promotion import Node, promote_nodes, promote_types
from teucer._base.short_names import short_name
from teucer._base.source import warn

__all__ = [
    "ALL", "ALL_SET", "COMPLEX", "FLOATS", "INEXACT", "INTEGERS", "NARROWED", "DType",
    "ExtendedDType", "as_dtype", "bfloat16", "bit_width", "bool_", "canonicalize_dtype",
    "extended", "finfo", "float0", "iinfo", "is_extended", "is_string", "issubdtype", "prng_key",
    "python_kinds", "python_scalar_dtypes", "report_dropped", "string", "to_complex_dtype",
    "to_floating_dtype", "to_inexact_dtype", "to_numeric_dtype", "Node", "TypePromotionError",
    "promote_nodes", "promote_types", "short_name", "dtype", "result_type", "scalar_type_of",
    "check_user_dtype_supported", "node_of",
]  # fmt: skip

_PLAIN = ALL_SET - set(NARROWED)


def dtype(x: Any) -> DType:
    """The dtype of a value, or the one that a dtype, name or scalar type stands for, as arrays have
    it.

    Python scalars have the default dtype of their kind; NumPy data are narrowed as on entry to an
    array; values with a `dtype` of their own (arrays, tracers, types) keep it. Raises TypeError for
    lists and other objects.

    >>> dtype(1.0), dtype(np.zeros(2))
    (dtype('float32'), dtype('float32'))
    """
    if x is None:
        raise ValueError("dtype: None has no dtype.")
    node = node_of(x)
    if not isinstance(node, type):
        return node
    own = None if type(x) in _WEAK_PYTHON else getattr(x, "dtype", None)
    return own if isinstance(own, np.dtype) else canonicalize_dtype(node)


@overload
def result_type(*args: Any, return_weak_type_flag: Literal[False] = False) -> DType: ...
@overload
def result_type(*args: Any, return_weak_type_flag: Literal[True]) -> tuple[DType, bool]: ...
def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype of combining operands: arrays, scalars, or dtypes.

    Python scalars and weakly typed arrays do not widen others. Without operands: ValueError (C1).
    Operands that do not combine: TypePromotionError (C2).

    >>> result_type(np.zeros(2, "int8"), 1.0, return_weak_type_flag=True)
    (dtype('float32'), True)
    """
    result = promote_nodes(tuple(map(node_of, args)))
    return result if return_weak_type_flag else result[0]


def scalar_type_of(x: Any) -> type:
    """The Python scalar type (bool, int, float, complex) to which the dtype of `x` belongs.

    >>> scalar_type_of("bfloat16")
    <class 'float'>
    """
    kind = python_kinds.get(dtype(x))
    if kind is None:
        raise TypeError(f"scalar_type_of: the dtype has no Python scalar type.\n    x: {x!r}")
    return kind


def check_user_dtype_supported(dtype: Any, fun_name: str | None = None) -> DType:
    """The dtype that a user's `dtype=` argument gets; refuses kinds that arrays cannot hold.

    A 64-bit dtype named while `enable_x64` is off is truncated with a warning, an error or not at
    all, as `explicit_x64_dtypes` says; Python's int, float and complex mean the default types and
    are never reported.

    >>> check_user_dtype_supported(float, "zeros")
    dtype('float32')
    """
    try:
        return _accepted[dtype]
    except (KeyError, TypeError):
        pass
    if isinstance(dtype, type) and (dtype in python_scalar_dtypes or issubclass(dtype, extended)):
        return canonicalize_dtype(dtype, allow_extended_dtype=True)
    op = fun_name or "dtype"
    if dtype is None:
        raise ValueError(f"{op}: dtype must be specified.")
    if (
        isinstance(getattr(dtype, "shape", None), tuple)
        and isinstance(getattr(dtype, "dtype", None), np.dtype | ExtendedDType)
        and not isinstance(dtype, type | np.dtype)
    ):
        if not hasattr(dtype, "__array__"):  # a description of an array, such as ShapeDtypeStruct
            return check_user_dtype_supported(dtype.dtype, fun_name)
        raise ValueError(
            f"{op}: Passing an array as a dtype argument is no longer supported; instead of "
            "dtype=arr use dtype=arr.dtype."
        )
    full = as_dtype(dtype)
    if isinstance(full, ExtendedDType):
        return full
    if full not in ALL_SET and full != float0:
        raise TypeError(
            f"JAX only supports number, bool, and string dtypes, got dtype {dtype} in {op}"
        )
    if full in NARROWED:
        return full if config.enable_x64.value else _narrow_as_asked(full, op)
    if isinstance(dtype, str | type | np.dtype):
        _accepted[dtype] = full
    return full


_accepted: dict[Any, np.dtype] = {}  # dtypes whose acceptance depends on no option


def report_dropped(given: DType, kind: DType) -> None:
    """Warn if complex numbers become real ones, as an operation of the user asks."""
    if issubdtype(given, np.complexfloating) and not issubdtype(kind, np.complexfloating):
        warn(
            "Casting complex values to real discards the imaginary part",
            np.exceptions.ComplexWarning,
        )


def _narrow_as_asked(full: np.dtype, op: str) -> np.dtype:
    """The dtype used for a 64-bit dtype that is named while 64-bit types are off."""
    mode = config.explicit_x64_dtypes.value
    if mode == config.ExplicitX64Mode.ALLOW:
        return full
    asked = f"Explicitly requested dtype {full} requested in {op} is not available"
    switch = (
        "set the jax_enable_x64 configuration option or the JAX_ENABLE_X64 shell environment "
        "variable."
    )
    if mode == config.ExplicitX64Mode.ERROR:
        raise ValueError(f"{asked}. To enable more dtypes, {switch}")
    narrow = NARROWED[full]
    warn(f"{asked}, and will be truncated to dtype {narrow}. To enable more dtypes, {switch}")
    return narrow


_WEAK_PYTHON = frozenset({int, float, complex})
_node_rules: dict[type, Callable[[Any], Node]] = {
    bool: lambda x: bool_, int: lambda x: int, float: lambda x: float, complex: lambda x: complex,
    type(None): lambda x: canonicalize_dtype(float),  # as in NumPy, no dtype means the default one
}  # fmt: skip


def node_of(x: Any) -> Node:
    """How promotion sees `x`. Raises TypeError where it is neither a value nor a dtype."""
    rule = _node_rules.get(type(x))
    if rule is None:
        rule = _node_rules[type(x)] = _node_rule(x)
    return rule(x)


def _node_rule(x: Any) -> Callable[[Any], Node]:
    """How values of the type of `x` become nodes."""
    if isinstance(x, type | np.dtype | ExtendedDType | str):
        return _node_of_spec
    if isinstance(x, np.ndarray | np.generic):
        return _node_of_numpy
    for python in (bool, int, float, complex):
        if isinstance(x, python):
            return _node_rules[python]
    if isinstance(getattr(x, "dtype", None), np.dtype | ExtendedDType):
        return _node_of_typed
    raise TypeError(f"dtype: cannot determine dtype of {x!r}.")


def _node_of_spec(x: Any) -> Node:
    if x in _PLAIN or (type(x) is type and x in _WEAK_PYTHON):
        return x
    return check_user_dtype_supported(x, "dtype")


def _node_of_numpy(x: Any) -> Node:
    found = canonicalize_dtype(x.dtype)
    if found not in ALL_SET and found != float0:
        raise TypeError(f"dtype: only number and bool dtypes are supported.\n    x: {x.dtype}")
    return found


def _node_of_typed(x: Any) -> Node:
    return python_kinds[x.dtype] if getattr(x, "weak_type", False) and x.dtype != bool_ else x.dtype
