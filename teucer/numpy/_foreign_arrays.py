"""Arrays of other libraries, through DLPack and `__cuda_array_interface__`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from teucer._arrays import dlpack, transfer
from teucer._arrays.arrays import DLPACK_KINDS
from teucer._base import dtypes
from teucer._core.types import ShapedArray
from teucer._devices import backends
from teucer._devices.shardings import single_device_sharding
from teucer._xla import arrays as xla
from teucer.lax import _conversion

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike


def is_foreign(x: ArrayLike) -> bool:
    """Whether `of_other_library` may know how to read x."""
    return (hasattr(x, "__dlpack__") or hasattr(x, "__cuda_array_interface__")) and not isinstance(
        x, np.ndarray | type
    )


def of_other_library(x: Any) -> Any:
    """Arrays that NumPy cannot read: by DLPack, or in the memory of a GPU that
    `__cuda_array_interface__` describes."""
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return from_dlpack(x, None)
    description = x.__cuda_array_interface__
    client = backends.backends().get("cuda")
    if client is None:
        raise RuntimeError(
            "jnp.array: the data are in the memory of a CUDA GPU, and no CUDA device is here: "
            f"{list(backends.backends())}.\n    data: {type(x)}\n  Copy them to the host first."
        )
    buffer = xla.from_cuda_interface(description, client)
    aval = ShapedArray(tuple(description["shape"]), np.dtype(description["typestr"]))
    return xla.assemble(
        aval.carrier, single_device_sharding(buffer.device), [buffer], committed=True
    )


def from_dlpack(x: Any, copy: bool | None) -> Any:
    """The array where it is, in the same memory unless that must be, or may not be (`copy=False`),
    a copy."""
    kind, number = x.__dlpack_device__()
    if kind in dlpack.HOST_KINDS:
        return _on_host(x, copy)
    for platform, own in DLPACK_KINDS.items():
        if kind == own:
            shared = _on_gpu(x, platform, number)
            return _conversion.copy_p.call(shared)[0] if copy else shared
    raise BufferError(
        f"from_dlpack: no device here is of DLPack's kind {int(kind)}.\n"
        f"  Copy the array to the host first.\n    x: {type(x)}"
    )


def _on_host(x: Any, copy: bool | None) -> Any:
    """Another library's array in the host's memory as an array of NumPy. It shares the memory,
    unless `copy` or the library demands a copy."""
    try:
        capsule = x.__dlpack__(max_version=(1, 1))
    except TypeError:  # written before max_version was
        capsule = x.__dlpack__()
    view = dlpack.host_view(capsule)
    dtype = dtypes.canonicalize_dtype(view.dtype)
    reason = (
        f"its dtype is {view.dtype.name}, and here {dtype.name}"
        if dtype != view.dtype
        else "it is not in row-major order"
        if not view.flags.c_contiguous
        else "the source data buffer is not aligned to 64 bytes"
        if view.size and view.ctypes.data % 64
        else ""
    )
    if reason and copy is False:
        raise ValueError(
            f"from_dlpack: Specified input which requires a copy since {reason}, however "
            "copy=False.\n  Set copy=True or copy=None."
        )
    return transfer.put_view(view.astype(dtype, order="C") if copy or reason else view)


def _on_gpu(x: Any, platform: str, number: int) -> Any:
    """A GPU's array of another library as one of the same buffer."""
    found = [
        d
        for name, client in backends.backends().items()
        if name == platform
        for d in client.local_devices()
        if d.local_hardware_id == number
    ]
    if not found:
        raise BufferError(
            f"from_dlpack: the array is on GPU {number} of {platform}, which is not among the "
            f"devices here: {list(backends.backends())}.\n  Copy it to the host first."
        )
    device = found[0]
    stream = device.get_stream_for_external_ready_events()
    buffer = xla.from_dlpack(x.__dlpack__(stream=stream), device, stream)
    aval = ShapedArray(
        tuple(x.shape), dtypes.as_dtype(str(x.dtype).rpartition(".")[2])
    )  # of torch.float32 the end
    return xla.assemble(aval.carrier, single_device_sharding(device), [buffer], committed=True)
