"""Source maps of a function's forms."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from teucer._base.lazy import listing
from teucer.experimental.source_mapper.common import Pass, SourceMapDump

__all__ = ["SourceMapGeneratorFn", "generate_sourcemaps"]
__dir__ = listing(__name__, __all__)

# A function of the arguments of a function that gives a dump for each form.
SourceMapGeneratorFn = Callable[..., list[SourceMapDump]]


def generate_sourcemaps(
    f: Callable[..., object], passes: Sequence[Pass], **pass_kwargs: object
) -> Callable[..., list[SourceMapDump]]:
    """A function that takes the arguments of f and gives a dump for each form.

    >>> from teucer.experimental import source_mapper
    >>> make = source_mapper.generate_sourcemaps(lambda x: x + 1,
    ...     source_mapper.filter_passes("jaxpr"))
    >>> make(1.)[0].source_map.mappings[0][0][0]
    34
    """

    def wrapped(*args: Any, **kwargs: object) -> list[SourceMapDump]:
        with tempfile.TemporaryDirectory() as folder:
            return [
                p.generate_dump(p.compile_fn(folder, f, args, kwargs, **pass_kwargs), **pass_kwargs)
                for p in passes
            ]

    return wrapped
