"""Functions for use in kernels.

Places in the grid, conditions, loops, scratch memory, loads and stores.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base import config, dtypes, tracebacks
from teucer._core.reference_types import RefType
from teucer._core.stage import StageTrace
from teucer._core.trace import Tracer, current_trace, typeof
from teucer._core.types import ShapedArray
from teucer._pallas import accesses
from teucer._trees import pytrees
from teucer.lax import _references
from teucer.numpy._index_keys import ds
from teucer.numpy._references import View

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike, Value
    from teucer.lax._precision import PrecisionLike

__all__ = [
    "ds", "dslice", "in_grid", "inside", "load", "loop", "num_programs", "program_id",
    "run_scoped", "store", "swap", "when", "with_scoped",
]  # fmt: skip


class _Grid(NamedTuple):
    ids: tuple[Any, ...]
    sizes: tuple[Any, ...]


class _Grids(threading.local):
    stack: tuple[_Grid, ...] = ()


_grids = _Grids()


@contextlib.contextmanager
def in_grid(ids: Sequence[object], sizes: Sequence[Any]) -> Iterator[None]:
    """While a kernel is traced: its place in the grid, and the grid."""
    saved, _grids.stack = _grids.stack, (*_grids.stack, _Grid(tuple(ids), tuple(sizes)))
    try:
        yield
    finally:
        _grids.stack = saved


def inside() -> bool:
    """Whether a kernel is traced."""
    return bool(_grids.stack)


def _grid(op: str, axis: int) -> _Grid:
    if not _grids.stack:
        raise ValueError(
            f"pl.{op}({axis}): there is no grid here.\n  Call it in a kernel, under pallas_call; "
            "index maps get their place as arguments."
        )
    grid = _grids.stack[-1]
    if not -len(grid.ids) <= axis < len(grid.ids):
        raise ValueError(
            f"pl.{op}: axis {axis} is out of bounds for a grid of {len(grid.ids)} axes, "
            f"{grid.sizes}."
        )
    return grid


@tracebacks.api_boundary
def program_id(axis: int) -> Any:
    """The place of this step along an axis of the grid, int32."""
    return _grid("program_id", axis).ids[axis]


@tracebacks.api_boundary
def num_programs(axis: int) -> Any:
    """The size of the grid along an axis."""
    return _grid("num_programs", axis).sizes[axis]


def when(condition: ArrayLike) -> Callable[[Callable[[], Any]], Any]:
    """A decorator that runs a function of no arguments now, if the condition holds.

    >>> import teucer as jax
    >>> from teucer.experimental import pallas as pl
    >>> ref = jax.new_ref(0)
    >>> @pl.when(True)
    ... def _():
    ...     ref[...] = 1
    >>> ref
    Ref(1, dtype=int32)
    """

    def run(f: Callable[[], Any]) -> None:
        value = condition.concrete() if isinstance(condition, Tracer) else condition
        if value is not None:
            if value:
                f()
            return
        lax.cond(condition, lambda: (f(), None)[1], lambda: None)

    return run


def loop(
    lower: Any, upper: Any, *, init_carry: Any = None, step: ArrayLike = 1, unroll: Any = None
) -> Callable[[Callable[..., Any]], Any]:
    """A decorator that runs a function for i = lower, lower + step, ... below upper, now: body(i),
    or body(i, carry) -> carry.

    Returns the last carry in the function's place.
    """

    def run(body: Callable[..., Any]) -> Any:
        count = (upper - lower + step - 1) // step

        def one(k: int, carry: object) -> Any:
            i = lower + k * step
            if init_carry is None:
                body(i)
                return carry
            return body(i, carry)

        return lax.fori_loop(0, count, one, init_carry, unroll=unroll)

    return run


def scratch(kind: Any) -> Any:
    """A reference to memory for a kernel."""
    aval = (
        kind
        if isinstance(kind, ShapedArray)
        else kind.inner
        if isinstance(kind, RefType)
        else ShapedArray(tuple(kind.shape), kind.dtype)
    )
    return _references.empty_ref_p.call(
        aval=aval, memory_space=getattr(kind, "memory_space", None)
    )[0]


def run_scoped(
    f: Callable[..., object], *types: Value, collective_axes: object = (), **kw_types: object
) -> Any:
    """f on references to memory of the given types, which exists while f runs.

    types: trees of `pl.ANY(shape, dtype)` and the like. Returns what f returns.
    """
    args, kwargs = pytrees.tree_map(scratch, (types, kw_types))
    if config.pallas_poison_buffers.value:
        for ref in pytrees.tree_leaves((args, kwargs)):
            if dtypes.issubdtype(ref.dtype, np.inexact):
                ref[...] = jnp.full(ref.shape, np.nan, ref.dtype)
    return f(*args, **kwargs)


def with_scoped(
    *types: Value, collective_axes: object = (), **kw_types: object
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function gets references to memory of the given types behind its
    arguments."""

    def decorated(f: Callable[..., object]) -> Callable[..., Any]:
        def scoped(*args: object, **kwargs: object) -> Any:
            return run_scoped(
                lambda *refs, **named: f(*args, *refs, **kwargs, **named), *types, **kw_types
            )

        return scoped

    return decorated


dslice = ds


def in_kernel() -> bool:
    """Whether a kernel is being traced, and nothing is transformed within it: then targets see
    loads and stores as they are."""
    return bool(_grids.stack) and type(current_trace()) is StageTrace


def _part(ref: object, idx: object) -> View:
    return _view(ref)._indexed(... if idx is None else idx)


def _filled(mask: Any, part: Any) -> Any:
    return jnp.broadcast_to(jnp.asarray(True if mask is None else mask, bool), part.shape)


@tracebacks.api_boundary
def load(
    ref: object,
    idx: Any = ...,
    *,
    mask: ArrayLike | None = None,
    other: object = None,
    cache_modifier: object = None,
    eviction_policy: object = None,
    volatile: bool = False,
) -> Any:
    """ref[idx]; where the mask is false, `other` (by default 0).

    cache_modifier, eviction_policy, volatile: for compilers of kernels for GPUs; results do not
    depend on them.
    """
    part = _part(ref, idx)
    if mask is None and cache_modifier is None and eviction_policy is None and not volatile:
        return part[...]
    fill = jnp.asarray(0 if other is None else other, part.dtype)
    if not in_kernel():
        spread = _spread_out(part)
        value = _references.get_p.call(part.ref, *spread.operands, views=spread.views)[0]
        return value if mask is None else jnp.where(_filled(mask, part), value, fill)
    fill = jnp.broadcast_to(fill, part.shape) if fill.shape else fill
    return accesses.masked_load_p.call(
        part.ref,
        _filled(mask, part),
        fill,
        *part._operands,
        views=part.transforms,
        cache_modifier=cache_modifier,
        eviction_policy=eviction_policy,
        volatile=volatile,
    )[0]


@tracebacks.api_boundary
def swap(
    ref: object,
    idx: object,
    value: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    eviction_policy: object = None,
) -> Any:
    """ref[idx] = value where the mask is true. Returns the elements before; where the mask is
    false, elements of the value."""
    part = _part(ref, idx)
    if mask is None and eviction_policy is None:
        return part._swap(..., value)
    mask = _filled(mask, part)
    value = jnp.broadcast_to(jnp.asarray(value, part.dtype), part.shape)
    if in_kernel():
        return accesses.masked_swap_p.call(
            part.ref,
            value,
            mask,
            *part._operands,
            views=part.transforms,
            eviction_policy=eviction_policy,
        )[0]
    spread = _spread_out(part)
    old = _references.get_p.call(part.ref, *spread.operands, views=spread.views)[0]
    _references.swap_p.call(
        part.ref, jnp.where(mask, value, old), *spread.operands, views=spread.views
    )
    return jnp.where(mask, old, value)


def store(
    ref: object,
    idx: Any,
    value: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    eviction_policy: object = None,
) -> None:
    """ref[idx] = value where the mask is true."""
    swap(ref, idx, value, mask=mask, eviction_policy=eviction_policy)


def _spread_out(part: View) -> accesses.Spread:
    return accesses.spread_out(part.transforms, part._operands)


def _view(ref: object) -> View:
    return ref if type(ref) is View else View(ref)


def _atomic(name: str) -> Callable[..., Any]:
    @tracebacks.api_boundary
    def atomic(
        x_ref_or_view: object, idx: Any, val: ArrayLike, *, mask: ArrayLike | None = None
    ) -> Any:
        part = _part(x_ref_or_view, idx)
        value = jnp.broadcast_to(jnp.asarray(val, part.dtype), part.shape)
        filled = np.bool_(True) if mask is None else _filled(mask, part)
        return accesses.atomic_rmw_p.call(
            part.ref, value, filled, *part._operands, views=part.transforms, operation=name
        )[0]

    atomic.__name__ = f"atomic_{name}"
    atomic.__doc__ = f"""Combine ref[idx] with a value ({name}), as one operation.

    It returns the elements that were there. mask: elements for which it is false stay as they are.
    An element that idx names several times is combined as often.
    """
    return atomic


atomic_xchg, atomic_add, atomic_max, atomic_min = (
    _atomic(name) for name in ("xchg", "add", "max", "min")
)
atomic_and, atomic_or, atomic_xor = (_atomic(name) for name in ("and", "or", "xor"))


@tracebacks.api_boundary
def atomic_cas(ref: object, cmp: Any, val: ArrayLike) -> Any:
    """Replace a scalar by `val` if it equals `cmp`, atomically; returns the old value."""
    part = _part(ref, ...)
    if part.shape or np.shape(cmp) or np.shape(val):
        raise ValueError(
            f"atomic_cas: the reference, cmp and val must be scalars, got shapes {part.shape}, "
            f"{np.shape(cmp)} and {np.shape(val)}.\n  Name an element: ref.at[i]."
        )
    given = [jnp.asarray(x, part.dtype) for x in (cmp, val)]
    return accesses.atomic_cas_p.call(part.ref, *given, *part._operands, views=part.transforms)[0]


def dot(
    a: ArrayLike,
    b: ArrayLike,
    trans_a: bool = False,
    trans_b: bool = False,
    allow_tf32: object = None,
    precision: PrecisionLike = None,
) -> Any:
    """The product of two matrices; of floats of fewer than 32 bits, and of float32, in float32; of
    integers in int32."""
    kind = np.float32 if jnp.issubdtype(typeof(a).dtype, jnp.floating) else np.int32
    dimensions = (((0 if trans_a else 1,), (1 if trans_b else 0,)), ((), ()))
    return lax.dot_general(
        a,
        b,
        dimensions,
        precision=precision,
        preferred_element_type=np.promote_types(kind, np.float32) if kind is np.float32 else kind,
    )
