"""How arrays lie in memory: the order of their axes, and with where they live, their format.

Arrays lie row by row unless a program was told otherwise: layouts are of the arguments and results
of programs, and a program takes its arguments in no other (`_programs/run.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, final

from teucer._xla.arrays import Sharding

if TYPE_CHECKING:
    from teucer._core.types import Aval, ShapedArray
    from teucer._core.typing import Size
    from teucer._xla.arrays import ArrayImpl


# By layout as the runtime has it.
_orders: dict[Any, tuple[int, ...] | None] = {}


@final
class _Auto:
    """Stands for the layout that the compiler likes best."""

    def __repr__(self) -> str:
        return "AutoLayout"


@final
@dataclass(frozen=True)
class Layout:
    """The order of an array's axes in memory, the slowest first, and the tiles into which the
    fastest are cut.

    >>> Layout((1, 0)).update(major_to_minor=(0, 1))
    Layout(major_to_minor=(0, 1), tiling=None, sub_byte_element_size_in_bits=0)
    """

    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...] | None = None
    sub_byte_element_size_in_bits: int = 0
    AUTO: ClassVar[_Auto] = _Auto()

    @staticmethod
    def from_pjrt_layout(pjrt_layout: Any) -> Layout:
        """The layout that an executable reports."""
        found = pjrt_layout._xla_layout()
        return Layout(
            tuple(found.minor_to_major()[::-1]),
            tuple(map(tuple, found.tiling())),
            found.element_size_in_bits(),
        )

    def update(self, **changes: Any) -> Layout:
        """The layout with some of its fields changed."""
        return replace(self, **changes)

    def check_compatible_aval(self, aval_shape: Sequence[Size]) -> None:
        """Raise ValueError if it is not a layout of arrays of this shape."""
        if len(self.major_to_minor) != len(aval_shape):
            raise ValueError(
                "Length of major_to_minor and the rank of the value should match. Got "
                f"major_to_minor={self.major_to_minor} and shape={tuple(aval_shape)}"
            )


@final
@dataclass(frozen=True)
class Format:
    """An array's layout, and its sharding.

    Raises TypeError for anything else, ValueError for a layout without a sharding.
    """

    layout: Layout | _Auto | None = None
    sharding: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.layout, Layout | _Auto | None):
            raise TypeError(
                "Invalid value received for the layout argument. Expected values are `None`, "
                f"`Layout.AUTO` or an instance of `Layout`. Got {self.layout} of type "
                f"{type(self.layout)}"
            )
        if not isinstance(self.sharding, Sharding | None):
            raise TypeError(
                "Invalid value received for the sharding argument. Expected values are `None` or "
                f"an instance of `jax.Sharding`. Got {self.sharding} of type {type(self.sharding)}"
            )
        if isinstance(self.layout, Layout) and self.sharding is None:
            raise ValueError(
                "Sharding has to be concrete when layout is of type Layout. Please pass a "
                "sharding. Got None"
            )


def order_of(x: ArrayImpl) -> tuple[int, ...] | None:
    """The axes of an array in memory, the slowest first; None where it lies row by row."""
    return order_by(x._pjrt_layout)


def order_by(layout: object) -> tuple[int, ...] | None:
    """As `order_of`, of arrays of a layout as the runtime has it."""
    try:
        return _orders[layout]
    except KeyError:
        order = Layout.from_pjrt_layout(layout).major_to_minor
        found = _orders[layout] = None if order == tuple(range(len(order))) else order
        return found


def order_in(layout: Layout | None, aval: Aval) -> tuple[int, ...] | None:
    """As `order_of`, of arrays of a type in a layout that is not left to the compiler."""
    if layout is None:
        return None
    # A key's numbers lie together.
    order = (*layout.major_to_minor, *range(len(layout.major_to_minor), aval.physical.ndim))
    return None if order == tuple(range(len(order))) else order


def at_boundary(
    layouts: Sequence[Layout | _Auto | None], avals: Sequence[Aval], what: str
) -> tuple[Any, ...]:
    """What a program is told of the layouts of its arguments or results: nothing, (), if all lie
    row by row.

    layouts: a Layout, AUTO or None each. Raises ValueError for a layout that is not of arrays of
    the type's shape.
    """
    for layout, aval in zip(layouts, avals, strict=True):
        # Arrays of keys have one axis more inside. Either number of axes is accepted.
        if isinstance(layout, Layout) and len(layout.major_to_minor) != aval.physical.ndim:
            try:
                layout.check_compatible_aval(aval.shape)
            except ValueError as err:
                raise ValueError(
                    f"One of {what} is incompatible with its layout annotation {layout}: {err}\n"
                    f"    type: {aval.str_short()}"
                ) from None
    told = tuple(
        [
            layout
            if isinstance(layout, _Auto)
            or (layout is not None and (order_in(layout, aval) or layout.tiling))
            else None
            for layout, aval in zip(layouts, avals, strict=True)
        ]
    )
    return told if any(layout is not None for layout in told) else ()


def check_argument(x: ArrayImpl, layout: Layout | _Auto | None) -> None:
    """Raise ValueError if a committed array lies otherwise than `jit` was told."""
    if layout is not None and getattr(x, "_committed", False):
        found = order_of(x)
        if found is not None if isinstance(layout, _Auto) else found != order_in(layout, x.aval):
            raise ValueError(
                "Layout passed to jit does not match the layout on the respective arg. Got jit "
                f"layout: {layout},\narg layout: {x.format.layout} for arg type: "
                f"{x.aval.str_short()}\n  Bring the argument there with jax.device_put(x, "
                "Format(layout, sharding)); for AUTO, lower the function for a "
                "jax.ShapeDtypeStruct, and see the input_formats of what is compiled."
            )


def mode(layout: object, aval: ShapedArray) -> str | None:
    """A layout as XLA's attribute of arguments and results says it."""
    if not isinstance(layout, Layout):
        return None if layout is None else "auto"
    minor_to_major = (order_in(layout, aval) or tuple(range(aval.physical.ndim)))[::-1]
    tiles = "".join(f"({','.join(map(str, tile))})" for tile in layout.tiling or ())
    return f"{{{','.join(map(str, minor_to_major))}{f':T{tiles}' if tiles else ''}}}"
