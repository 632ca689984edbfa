"""Source maps of StableHLO text with locations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from teucer._base.lazy import listing, refusing
from teucer._experimental.source_maps import MappingsGenerator, SourceMap
from teucer.experimental.source_mapper.common import canonicalize_filename

__all__ = ["create_mlir_sourcemap"]
__dir__ = listing(__name__, __all__)
if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)

_DEFINED = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_PLACE = re.compile(r'"([^"]+)":(\d+):(\d+)')
_USED = re.compile(r"loc\((#loc\d*)\)\s*$")


def create_mlir_sourcemap(mlir_dump: str) -> SourceMap:
    """The source map of a module's text: of each line that says where it comes from."""
    lines = mlir_dump.split("\n")
    defined = {match[1]: match[2] for line in lines if (match := _DEFINED.match(line))}
    sources: list[str] = []
    generator = MappingsGenerator()
    for line in lines:
        generator.new_group()
        used = _USED.search(line)
        place = _place(used[1], defined) if used and "=" in line else None
        if place is not None:
            file = canonicalize_filename(place[0])
            if file not in sources:
                sources.append(file)
            generator.new_segment(
                len(line) - len(line.lstrip()), sources.index(file), place[1] - 1, place[2] - 1
            )
    generator.new_group()
    return SourceMap(3, sources, [""] * len(sources), [], generator.mappings())


def _place(name: str, defined: dict[str, str]) -> tuple[str, int, int] | None:
    """File, line and column of a location, the innermost of a chain."""
    seen = set()
    while name in defined and name not in seen:
        seen.add(name)
        place = _PLACE.search(defined[name])
        if place is not None:
            return place[1], int(place[2]), int(place[3])
        inner = re.search(r"#loc\d+", defined[name])
        if inner is None:
            return None
        name = inner[0]
    return None
