"""The target of TPUs."""

from __future__ import annotations

from typing import final

from teucer._targets.interface import Target

__all__ = ["TPU"]


@final
class TPU(Target):
    """TPUs. Nothing is tuned for them yet: programs are compiled as they are, but for what their user asks."""
