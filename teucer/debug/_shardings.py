"""How arrays lie over devices, as text."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from teucer._core.trace import Tracer
from teucer._trees import pytrees

__all__ = ["inspect_array_sharding", "visualize_array_sharding", "visualize_sharding"]


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
    print(f"┌{bars[0]}┐\n{inner}\n└{bars[2]}┘")
