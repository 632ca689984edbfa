"""The target of TPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, final

from teucer._targets.interface import Kernels, Target


@final
class TPU(Target):
    """TPUs. Nothing is tuned for them yet: programs are compiled unchanged, except for what their
    user asks, and what libtpu lacks."""

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

    @property
    def legal(self) -> Mapping[str, Callable[..., Any]]:
        """Selections in windows as what libtpu has code for."""
        from teucer._targets.tpu import windows  # for programs that have some

        return {"select_and_scatter": windows.select_and_scatter}
