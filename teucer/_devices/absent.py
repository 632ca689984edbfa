"""Errors for programs that would use devices that are not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from teucer._base import errors
from teucer._xla.runtime_errors import reword


def refusal(doing: str, devices: Sequence[Any]) -> str:
    """Why something cannot be done on devices that are not there."""
    count, kind = len(devices), devices[0].device_kind
    return (
        f"{doing} {count} {kind} device{'s' * (count > 1)} of a topology, which are not attached "
        "to this machine, so nothing can run on them here.\n  Read the compiled program "
        "(as_text, memory_analysis, cost_analysis), or serialize it for a machine that has them."
    )


# jaxlib's messages for arrays that are to be put there, from the host and from other devices.
_SAID = "compile-only client", "non-PjRt-compatible client"


def explain(err: BaseException) -> None:
    """Turn the runtime's error "the client only compiles" into an error that says which devices are
    missing."""
    if isinstance(err, errors.JaxRuntimeError) and any(said in str(err) for said in _SAID):
        reword(
            err,
            "The array would lie on devices of a topology, which are not attached to this machine."
            "\n  Programs can be compiled for them: jit(f).lower(ShapeDtypeStruct(shape, dtype, "
            "sharding=...)).compile(). To run here, use jax.devices().",
        )


def default_memory_kind(devices: Any) -> str | None:
    """The memory of a list of devices; None where their plugin describes none, as of GPUs that are
    not there."""
    try:
        kind: str | None = devices.default_memory_kind
    except (ValueError, errors.JaxRuntimeError) as err:
        if "DefaultMemory is not supported" not in str(err):
            raise
        return None
    return kind
