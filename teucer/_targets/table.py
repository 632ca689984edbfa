"""The targets by platform."""

from __future__ import annotations

from teucer._core.provided import provided
from teucer._targets.cpu.target import CPU
from teucer._targets.gpu.target import GPU
from teucer._targets.interface import Target
from teucer._targets.tpu.target import TPU

__all__ = ["target_of"]

_TARGETS: dict[str, Target] = {"cpu": CPU(), "cuda": GPU(), "rocm": GPU(), "tpu": TPU()}
_OTHER = Target()


def target_of(platform: str) -> Target:
    """The target of a platform: 'cpu', 'cuda', 'rocm', 'tpu', or another, of which nothing is known."""
    return _TARGETS.get(platform, _OTHER)


provided.fill(target=target_of)
