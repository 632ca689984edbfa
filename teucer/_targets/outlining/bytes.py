"""Bytes of arrays, and of operands and results of calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from teucer._core.jaxpr import Jaxpr

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray


def bytes_of(aval: ShapedArray) -> int:
    """The bytes of a value; 0 if it has no memory, or an unknown size."""
    physical = getattr(aval, "physical", None)
    if physical is None or aval.symbolic:
        return 0
    return int(physical.size * physical.dtype.itemsize)


def carried(jaxpr: Jaxpr) -> int:
    """The bytes of a jaxpr's inputs and results."""
    return sum(bytes_of(v.aval) for v in (*jaxpr.invars, *jaxpr.outvars))
