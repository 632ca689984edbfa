"""Errors of tracing as findings."""

from __future__ import annotations

import re

from teucer._base import errors
from teucer._check.findings import Line
from teucer._check.program import Found

_VALUES = (
    errors.ConcretizationTypeError, errors.TracerBoolConversionError,
    errors.TracerArrayConversionError, errors.TracerIntegerConversionError, errors.JAXIndexError,
)  # fmt: skip


# As errors say it that are of no class of their own.
_NOT_KNOWN = re.compile(r"This concrete value was not available|is traced; its value is not known")


def of_error(err: Exception, line: Line | None) -> Found | None:
    """The finding for an error of tracing; None for errors that are not about types and sizes."""
    text = str(err)
    first, _, rest = text.partition("\n")
    lines = [part.strip() for part in rest.splitlines() if part.strip()]
    if isinstance(err, errors.InconclusiveDimensionOperation):
        return Found(
            "T102",
            f"the program works for some sizes only. {first}",
            line,
            "Give a narrower range of sizes, or write it without asking for the size.",
        )
    if isinstance(err, errors.UnexpectedTracerError):
        return Found(
            "T101", f"a traced value has left its function. {first}", line,
            "Return it instead of keeping it in a global or an attribute.",
        )  # fmt: skip
    if isinstance(err, _VALUES) or (
        isinstance(err, TypeError | IndexError) and _NOT_KNOWN.search(text)
    ):
        depends = next((part for part in lines if "depends on the value" in part), "")
        return Found(
            "T103",
            f"{first} {depends}".strip(),
            line,
            "If it is the same in most calls, mark the argument static (static_argnames); else "
            "choose with jnp.where or lax.cond, and loop with lax.while_loop.",
        )
    if isinstance(err, ValueError) and "on-hashable static" in first:
        return Found("T104", first, line, "Pass a tuple for a list, or make the argument dynamic.")
    fits = TypeError | ValueError | IndexError | errors.ShardingTypeError
    if isinstance(err, fits) and not isinstance(err, errors.JAXTypeError):
        return Found(
            "T101",
            " ".join([first, *lines[:4]]),
            line,
            "Change the shapes or types at this line; jax.debug.show prints those before it.",
        )
    return None
