"""How arrays lie in memory: the order of their axes, and with where they live, their format."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

from teucer._xla.arrays import Sharding

__all__ = ["Format", "Layout"]


@final
class _Auto:
    """Stands for the layout that the compiler likes best."""

    def __repr__(self) -> str:
        return "AUTO"


@final
@dataclass(frozen=True)
class Layout:
    """The order of an array's axes in memory, the slowest first, and the tiles into which the fastest are cut.

    >>> Layout((1, 0)).update(major_to_minor=(0, 1))
    Layout(major_to_minor=(0, 1), tiling=None, sub_byte_element_size_in_bits=0)
    """

    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...] | None = None
    sub_byte_element_size_in_bits: int = 0
    AUTO: ClassVar[_Auto] = _Auto()

    @staticmethod
    def from_pjrt_layout(pjrt_layout: Any) -> Layout:
        """The layout that an executable tells of."""
        found = pjrt_layout._xla_layout()
        return Layout(tuple(found.minor_to_major()[::-1]), tuple(map(tuple, found.tiling())), found.element_size_in_bits())

    def update(self, **changes: Any) -> Layout:
        """The layout with some of its fields changed."""
        return replace(self, **changes)

    def check_compatible_aval(self, aval_shape: Any) -> None:
        """Raise ValueError if it is not a layout of arrays of this shape."""
        if len(self.major_to_minor) != len(aval_shape):
            raise ValueError("Length of major_to_minor and the rank of the value should match. Got "
                             f"major_to_minor={self.major_to_minor} and shape={tuple(aval_shape)}")


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
            raise TypeError("Invalid value received for the layout argument. Expected values are `None`, `Layout.AUTO` or an "
                            f"instance of `Layout`. Got {self.layout} of type {type(self.layout)}")
        if not isinstance(self.sharding, Sharding | None):
            raise TypeError("Invalid value received for the sharding argument. Expected values are `None` or an instance of "
                            f"`jax.Sharding`. Got {self.sharding} of type {type(self.sharding)}")
        if isinstance(self.layout, Layout) and self.sharding is None:
            raise ValueError("Sharding has to be concrete when layout is of type Layout. Please pass a sharding. Got None")
