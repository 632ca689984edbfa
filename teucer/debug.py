"""Looking into programs while they run."""

from __future__ import annotations

import logging
import math
import string
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from teucer._arrays.arrays import array_text
from teucer._core.trace import Tracer
from teucer._executables.compilations import Compilations, compilations
from teucer._trees import pytrees
from teucer.lax._callbacks import debug_callback as callback

__all__ = ["callback", "compiles", "inspect_array_sharding", "log", "print", "visualize_array_sharding", "visualize_sharding"]

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


class _Shown(np.ndarray):  # type: ignore[type-arg]
    """A host array whose repr, as in containers, is that of the array in the program."""

    def __repr__(self) -> str:
        return array_text(self.view(np.ndarray), f"dtype={self.dtype.name}")


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
        a, k = pytrees.tree_unflatten(tree, [x.view(_Shown) if isinstance(x, np.ndarray) else x for x in filled])
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
