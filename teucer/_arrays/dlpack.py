"""Arrays of other libraries in the memory of the host, by the DLPack protocol (its header is
dlpack.h of dmlc/dlpack, 1.1).

A capsule is read here and not by jaxlib. So strides, read-only memory and every dtype of whole
bytes are understood alike.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

from teucer._base import dtypes

# DLPack's numbers of kinds of devices whose memory the host reads: the CPU, and memory pinned for
# CUDA and ROCm.
HOST_KINDS = frozenset({1, 3, 11})
_READ_ONLY = 1
_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6
_FLOATS_OF_ONE_BYTE = {
    7: "float8_e3m4",
    8: "float8_e4m3",
    9: "float8_e4m3b11fnuz",
    10: "float8_e4m3fn",
    11: "float8_e4m3fnuz",
    12: "float8_e5m2",
    13: "float8_e5m2fnuz",
    14: "float8_e8m0fnu",
}
_NAMES = {
    _INT: "int{}",
    _UINT: "uint{}",
    _FLOAT: "float{}",
    _BFLOAT: "bfloat{}",
    _COMPLEX: "complex{}",
    _BOOL: "bool",
}


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", ctypes.pythonapi)
)
_CAPSULES: tuple[tuple[bytes, bytes, type[_Managed] | type[_Versioned]], ...] = (
    (b"dltensor_versioned", b"used_dltensor_versioned", _Versioned),
    (b"dltensor", b"used_dltensor", _Managed),
)


def host_view(capsule: object) -> np.ndarray[Any, Any]:
    """A NumPy array of the memory that a capsule names. The memory lives as long as the array.

    The array is read-only where the capsule says so. The capsule is used up.
    Raises BufferError for memory of a device and for dtypes without a NumPy form, ValueError for a
    capsule that was used.
    """
    forms = [form for form in _CAPSULES if _is_valid(capsule, form[0])]
    if not forms:
        raise ValueError(
            "from_dlpack: __dlpack__ returned no DLPack capsule, or one that was used.\n"
            f"  It returned: {capsule!r}"
        )
    ((name, used, kind),) = forms
    address = _pointer(capsule, name)
    managed: Any = kind.from_address(address)
    if kind is _Versioned and managed.major != 1:
        raise BufferError(
            f"from_dlpack: the capsule is of DLPack {managed.major}.{managed.minor}; "
            "versions 0 and 1 are understood."
        )
    tensor = managed.tensor
    if tensor.device_type not in HOST_KINDS:
        raise BufferError(
            "from_dlpack: the capsule's memory is not the host's: its kind of device is "
            f"{tensor.device_type}."
        )
    dtype, (low, extent), (shape, strides) = _dtype(tensor), *_layout(tensor)
    _rename(capsule, used)  # so that its destructor does not free what is ours from here on
    memory: Any = (ctypes.c_char * extent).from_address(
        (tensor.data or 0) + tensor.byte_offset + low
    )
    if managed.deleter:
        weakref.finalize(memory, _Deleter(managed.deleter), address).atexit = False
    view: np.ndarray[Any, Any] = np.ndarray(shape, dtype, memory, -low, strides)
    if kind is _Versioned and managed.flags & _READ_ONLY:
        view.flags.writeable = False
    return view


def _dtype(tensor: _Tensor) -> np.dtype[Any]:
    name = _FLOATS_OF_ONE_BYTE.get(tensor.code) or _NAMES.get(tensor.code, "").format(tensor.bits)
    try:
        dtype = np.dtype(dtypes.as_dtype(name)) if name and tensor.lanes == 1 else None
    except TypeError:
        dtype = None
    if dtype is None or dtype.itemsize * 8 != tensor.bits or dtype not in dtypes.ALL_SET:
        raise BufferError(
            f"from_dlpack: no dtype here is DLPack's type (code {tensor.code}, {tensor.bits} "
            f"bits, {tensor.lanes} lanes).\n  Convert the array to another dtype first."
        )
    return dtype


def _layout(tensor: _Tensor) -> tuple[tuple[int, int], tuple[tuple[int, ...], tuple[int, ...]]]:
    """(the lowest byte, counted from the first element; the number of bytes), (shape, strides in
    bytes)."""
    size = tensor.bits // 8
    shape = tuple(tensor.shape[: tensor.ndim])
    if tensor.strides:
        strides = tuple(size * s for s in tensor.strides[: tensor.ndim])
    else:  # row-major
        strides, step = (), size
        for n in reversed(shape):
            strides, step = (step, *strides), step * n
    if 0 in shape:
        return (0, 0), (shape, strides)
    ends = [s * (n - 1) for n, s in zip(shape, strides, strict=True)]
    low = sum(e for e in ends if e < 0)
    return (low, sum(e for e in ends if e > 0) + size - low), (shape, strides)
