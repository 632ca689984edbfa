"""A job in XLA's hands: lowered, and compiled as one executable."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from teucer._executables.compile import AnyExecutable, Source, compile_module
from teucer._programs.job import Job
from teucer._programs.lower import Lowering, lower
from teucer._programs.prepare import finished, prepared
from teucer._targets.table import target_of


def located(job: Job) -> tuple[Lowering, AnyExecutable]:
    """A job lowered, and compiled as one executable, whose instructions say where in the user's
    program they come from."""
    lowering = lower(prepared(job)._replace(quiet=True), locations=True)
    return lowering, compiler(lowering, job.options)()[0]


def prepared_executable(job: Job) -> AnyExecutable:
    return whole_executable(prepared(job))


def whole_executable(job: Job) -> AnyExecutable:
    """The one executable of a prepared job."""
    return compiler(lower(finished(job)._replace(quiet=True)), job.options)()[0]


def compiler(
    lowering: Lowering, options: Sequence[tuple[str, object]], *, lean: bool = False
) -> Callable[[], tuple[AnyExecutable, Source]]:
    """The compiler of a lowered jaxpr; lean: quickly rather than well."""
    placement = lowering.placement
    return functools.partial(
        compile_module,
        lowering.text,
        placement.devices,
        use_shardy=placement.mesh is not None,
        overrides=dict(options),
        callbacks=lowering.callbacks,
        switches=target_of(placement.platform).switches(
            lowering.jaxpr, lean=lean, parts=len(placement.devices)
        ),
    )
