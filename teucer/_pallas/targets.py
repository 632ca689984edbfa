"""The targets of kernels, by platform: a table of rules, or the reason why there is none."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer import lax
from teucer._core.primitive import Primitive
from teucer._derived.rules_table import Rules
from teucer._pallas import accesses, gpu
from teucer._pallas.merging import lanes_of
from teucer._pallas.mosaic import kernel as mosaic
from teucer._pallas.mosaic.table import MOSAIC
from teucer._pallas.records import Kernel
from teucer._pallas.running import run_grid
from teucer._pallas.triton import kernel as triton
from teucer._pallas.triton.table import TRITON
from teucer._pallas.triton.text import Refused
from teucer.lax import _references, linalg

if TYPE_CHECKING:
    from teucer._core.typing import Value
    from teucer._lower.context import Context


class KernelTarget(NamedTuple):
    """One way to run kernels.

    platforms: the platforms that it is for. how: in a sentence. lower: (ctx, kernel, values) ->
    values; None if it is not compiled.
    rules: a table of the primitives that it has; None if it has all that XLA has.
    """

    name: str
    platforms: tuple[str, ...]
    how: str
    lower: Callable[[Any, Kernel, Sequence[Any]], Any] | None
    rules: Rules[Any] | None = None


def kernel_primitives() -> dict[str, Primitive]:
    """The primitives that kernels are made of, by name: from lax, for references, and for
    kernels."""
    found = {
        str(p): p for module in (lax, linalg, _references, accesses, gpu) for p in vars_of(module)
    }
    return {name: p for name, p in found.items() if name not in _MESHES}


def vars_of(module: Any) -> list[Primitive]:
    return [
        p
        for name in dir(module)
        if name.endswith("_p") and isinstance(p := getattr(module, name), Primitive)
    ]


# Collectives and placements, which kernels cannot have: a kernel runs on one device.
_MESHES = frozenset(
    {
        "all_gather", "all_gather_invariant", "all_gather_reduced", "all_to_all", "axis_index",
        "pbroadcast", "pmax", "pmin", "ppermute", "psum", "psum_invariant", "pvary", "pgather",
        "ragged_all_to_all", "reduce_scatter", "reshard", "sharding_constraint", "unreduced_pmax",
        "unreduced_pmin", "unreduced_psum", "device_put", "unreduced_reduce_scatter",
        "reduced_vary_cast", "vary_unreduced_cast", "psend", "precv",
    }
)  # fmt: skip


def lower_loop(ctx: Any, kernel: Kernel, values: Sequence[Any]) -> Any:
    """Write a kernel as a loop over its grid."""
    return ctx.trace(functools.partial(run_grid, kernel), *values)


def lower_merged(ctx: Any, kernel: Kernel, values: Sequence[Any]) -> Any:
    """Write a kernel as a loop over its grid, in which neighbouring steps are done together."""
    return ctx.trace(lambda *xs: run_grid(kernel, *xs, lanes=lanes_of(kernel)), *values)


TARGETS = (
    KernelTarget(
        "interpreted",
        (),
        "a loop over blocks on any platform, interpret=True; or step by step in Python with "
        "checks, interpret=pl.InterpretParams().",
        lower_loop,
    ),
    KernelTarget(
        "cpu",
        ("cpu",),
        (
            "XLA's loops over blocks, in place; steps that do not depend on one another are done "
            "together."
        ),
        lower_merged,
    ),
    KernelTarget(
        "triton", ("cuda",), "Triton IR, which XLA compiles for NVIDIA GPUs.", triton.lower, TRITON
    ),
    KernelTarget(
        "mosaic_tpu",
        ("tpu",),
        "the tpu dialect, which libtpu compiles; it copies blocks while steps run.",
        mosaic.lower,
        MOSAIC,
    ),
    KernelTarget(
        "mosaic_gpu",
        (),
        (
            "not compiled: warp groups, TMA and tensor memory have no lowering. Kernels run "
            "interpreted."
        ),
        None,
    ),
    KernelTarget(
        "rocm",
        ("rocm",),
        "not compiled: only NVIDIA's GPUs are known to Teucer's Triton. Kernels run interpreted.",
        None,
    ),
)


def lower_kernel(ctx: Context, kernel: Kernel, values: Sequence[Value], *, interpret: bool) -> Any:
    """Write a kernel for the platform that is lowered for.

    Raises NotImplementedError, before anything is compiled, for an operation that the platform
    lacks, with its line and the nearest way around.
    """
    if interpret:
        return lower_loop(ctx, kernel, values)
    target = next((t for t in TARGETS if ctx.platform in t.platforms), None)
    if target is None or target.lower is None:
        why = f"\n    {target.name}: {target.how}" if target is not None else ""
        raise NotImplementedError(
            f"pallas_call: kernels are not compiled for {ctx.platform} yet.\n"
            f"    kernel: {kernel.name}{why}\n  Interpret it there, pallas_call(..., "
            "interpret=True), or run it on the CPU."
        )
    try:
        return target.lower(ctx, kernel, values)
    except Refused as err:
        raise NotImplementedError(
            f"pallas_call of {kernel.name}: {target.name} cannot compile it: {err}"
        ) from None
