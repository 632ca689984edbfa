"""Source maps of StableHLO, of HLO before the compiler, and of optimised HLO."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from teucer._base import config
from teucer._base.lazy import listing
from teucer._derived import hlo_text
from teucer._derived.stages import jit
from teucer._executables.compile import named_as_written
from teucer._experimental.source_maps import MappingsGenerator, SourceMap
from teucer.experimental.source_mapper.common import (
    Pass,
    SourceMapDump,
    canonicalize_filename,
    register_pass,
)
from teucer.experimental.source_mapper.mlir import create_mlir_sourcemap

__all__ = [
    "HloPass", "METADATA_REGEX", "optimized_generate_dump", "original_hlo_generate_dump",
    "parse_hlo_dump", "stable_hlo_generate_dump", "trace_and_lower",
]  # fmt: skip
__dir__ = listing(__name__, __all__)

METADATA_REGEX = re.compile(r"metadata=\{[^}]*stack_frame_id=(\d+)[^}]*\}")


class HloPass(Enum):
    """The forms, by their names."""

    STABLE_HLO = "hlo:stable-hlo"
    ORIGINAL = "hlo:original"
    OPTIMIZED = "hlo:optimized"


def trace_and_lower(
    work_dir: str, f: Callable[..., Any], f_args: Any, f_kwargs: Any, **_: object
) -> Any:
    """f lowered for arguments."""
    return jit(f).lower(*f_args, **f_kwargs)


def parse_hlo_dump(text: str) -> SourceMap:
    """The source map of HLO text: of each instruction that says where it comes from."""
    return _parse_hlo_new_format(text.split("\n"))


def _parse_hlo_new_format(lines: Sequence[str]) -> SourceMap:
    places = hlo_text.places("\n".join(lines))
    sources: list[str] = []
    generator = MappingsGenerator()
    for line in lines:
        generator.new_group()
        found = METADATA_REGEX.search(line)
        place = places.get(int(found[1])) if found else None
        if place is not None:
            file = canonicalize_filename(place[0])
            if file not in sources:
                sources.append(file)
            generator.new_segment(
                len(line) - len(line.lstrip()), sources.index(file), place[1] - 1, 0
            )
    generator.new_group()
    return SourceMap(3, sources, [], [], generator.mappings())


def stable_hlo_generate_dump(args: Any, **_: object) -> SourceMapDump:
    """A lowered program as StableHLO, with its source map."""
    text = args.as_text(debug_info=True)
    return SourceMapDump(create_mlir_sourcemap(text), text, HloPass.STABLE_HLO.value)


def original_hlo_generate_dump(args: Any, **_: object) -> SourceMapDump:
    """A lowered program as HLO, with its source map."""
    text = args.as_text("hlo", debug_info=True)
    return SourceMapDump(parse_hlo_dump(text), text, HloPass.ORIGINAL.value)


def optimized_generate_dump(
    args: Any, xla_compiler_flags: dict[str, Any] | None = None, **_: object
) -> SourceMapDump:
    """A lowered program as HLO that the compiler made, with its source map."""
    with config.locations(True):
        text = named_as_written(
            args.traced.lower().compile(compiler_options=xla_compiler_flags).as_text()
        )
    return SourceMapDump(parse_hlo_dump(text), text, HloPass.OPTIMIZED.value)


register_pass(Pass(HloPass.STABLE_HLO.value, trace_and_lower, stable_hlo_generate_dump))
register_pass(Pass(HloPass.ORIGINAL.value, trace_and_lower, original_hlo_generate_dump))
register_pass(Pass(HloPass.OPTIMIZED.value, trace_and_lower, optimized_generate_dump))
