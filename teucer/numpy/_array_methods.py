"""The methods of arrays, given to the C++ array type and to tracers."""

from __future__ import annotations

import importlib
import operator
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays.arrays import ArrayImpl
from teucer._base import dtypes, errors
from teucer._core.provided import References, provided
from teucer._core.trace import Tracer
from teucer._core.types import is_valid_type
from teucer._derived.moves import device_put
from teucer._xla import arrays as xla
from teucer.lax import _conversion, _structure
from teucer.lax import _elementwise as lax
from teucer.numpy import _indexing, _interchange, _operators, _ufuncs

if TYPE_CHECKING:
    from teucer._core.typing import Array, DTypeLike


# Methods that are the function of the same name, by the module that defines it; loaded on first
# use.
_FUNCTIONS = {
    "_reductions": (
        "all",
        "any",
        "argmax",
        "argmin",
        "max",
        "mean",
        "min",
        "prod",
        "ptp",
        "std",
        "sum",
        "var",
    ),
    "_cumulative": ("cumprod", "cumsum"),
    "_linear": ("dot",),
    "_logic": ("clip",),
    "_floats": ("round",),
    "_matrices": ("trace",),
    "_index_tricks": ("diagonal",),
    "_manipulation": ("ravel", "squeeze", "swapaxes"),
    "_stacking": ("repeat",),
    "_nonzero": ("nonzero",),
    "_select": ("choose",),
    "_sorting": ("argpartition", "argsort", "searchsorted", "sort"),
    "_taking": ("take",),
}


# Members that arrays and tracers each have of their own.
_OWN = (
    "__copy__", "__deepcopy__", "addressable_data", "addressable_shards", "committed",
    "copy_to_host_async", "device", "dtype", "global_shards", "is_fully_addressable",
    "is_fully_replicated", "item", "itemsize", "nbytes", "ndim", "shape", "sharding", "size",
)  # fmt: skip


def _method(name: str, module: str) -> Any:
    found: list[Any] = []

    def method(self: object, *args: object, **kwargs: object) -> Any:
        if not found:
            found.append(getattr(importlib.import_module(f"teucer.numpy.{module}"), name))
        return found[0](self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"As the function `{name}`, of this array."
    return method


# Dtypes and bits


def astype(x: Any, dtype: DTypeLike, copy: bool = False, device: object = None) -> Any:
    """This array as another dtype; as the function `astype`."""
    return _interchange.astype(x, dtype, copy=copy, device=device)


def view(x: Array, dtype: DTypeLike | None = None, type: None = None) -> Any:
    """The bits of this array as another dtype; the last axis grows or shrinks where the widths
    differ.

    Raises ValueError if the last axis does not hold whole elements of the new dtype.
    """
    if type is not None:
        raise NotImplementedError(
            "`type` argument of array.view() is not supported.\n"
            "  Leave it out: arrays have one class."
        )
    if dtype is None:
        return x
    new = dtypes.check_user_dtype_supported(dtype, "view")
    if new == x.dtype:
        return x
    if dtypes.is_extended(x.dtype) or dtypes.is_extended(new):
        raise TypeError(
            f"view: typed keys are no bits of numbers, got {x.dtype} as {new}.\n"
            "  jax.random.key_data gives their words."
        )
    n_old, n_new = dtypes.bit_width(x.dtype), dtypes.bit_width(new)
    if n_old != n_new and x.ndim == 0:
        raise ValueError(
            "view() of a 0d array is only supported if the itemsize is unchanged.\n"
            f"    x: {x.dtype}, dtype: {new}"
        )
    if (x.shape[-1] * n_old if x.ndim else n_old) % n_new:
        raise ValueError(
            "When changing to a larger dtype, its size must be a divisor of the total size in "
            "bytes of the last axis of the array.\n    x: "
            f"{x.dtype}[{','.join(map(str, x.shape))}], dtype: {new}"
        )
    return _from_bits(_to_bits(x, min(n_old, n_new)), new)


def _to_bits(x: Array, width: int) -> Any:
    """The bits of x as unsigned integers of a width, along the last axis."""
    if x.dtype == np.bool_:
        bits = _structure.convert_element_type(x, np.dtype(np.uint8))
    elif x.dtype.kind == "c":
        parts = [
            _structure.reshape(part(x), (*x.shape, 1)) for part in (_ufuncs.real, _ufuncs.imag)
        ]
        return _to_bits(_flat_last(_join(parts), x.shape), width)
    else:
        bits = x
    parts_of = min(width, dtypes.bit_width(bits.dtype))
    out = _conversion.bitcast_convert_type(bits, dtypes.as_dtype(f"uint{parts_of}"))
    return _flat_last(out, x.shape) if out.ndim > x.ndim else out


def _join(parts: list[Any]) -> Any:
    return importlib.import_module("teucer.numpy._stacking").concatenate(parts, axis=-1)


def _flat_last(x: Array, shape: tuple[int, ...]) -> Any:
    """x, which has one axis more than the shape, with its last two axes joined."""
    if not shape:
        return x
    return _structure.reshape(x, (*shape[:-1], shape[-1] * x.shape[-1]))


def _from_bits(bits: Any, dtype: Any) -> Any:
    if dtype == np.bool_:
        return _ufuncs.not_equal(bits, 0)
    if dtype.kind == "c":
        part = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
        parts = _from_bits(bits, part)
        parts = _structure.reshape(parts, (*parts.shape[:-1], parts.shape[-1] // 2, 2))
        return lax.complex(parts[..., 0], parts[..., 1])
    n, width = dtypes.bit_width(bits.dtype), dtypes.bit_width(dtype)
    if width > n:
        k = width // n
        bits = _structure.reshape(bits, (*bits.shape[:-1], bits.shape[-1] // k, k))
    return _conversion.bitcast_convert_type(bits, dtype)


def byteswap(x: Array) -> Any:
    """This array with the order of the bytes of each element reversed."""
    if x.dtype.itemsize == 1:
        return x
    width = 4 if x.dtype == np.complex64 else 8 if x.dtype == np.complex128 else x.dtype.itemsize
    octets = view(_structure.reshape(x, (*x.shape, 1)), np.uint8)
    grouped = _structure.reshape(octets, (*x.shape, octets.shape[-1] // width, width))
    turned = grouped[..., ::-1]
    return _structure.reshape(view(_structure.reshape(turned, octets.shape), x.dtype), x.shape)


# Places, copies and Python's protocols


def copy(x: Array) -> Any:
    """A copy of this array."""
    if dtypes.is_string(x.dtype):
        return device_put(x, may_alias=False)
    return _conversion.copy_p.call(x)[0]


def to_device(x: Array, device: object, *, stream: None = None) -> Any:
    """This array on a device or laid out by a sharding."""
    if stream is not None:
        raise NotImplementedError(
            "to_device: the argument stream is not supported.\n  Leave it out."
        )
    return device_put(x, device)


def _round(number: Any, ndigits: int | None = None) -> Any:
    rounded = importlib.import_module("teucer.numpy._floats").round
    if ndigits is None:
        out = rounded(number)
        return _structure.convert_element_type(out, dtypes.canonicalize_dtype(int))
    return rounded(number, ndigits)


def _contains(x: Array, other: Any) -> bool:
    if not isinstance(other, list | tuple) and not is_valid_type(other):
        raise TypeError(f"Array.__contains__: unsupported operand type {type(other)}.")
    if x.ndim != 1:
        raise ValueError(
            f"Array.__contains__: search array must be one-dimensional, got arr.shape={x.shape}.\n"
            "  jnp.any(x == value) looks in all axes."
        )
    if np.ndim(other):
        raise ValueError(
            "Array.__contains__: query value must be a scalar, got "
            f"query.shape={np.shape(other)}.\n  jnp.isin(values, x) says it of each."
        )
    return bool(importlib.import_module("teucer.numpy._reductions").any(_ufuncs.equal(x, other)))


def _reversed(x: Array) -> Iterator[Any]:
    if x.ndim == 0:
        raise TypeError("iteration over a 0-d array")
    return iter([x[i] for i in range(x.shape[0])][::-1])


def _array_namespace(x: Array, *, api_version: str | None = None) -> Any:
    known = "2024.12"
    if api_version not in (None, known):
        raise ValueError(
            f"api_version={api_version!r} is not available; available versions are: {[known]}"
        )
    return sys.modules["teucer.numpy"]


def _array_module(x: Array, types: Any) -> Any:
    if all(issubclass(t, ArrayImpl | Tracer | xla.Array) for t in types):
        return sys.modules["teucer.numpy"]
    return NotImplemented


def _no_flat(x: Array) -> Any:
    raise NotImplementedError(
        "JAX Arrays do not implement the arr.flat property: consider arr.flatten() instead."
    )


def _deepcopy(x: Array, memo: object) -> Any:
    return copy(x)


_METHODS: dict[str, Any] = {
    "astype": astype,
    "view": view,
    "byteswap": byteswap,
    "copy": copy,
    "to_device": to_device,
    "real": property(_ufuncs.real, doc="The real part."),
    "imag": property(_ufuncs.imag, doc="The imaginary part; 0 for real numbers."),
    "conj": _ufuncs.conj,
    "conjugate": _ufuncs.conj,
    "flat": property(_no_flat),
    "__round__": _round,
    "__contains__": _contains,
    "__array_namespace__": _array_namespace,
    "__array_module__": _array_module,
}
_ARRAY_METHODS: dict[str, Any] = {
    "__array_priority__": 100,
    "__copy__": copy,
    "__deepcopy__": _deepcopy,
    "__hex__": lambda x: hex(operator.index(x)),
    "__oct__": lambda x: oct(operator.index(x)),
    "__numpy_dtype__": property(lambda x: x.dtype),
}


def _unknown(name: str) -> Any:
    """The method `name` of tracers, which needs the values: an error where they are not known."""

    def method(self: Any, *args: object, **kwargs: object) -> Any:
        value = self.concrete()
        if value is None:
            raise errors.ConcretizationTypeError(
                self,
                f"The {name}() method was called on traced array with shape "
                f"{self.aval.str_short()}.",
            )
        return getattr(value if hasattr(value, name) else np.asarray(value), name)(*args, **kwargs)

    method.__name__ = name
    method.__doc__ = (
        f"As `{name}` of arrays, where the value is known; raises ConcretizationTypeError "
        "elsewhere."
    )
    return method


def _unknown_property(name: str) -> Any:
    """A property of tracers that would need the arrays: where these lie is not known."""

    def read(self: Any) -> Any:
        raise errors.ConcretizationTypeError(
            self,
            f"The '{name}' attribute is not available on traced array with shape "
            f"{self.aval.str_short()}.",
        )

    return property(read, doc="Raises ConcretizationTypeError.")


def _no_device(self: Any) -> Any:
    raise AttributeError(
        f"{type(self).__name__} has no attribute device\n  It is not known on which device a "
        "traced array lies; jax.typeof(x).sharding is the sharding in its type.",
        name="device",
        obj=self,
    )


_TRACER_METHODS: dict[str, Any] = {
    "device": property(_no_device, doc="Raises AttributeError."),
    **{
        name: _unknown_property(name)
        for name in (
            "addressable_shards",
            "committed",
            "global_shards",
            "is_fully_addressable",
            "is_fully_replicated",
        )
    },
    "__reversed__": _reversed,
    "itemsize": property(lambda x: x.dtype.itemsize, doc="Bytes an element."),
    "nbytes": property(lambda x: x.size * x.dtype.itemsize, doc="Bytes of all elements."),
    **{
        name: _unknown(name)
        for name in (
            "item",
            "tolist",
            "tobytes",
            "addressable_data",
            "copy_to_host_async",
            "delete",
            "devices",
            "is_deleted",
            "on_device_size_in_bytes",
            "unsafe_buffer_pointer",
        )
    },
}


def _references() -> References:
    # For programs with references, whose methods are loaded as well.
    importlib.import_module("teucer.numpy._references")
    whole: References = importlib.import_module("teucer.lax._references").WHOLE
    return whole


provided.fill(references=_references)


def attach() -> None:
    """Give arrays and tracers their operators and methods."""
    methods = {
        name: _method(name, module) for module, names in _FUNCTIONS.items() for name in names
    }
    methods.update(_METHODS)
    xla.attach(
        ArrayImpl, methods | _operators.array_operators() | _ARRAY_METHODS | _indexing.ATTACH
    )
    # The abstract class too, for programs that look there: `jax.Array.sum`.
    own = {name: getattr(ArrayImpl, name) for name in _OWN}
    xla.attach(xla.Array, own | methods | _operators.tracer_operators() | _indexing.ATTACH)
    xla.attach(Tracer, methods | _operators.tracer_operators() | _TRACER_METHODS | _indexing.ATTACH)
