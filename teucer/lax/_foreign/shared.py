"""Code that all calls of foreign functions share: types of results, batches, aliases,
attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from teucer._base import dtypes
from teucer._core import array_ops
from teucer._core.types import ShapedArray
from teucer._dialects.high.types import HighType
from teucer.lax._control.iteration import scan

if TYPE_CHECKING:
    from teucer._core.typing import Array, Dims


VMAP_METHODS = (
    "sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized", None,
)  # fmt: skip


@final
class HashableArray:
    """A NumPy array as a parameter: equal to another if their elements and types are."""

    __slots__ = ("val",)

    def __init__(self, val: object) -> None:
        self.val = np.array(val)
        self.val.setflags(write=False)

    def __repr__(self) -> str:
        return f"HashableArray({self.val})"

    def __hash__(self) -> int:
        return hash((self.val.shape, self.val.dtype, self.val.tobytes()))

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is HashableArray
            and self.val.dtype == other.val.dtype
            and self.val.shape == other.val.shape
            and self.val.tobytes() == other.val.tobytes()
        )


@final
class FrozenDict(Mapping[str, Any]):
    """A mapping as a parameter."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, object]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"FrozenDict({self._items})"

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))


def hashable(name: str, value: object) -> Any:
    """An attribute as a parameter of an equation. One without a form in StableHLO is refused at
    lowering."""
    if isinstance(value, np.ndarray):
        return HashableArray(value)
    if isinstance(value, Mapping):
        return FrozenDict({k: hashable(name, v) for k, v in value.items()})
    try:
        hash(value)
    except TypeError as err:
        advice = (
            "  Give numbers of one type as a NumPy array, others as a tuple."
            if isinstance(value, list)
            else ""
        )
        raise TypeError(
            f"Non-hashable keyword argument to ffi_call {name}: {value}\n{advice}".rstrip()
        ) from err
    return value


def plain(value: object) -> Any:
    if isinstance(value, HashableArray):
        return value.val
    return {k: plain(v) for k, v in value.items()} if isinstance(value, FrozenDict) else value


def batch_of_call(
    name: str,
    axis: Any,
    args: Sequence[Array],
    dims: Dims,
    vmap_method: str | None,
    call: Callable[..., Any],
) -> Any:
    """A batch of calls of a function that is not ours.

    call(args, batched, leading): the call; batched: which operands have a leading axis of the batch
    or of size 1; leading: whether the results have one. Raises NotImplementedError without a
    vmap_method.
    """
    if vmap_method is None:
        raise NotImplementedError(
            f"vmap is only supported for the {name} primitive when vmap_method is one of "
            "'sequential', 'sequential_unrolled', 'expand_dims', 'broadcast_all', or "
            "'legacy_vectorized'. Got vmap_method=None."
        )
    moved = [
        x if d is None else array_ops.moveaxis(x, d, 0) for x, d in zip(args, dims, strict=True)
    ]
    mapped = [d is not None for d in dims]
    if vmap_method in ("sequential", "sequential_unrolled"):

        def step(_: object, rows: Any) -> Any:
            each = iter(rows)
            one = [next(each) if b else x for x, b in zip(moved, mapped, strict=True)]
            return (), tuple(call(one, [False] * len(one), False))

        unroll = axis.size if vmap_method == "sequential_unrolled" and axis.size else 1
        _, outs = scan(
            step,
            (),
            tuple(x for x, b in zip(moved, mapped, strict=True) if b),
            length=axis.size,
            unroll=unroll,
        )
    elif vmap_method == "legacy_vectorized":
        outs = call(moved, mapped, True)
    else:
        size = axis.size if vmap_method == "broadcast_all" else 1
        outs = call(
            [
                x if b else array_ops.broadcast(x, size, 0)
                for x, b in zip(moved, mapped, strict=True)
            ],
            [True] * len(moved),
            True,
        )
    return tuple(outs), (0,) * len(outs)


def check_vmap_method(method: object) -> None:
    """Raise ValueError for a way to batch calls that there is not."""
    if method not in VMAP_METHODS:
        raise ValueError(
            f"vmap_method must be on of the allowed methods {list(VMAP_METHODS)}, but got: {method}"
        )


def results_of(listed: Sequence[object]) -> tuple[ShapedArray, ...]:
    """Types of results that have shape and dtype each, or are high types; 64-bit types are kept.
    Raises ValueError for others."""
    avals: list[Any] = []
    for i, x in enumerate(listed):
        if isinstance(x, HighType):
            avals.append(x)
            continue
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            raise ValueError(
                "All elements of result_shape_dtypes must have 'shape' and 'dtype' attributes. "
                f"Got {x} at position {i}."
            )
        dtype = x.dtype if isinstance(x.dtype, dtypes.ExtendedDType) else np.dtype(x.dtype)
        avals.append(ShapedArray(tuple(x.shape), dtype))
    return tuple(avals)


def check_aliases(
    aliases: Mapping[int, int] | None,
    ins: Sequence[Any],
    outs: Sequence[Any],
    input_orders: Sequence[object] | None = None,
    output_orders: Sequence[object] | None = None,
) -> tuple[tuple[int, int], ...]:
    """Pairs of places of operands and results that share their buffers. Raises ValueError for those
    that cannot (C2)."""
    pairs = tuple((int(i), int(o)) for i, o in (aliases or {}).items())
    for i, o in pairs:
        start = f"input_output_aliases contains the mapping '{i}:{o}' "
        for what, place, listed in (("input", i, ins), ("output", o, outs)):
            if not 0 <= place < len(listed):
                raise ValueError(
                    f"{start}with {what} index {place} outside the range [0, {len(listed)})."
                )
        if (ins[i].shape, ins[i].dtype) != (outs[o].shape, outs[o].dtype):
            raise ValueError(
                f"{start}referring to an input with abstract value {ins[i].str_short()} and an "
                f"output with a different abstract value {outs[o].str_short()}."
            )
        if input_orders and output_orders and input_orders[i] != output_orders[o]:
            raise ValueError(
                f"{start}referring to an input with layout {input_orders[i]} and an output with a "
                f"different layout {output_orders[o]}."
            )
    return pairs
