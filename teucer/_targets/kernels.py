"""What platforms have beside their compilers.

Kernels of libraries, under the names by which XLA calls them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Kernels(NamedTuple):
    """The kernels of a platform.

    lapack: whether it has LAPACK's, one for each dtype.
    routines: those of GPUs, one for all dtypes, by LAPACK's name of the routine or, where there is
        none, ours; "NAME complex" is for complex numbers alone.
    built_in: factorizations that the compiler has itself, by LAPACK's name of the routine, under
        the names that it knows.
    lacks: by function, the algorithms that users may ask for and that the platform does not have.
    python, buffers: what calls Python on arrays, and on buffers; None where nothing does.
    """

    lapack: bool = False
    routines: Mapping[str, str] = {}
    built_in: Mapping[str, str] = {}
    lacks: Mapping[str, Collection[str]] = {"eigh": ("QDWH",)}
    python: str | None = None
    buffers: str | None = None
