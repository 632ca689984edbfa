"""Looking into programs while they run."""

from __future__ import annotations

import logging
import string
from collections.abc import Callable
from typing import Any

from teucer._base import pytrees
from teucer._core.trace import Tracer
from teucer._runtime.compilations import Compilations, compilations
from teucer.lax._callbacks import debug_callback as callback

__all__ = ["callback", "compiles", "log", "print"]

_print = print


class _Checker(string.Formatter):
    """Checks that a format and its arguments fit, before any value is known."""

    def check_unused_args(self, used: Any, args: Any, kwargs: Any) -> None:
        places = [a for i, a in enumerate(args) if i not in used]
        names = [k for k in kwargs if k not in used]
        if places:
            raise ValueError(f"Unused positional arguments to `jax.debug.print`: {places}")
        if names:
            raise ValueError(f"Unused keyword arguments to `jax.debug.print`: {names}.\n  Give the format as a plain string, "
                             "'{x}', with x=x: an f-string shows the traced value, not the number.")

    def format_field(self, value: Any, spec: str) -> str:
        return ""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return value


def _show(fmt: str, out: Callable[[str], None], args: Any, kwargs: Any, ordered: bool, check: bool) -> None:
    if check:
        _Checker().format(fmt, *args, **kwargs)
    leaves, tree = pytrees.tree_flatten((args, kwargs))
    # Strings and other objects that are not arrays go to the format as they are.
    traced = [isinstance(x, Tracer) or hasattr(x, "dtype") or isinstance(x, int | float | complex) for x in leaves]
    arrays = [x for x, t in zip(leaves, traced, strict=True) if t]
    others = [x for x, t in zip(leaves, traced, strict=True) if not t]

    def show(*values: Any) -> None:
        known, rest = iter(values), iter(others)
        filled = [next(known) if t else next(rest) for t in traced]
        a, k = pytrees.tree_unflatten(tree, filled)
        out(fmt.format(*a, **k))

    callback(show, *arrays, ordered=ordered)


def print(fmt: str, *args: Any, ordered: bool = False, partitioned: bool = False, skip_format_check: bool = False,
          **kwargs: Any) -> None:
    """Print values while the program runs: `fmt.format(*args, **kwargs)` of the numbers.

    ordered: prints keep the order of the program. skip_format_check: leave errors in the format until values are known.
    Raises ValueError if the format and the arguments do not fit.

    >>> import teucer as jax
    >>> f = jax.jit(lambda x: jax.debug.print("x = {x}", x=x))
    >>> f(3); jax.effects_barrier()
    x = 3
    """
    _show(fmt, _print, args, kwargs, ordered, not skip_format_check)


def log(fmt: str, *args: Any, ordered: bool = False, partitioned: bool = False, skip_format_check: bool = False,
        **kwargs: Any) -> None:
    """As `print`, to the logger 'teucer' at level INFO."""
    _show(fmt, logging.getLogger("teucer").info, args, kwargs, ordered, not skip_format_check)


def compiles() -> Compilations:
    """The programs that this process has made, as a table: function, types of its arguments, milliseconds to trace, lower and
    compile, size of the machine code, and its source: compiled, the cache on disk, or memory.

    Iterate over it for rows with these as attributes; `clear()` empties it. Of more than 10 000 rows the oldest go.

    >>> import teucer as jax
    >>> jax.debug.compiles().clear()
    >>> jax.jit(lambda x: x * 2)(3.)
    Array(6., dtype=float32, weak_type=True)
    >>> [(row.function, row.signature) for row in jax.debug.compiles()]
    [('<lambda>', '~f32[]')]
    """
    return compilations
