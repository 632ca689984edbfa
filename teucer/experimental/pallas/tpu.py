"""Names of `pallas.tpu` for kernels that are interpreted: memory spaces, grids whose first arguments are known before."""

from teucer.experimental.pallas._checked import InterpretParams
from teucer.experimental.pallas._kernel import load, store
from teucer.experimental.pallas._specs import CompilerParams, PrefetchScalarGridSpec, _Space

__all__ = ["ANY", "CMEM", "HBM", "SMEM", "VMEM", "CompilerParams", "InterpretParams", "MemorySpace", "PrefetchScalarGridSpec",
           "load", "store"]


class MemorySpace(_Space):
    """The memories of a TPU. Interpreted, all of them are the host's."""

    ANY = "any"
    VMEM = "vmem"
    VMEM_SHARED = "vmem_shared"
    SMEM = "smem"
    CMEM = "cmem"
    HBM = "hbm"
    SEMAPHORE = "semaphore_mem"


ANY, VMEM, SMEM, CMEM, HBM = MemorySpace.ANY, MemorySpace.VMEM, MemorySpace.SMEM, MemorySpace.CMEM, MemorySpace.HBM
