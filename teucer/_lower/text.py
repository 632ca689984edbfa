"""Types and constants as MLIR text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._base import dtypes
from teucer._core.types import ShapedArray
from teucer._devices.specs import UNCONSTRAINED, entry_names
from teucer._dimensions.dimensions import is_symbolic

if TYPE_CHECKING:
    from teucer._core.typing import Aval, DType, Size
    from teucer._devices.shardings import NamedSharding


# The attribute of modules with symbolic dimensions, which are refined to static shapes before they
# are compiled.
POLYMORPHIC = "jax.uses_shape_polymorphism = true"

# The attribute of a buffer whose layout the compiler chooses.
AUTO = 'mhlo.layout_mode = "auto"'

_ELEMENTS: dict[str, str] = {
    "bool": "i1",
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "float8_e3m4": "f8E3M4",
    "float8_e4m3": "f8E4M3",
    "float8_e4m3b11fnuz": "f8E4M3B11FNUZ",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2": "f8E5M2",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "float8_e8m0fnu": "f8E8M0FNU",
    "float4_e2m1fn": "f4E2M1FN",
}
_ELEMENTS |= {f"int{n}": f"i{n}" for n in (2, 4, 8, 16, 32, 64)} | {
    f"uint{n}": f"ui{n}" for n in (2, 4, 8, 16, 32, 64)
}


def buffer(layout: str | None, memory: str | None) -> tuple[str, ...]:
    """The attributes of an argument or a result that say its layout, by XLA's mode, and the kind of
    its memory."""
    laid = () if layout is None else (f'mhlo.layout_mode = "{layout}"',)
    return laid if memory is None else (*laid, f'mhlo.memory_kind = "{memory}"')


def element_type(dtype: DType) -> str:
    """The MLIR name of an element type.

    Raises TypeError for a dtype with which XLA does not compute.

    >>> element_type(np.dtype("uint8")), element_type(np.dtype("complex64"))
    ('ui8', 'complex<f32>')
    """
    if dtype == dtypes.float0:
        return "i1"
    try:
        return _ELEMENTS[dtype.name]
    except KeyError:
        raise TypeError(
            f"Argument with elements of {dtype.name} is not a valid JAX type.\n"
            "  No program computes with such elements: convert them first."
        ) from None


def dtype_of(element: str) -> np.dtype[Any]:
    """The dtype of elements that MLIR calls so.

    >>> dtype_of("ui8"), dtype_of("i1")
    (dtype('uint8'), dtype('bool'))
    """
    return np.dtype(next(name for name, said in _ELEMENTS.items() if said == element))


def tensor_type(aval: Aval) -> str:
    """The MLIR type of values of an aval, `?` for symbolic dimensions; the text is kept on the
    aval.

    >>> tensor_type(ShapedArray((2, 3), np.dtype("float32")))
    'tensor<2x3xf32>'
    """
    try:
        hlo: str = aval._hlo
        return hlo
    except AttributeError:
        pass
    if not isinstance(aval, ShapedArray):
        raise TypeError(f"values of type {aval} cannot be lowered to StableHLO")
    physical = aval.physical
    sizes = "".join(["?x" if is_symbolic(d) else f"{d}x" for d in physical.shape])
    aval._hlo = f"tensor<{sizes}{element_type(physical.dtype)}>"
    return aval._hlo


def joined(lines: Sequence[str]) -> str:
    """Lines as text, each with its end."""
    return "\n".join(lines) + "\n" if lines else ""


def attributes(attrs: Sequence[str]) -> str:
    """The attributes of an argument or a result, behind its type."""
    return f" {{{', '.join(attrs)}}}" if attrs else ""


def quoted(text: str) -> str:
    """A string as MLIR writes it."""
    import json  # for programs that name meshes, places or tags

    return json.dumps(text)


def partition(symbol: str, sharding: NamedSharding, ndim: int, *, of_type: bool = False) -> str:
    """The partition of a value of `ndim` axes over the mesh @symbol: `<@mesh, [{"x"}, {}]>`.

    of_type: a type says it, so that the compiler may partition further along Auto mesh axes:
    `<@mesh, [{"x", ?}, {?}]>`.
    """
    spec = sharding.spec
    entries = (*spec.partitions, *(None,) * (ndim - len(spec)))
    axes = [
        "{?}" if e is UNCONSTRAINED else f"{{{', '.join(map(_axis, entry_names(e)))}}}"
        for e in entries
    ]
    # Along a manual axis the parts are written by hand.
    names = [
        n
        for n in sharding.mesh.axis_names
        if n in spec.unreduced and n not in sharding.mesh.manual_axes
    ]
    unreduced = f", unreduced={spec.combined}{{{', '.join(map(_axis, names))}}}" if names else ""
    whole = ""
    if of_type and sharding.mesh.auto_axes:
        axes = [
            axis if "?" in axis else f"{axis[:-1]}{', ' if len(axis) > 2 else ''}?}}"
            for axis in axes
        ]
        taken = spec.unreduced.union(spec.names())
        rest = [_axis(n) for n in sharding.mesh.explicit_axes if n not in taken]
        whole = f", replicated={{{', '.join(rest)}}}" if rest else ""
    return f"<@{symbol}, [{', '.join(axes)}]{whole}{unreduced}>"


def mesh(symbol: str, shape: Iterable[tuple[object, int]], device_ids: Sequence[int]) -> str:
    """The definition of a mesh of axes with their sizes. device_ids: the mesh's devices as numbers
    in the program's order, if the orders differ."""
    axes = ", ".join(f"{_axis(name)}={size}" for name, size in shape)
    order = f", device_ids=[{', '.join(map(str, device_ids))}]" if device_ids else ""
    return f"sdy.mesh @{symbol} = <[{axes}]{order}>"


def _axis(name: object) -> str:
    return quoted(str(name))


def i64s(xs: Sequence[Size]) -> str:
    """Integers as a dense array attribute: `array<i64: 0, 1>`. Raises
    InconclusiveDimensionOperation for symbolic dimensions."""
    return f"array<i64: {('%d, ' * len(xs) % (*xs,))[:-2]}>" if len(xs) else "array<i64>"


def array(value: object) -> str:
    """A NumPy array as a `dense<...> : tensor<...>` attribute."""
    value = np.asarray(value)
    kind = tensor_type(ShapedArray(value.shape, value.dtype))
    return f"{dense(value)} : {kind}"


def dense(value: np.ndarray) -> str:
    """The `dense<...>` part of an array's attribute."""
    if value.size == 0:
        return "dense<>"
    flat = value.reshape(-1)
    # Bits are compared, not values: nan is not equal to itself, and -0 is equal to 0.
    bits = np.ascontiguousarray(flat).view(np.uint8).reshape(flat.size, -1)
    if value.ndim == 0 or (bits[:1] == bits).all():
        return f"dense<{_scalar(flat[0])}>"
    if value.dtype == np.bool_ or dtypes.bit_width(value.dtype) < 8:
        return f"dense<{_nested(value)}>"
    data = np.ascontiguousarray(value)
    return f'dense<"0x{data.tobytes().hex().upper()}">'


def _nested(value: np.ndarray) -> str:
    return f"[{', '.join(map(_nested, value))}]" if value.ndim else _scalar(value[()])


def _scalar(x: Any) -> str:
    if isinstance(x, np.bool_ | bool):
        return "true" if x else "false"
    if isinstance(x, np.complexfloating):
        return f"({_scalar(x.real)}, {_scalar(x.imag)})"
    if dtypes.issubdtype(x.dtype, np.integer):
        return str(int(x))
    if np.isfinite(x):
        text = repr(float(x))
        if "." in text:
            return text
        if "e" in text:
            return text.replace("e", ".0e")
    width = x.dtype.itemsize * 2
    return f"0x{int.from_bytes(x.tobytes(), 'little'):0{width}X}"


_METADATA = "mhlo.frontend_attributes = {"


def with_metadata(attributes: str, tags: Iterable[tuple[str, str]]) -> str:
    """The discardable attributes of an operation, with metadata for the compiler: pairs of a name
    and a string."""
    listed = ", ".join(f"{quoted(k)} = {quoted(v)}" for k, v in tags)
    if _METADATA in attributes:
        return attributes.replace(_METADATA, f"{_METADATA}{listed}, ", 1)
    return f"{attributes}, {_METADATA}{listed}}}" if attributes else f"{_METADATA}{listed}}}"
