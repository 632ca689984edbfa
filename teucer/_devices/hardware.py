"""Whether this machine has the hardware of a plugin. Looked up before the plugin starts.

A plugin without its hardware takes seconds to say so, or minutes, and logs errors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

# PCI vendors, and the base classes of their devices that compute: of Google's all but storage and
# network cards, which its virtual machines have.
_GOOGLE, _NVIDIA, _AMD = "0x1ae0", "0x10de", "0x1002"
_STORAGE, _NETWORK, _DISPLAY, _ACCELERATOR = "0x01", "0x02", "0x03", "0x12"

# Environment variables that libtpu reads when it is loaded. Where no TPU is, it neither asks a
# metadata server, nor writes logs, nor keeps other processes from compiling.
_WITHOUT = {
    "tpu": {
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_ACCELERATOR_TYPE": "v5litepod-4",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_WORKER_ID": "0",
        "TPU_LOG_DIR": "disabled",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    }
}


def lacks(platform: str, root: str = "/") -> str | None:
    """The hardware that a platform's plugin needs and this machine lacks; None if it has all, or
    that is not known.

    root: the folder that holds `dev` and `sys`.
    """
    if platform not in _LOOKS:
        return None
    there, lacking = _LOOKS[platform]
    return None if there(root) else lacking


def quiet(platform: str, root: str = "/") -> None:
    """Set environment variables before the plugin of a platform is loaded. If there is no TPU, they
    make libtpu quick and silent, and let several processes use it. Variables that users have set
    stay."""
    if lacks(platform, root) is not None:
        for name, value in _WITHOUT.get(platform, {}).items():
            os.environ.setdefault(name, value)


def _has_tpu(root: str) -> bool:
    return any(
        vendor == _GOOGLE and kind not in (_STORAGE, _NETWORK) for vendor, kind in _pci(root)
    )


def _has_nvidia(root: str) -> bool:
    return _has_file(root, "nvidia", "dxg", "nvhost", "nvgpu", "nvmap") or any(
        vendor == _NVIDIA and kind == _DISPLAY for vendor, kind in _pci(root)
    )


def _has_amd(root: str) -> bool:
    return _has_file(root, "kfd", "dxg") or any(
        vendor == _AMD and kind in (_DISPLAY, _ACCELERATOR) for vendor, kind in _pci(root)
    )


def _has_file(root: str, *beginnings: str) -> bool:
    """Whether a device file has a name that begins so."""
    try:
        return any(name.startswith(beginnings) for name in os.listdir(os.path.join(root, "dev")))
    except OSError:
        return False


def _pci(root: str) -> Iterator[tuple[str, str]]:
    """The vendor and the base class of each device on the PCI bus."""
    folder = os.path.join(root, "sys", "bus", "pci", "devices")
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        try:
            with (
                open(os.path.join(folder, name, "vendor")) as vendor,
                open(os.path.join(folder, name, "class")) as kind,
            ):
                found = vendor.read().strip(), kind.read().strip()[:4]
        except OSError:  # a device that has just gone
            continue
        yield found


# By platform: how its hardware is looked for, and the message if there is none.
_LOOKS = {
    "tpu": (_has_tpu, "no TPU chip is on the PCI bus of this machine"),
    "cuda": (
        _has_nvidia,
        "this machine has no NVIDIA GPU: none on its PCI bus, and no /dev/nvidia*",
    ),
    "rocm": (_has_amd, "this machine has no AMD GPU: none on its PCI bus, and no /dev/kfd"),
}
