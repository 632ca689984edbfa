"""Looking into programs while they run."""

from __future__ import annotations

import logging
import math
import string
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from teucer._core.references import types as references
from teucer._core.references.cells import Ref
from teucer._core.trace import Tracer
from teucer._executables.compilations import Compilations, compilations
from teucer._trees import pytrees
from teucer.lax._breakpoints import breakpoint
from teucer.lax._callbacks import debug_callback as callback

__all__ = ["breakpoint", "callback", "compiles", "inspect_array_sharding", "log", "print", "visualize_array_sharding",
           "visualize_sharding"]

_print = print


class _Checker(string.Formatter):
    """Checks that a format and its arguments fit, before any value is known."""

    def check_unused_args(self, used: Any, args: Any, kwargs: Any) -> None:
        places = [a for i, a in enumerate(args) if i not in used]
        names = [k for k in kwargs if k not in used]
        advice = ("\n  You may be passing an f-string (i.e, `jax.debug.print(f\"{x}\")`) which should be updated to a format "
                  "string with arguments, `jax.debug.print(\"{x}\", x=x)`: an f-string shows the traced value, not the number.")
        if places:
            raise ValueError(f"Unused positional arguments to `jax.debug.print`: {places}{advice}")
        if names:
            raise ValueError(f"Unused keyword arguments to `jax.debug.print`: {names}.{advice}")

    def format_field(self, value: Any, spec: str) -> str:
        return ""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return value


def _show(out: Callable[[str], None], options: dict[str, bool], fmt: str | None, args: Any, kwargs: Any) -> Any:
    """Have `out` called with the text; without a format, a function that takes it and its arguments."""
    if fmt is None:
        if args or kwargs:
            raise TypeError(f"debug_print received unexpected arguments in the two-call form: {args}, {kwargs}.\n"
                            "  Give it options only, and the format and its arguments to what it returns.")

        def later(fmt: str, *args: Any, **kwargs: Any) -> None:
            _show(out, options, fmt, args, kwargs)
        return later
    if not isinstance(fmt, str):
        raise TypeError(f"jax.debug.print: the format is a string, got {fmt!r:.100} of type {type(fmt)}.\n"
                        "  jax.debug.print('{}', x) prints x.")
    if not options["skip_format_check"]:
        _Checker().format(fmt, *args, **kwargs)
    printing = {k: v for k, v in np.get_printoptions().items() if k != "override_repr"}

    def show(*args: Any, **kwargs: Any) -> None:
        with np.printoptions(**printing):  # a thread of the runtime may have others
            out(fmt.format(*args, **kwargs))

    if references.made:
        args, kwargs = pytrees.tree_map(lambda x: x[...] if isinstance(x, Ref) else x, (args, kwargs))
    callback(ordered=options["ordered"], partitioned=options["partitioned"])(show, *args, **kwargs)
    return None


def print(fmt: str | None = None, *args: Any, ordered: bool = False, partitioned: bool = False, skip_format_check: bool = False,
          **kwargs: Any) -> Any:
    """Print values while the program runs: `fmt.format(*args, **kwargs)` of the numbers.

    ordered: prints keep the order of the program. partitioned: every device prints its part of the arrays.
    skip_format_check: leave errors in the format until values are known.
    Without a format, a function that takes it and its arguments, whatever their names:
    `print(ordered=True)("{ordered}", ordered=x)`.
    Raises ValueError if the format and the arguments do not fit.

    >>> import teucer as jax
    >>> f = jax.jit(lambda x: jax.debug.print("x = {x}", x=x))
    >>> f(3); jax.effects_barrier()
    x = 3
    """
    options = {"ordered": ordered, "partitioned": partitioned, "skip_format_check": skip_format_check}
    return _show(_print, options, fmt, args, kwargs)


def log(fmt: str | None = None, *args: Any, ordered: bool = False, partitioned: bool = False, skip_format_check: bool = False,
        **kwargs: Any) -> Any:
    """As `print`, to the logger 'teucer' at level INFO."""
    options = {"ordered": ordered, "partitioned": partitioned, "skip_format_check": skip_format_check}
    return _show(logging.getLogger("teucer").info, options, fmt, args, kwargs)


def inspect_array_sharding(value: Any, *, callback: Callable[[Any], None]) -> None:
    """Call `callback` with the sharding of each array of a pytree.

    Raises NotImplementedError for a traced value: the compiler has not chosen its sharding yet.
    """
    for leaf in pytrees.tree_leaves(value):
        if isinstance(leaf, Tracer):
            raise NotImplementedError("inspect_array_sharding: what the compiler chooses for a traced value is not known while "
                                      f"tracing.\n    value: {leaf.aval}\n  Return the value and look at its sharding; over "
                                      "Explicit mesh axes jax.typeof(value) says it.")
        callback(leaf.sharding)


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Print how an array of one or two axes lies over devices; options as of `visualize_sharding`."""
    inspect_array_sharding(arr, callback=lambda sharding: visualize_sharding(arr.shape, sharding, **kwargs))


def visualize_sharding(shape: Any, sharding: Any, *, use_color: bool = True, scale: float = 1.0, min_width: int = 9,
                       max_width: int = 80, color_map: Any = None) -> None:
    """Print which devices hold which part of an array of one or two axes.

    use_color: a colour a part, where the output is a terminal. scale: of the cells' width; min_width, max_width: of the picture.
    Raises ValueError for other numbers of axes, NotImplementedError for a color_map.

    >>> import teucer as jax
    >>> visualize_sharding((8,), jax.NamedSharding(jax.make_mesh((1,), ("x",)), jax.P("x")))
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    if color_map is not None:
        raise NotImplementedError("visualize_sharding: color_map is not implemented; use_color=True colours the parts.")
    if len(shape) not in (1, 2):
        raise ValueError(f"visualize_sharding: only arrays of one or two axes can be drawn, got shape {tuple(shape)}.")
    held: dict[tuple[int, ...], list[Any]] = {}
    parts = sharding.shard_shape(tuple(shape))
    for d, index in sharding.devices_indices_map(tuple(shape)).items():
        place = tuple((i.start or 0) // max(n, 1) for i, n in zip(index, parts, strict=True))
        held.setdefault(place if len(place) == 2 else (0, *place), []).append(d)
    rows, columns = (max(p[axis] for p in held) + 1 for axis in (0, 1))
    labels = {p: f"{ds[0].platform.upper()} {','.join(str(d.id) for d in ds)}" for p, ds in held.items()}
    longest = max(map(len, labels.values()))
    room = longest + 2 * (len(shape) == 2 or columns == 1)
    width = max(longest, math.ceil(room * scale), math.ceil(min_width / columns) - 2)
    width = max(longest, min(width, max_width // columns - 1))
    colored = use_color and sys.stdout.isatty()
    lines = []
    for row in range(rows):
        cells = [labels[row, column].center(width) for column in range(columns)]
        if colored:
            cells = [f"\033[48;5;{17 + 6 * ((row * columns + i) % 36)}m{cell}\033[0m" for i, cell in enumerate(cells)]
        lines.append("│" + "│".join(cells) + "│")
    bars = [edge.join(["─" * width] * columns) for edge in "┬┼┴"]
    inner = f"\n├{bars[1]}┤\n".join(lines)
    _print(f"┌{bars[0]}┐\n{inner}\n└{bars[2]}┘")


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
