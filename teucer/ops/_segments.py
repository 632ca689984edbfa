"""Reductions of the elements that have the same segment number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import numpy as jnp
from teucer._base import dtypes
from teucer._core.trace import typeof
from teucer._core.typing import Array, ArrayLike
from teucer._dimensions.dimensions import as_size, ceil_div, max_dim
from teucer.lax import GatherScatterMode
from teucer.lax._sharding import laid_out
from teucer.numpy._library import fast
from teucer.numpy._promotion import check_arraylike

if TYPE_CHECKING:
    from collections.abc import Callable

    from teucer._core.typing import DTypeLike, Size
    from teucer._devices.specs import OutSharding


_REDUCE: dict[str, Callable[..., Any]] = {
    "add": jnp.sum,
    "max": jnp.max,
    "min": jnp.min,
    "multiply": jnp.prod,
}


def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Sums of the elements of each segment; 0 for a segment without elements.

    segment_ids: integers, one for each part of data along its first axis; of ids of several axes
    each takes a part that data broadcast to ids.shape + data.shape[1:] have there. Elements whose
    number is not in [0, num_segments) are left out, or with mode='clip' go to the nearest segment.
    num_segments: by default the greatest number plus one, which must be known while tracing.
    indices_are_sorted, unique_indices: promises about segment_ids, which save work. bucket_size:
    reduce as many elements at a time, and then their results.
    Raises ValueError if num_segments is negative or the shapes do not fit, TypeError for
    segment_ids that are not integers.

    >>> segment_sum(jnp.array([1., 2., 4.]), jnp.array([0, 0, 2]), 3)
    Array([3., 0., 4.], dtype=float32)
    """
    how = (indices_are_sorted, unique_indices, bucket_size, mode)
    return _segment("segment_sum", "add", data, segment_ids, num_segments, how, out_sharding)


def segment_prod(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """As `segment_sum`, products; 1 for a segment without elements.

    >>> segment_prod(jnp.array([3., 2., 4.]), jnp.array([0, 0, 2]), 3)
    Array([6., 1., 4.], dtype=float32)
    """
    how = (indices_are_sorted, unique_indices, bucket_size, mode)
    return _segment("segment_prod", "multiply", data, segment_ids, num_segments, how, out_sharding)


def segment_max(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """As `segment_sum`, the greatest elements; for a segment without elements -inf, or the least
    integer.

    >>> segment_max(jnp.array([1., 2., 4.]), jnp.array([0, 0, 2]), 3)
    Array([  2., -inf,   4.], dtype=float32)
    """
    how = (indices_are_sorted, unique_indices, bucket_size, mode)
    return _segment("segment_max", "max", data, segment_ids, num_segments, how, out_sharding)


def segment_min(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: object = None,
    out_sharding: OutSharding = None,
) -> Array:
    """As `segment_sum`, the least elements; for a segment without elements inf, or the greatest
    integer.

    >>> segment_min(jnp.array([1., 2., 4.]), jnp.array([0, 0, 2]), 3)
    Array([ 1., inf,  4.], dtype=float32)
    """
    how = (indices_are_sorted, unique_indices, bucket_size, mode)
    return _segment("segment_min", "min", data, segment_ids, num_segments, how, out_sharding)


def _segment(
    name: str,
    operation: str,
    data: Any,
    ids: Any,
    num_segments: Any,
    how: tuple[bool, bool, object, Any],
    out_sharding: OutSharding,
) -> Any:
    """how: indices_are_sorted, unique_indices, bucket_size, mode."""
    check_arraylike(name, data, ids)
    if out_sharding is not None:
        _check_parts(name, operation, out_sharding)
        return laid_out(
            name,
            out_sharding,
            lambda data, ids: _segment(name, operation, data, ids, num_segments, how, None),
            data,
            ids,
        )
    if not dtypes.issubdtype(typeof(ids).dtype, np.integer):
        raise TypeError(
            f"{name}: segment_ids must be integers.\n    segment_ids: {typeof(ids).str_short(True)}"
        )
    target = (*np.shape(ids), *np.shape(data)[1:])
    if not _fits(np.shape(data), target):
        raise ValueError(
            f"{name}: data must have an element for each segment number.\n"
            f"    data: {typeof(data).str_short(True)}\n    segment_ids: "
            f"{typeof(ids).str_short(True)}\n  Numbers of this shape take data that broadcast to "
            f"{target}."
        )
    is_sorted, unique, bucket_size, mode = how
    count = max(int(jnp.max(ids)) + 1, 0) if num_segments is None else as_size(num_segments)
    if count < 0:
        raise ValueError("num_segments must be non-negative.")
    is_clipped = mode is not None and GatherScatterMode.from_any(mode) == GatherScatterMode.CLIP
    if bucket_size is not None and not hasattr(bucket_size, "__index__"):
        raise TypeError(
            f"{name}: bucket_size must be a positive integer or None, got {bucket_size!r:.100}."
        )
    size = None if bucket_size is None else as_size(bucket_size)
    if size is not None and size <= 0:
        raise ValueError(f"{name}: bucket_size must be positive, got {size}.")
    return _scattered(data, ids, operation, count, bool(is_sorted), bool(unique), size, is_clipped)


def _check_parts(name: str, operation: str, out_sharding: OutSharding) -> None:
    """Refuse parts that are still to be combined, but by sums."""
    spec: Any = getattr(out_sharding, "spec", out_sharding)
    if operation != "add" and spec.unreduced:
        raise NotImplementedError(
            f"unreduced for {name.removeprefix('segment_')} is not yet supported.\n  {name}: parts "
            f"over mesh axes {set(spec.unreduced)} would be summed. Give an out_sharding without "
            "unreduced axes."
        )


def _fits(shape: Sequence[Size], target: Sequence[object]) -> bool:
    """Whether data of a shape broadcast to another one."""
    return len(shape) <= len(target) and all(
        (type(n) is int and n == 1) or n == m
        for n, m in zip(reversed(shape), reversed(target), strict=False)
    )


@fast(static=("operation", "count", "is_sorted", "unique", "bucket_size", "is_clipped"))
def _scattered(
    data: ArrayLike,
    ids: object,
    operation: str,
    count: int,
    is_sorted: bool,
    unique: bool,
    bucket_size: int | None,
    is_clipped: bool,
) -> Any:
    data, ids = jnp.asarray(data), jnp.asarray(ids)
    if is_clipped:
        ids = jnp.clip(ids, 0, max_dim(count - 1, 0))
    start = _neutral(operation, data.dtype)
    rest = data.shape[1:]
    # Negative numbers are not counted from the end: they are dropped.
    options = {
        "indices_are_sorted": is_sorted,
        "unique_indices": unique,
        "mode": "drop",
        "wrap_negative_indices": False,
    }
    if bucket_size is None:
        return getattr(jnp.full((count, *rest), start, data.dtype).at[ids], operation)(
            data, **options
        )
    buckets = jnp.arange(ids.shape[0]) // bucket_size
    target = jnp.full((ceil_div(ids.shape[0], bucket_size), count, *rest), start, data.dtype)
    places = jnp.broadcast_to(buckets.reshape(-1, *(1,) * (ids.ndim - 1)), ids.shape)
    parts = getattr(target.at[places, ids], operation)(data, **options)
    # A size that is not known may be 0: then there is no bucket.
    initial = {"initial": start} if operation in ("max", "min") else {}
    return _REDUCE[operation](parts, axis=0, **initial).astype(data.dtype)


def _neutral(operation: str, dtype: DTypeLike) -> Any:
    if operation in ("add", "multiply"):
        return int(operation == "multiply")
    if dtype == np.bool_:
        return operation == "min"
    if dtypes.issubdtype(dtype, np.integer):
        info = dtypes.iinfo(dtype)
        return info.max if operation == "min" else info.min
    return np.inf if operation == "min" else -np.inf
