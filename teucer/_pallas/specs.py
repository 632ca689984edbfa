"""Descriptions of a kernel's arrays: blocks, grids, memory spaces."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from teucer._base import dtypes
from teucer._core.reference_types import RefType
from teucer._core.types import ShapedArray


@dataclasses.dataclass(frozen=True)
class MemoryRef:
    """A stretch of memory that a kernel asks for: `pl.ANY(shape, dtype)`, a scratch shape."""

    inner_aval: ShapedArray
    memory_space: Any

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.inner_aval.shape

    @property
    def dtype(self) -> Any:
        return self.inner_aval.dtype

    def get_ref_aval(self) -> RefType:
        """The type of the reference that the kernel gets."""
        return RefType(self.inner_aval, self.memory_space)

    def get_array_aval(self) -> ShapedArray:
        """The type of the array."""
        return self.inner_aval


class _Space(enum.Enum):
    """A kind of memory; called with a shape and a dtype it is a scratch shape."""

    def __call__(self, shape: Sequence[Any], dtype: Any) -> MemoryRef:
        return MemoryRef(ShapedArray(tuple(shape), dtypes.as_dtype(dtype)), self)

    def from_type(self, type: Any) -> MemoryRef:
        """Memory for an array of a type."""
        return MemoryRef(ShapedArray(tuple(type.shape), type.dtype), self)

    def __str__(self) -> str:
        return str(self.value)


class MemorySpace(_Space):
    """Where arrays of a kernel may be on any platform."""

    ANY = "any"
    DEFAULT = "default"
    HOST = "host"
    ERROR = "error"
    INDEX = "index"
    KEY = "key"


ANY, HOST = MemorySpace.ANY, MemorySpace.HOST


@dataclasses.dataclass(frozen=True)
class Blocked:
    """An axis cut in blocks: the index map counts blocks."""

    block_size: Any


@dataclasses.dataclass(frozen=True)
class Squeezed:
    """The kernel sees one place of this axis, without the axis."""


squeezed = Squeezed()


@dataclasses.dataclass(frozen=True)
class Element:
    """The kernel sees `block_size` elements of this axis, from any place: the index map counts
    elements.

    padding: (before, behind), elements that may be read there and are not in the array.
    """

    block_size: Any
    padding: tuple[Any, Any] = (0, 0)


@dataclasses.dataclass(frozen=True)
class BoundedSlice:
    """The index map gives a slice of this axis, `pl.ds(start, size)`, of at most `block_size`
    elements."""

    block_size: Any

    def __repr__(self) -> str:
        return f"BoundedSlice({self.block_size})"


class RevisitMode(enum.Enum):
    """The first content of a block that is seen again."""

    ANY = "any"
    IMMEDIATE = "immediate"


@dataclasses.dataclass(frozen=True)
class Buffered:
    """How many blocks are on their way at a time, where blocks are copied while the kernel runs."""

    buffer_count: int
    use_lookahead: bool = False
    revisit: Any = None
    prefetched_count: int = 0


class CompilerParams:
    """Options of a compiler; each platform has a class of its own."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.args, self.options = args, kwargs

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.options})"


@dataclasses.dataclass(frozen=True)
class CostEstimate:
    """The cost of a kernel, for compilers that cannot see it."""

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0

    def times(self, n: int) -> CostEstimate:
        """What n such calls cost."""
        return CostEstimate(*(n * getattr(self, f.name) for f in dataclasses.fields(self)))

    def to_json(self) -> bytes:
        """The estimate as compilers read it."""
        return json.dumps(dataclasses.asdict(self)).encode("ascii")


# Kinds of axes of a block, beside a size.
BlockDim = Element | Squeezed | Blocked | BoundedSlice


class _NoBlockSpec:
    """No word on blocks: the kernel sees whole arrays."""

    def __repr__(self) -> str:
        return "NoBlockSpec"


no_block_spec = _NoBlockSpec()


@dataclasses.dataclass(frozen=True, init=False)
class BlockSpec:
    """Which block of an array a step of the grid sees.

    block_shape: for each axis a size, None or `pl.Squeezed()` (one place, without the axis),
        `pl.Element`, or `pl.BoundedSlice`; None for the whole array.
    index_map: (*place in the grid, *scalars given before) -> the number of the block along each
    axis; by default 0.
    memory_space: where the block is. pipeline_mode: how blocks are copied, where they are.
    """

    block_shape: tuple[Any, ...] | None
    index_map: Callable[..., Any] | None
    pipeline_mode: Any
    memory_space: Any

    def __init__(
        self,
        block_shape: Sequence[object] | None = None,
        index_map: Callable[..., object] | None = None,
        pipeline_mode: object = None,
        *,
        memory_space: object = None,
    ) -> None:
        if callable(block_shape):
            raise ValueError(
                f"BlockSpec: block_shape comes first, then index_map; got {block_shape!r} as "
                "block_shape."
            )
        shape = None if block_shape is None else tuple(block_shape)
        for name, value in (
            ("block_shape", shape),
            ("index_map", index_map),
            ("pipeline_mode", pipeline_mode),
            ("memory_space", memory_space),
        ):
            object.__setattr__(self, name, value)

    def replace(self, **changes: object) -> BlockSpec:
        """The spec with some of its fields changed."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return BlockSpec(**{**fields, **changes})


@dataclasses.dataclass(init=False)
class GridSpec:
    """A grid and what its steps see.

    grid: a size or a tuple of them. in_specs, out_specs: trees of BlockSpecs, as the arguments and
    results.
    scratch_shapes: memory that the kernel gets behind them, and that stays from step to step.
    """

    grid: Any
    in_specs: Any
    out_specs: Any
    scratch_shapes: Any

    def __init__(
        self,
        grid: object = (),
        in_specs: object = no_block_spec,
        out_specs: object = no_block_spec,
        scratch_shapes: object = (),
    ) -> None:
        self.grid = (
            grid if isinstance(grid, tuple) else tuple(grid) if isinstance(grid, list) else (grid,)
        )
        self.in_specs = tuple(in_specs) if isinstance(in_specs, list) else in_specs
        self.out_specs = tuple(out_specs) if isinstance(out_specs, list) else out_specs
        self.scratch_shapes = (
            tuple(scratch_shapes) if isinstance(scratch_shapes, list) else scratch_shapes
        )

    num_scalar_prefetch = 0


@dataclasses.dataclass(init=False)
class PrefetchScalarGridSpec(GridSpec):
    """A GridSpec whose first arguments are there before the grid begins: index maps get references
    to them too."""

    def __init__(
        self,
        num_scalar_prefetch: int,
        grid: object = (),
        in_specs: object = no_block_spec,
        out_specs: object = no_block_spec,
        scratch_shapes: object = (),
    ) -> None:
        super().__init__(grid, in_specs, out_specs, scratch_shapes)
        self.num_scalar_prefetch = num_scalar_prefetch  # type: ignore[misc]


class Dim(NamedTuple):
    """An axis of a block: its size, whether the kernel does not see it, whether the index map
    counts blocks, and padding."""

    size: Any
    squeezed: bool = False
    counts_blocks: bool = True
    padding: tuple[Any, Any] = (0, 0)


def dim_of(d: Any) -> Dim:
    """An entry of block_shape. Raises TypeError for another object."""
    if d is None or isinstance(d, Squeezed) or d is Squeezed:
        return Dim(1, squeezed=True)
    if isinstance(d, Blocked):
        return Dim(d.block_size)
    if isinstance(d, Element):
        return Dim(d.block_size, counts_blocks=False, padding=tuple(d.padding))
    if isinstance(d, BoundedSlice):
        return Dim(d.block_size, counts_blocks=False)
    if (
        hasattr(d, "__index__")
        or hasattr(d, "dimension_as_value")
        or type(d).__name__ == "Dimension"
    ):
        return Dim(d)
    raise TypeError(
        f"BlockSpec: {d!r} is no entry of a block shape.\n"
        "  Entries are sizes, None, pl.Squeezed(), pl.Blocked, pl.Element and pl.BoundedSlice."
    )
