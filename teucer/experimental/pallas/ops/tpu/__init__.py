"""Operations as kernels for TPUs, which run compiled on CPUs too.

Splash attention is compiled as it is written, by XLA.
"""

from __future__ import annotations

from teucer._base.lazy import listing

__all__: list[str] = []
__dir__ = listing(__name__, __all__)
