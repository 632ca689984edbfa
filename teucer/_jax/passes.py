"""Passes over XLA's programs that users write."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from teucer._derived.caches import clear_caches
from teucer._devices import backends
from teucer._executables import disk_cache
from teucer._xla import transforms
from teucer._xla.client import PLATFORMS


class PipelineStage(enum.IntEnum):
    """When the compiler runs a pass: before it puts instructions into an order, or after."""

    PRE_SCHEDULER = 0
    POST_SCHEDULER = 1


def _clients(op: str, platforms: Sequence[str] | str | None) -> list[Any]:
    if platforms is None:
        return list(backends.backends().values())
    names = [platforms] if isinstance(platforms, str) else list(platforms)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"{op}: platforms are names such as 'cpu', got {platforms!r}.")
    there = backends.backends()
    # This machine may lack a platform; then there is no program to change.
    return [backends.client_of(name) for name in names if name in there or name not in PLATFORMS]


def _checked(op: str, stage: Any) -> PipelineStage:
    if not isinstance(stage, PipelineStage):
        raise TypeError(f"{op}: stage must be a PipelineStage, got {stage!r}.")
    return stage


def register_hlo_module_transformation(
    callback: Callable[[bytes], bytes | None],
    *,
    name: str,
    stage: PipelineStage = PipelineStage.PRE_SCHEDULER,
    platforms: Sequence[str] | str | None = None,
) -> None:
    """Have the compiler run a pass over each program that it compiles from now on.

    callback: takes a serialized `HloModuleProto` and returns another, or None where it changes
        nothing. It may run in any thread. name: the name of the pass; passes of one stage run in
        the order in which they were given.
    platforms: names of platforms; by default all that there are. A missing pass does nothing.
    Raises TypeError for a stage or callback of another kind, RuntimeError for an unknown platform.
    Programs that were compiled before are forgotten, and while there are such passes no program is
    read from disk or kept there.

    >>> import teucer as jax
    >>> sizes = []
    >>> register_hlo_module_transformation(lambda module: sizes.append(len(module)), name="sizes",
    ...     platforms="cpu")
    >>> _ = jax.jit(lambda x: x + 1)(1.0)
    >>> clear_hlo_module_transformation("sizes", platforms="cpu"), len(sizes) > 0
    (True, True)
    """
    op = "register_hlo_module_transformation"
    stage = _checked(op, stage)
    if not callable(callback):
        raise TypeError(f"{op}: callback must be a function of bytes, got {callback!r}.")
    for client in _clients(op, platforms):
        transforms.give(client, name, int(stage), callback)
        disk_cache.user_passes.add((client.platform, int(stage), name))
    clear_caches()


def clear_hlo_module_transformation(
    name: str,
    stage: PipelineStage = PipelineStage.PRE_SCHEDULER,
    platforms: Sequence[str] | str | None = None,
) -> bool:
    """Take a pass back from the compiler; whether it had one of this name and stage.

    platforms: as for `register_hlo_module_transformation`.
    """
    op = "clear_hlo_module_transformation"
    stage = _checked(op, stage)
    found = []
    for client in _clients(op, platforms):
        found.append(transforms.take_back(client, name, int(stage)))
        disk_cache.user_passes.discard((client.platform, int(stage), name))
    if any(found):
        clear_caches()
    return any(found)
