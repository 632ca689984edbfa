"""The types of elements.

Families and their order, canonical forms, limits, conversions between families.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from teucer._base import config
from teucer._base.short_names import short_name

DType = Any
"""np.dtype or ExtendedDType."""


class extended(np.generic):
    """The scalar type above all extended dtypes, for `issubdtype`."""


class prng_key(extended):
    """The scalar type above all dtypes of typed random keys, for `issubdtype`."""


class ExtendedDType:
    """A dtype that NumPy does not know. Subclasses define its members, equality and hash.

    physical: the type of an element's words. of_words: arrays of this dtype from their words.
    """

    type: type[extended]
    name: str
    itemsize: int
    physical: Any
    of_words: Callable[[Any], Any]
    kind = "V"  # none of NumPy's kinds of numbers

    def __repr__(self) -> str:
        return self.name


bool_ = np.dtype("bool")
float0 = np.dtype([("float0", np.void, 0)])
"""The dtype of tangents of integers and booleans: elements that carry nothing."""

_ML_INTEGERS = ("int1", "int2", "int4", "uint1", "uint2", "uint4")
_ML_FLOATS = (
    "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3",
    "float8_e8m0fnu", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "bfloat16",
)  # fmt: skip
_named = {name: np.dtype(getattr(ml_dtypes, name)) for name in (*_ML_INTEGERS, *_ML_FLOATS)}
bfloat16 = _named["bfloat16"]


def _dtypes(names: str) -> tuple[np.dtype, ...]:
    return tuple(_named[name] if name in _named else np.dtype(name) for name in names.split())


SIGNED = _dtypes("int1 int2 int4 int8 int16 int32 int64")
UNSIGNED = _dtypes("uint1 uint2 uint4 uint8 uint16 uint32 uint64")
FLOATS = _dtypes(" ".join(_ML_FLOATS) + " float16 float32 float64")
COMPLEX = _dtypes("complex64 complex128")
INTEGERS = SIGNED + UNSIGNED
INEXACT = FLOATS + COMPLEX
NUMERIC = INTEGERS + INEXACT
ALL = (bool_, *NUMERIC)
ALL_SET = frozenset(ALL)

python_scalar_dtypes: dict[type, np.dtype] = {
    bool: bool_,
    int: np.dtype("int64"),
    float: np.dtype("float64"),
    complex: np.dtype("complex128"),
}
"""Python's scalar types and the dtypes that they have when 64-bit types are on."""

NARROWED = {
    np.dtype("int64"): np.dtype("int32"), np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"), np.dtype("complex128"): np.dtype("complex64"),
}  # fmt: skip
_PARENTS: dict[type, type] = {
    **{d.type: np.signedinteger for d in SIGNED},
    **{d.type: np.unsignedinteger for d in UNSIGNED},
    **{d.type: np.floating for d in FLOATS},
}
_canonical: dict[bool, dict[Any, np.dtype]] = {False: {}, True: {}}


def as_dtype(spec: Any) -> DType:
    """The dtype that `spec` names: a dtype, a name, a Python or NumPy scalar type, an object with a
    `dtype`.

    Not canonicalized: float means float64. Raises TypeError for anything else.

    >>> as_dtype("bfloat16")
    dtype(bfloat16)
    """
    if isinstance(spec, np.dtype | ExtendedDType):
        return spec
    if isinstance(spec, str) and spec in _named:
        return _named[spec]
    own = getattr(spec, "dtype", None)
    if isinstance(own, np.dtype | ExtendedDType):
        return own
    if isinstance(spec, type) and issubclass(spec, np.generic) and spec in _ABSTRACT:
        raise TypeError(
            f"dtype: {spec.__name__} is a family of dtypes, not one of them.\n"
            "  Name one, for example 'float32'."
        )
    return np.dtype(spec)


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> DType:
    """The dtype that stands for `dtype`: 64-bit ones become 32-bit ones unless `enable_x64` is on.

    Raises TypeError for an object that is no dtype, ValueError for an extended dtype that is not
    allowed.

    >>> canonicalize_dtype("float64")
    dtype('float32')
    """
    x64 = config.enable_x64.value
    try:
        return _canonical[x64][dtype]
    except (KeyError, TypeError):
        pass
    if isinstance(dtype, ExtendedDType) or (
        isinstance(dtype, type) and issubclass(dtype, extended)
    ):
        if allow_extended_dtype:
            return dtype
        name = dtype.__name__ if isinstance(dtype, type) else dtype.name
        raise ValueError(f"dtype: an extended dtype is not allowed here.\n    dtype: {name}")
    full = as_dtype(dtype)
    if isinstance(full, ExtendedDType):
        return canonicalize_dtype(full, allow_extended_dtype)
    result = full if x64 or full not in NARROWED else NARROWED[full]
    if isinstance(dtype, np.dtype | str | type):
        _canonical[x64][dtype] = result
    return result


def is_extended(dtype: Any) -> bool:
    """Whether `dtype` is one that NumPy does not know."""
    return isinstance(dtype, ExtendedDType)


string = np.dtypes.StringDType()
"""The dtype of strings of any length. Arrays of them lie on CPUs; no program computes with them."""


def is_string(dtype: object) -> bool:
    """Whether `dtype` is that of strings of any length, however they say that one is missing."""
    return type(dtype) is np.dtypes.StringDType


def bit_width(dtype: DType) -> int:
    """Bits of one element: 1, 2 or 4 for the narrow integers, whose elements NumPy stores in a
    byte.

    >>> bit_width("uint4")
    4
    """
    if dtype is None:
        raise ValueError("itemsize_bits: dtype cannot be None.")
    dtype = as_dtype(dtype)
    if isinstance(dtype, ExtendedDType):
        return dtype.itemsize * 8
    if dtype == float0:
        return 0
    narrow = _NARROW_BITS.get(dtype)
    return dtype.itemsize * 8 if narrow is None else narrow


_NARROW_BITS = {_named[n]: int(n.removeprefix("u").removeprefix("int")) for n in _ML_INTEGERS} | {
    _named["float4_e2m1fn"]: 4, _named["float6_e2m3fn"]: 6, _named["float6_e3m2fn"]: 6,
}  # fmt: skip
_ABSTRACT = {
    np.generic,
    np.number,
    np.integer,
    np.signedinteger,
    np.unsignedinteger,
    np.inexact,
    np.floating,
    np.complexfloating,
    np.flexible,
    np.character,
    extended,
    prng_key,
}


def issubdtype(a: Any, b: Any) -> bool:
    """Whether dtype `a` is `b` or belongs to the family `b` (np.floating, dtypes.prng_key, ...).

    The ml_dtypes floats are np.floating, the narrow integers np.signedinteger or
    np.unsignedinteger.

    >>> issubdtype("bfloat16", np.floating), issubdtype("int4", np.signedinteger)
    (True, True)
    """
    try:
        return _subdtypes[a, b]
    except (KeyError, TypeError):
        pass
    result = _is_subdtype(a, b)
    with contextlib.suppress(TypeError):  # unhashable, such as a dtype given as a list of fields
        _subdtypes[a, b] = result
    return result


_subdtypes: dict[tuple[Any, Any], bool] = {}


def _is_subdtype(a: Any, b: Any) -> bool:
    if isinstance(b, ExtendedDType):
        return isinstance(a, ExtendedDType) and a == b
    kind = _scalar_class(a)
    family = _scalar_class(b)
    if kind is family or family is np.generic:
        return True
    parent = _PARENTS.get(kind)
    return issubclass(kind, family) or (parent is not None and issubclass(parent, family))


def _scalar_class(spec: Any) -> type:
    if isinstance(spec, ExtendedDType):
        return spec.type
    if isinstance(spec, type) and spec in _ABSTRACT:
        return spec
    if isinstance(getattr(spec, "dtype", None), ExtendedDType):
        raise ValueError(f"Could not convert {spec!r} to a dtype.\n  Pass its dtype, x.dtype.")
    scalar: type = as_dtype(spec).type
    return scalar


def finfo(dtype: Any) -> Any:
    """Limits of a floating dtype: eps, max, min, tiny, bits, ... (for a complex dtype: of its
    parts).

    >>> float(finfo("bfloat16").eps)
    0.0078125
    """
    if isinstance(dtype, np.ndarray | np.generic):
        dtype = dtype.dtype
    return ml_dtypes.finfo(as_dtype(dtype))


def iinfo(int_type: Any) -> Any:
    """Limits of an integer dtype: min, max, bits.

    >>> iinfo("int4").max
    7
    """
    if isinstance(int_type, int) and not isinstance(int_type, bool):
        int_type = int
    return ml_dtypes.iinfo(as_dtype(int_type))


python_kinds: dict[Any, type] = {
    bool_: bool,
    **dict.fromkeys(INTEGERS, int),
    **dict.fromkeys(FLOATS, float),
    **dict.fromkeys(COMPLEX, complex),
}


def to_numeric_dtype(dtype: Any) -> DType:
    """bool becomes int32; anything else stays."""
    full = as_dtype(dtype)
    return np.dtype("int32") if full == bool_ else full


def to_inexact_dtype(dtype: Any) -> DType:
    """Integers and bool become floats, 64-bit ones float64 and the others float32; anything else
    stays."""
    full = as_dtype(dtype)
    return _INEXACT.get(full, full)


def to_floating_dtype(dtype: Any) -> DType:
    """As `to_inexact_dtype`, and complex becomes the dtype of its parts."""
    full = to_inexact_dtype(dtype)
    return _PARTS.get(full, full)


def to_complex_dtype(dtype: Any) -> DType:
    """complex128 for 64-bit reals, complex64 for the others; complex stays.

    >>> to_complex_dtype("bfloat16")
    dtype('complex64')
    """
    full = to_inexact_dtype(dtype)
    if full in COMPLEX:
        return full
    if full not in FLOATS:
        raise TypeError(
            f"dtype: there is no complex dtype for this one.\n    dtype: {short_name(full)}"
        )
    return COMPLEX[full == np.dtype("float64")]


_INEXACT = {d: np.dtype("float64" if d.itemsize == 8 else "float32") for d in (bool_, *INTEGERS)}
_PARTS = {np.dtype("complex64"): np.dtype("float32"), np.dtype("complex128"): np.dtype("float64")}
