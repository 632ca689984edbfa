"""Scalar types such as `jnp.float32`: they name a dtype, and called they make an array of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from teucer._base import dtypes
from teucer._core.typing import DType, DTypeLike
from teucer.numpy._creation import asarray

__all__ = ["can_cast", "finfo", "iinfo", "isdtype", "issubdtype", "promote_types", "result_type"]


class ScalarType(type):
    """The class of scalar types. They compare equal to NumPy's type of the same dtype, and hash
    like it."""

    dtype: np.dtype[Any]

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __eq__(cls, other: object) -> bool:
        return (
            cls is other
            or cls.dtype.type == other
            or (
                isinstance(other, np.dtype | ScalarType)
                and cls.dtype == getattr(other, "dtype", other)
            )
        )

    def __ne__(cls, other: object) -> bool:
        return not cls == other

    def __call__(cls, x: Any) -> Any:
        return asarray(np.asarray(x, cls.dtype) if isinstance(x, str) else x, dtype=cls.dtype)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.dtype.type)

    def __repr__(cls) -> str:
        return f"<class 'jax.numpy.{cls.__name__}'>"


def _scalar_type(dtype: np.dtype[Any]) -> ScalarType:
    doc = f"The scalar type of dtype {dtype.name}; called, it makes an array of that dtype."
    return ScalarType(
        dtype.name, (), {"dtype": dtype, "__doc__": doc, "__module__": "teucer.numpy"}
    )


SCALAR_TYPES = {("bool_" if d == np.bool_ else d.name): _scalar_type(d) for d in dtypes.ALL}
SCALAR_ALIASES = {
    "bool": "bool_",
    "int_": "int64",
    "uint": "uint64",
    "float_": "float64",
    "complex_": "complex128",
    "single": "float32",
    "double": "float64",
    "csingle": "complex64",
    "cdouble": "complex128",
}


finfo, iinfo = dtypes.finfo, dtypes.iinfo


def issubdtype(arg1: DTypeLike | DType, arg2: DTypeLike) -> bool:
    """Whether dtype arg1 is arg2 or belongs to the family arg2, such as jnp.floating.

    >>> issubdtype('bfloat16', np.floating)
    True
    """
    return dtypes.issubdtype(arg1, arg2)


def result_type(*args: Any) -> Any:
    """The dtype in which arrays, numbers and dtypes meet.

    >>> result_type('int8', 1.0)
    dtype('float32')
    """
    return dtypes.result_type(*args)


def promote_types(a: DTypeLike, b: DTypeLike) -> Any:
    """The dtype in which two dtypes meet.

    >>> promote_types('int8', 'uint8')
    dtype('int16')
    """
    return dtypes.promote_types(a, b)


def can_cast(from_: object, to: object, casting: Any = "safe") -> bool:
    """Whether values of one dtype can be cast to another by the rules of NumPy.

    >>> can_cast('int32', 'int8')
    False
    """
    return bool(np.can_cast(dtypes.as_dtype(from_), dtypes.as_dtype(to), casting))


_ISDTYPE = {
    "bool": (np.bool_,),
    "signed integer": (np.signedinteger,),
    "unsigned integer": (np.unsignedinteger,),
    "integral": (np.integer,),
    "real floating": (np.floating,),
    "complex floating": (np.complexfloating,),
    "numeric": (np.integer, np.floating, np.complexfloating),
}


def isdtype(dtype: DTypeLike, kind: object) -> bool:
    """Whether a dtype is of a kind of the array API ('integral', 'real floating', ...), is a given
    dtype, or one of several.

    Raises ValueError for a name that is no kind.

    >>> isdtype('float32', 'real floating')
    True
    """
    own = dtypes.as_dtype(dtype)
    for item in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(item, str):
            if item not in _ISDTYPE:
                raise ValueError(
                    f"Unrecognized kind={item!r}; expected one of {list(_ISDTYPE)}, "
                    "or a compatible input for jnp.dtype()"
                )
            if any(dtypes.issubdtype(own, family) for family in _ISDTYPE[item]):
                return True
        elif own == dtypes.as_dtype(item):
            return True
    return False
