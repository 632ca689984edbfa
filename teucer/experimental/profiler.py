"""Profiles as an input of the compiler."""

from __future__ import annotations

from pathlib import Path

from teucer._base.lazy import listing
from teucer._xla.platforms.profiling import profiled_instructions

__all__ = ["get_profiled_instructions_proto"]
__dir__ = listing(__name__, __all__)


def get_profiled_instructions_proto(tensorboard_dir: str) -> bytes:
    """The serialized `ProfiledInstructionsProto` of a folder of profiles: the cost of each
    instruction on GPUs and TPUs; empty for profiles of CPUs.

    tensorboard_dir: the folder that `jax.profiler.start_trace` was given.
    Raises FileNotFoundError if it is not there.
    """
    if not Path(tensorboard_dir).is_dir():
        raise FileNotFoundError(
            f"get_profiled_instructions_proto: there is no folder {tensorboard_dir}.\n"
            "  Make a profile: with jax.profiler.trace(folder)."
        )
    proto: bytes = profiled_instructions(tensorboard_dir)
    return proto
