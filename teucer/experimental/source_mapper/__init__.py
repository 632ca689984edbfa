"""Source maps.

Which place of a program's jaxpr, StableHLO or HLO comes from which line of the user's program.
"""

from teucer._experimental.source_maps import MappingsGenerator, SourceMap
from teucer.experimental.source_mapper import common, generate_map, hlo, jaxpr, mlir
from teucer.experimental.source_mapper.common import (
    Pass,
    SourceMapDump,
    all_passes,
    canonicalize_filename,
    compile_with_env,
    filter_passes,
    register_pass,
)
from teucer.experimental.source_mapper.generate_map import generate_sourcemaps
from teucer.experimental.source_mapper.mlir import create_mlir_sourcemap

__all__ = [
    "MappingsGenerator", "Pass", "SourceMap", "SourceMapDump", "all_passes",
    "canonicalize_filename", "common", "compile_with_env", "create_mlir_sourcemap",
    "filter_passes", "generate_map", "generate_sourcemaps", "hlo", "jaxpr", "mlir",
    "register_pass",
]  # fmt: skip
