"""Bytes of arrays, and those that calls of functions take and give."""

from __future__ import annotations

from typing import Any

from teucer._core.jaxpr import Jaxpr

__all__ = ["bytes_of", "carried"]


def bytes_of(aval: Any) -> int:
    return int(aval.physical.size * aval.physical.dtype.itemsize)


def carried(jaxpr: Jaxpr) -> int:
    """The bytes of what a jaxpr takes and gives."""
    return sum(bytes_of(v.aval) for v in (*jaxpr.invars, *jaxpr.outvars))
