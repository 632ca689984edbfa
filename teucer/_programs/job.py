"""The job: what is to become a program, as one record that travels from a jaxpr to its
executable."""

from __future__ import annotations

from typing import Any, NamedTuple

from teucer._base import config
from teucer._core.jaxpr import Jaxpr
from teucer._devices.placement import Placement
from teucer._executables.prefetch import Prefetch
from teucer._targets.interface import Mode, Target
from teucer._targets.table import target_of


class Job(NamedTuple):
    """A jaxpr without constants that is to run on devices.

    donated: which of its arguments the program may overwrite. keep_unused: whether the program
    takes arguments that it does not use.
    options, outline: `compiler_options` and `outline` of `jit`. prefetch: the record of the job
    that an earlier process left.
    quiet: whether nothing of the job is logged or dumped.
    """

    jaxpr: Jaxpr
    name: str
    placement: Placement
    donated: tuple[bool, ...]
    keep_unused: bool = False
    options: tuple[tuple[str, Any], ...] = ()
    outline: bool | None = None
    prefetch: Prefetch | None = None
    quiet: bool = False

    @property
    def key(self) -> tuple[Any, ...]:
        """The key of its program in the cache of the jaxpr."""
        return (
            self.donated,
            self.keep_unused,
            self.placement,
            self.options,
            self.outline,
            config.optimize_jaxprs.value,
            config.outline.value,
            config.rates.value,
            config.locations.value,
        )

    @property
    def mode(self) -> Mode:
        """The mode of outlining, from the argument `outline` of `jit`, else from the option."""
        mode: Mode = (
            config.outline.value if self.outline is None else "force" if self.outline else "off"
        )
        return mode

    @property
    def target(self) -> Target:
        """The target: rewrites for the compiler of the platform."""
        return target_of(self.placement.platform)
