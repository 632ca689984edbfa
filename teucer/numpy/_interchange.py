"""Arrays in other dtypes, from bytes and files, as text, and the array API standard's queries about
a library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._base import dtypes
from teucer._base.source import warn
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike, DTypeLike
from teucer._devices import backends
from teucer._devices.shardings import Sharding, single_device_sharding
from teucer._xla.client import Device
from teucer.lax import _elementwise as lax
from teucer.lax import _structure
from teucer.lax._families import scalar_like
from teucer.numpy._creation import array, asarray, checked_dtype, place
from teucer.numpy._promotion import as_value, check_arraylike

__all__ = [
    "__array_namespace_info__", "astype", "from_dlpack", "frombuffer", "fromfile", "fromiter",
    "fromstring",
]  # fmt: skip


def astype(
    x: ArrayLike, dtype: DTypeLike | None, /, *, copy: bool = False, device: object = None
) -> Array:
    """x as another dtype: floats become integers by rounding towards zero, complex numbers real by
    their real part, with a DeprecationWarning.

    dtype: None means the default float. Typed keys cannot be converted.

    >>> astype(np.float32([1.7, -1.7]), int)
    Array([ 1, -1], dtype=int32)
    """
    check_arraylike("astype", x)
    value = as_value(x)
    given = typeof(value).dtype
    kind = checked_dtype(float if dtype is None else dtype, "astype")
    if dtypes.is_extended(kind) or dtypes.is_extended(given):
        out = lax.convert_element_type(value, kind)
    elif kind == np.bool_ and dtypes.issubdtype(given, np.complexfloating):
        out = lax.ne(value, scalar_like(value, 0))
    else:
        if dtypes.issubdtype(given, np.complexfloating) and not dtypes.issubdtype(
            kind, np.complexfloating
        ):
            warn(
                "Casting from complex to real dtypes leaves the imaginary part out, and will be "
                "an error in JAX. Say jnp.real(x) first.",
                DeprecationWarning,
            )
            value = lax.real(value)
        out = _structure.convert_element_type(value, kind)
    return place(array(out) if copy else asarray(out), device)


def from_dlpack(x: object, /, *, device: object = None, copy: bool | None = None) -> Array:
    """The array that another library's array is, through the DLPack protocol; it shares the other's
    memory where it can.

    x: anything with `__dlpack__` and `__dlpack_device__`, of any strides. device: a Device or
    Sharding to be on.
    copy: False asks for shared memory, True for memory of its own; None shares memory if possible.
        Memory of the host is shared if it is in row-major order, begins at a multiple of 64 bytes,
        and has a dtype in force (`enable_x64`).
    Do not write into shared memory from the other library: arrays here are immutable, and programs
    rely on it. Raises TypeError for an object without DLPack, BufferError for devices that are not
    there and for dtypes without a form here, ValueError if copy=False and only a copy would do.

    >>> from_dlpack(np.float32([1, 2]))
    Array([1., 2.], dtype=float32)
    """
    if isinstance(x, ArrayImpl):
        return _moved(array(x, copy=bool(copy)), device, copy)
    if not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        raise TypeError(
            "The array passed to from_dlpack must have __dlpack__ and __dlpack_device__ methods.\n"
            f"  x: {type(x)}"
        )
    from teucer.numpy import _foreign_arrays  # for data of other libraries

    return _moved(_foreign_arrays.from_dlpack(x, copy), device, copy)


def _moved(x: Any, device: object, copy: bool | None) -> Array:
    """x where `device` asks for it."""
    if device is None:
        return x
    target = single_device_sharding(device) if isinstance(device, Device) else device
    if copy is False and isinstance(target, Sharding) and target != x.sharding:
        raise ValueError(
            f"from_dlpack: Specified device={device} which requires a copy since the source "
            f"device is {x.device}, however copy=False.\n  Set copy=True or copy=None."
        )
    return place(x, device)


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """The numbers whose bytes a buffer holds.

    >>> frombuffer(b'ab', 'uint8')
    Array([97, 98], dtype=uint8)
    """
    return asarray(np.frombuffer(buffer, dtype=dtypes.as_dtype(dtype), count=count, offset=offset))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """The numbers that a text holds, between separators.

    >>> fromstring('1 2', int, sep=' ')
    Array([1, 2], dtype=int32)
    """
    return asarray(np.fromstring(string, dtype=dtypes.as_dtype(dtype), count=count, sep=sep))


def _refused(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"jnp.{name}() is not implemented because it may be non-pure and thus unsafe for use "
            "with JIT and other JAX transformations.\n  Consider using "
            f"jnp.asarray(np.{name}(...)) instead."
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Raises NotImplementedError: what is read could change between two calls."
    return function


fromfile = _refused("fromfile")
fromiter = _refused("fromiter")


class ArrayNamespaceInfo:
    """What this library is able to do, in the form of the array API standard."""

    def capabilities(self) -> dict[str, Any]:
        """Which optional features there are."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> None:
        """The default device: None, as it depends on the options."""
        return

    def default_dtypes(self, *, device: object = None) -> dict[str, Any]:
        """The dtypes of arrays for which none is asked."""
        kinds = {
            "real floating": float,
            "complex floating": complex,
            "integral": int,
            "indexing": int,
        }
        return {name: dtypes.canonicalize_dtype(kind) for name, kind in kinds.items()}

    def devices(self) -> list[Any]:
        """The devices that arrays can be on; None for the default one."""
        return [None, *backends.devices()]

    def dtypes(self, *, device: object = None, kind: object = None) -> dict[str, Any]:
        """The standard's dtypes that are available, of one kind or several."""
        names = [d for d in _STANDARD if dtypes.canonicalize_dtype(d).name == d]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        for item in kinds:
            if item is not None and item not in _KINDS:
                raise ValueError(f"unsupported kind: {item!r}\n  Kinds are {', '.join(_KINDS)}.")
        return {
            d: np.dtype(d)
            for d in names
            if any(
                item is None or any(dtypes.issubdtype(d, k) for k in _KINDS[item]) for item in kinds
            )
        }


_STANDARD = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
    "float64", "complex64", "complex128",
)  # fmt: skip
_KINDS: dict[str, tuple[Any, ...]] = {
    "bool": (np.bool_,),
    "signed integer": (np.signedinteger,),
    "unsigned integer": (np.unsignedinteger,),
    "integral": (np.integer,),
    "real floating": (np.floating,),
    "complex floating": (np.complexfloating,),
    "numeric": (np.integer, np.floating, np.complexfloating),
}


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """What this library is able to do, in the form of the array API standard."""
    return ArrayNamespaceInfo()
