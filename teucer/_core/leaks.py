"""Tracers that outlive their trace: how they are found, and the errors."""

from __future__ import annotations

import gc
from types import FrameType
from typing import TYPE_CHECKING

from teucer._base import config, errors, source
from teucer._core.trace import Trace, Tracer

if TYPE_CHECKING:
    from teucer._core.typing import Value


def check_alive(x: Value) -> None:
    """Raise UnexpectedTracerError if `x` is a tracer whose trace has ended."""
    if isinstance(x, Tracer) and not x._trace.alive:
        raise errors.UnexpectedTracerError(leak_message(x))


def leak_message(x: Tracer) -> str:
    """The message for a tracer found outside the function that made it."""
    made = x.origin()
    on_line = "as" if made.startswith("argument ") else "on line"
    where = f"\n    it was created {on_line} {made}" if made else ""
    used = f"\n    and is used at {source.describe(source.here())}"
    return (
        "Encountered an unexpected tracer. A function transformed by JAX had a side effect, "
        f"allowing for a reference to an intermediate value with type {x.aval.str_short()} "
        f"wrapped in a {type(x).__name__} to escape the scope of the transformation.\n"
        f"    leaked from {x._trace}{where}{used}\n  A function that is transformed must return "
        "what it computes and not save it to global state, an attribute, a closure or a list.\n"
        "  To find where the value escapes, run with jax.checking_leaks()."
    )


def check_leaks(trace: Trace) -> None:
    """With the option jax_check_tracer_leaks, raise if a tracer of an ended trace is still referred
    to.

    The caller must have dropped its own references to tracers.
    """
    if not config.check_tracer_leaks.value:
        return
    gc.collect()
    leaked = [x for x in gc.get_objects() if isinstance(x, Tracer) and x._trace is trace]
    if leaked:
        listed = "".join(
            [
                f"\n    {x.aval.str_short(short_dtypes=True)}, made at "
                f"{x.origin() or 'an unknown place'}; kept by {_keepers(x, leaked)}"
                for x in leaked[:5]
            ]
        )
        raise Exception(
            f"Leaked trace {trace}. Leaked tracer(s): {len(leaked)}{listed}\n"
            "  Return what the function computes; do not keep it in a global, an attribute, a "
            "closure or a list."
        )


def _keepers(x: Tracer, leaked: list[Tracer]) -> str:
    kinds = {
        type(r).__name__
        for r in gc.get_referrers(x)
        if r is not leaked and not isinstance(r, FrameType)
    }
    return ", ".join(sorted(kinds)) or "a C++ object"
