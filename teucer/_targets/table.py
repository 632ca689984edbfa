"""The targets by platform."""

from __future__ import annotations

import functools

from teucer._core.provided import provided
from teucer._targets.interface import Target


@functools.cache
def target_of(platform: str) -> Target:
    """The target of a platform: 'cpu', 'cuda', 'rocm', 'gpu' for either, 'tpu', or another, of
    which nothing is known.

    It is loaded when it is asked for, since `import teucer` needs none.
    """
    if platform == "cpu":
        from teucer._targets.cpu.target import CPU

        return CPU()
    if platform in ("cuda", "rocm", "gpu"):
        from teucer._targets.gpu.target import CUDA, GPU, ROCm

        return {"cuda": CUDA, "rocm": ROCm}.get(platform, GPU)()
    if platform == "tpu":
        from teucer._targets.tpu.target import TPU

        return TPU()
    return Target()


provided.fill(target=target_of)
