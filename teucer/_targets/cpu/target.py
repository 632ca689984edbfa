"""The target of CPUs."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, final

from teucer._core.jaxpr import Jaxpr
from teucer._executables import cpu_features
from teucer._executables.compile import Switches
from teucer._targets.cpu import constants, tuned
from teucer._targets.cpu.alike import with_like_parts
from teucer._targets.cpu.by_bits import by_bits
from teucer._targets.cpu.by_rows import by_rows
from teucer._targets.cpu.expensive import keep_expensive
from teucer._targets.cpu.faults import switches_around, without_faults
from teucer._targets.cpu.rates import committed_rates
from teucer._targets.cpu.reciprocals import by_reciprocals
from teucer._targets.cpu.stripped import without_bodies
from teucer._targets.cpu.switches import gains_by_whole_loops, has_plain_loops, suits_eigen
from teucer._targets.extent import has_more, has_symbolic_sizes
from teucer._targets.interface import Kernels, Mode, Target
from teucer._targets.outlining.constants import FORCED_COSTS, Speeds
from teucer._xla import client as xla
from teucer._xla.client import jaxlib_version

if TYPE_CHECKING:
    from teucer._lower.context import Context
    from teucer._lower.value import Value
    from teucer._targets.outlining.cut_into_pieces import CutProgram


_written = functools.cache(str)  # asked for at each compilation


@final
class CPU(Target):
    """The target for XLA's CPU compiler (docs/outlining.md, docs/convolutions.md)."""

    kernels: ClassVar[Kernels] = Kernels(
        lapack=True,
        lacks={"eigh": ("QDWH", "JACOBI"), "svd": ("JACOBI", "POLAR")},
        python="xla_ffi_python_cpu_callback",
        buffers="xla_buffer_python_cpu_callback",
    )
    in_host_memory = True
    adds_complex = True
    sorts_integers = True
    draws_alone = True
    fast_float64 = True
    reduces_in_order = True
    sends_nan = False
    keeps_callbacks = True
    one_memory = True
    compiles_alone = True
    again_as_calls = constants.AGAIN_LEAST

    @property
    def speeds(self) -> Speeds:
        """As measured (`Rates`). The memory of the host is its own."""
        rates = committed_rates(jaxlib_version)
        return Speeds(constants.PRODUCTS, rates.element, rates.memory, rates.memory)

    def prepare(self, jaxpr: Jaxpr, mode: Mode) -> Jaxpr:
        """Outlined. Expensive operations that would be computed repeatedly become calls.
        Comparisons read bits. Operations that the release computes wrongly are written in another
        way."""
        return by_bits(without_faults(self._outlined(jaxpr, mode)))

    def _outlined(self, jaxpr: Jaxpr, mode: Mode) -> Jaxpr:
        if mode == "off" or has_symbolic_sizes(jaxpr):
            return jaxpr
        found = tuned.current()
        if len(jaxpr.eqns) == 1 and not jaxpr.eqns[0].primitive.higher_order:
            return keep_expensive(jaxpr, found)  # eager calls of one operation do without more
        costs = FORCED_COSTS if mode == "force" else found.costs
        if mode == "force" or has_more(
            jaxpr, costs.saved
        ):  # a smaller one keeps the functions that its user sees in it
            from teucer._targets.outlining.outline import outlined  # not loaded for small programs

            jaxpr = outlined(jaxpr, costs)
        jaxpr = by_rows(by_reciprocals(keep_expensive(jaxpr, found)))
        return with_like_parts(jaxpr) if xla.KEEPS_BARRIERS else jaxpr

    def finished(self, jaxpr: Jaxpr, mode: Mode) -> Jaxpr:
        """With loops over small arrays joined."""
        if mode == "off" or has_symbolic_sizes(jaxpr):
            return jaxpr
        from teucer._targets.cpu.joined import joined  # eager calls of one operation do without

        return joined(jaxpr)

    def pieces(self, jaxpr: Jaxpr, mode: Mode) -> CutProgram | None:
        """As the rates that hold here say, where the user does not."""
        if mode == "force":
            return super().pieces(jaxpr, mode)
        from teucer._targets.outlining.cut_into_pieces import cut  # as above

        return cut(jaxpr, tuned.current().limits)

    def decisions(self) -> str:
        """The break-even points."""
        return _written(tuned.current())

    @functools.cached_property
    def legal(self) -> Mapping[str, Callable[..., Any]]:
        """Rewrites of products and convolutions into operations with fast code; reductions that
        keep NaN."""
        from teucer._targets.cpu import (  # for programs that have some
            convolutions,
            extremes,
            products,
        )

        return {
            "dot_general": products.dot_general,
            "convolution": convolutions.convolution,
            "extreme": extremes.extreme,
            "extreme_of_windows": extremes.extreme_of_windows,
        }

    def sort(
        self, ctx: Context, xs: Sequence[Value], dimension: int, keys: int
    ) -> tuple[Value, ...] | None:
        """By digits, where there are enough elements."""
        from teucer._targets.cpu import radix  # for programs that sort

        return radix.sort(ctx, xs, dimension, keys)

    def switches(self, jaxpr: Jaxpr, *, lean: bool, parts: int = 1) -> Switches:
        """Switches: none that help only other than plain loops; loops as one kernel each, and
        convolutions by Eigen, if that is faster."""
        flags = os.environ.get("XLA_FLAGS", "")  # users who set such options there know them
        extra: tuple[str, ...] = ()
        overrides: dict[str, Any] = {}
        if "xla_backend_extra_options" not in flags:
            if lean or has_plain_loops(jaxpr, parts):
                extra = xla.LEAN_CODE
            joins = gains_by_whole_loops(jaxpr)
            if joins is not None:
                extra += xla.LOOPS_WHOLE if joins else xla.LOOPS_APART
        if suits_eigen(jaxpr) and not any(option in flags for option in xla.EIGEN_CONVOLUTIONS):
            overrides = xla.EIGEN_CONVOLUTIONS
        around = switches_around(jaxpr)
        if around.overrides and not any(option in flags for option in around.overrides):
            overrides = {**overrides, **around.overrides}
        return Switches(overrides, extra + around.extra)

    def pack(self, data: bytes) -> bytes | None:
        """Without the bodies of fusions."""
        return without_bodies(data) if len(data) >= constants.STRIPPED_LEAST else None

    def machine(self) -> str:
        """The features of the processor."""
        return cpu_features.host()
