"""Kinds of NVIDIA GPUs, and what they can do."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from teucer._core.provided import provided
from teucer._devices import backends
from teucer._targets.gpu.target import GPU


class GpuVersion(enum.Enum):
    """Kinds of GPUs by their names in the driver."""

    A10 = "NVIDIA A10"
    A30 = "NVIDIA A30"
    A100 = "NVIDIA A100"
    H100 = "NVIDIA H100"
    H200 = "NVIDIA H200"
    GH200 = "NVIDIA GH200"
    B200 = "NVIDIA B200"
    GB200 = "NVIDIA GB200"
    B300 = "NVIDIA B300"
    GB300 = "NVIDIA GB300"
    GB10 = "NVIDIA GB10"
    L4 = "NVIDIA L4"
    L40 = "NVIDIA L40"
    T4 = "Tesla T4"
    RTX_4090 = "NVIDIA GeForce RTX 4090"
    RTX_PRO_4500 = "NVIDIA RTX PRO 4500"
    RTX_PRO_5000 = "NVIDIA RTX PRO 5000"
    RTX_PRO_6000 = "NVIDIA RTX PRO 6000"
    THOR = "NVIDIA Thor"
    VR200 = "NVIDIA VR200"

    def __str__(self) -> str:
        return self.value


# Source: NVIDIA, "CUDA GPU Compute Capability", developer.nvidia.com/cuda-gpus.
_CAPABILITIES = {
    "7.5": "T4",
    "8.0": "A30 A100",
    "8.6": "A10",
    "8.9": "L4 L40 RTX_4090",
    "9.0": "H100 H200 GH200",
    "10.0": "B200 GB200",
    "10.3": "B300 GB300",
    "10.7": "VR200",
    "11.0": "THOR",
    "12.0": "RTX_PRO_4500 RTX_PRO_5000 RTX_PRO_6000",
    "12.1": "GB10",
}


@dataclass(frozen=True, kw_only=True)
class GpuInfo:
    """A description of a GPU: its kind, None if it is none of `GpuVersion`, and its compute
    capability, as text and as a number of the same digits."""

    gpu_version: GpuVersion | None
    arch_name: str
    compute_capability: int


def get_gpu_info_from_version(gpu_version: GpuVersion) -> GpuInfo:
    """The description of GPUs of a kind. Raises ValueError for an object that is no GpuVersion.

    >>> get_gpu_info_from_version(GpuVersion.H100).compute_capability
    90
    """
    for capability, names in _CAPABILITIES.items():
        if isinstance(gpu_version, GpuVersion) and gpu_version.name in names.split():
            return _info(gpu_version, capability)
    raise ValueError(f"Unsupported GPU version: {gpu_version}")


def _info(version: GpuVersion | None, capability: str) -> GpuInfo:
    return GpuInfo(
        gpu_version=version,
        arch_name=capability,
        compute_capability=int(capability.replace(".", "")),
    )


def is_gpu_device() -> bool:
    """Whether the default device is a GPU.

    >>> is_gpu_device()
    False
    """
    return isinstance(provided.target(backends.devices()[0].platform), GPU)


def get_gpu_info() -> GpuInfo:
    """The description of the default device. Raises ValueError if it is no GPU."""
    device = backends.devices()[0]
    if not is_gpu_device():
        raise ValueError(f"Unsupported GPU device kind: {device.device_kind}")
    known = {version.value: version for version in GpuVersion}
    return _info(known.get(device.device_kind), str(device.compute_capability))
