"""Source maps of jaxprs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from teucer._base import source
from teucer._base.lazy import listing
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, subjaxprs
from teucer._derived.staging import make_jaxpr
from teucer._experimental.source_maps import MappingsGenerator, SourceMap
from teucer.experimental.source_mapper.common import (
    Pass,
    SourceMapDump,
    canonicalize_filename,
    register_pass,
)

__all__ = ["canonicalize_filename", "compile_jaxpr", "make_jaxpr_dump"]
__dir__ = listing(__name__, __all__)


def compile_jaxpr(
    work_dir: str, f: Callable[..., Any], f_args: Any, f_kwargs: Any, **_: object
) -> ClosedJaxpr:
    """The jaxpr of f for arguments."""
    closed: ClosedJaxpr = make_jaxpr(f)(*f_args, **f_kwargs)
    return closed


def make_jaxpr_dump(jaxpr: ClosedJaxpr | Jaxpr, **_: object) -> SourceMapDump:
    """A jaxpr as text, with the places that its equations come from."""
    inner = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    text = str(inner)
    waiting = _equations(inner)
    sources: list[str] = []
    generator = MappingsGenerator()
    for line in text.split("\n"):
        generator.new_group()
        start = 0
        while waiting:
            column = line.find(f"= {waiting[0].primitive.name}", start)
            if column < 0:
                break
            eqn, start = waiting.pop(0), column + 2
            place = source.locate(eqn.place)
            if place is not None:
                file = canonicalize_filename(place.file)
                if file not in sources:
                    sources.append(file)
                generator.new_segment(start, sources.index(file), place.line - 1, place.column - 1)
    generator.new_group()
    return SourceMapDump(SourceMap(3, sources, [], [], generator.mappings()), text, "jaxpr")


def _equations(jaxpr: Jaxpr) -> list[Eqn]:
    """The equations in the order in which they are printed."""
    found: list[Eqn] = []
    for eqn in jaxpr.eqns:
        found.append(eqn)
        for inner in subjaxprs(jaxpr.replace(eqns=[eqn])):
            found += _equations(inner)
    return found


register_pass(Pass("jaxpr", compile_jaxpr, make_jaxpr_dump))
