"""The target of CPUs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, final

from teucer._core.jaxpr import Jaxpr
from teucer._executables import cpu_features
from teucer._executables.compile import Switches
from teucer._lower import hlo
from teucer._targets.cpu import convolutions, products
from teucer._targets.cpu.expensive import keep_expensive
from teucer._targets.cpu.outline import FORCED, Costs, has_symbolic_sizes, outlined
from teucer._targets.cpu.stripped import without_bodies
from teucer._targets.cpu.switches import has_plain_loops, suits_eigen
from teucer._targets.interface import Mode, Target
from teucer._xla import client as xla

__all__ = ["CPU"]

# Bytes of executables from which on a stripped form gains: less is loaded in a few milliseconds.
LEAST_STRIPPED = 1 << 16


@final
class CPU(Target):
    """What XLA's CPU compiler does well, and what it does not (docs/outlining.md, docs/convolutions.md)."""

    legal: ClassVar[Mapping[Callable[..., Any], Callable[..., Any]]] = {
        hlo.dot_general: products.dot_general,
        hlo.convolution: convolutions.convolution,
    }
    keeps_callbacks = True

    def prepare(self, jaxpr: Jaxpr, mode: Mode) -> Jaxpr:
        """Outlined; what is expensive becomes a call too, where it would be computed again and again."""
        if mode == "off" or has_symbolic_sizes(jaxpr):
            return jaxpr
        return keep_expensive(outlined(jaxpr, FORCED if mode == "force" else Costs()))

    def switches(self, jaxpr: Jaxpr, *, lean: bool) -> Switches:
        """Without what only other than plain loops gain from; convolutions by Eigen where it takes less time."""
        flags = os.environ.get("XLA_FLAGS", "")  # who sets such options there knows which
        extra: tuple[str, ...] = ()
        overrides: dict[str, Any] = {}
        if "xla_backend_extra_options" not in flags and (lean or has_plain_loops(jaxpr)):
            extra = xla.LEAN_CODE
        if suits_eigen(jaxpr) and not any(option in flags for option in xla.EIGEN_CONVOLUTIONS):
            overrides = xla.EIGEN_CONVOLUTIONS
        return Switches(overrides, extra)

    def pack(self, data: bytes) -> bytes | None:
        """Without the bodies of fusions."""
        return without_bodies(data) if len(data) >= LEAST_STRIPPED else None

    def machine(self) -> str:
        """The features of the processor."""
        return cpu_features.host()
