"""The target of GPUs, by CUDA or ROCm."""

from __future__ import annotations

from typing import final

from teucer._targets.interface import Target

__all__ = ["GPU"]


@final
class GPU(Target):
    """GPUs, by CUDA or ROCm. Nothing is tuned for them yet: programs are compiled as they are, but for what their user asks."""
