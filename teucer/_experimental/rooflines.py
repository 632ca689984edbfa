"""The counts of a program, and the arguments of a rule for an equation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from teucer._core.jaxpr import EqnContext
from teucer._core.places import NameStack
from teucer._core.primitive import Primitive
from teucer._derived.liveness import bytes_of

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray


@dataclasses.dataclass(frozen=True, kw_only=True)
class RooflineResult:
    """The work of one device for a program, or for an equation.

    unfused_flops, unfused_hbm_bytes: operations on numbers, and bytes of operands and results, of
    every equation by itself.
    flops, hbm_bytes: of matrix products only, as if all else were fused with them.
    peak_hbm_bytes: the largest sum of bytes of the values that are in memory between two equations.
    ici_bytes, ici_latency: by mesh axis, bytes that pass a link, and links that a message passes
    one after another.

    >>> RooflineResult(flops=2, peak_hbm_bytes=8) + RooflineResult(flops=1, peak_hbm_bytes=4,
    ...     ici_bytes={"x": 4})
    RooflineResult(flops=3, unfused_flops=0, ici_bytes={'x': 4}, ici_latency={}, hbm_bytes=0,
    peak_hbm_bytes=8, unfused_hbm_bytes=0)
    """

    flops: int = 0
    unfused_flops: int = 0
    ici_bytes: dict[str, int] = dataclasses.field(default_factory=dict)
    ici_latency: dict[str, int] = dataclasses.field(default_factory=dict)
    hbm_bytes: int = 0
    peak_hbm_bytes: int = 0
    unfused_hbm_bytes: int = 0

    @classmethod
    def zeros(cls) -> RooflineResult:
        """Nothing to do."""
        return cls()

    def __add__(self, other: RooflineResult) -> RooflineResult:
        """One after the other: everything is added, and the peak is the larger one."""
        return RooflineResult(
            flops=self.flops + other.flops,
            unfused_flops=self.unfused_flops + other.unfused_flops,
            ici_bytes=_added(self.ici_bytes, other.ici_bytes),
            ici_latency=_added(self.ici_latency, other.ici_latency),
            hbm_bytes=self.hbm_bytes + other.hbm_bytes,
            peak_hbm_bytes=max(self.peak_hbm_bytes, other.peak_hbm_bytes),
            unfused_hbm_bytes=self.unfused_hbm_bytes + other.unfused_hbm_bytes,
        )

    def __mul__(self, times: int) -> RooflineResult:
        """The same several times, one after another."""
        return RooflineResult(
            flops=self.flops * times,
            unfused_flops=self.unfused_flops * times,
            ici_bytes={axis: n * times for axis, n in self.ici_bytes.items()},
            ici_latency={axis: n * times for axis, n in self.ici_latency.items()},
            hbm_bytes=self.hbm_bytes * times,
            peak_hbm_bytes=self.peak_hbm_bytes,
            unfused_hbm_bytes=self.unfused_hbm_bytes * times,
        )


def _added(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {axis: a.get(axis, 0) + b.get(axis, 0) for axis in (*a, *b)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RooflineShape:
    """The shape and the dtype of a value.

    >>> RooflineShape(shape=(2, 3), dtype=np.dtype("float32")).bytes
    24
    """

    shape: tuple[int, ...]
    dtype: Any

    @classmethod
    def from_aval(cls, aval: ShapedArray) -> RooflineShape:
        """The shape of a type; for keys, the shape of their words."""
        physical = getattr(aval, "physical", None)
        if physical is None:  # what is no array, as a token
            return cls(shape=(), dtype=np.dtype(bool))
        return cls(shape=tuple(physical.shape), dtype=physical.dtype)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def bytes(self) -> int:
        """Bytes of the value."""
        return self.size * int(self.dtype.itemsize)

    @classmethod
    def total_bytes(cls, avals: Sequence[ShapedArray]) -> int:
        """Bytes of the values of several types."""
        return sum(map(bytes_of, avals))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RooflineRuleContext:
    """The argument of a rule for an equation: its types, and the mesh whose devices run it; None
    outside of `shard_map`.

    pin_lhs_in_vmem, pin_rhs_in_vmem: whether this operand of matrix products stays in fast memory,
    so that it is not moved.
    """

    name_stack: NameStack
    primitive: Primitive
    avals_in: Sequence[Any]
    avals_out: Sequence[Any]
    jaxpr_eqn_ctx: EqnContext
    mesh: Any
    pin_lhs_in_vmem: bool
    pin_rhs_in_vmem: bool


Rule: TypeAlias = Callable[..., RooflineResult]
"""(context, shapes of operands, parameters) -> the work and the traffic of an operation."""
