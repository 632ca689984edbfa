"""Memory spaces as the tpu dialect names them."""

from __future__ import annotations

from typing import Any

from teucer._pallas.mosaic.text import Refused
from teucer._pallas.semaphores import SemaphoreType

_NAMES = {
    "any": "any",
    "hbm": "hbm",
    "host": "host",
    "vmem": "vmem",
    "smem": "smem",
    "vmem_shared": "vmem_shared",
    "cmem": "cmem",
}


def space_of(given: Any, default: str) -> Any:
    """The space of a block or of scratch memory; semaphores are spaces of their own."""
    if isinstance(given, SemaphoreType):
        return given
    name = str(given) if given is not None else "default"
    if name == "default":
        return default
    found = _NAMES.get(name)
    if found is None:
        raise Refused(
            f"memory_space={given!r}",
            "TPU kernels know pl.ANY, pl.HOST, pltpu.VMEM, pltpu.SMEM and pltpu.HBM.",
        )
    return found
