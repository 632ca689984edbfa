"""The target of TPUs."""

from __future__ import annotations

from typing import ClassVar, final

from teucer._targets.interface import Kernels, Target


@final
class TPU(Target):
    """TPUs. Nothing is tuned for them yet: programs are compiled unchanged, except for what their
    user asks."""

    kernels: ClassVar[Kernels] = Kernels(
        built_in={
            "getrf": "LuDecomposition",
            "geqrf": "Qr",
            "orgqr": "ProductOfElementaryHouseholderReflectors",
            "syevd": "Eigh",
        },
        lacks={"eigh": ("QR", "QDWH"), "svd": ("QR", "JACOBI", "DIVIDE_AND_CONQUER")},
        transfers=True,
    )
    wired = True
