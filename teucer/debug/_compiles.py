"""The programs that this process has made."""

from __future__ import annotations

from teucer._executables.compilations import Compilations, compilations


def compiles() -> Compilations:
    """The programs that this process has made, as a table. A row says the function, the types of
    its arguments, and the milliseconds to trace, lower and compile it. It also says the size of the
    machine code, and its source: compiled, the cache on disk, or memory.

    Iterate over it for rows with these as attributes; `clear()` empties it. Of more than 1000
    rows the oldest go.

    >>> import teucer as jax
    >>> jax.debug.compiles().clear()
    >>> jax.jit(lambda x: x * 2)(3.)
    Array(6., dtype=float32, weak_type=True)
    >>> [(row.function, row.signature) for row in jax.debug.compiles()]
    [('<lambda>', '~f32[]')]
    """
    return compilations
