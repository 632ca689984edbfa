"""How arrays lie over devices: told to a function, or drawn as text and in notebooks."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from teucer._core.trace import Tracer
from teucer._sharding.inspection import inspect_sharding_p
from teucer._trees import pytrees

if TYPE_CHECKING:
    from teucer._core.typing import Value


def inspect_array_sharding(value: Value, *, callback: Callable[[Any], None]) -> None:
    """Call `callback` with the sharding of each array of a pytree.

    Within a program it is called while that is compiled, when the compiler has chosen; so each
    program calls it once.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> inspect_array_sharding(jnp.ones(2), callback=print)
    SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)
    """
    for leaf in pytrees.tree_leaves(value):
        if isinstance(leaf, Tracer):
            inspect_sharding_p.call(leaf, callback=callback)
        else:
            callback(leaf.sharding)


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Print how an array of one or two axes lies over devices; options as of
    `visualize_sharding`."""
    shape = arr.shape
    inspect_array_sharding(
        arr, callback=lambda sharding: visualize_sharding(shape, sharding, **kwargs)
    )


class _Cell(NamedTuple):
    """A part of an array: the devices that hold it, and the colour that stands for them, red, green
    and blue up to 255."""

    label: str
    colour: tuple[int, int, int]


# Colours that are told apart, and on which black can be read: a hue each.
_HUES = [
    (166, 206, 227),
    (178, 223, 138),
    (251, 154, 153),
    (253, 191, 111),
    (202, 178, 214),
    (255, 255, 153),
    (141, 211, 199),
    (217, 217, 217),
]


def visualize_sharding(
    shape: Any,
    sharding: Any,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: Any = None,
) -> None:
    """Print which devices hold which part of an array of one or two axes; in a notebook, show it as
    a table.

    use_color: a colour a part, where the output is a terminal or a notebook. scale: of the cells'
    width; min_width, max_width: of the picture. color_map: from a number from 0 to 1, or the number
    of a part, to red, green and blue from 0 to 1, such as a colour map of matplotlib.
    Raises ValueError for other numbers of axes.

    >>> import teucer as jax
    >>> visualize_sharding((8,), jax.NamedSharding(jax.make_mesh((1,), ("x",)), jax.P("x")))
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    if len(shape) not in (1, 2):
        raise ValueError(
            "visualize_sharding: only arrays of one or two axes can be drawn, got shape "
            f"{tuple(shape)}."
        )
    rows = _cells(tuple(shape), sharding, color_map)
    if _in_notebook():
        _show_table(rows, use_color)
        return
    widths, height = _extent(rows, tuple(shape), scale, min_width, max_width)
    coloured = use_color and sys.stdout.isatty()
    above = max(height - 1, 0) // 2
    below = max(height - 1 - above, 0)
    drawn = []
    for row in rows:
        empty, labels = (
            (
                "│"
                + "│".join(
                    [
                        _painted(text, cell, width, coloured)
                        for text, cell, width in zip(texts, row, widths, strict=True)
                    ]
                )
                + "│"
            )
            for texts in ([""] * len(row), [cell.label for cell in row])
        )
        drawn.append("\n".join([empty] * above + [labels] + [empty] * below))
    bars = [edge.join(["─" * width for width in widths]) for edge in "┬┼┴"]
    inner = f"\n├{bars[1]}┤\n".join(drawn)
    print(f"┌{bars[0]}┐\n{inner}\n└{bars[2]}┘")


def _extent(
    rows: list[list[_Cell]], shape: tuple[int, ...], scale: float, min_width: int, max_width: int
) -> tuple[list[int], int]:
    """The width of each column and the height of each row, without borders.

    A picture of two axes has ten lines, and is as wide as the array's form asks for: a letter is
    2.5 times as high as wide.
    """
    columns = len(rows[0])
    whole = 25 * scale * shape[1] / max(shape[0], 1) if len(shape) == 2 else 5 * scale
    width = max(int(min(whole, max_width) / columns), min_width) - 2
    longest = [max(len(row[i].label) for row in rows) for i in range(columns)]
    widths = [max(width, n) for n in longest]
    if sum(widths) + columns + 1 > max_width:
        widths = [max(min(width, (max_width - 1) // columns - 1), n) for n in longest]
    return widths, max(int(10 * scale / len(rows)) - 1, 1) if len(shape) == 2 else 1


def _cells(shape: tuple[int, ...], sharding: Any, color_map: object) -> list[list[_Cell]]:
    """The parts of an array, row by row."""
    held: dict[tuple[int, ...], list[Any]] = {}
    parts = sharding.shard_shape(shape)
    for d, index in sharding.devices_indices_map(shape).items():
        place = tuple((i.start or 0) // max(n, 1) for i, n in zip(index, parts, strict=True))
        held.setdefault(place if len(place) == 2 else (0, *place), []).append(d)
    rows, columns = (max(p[axis] for p in held) + 1 for axis in (0, 1))

    def cell(row: int, column: int) -> _Cell:
        devices, number = held[row, column], row * columns + column
        label = f"{devices[0].platform.upper()} {','.join(str(d.id) for d in devices)}"
        return _Cell(
            label,
            _HUES[number % len(_HUES)]
            if color_map is None
            else _from_map(color_map, number, rows * columns),
        )

    return [[cell(row, column) for column in range(columns)] for row in range(rows)]


def _from_map(color_map: Any, number: int, count: int) -> tuple[int, int, int]:
    """The colour of a part by a colour map: of as many colours, or of numbers from 0 to 1."""
    few = getattr(color_map, "N", 256) < 256  # a list of colours, as matplotlib has them
    found: Sequence[float] = color_map(number % color_map.N if few else number / max(count - 1, 1))
    red, green, blue = (round(255 * float(c)) for c in found[:3])
    return red, green, blue


def _painted(text: str, cell: _Cell, width: int, coloured: bool) -> str:
    left = max(width - len(text), 0) // 2
    text = " " * left + text + " " * (width - len(text) - left)
    if not coloured:
        return text
    red, green, blue = cell.colour
    return f"\033[38;2;0;0;0m\033[48;2;{red};{green};{blue}m{text}\033[0m"


def _in_notebook() -> bool:
    """Whether the program runs in a notebook, which shows tables."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class _Table(NamedTuple):
    """A picture for notebooks."""

    rows: list[list[_Cell]]
    coloured: bool

    def _repr_html_(self) -> str:
        def cell(c: _Cell) -> str:
            paint = f"background:rgb{c.colour};color:black;" if self.coloured else ""
            return (
                f'<td style="{paint}border:1px solid;padding:0.5em '
                f'1em;text-align:center">{html.escape(c.label)}</td>'
            )

        rows = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in self.rows)
        return f'<table style="border-collapse:collapse">{rows}</table>'


def _show_table(rows: list[list[_Cell]], coloured: bool) -> None:
    from IPython.display import display  # there, since the notebook has loaded it

    display(_Table(rows, coloured))
