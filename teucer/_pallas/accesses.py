"""Loads and stores under a mask, and atomic operations, as primitives of kernels.

Targets have instructions for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._core import dialects
from teucer._core.reference_types import ReadEffect, WriteEffect
from teucer._core.trace import Tracer, typeof
from teucer._dialects.references.discharge import Cell
from teucer.lax import _references
from teucer.lax._references import _OnReference, _part_aval
from teucer.numpy._index_keys import ARRAY, FULL, INT, NEW, SCALAR, layout, starts_of
from teucer.numpy._references import Index, parse_key

if TYPE_CHECKING:
    from teucer._core.types import ShapedArray
    from teucer._core.typing import Array, ArrayLike, Value


# The new element of atomic operations, from the old element and the value.
COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda old, new: old + new,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
    "xchg": lambda old, new: new,
}


def names_places(views: Sequence[object]) -> bool:
    """Whether an index array names elements, so that one may be named several times."""
    return any(type(v) is Index and any(item[0] == "array" for item in v.key.items) for v in views)


class Spread(NamedTuple):
    """Views whose last index names each place, as some may lie outside of the array."""

    views: tuple[Any, ...]
    operands: tuple[Any, ...]


def spread_out(views: Sequence[Any], operands: Sequence[Value], *, known: bool = False) -> Spread:
    """Views whose slices with a traced start are arrays of places.

    known: slices with a known start become arrays, too.
    """
    if not views or type(views[-1]) is not Index:
        return Spread(tuple(views), tuple(operands))
    last = views[-1]
    first = len(operands) - last.n
    starts = starts_of(last.key, operands[first:])
    if not any(
        item[0] == "window" and (known or isinstance(x, Tracer))
        for item, x in zip(last.key.items, starts, strict=True)
    ):
        return Spread(tuple(views), tuple(operands))
    parsed = parse_key(_places(last, starts), last.shape)
    index = Index(parsed.plan, len(parsed.operands), last.shape)
    return Spread((*views[:-1], index), (*operands[:first], *parsed.operands))


def _places(view: Index, starts: Sequence[Any]) -> tuple[Any, ...]:
    """The places of a key along each axis, as arrays that broadcast to the part."""
    items = view.key.items
    common = np.broadcast_shapes(
        *(np.shape(x) for item, x in zip(items, starts, strict=True) if item == ARRAY)
    )
    axes = layout(view.key, len(common))
    found, sizes = [], iter(view.shape)
    for position, (item, x) in enumerate(zip(items, starts, strict=True)):
        if item == NEW:
            continue
        n = next(sizes)
        if item in (INT, SCALAR) or (item == ARRAY and not common):
            found.append(jnp.asarray(x))
            continue
        if item == ARRAY:
            places, last = jnp.broadcast_to(x, common), axes.index(("batch", len(common) - 1))
        else:
            start, size, step = (
                (0, n, 1) if item == FULL else (x, item[1], 1) if item[0] == "window" else item[1:]
            )
            places, last = (
                start + step * np.arange(size, dtype=np.int32),
                axes.index(("axis", position)),
            )
        found.append(jnp.reshape(places, (*np.shape(places), *[1] * (len(axes) - last - 1))))
    return tuple(found)


class _Access(_OnReference):
    """A primitive of kernels on one reference: it reads and writes."""

    __slots__ = ()

    def effects(self, ref: object, *rest: Value, **params: object) -> Any:
        return frozenset((ReadEffect(0), WriteEffect(0)))

    def evaluate(self, ref: Any, *rest: Any, **params: object) -> Any:
        cell = Cell(ref.aval, ref.read())
        outs = self.discharge(cell, *rest, **params)
        if cell.changed:
            ref.write(cell.value)
        return outs

    @dialects.discharge.rule
    def discharge(self, ref: object, *rest: Value, **params: object) -> Any:
        if type(ref) is not Cell:
            return self.call(ref, *rest, **params)
        return self.on_cell(ref, *rest, **params)  # type: ignore[attr-defined]


def _where(mask: Any, x: Any, y: ArrayLike) -> Any:
    return lax.select(
        jnp.broadcast_to(mask, typeof(x).shape), x, jnp.broadcast_to(y, typeof(x).shape)
    )


@final
class MaskedLoad(_Access):
    """The part of a reference's array; `other` where the mask is false. Operands: reference, mask,
    other, places."""

    __slots__ = ()
    name = "masked_load"

    def types(
        self,
        ref: ShapedArray,
        mask: Any,
        other: ShapedArray,
        *places: Any,
        views: Sequence[Value],
        **hints: object,
    ) -> Any:
        return (_part_aval(self.check(ref).inner, views, places),)

    def effects(self, ref: object, *rest: Value, **params: object) -> Any:
        return frozenset((ReadEffect(0),))

    def on_cell(
        self, ref: Cell, mask: Any, other: Any, *places: Any, views: Any, **hints: Any
    ) -> Any:
        views, places = spread_out(views, places)
        return (_where(mask, _references.read_part(ref.read(), *places, views=views), other),)


@final
class MaskedSwap(_Access):
    """Replaces elements where the mask is true; gives the old ones there, and the values elsewhere.

    Operands: reference, value, mask, places.
    """

    __slots__ = ()
    name = "masked_swap"

    def types(
        self,
        ref: Any,
        value: Any,
        mask: ShapedArray,
        *places: Any,
        views: Sequence[Value],
        eviction_policy: object,
    ) -> Any:
        part = _part_aval(self.check(ref).inner, views, places)
        self.check_value(part, value, ref)
        return (part,)

    def on_cell(
        self, ref: Cell, value: Any, mask: Any, *places: Any, views: Any, eviction_policy: Any
    ) -> Any:
        views, places = spread_out(views, places)
        x = ref.read()
        old = _references.read_part(x, *places, views=views)
        ref.write(_references.set_part(x, _where(mask, value, old), *places, views=views))
        return (_where(mask, old, value),)


@final
class AtomicRMW(_Access):
    """Combines elements with values where the mask is true, each atomically; gives the old
    elements.

    Operands: reference, value, mask, places. operation: a key of `COMBINE`.
    """

    __slots__ = ()
    name = "atomic_rmw"

    def types(
        self,
        ref: Any,
        value: Any,
        mask: ShapedArray,
        *places: Any,
        views: Sequence[Value],
        operation: str,
    ) -> Any:
        part = _part_aval(self.check(ref).inner, views, places)
        self.check_value(part, value, ref)
        return (part,)

    def on_cell(
        self, ref: Cell, value: ArrayLike, mask: Any, *places: Any, views: Any, operation: str
    ) -> Any:
        views, places = spread_out(views, places)
        x = ref.read()
        if names_places(views):
            old, new = _one_by_one(x, value, mask, views, places, operation)
        else:
            old = _references.read_part(x, *places, views=views)
            combined = jnp.asarray(COMBINE[operation](old, value), old.dtype)
            new = _references.set_part(x, _where(mask, combined, old), *places, views=views)
        ref.write(new)
        return (old,)


def _one_by_one(x: Array, value: Array, mask: Any, views: Any, places: Any, operation: str) -> Any:
    """The values that were there, and the new array, where elements are named in any order and
    several times."""
    combine = COMBINE[operation]
    numbers = jnp.reshape(jnp.arange(x.size, dtype=np.int32), x.shape)
    at = _references.read_part(numbers, *places, views=views)
    shape, at = at.shape, jnp.ravel(at)
    value, mask = (
        jnp.ravel(jnp.broadcast_to(value, shape)),
        jnp.ravel(jnp.broadcast_to(mask, shape)),
    )

    def step(k: int, state: Any) -> Any:
        flat, found = state
        old = lax.dynamic_index_in_dim(flat, at[k], keepdims=False)
        new = jnp.where(mask[k], jnp.asarray(combine(old, value[k]), old.dtype), old)
        return (
            lax.dynamic_update_index_in_dim(flat, new, at[k], 0),
            lax.dynamic_update_index_in_dim(found, old, k, 0),
        )

    flat, found = lax.fori_loop(0, at.size, step, (jnp.ravel(x), jnp.zeros(at.shape, x.dtype)))
    if operation in (
        "add",
        "max",
        "min",
    ):  # in any order; so the loop is dropped if the old elements are not used
        update = getattr(jnp.ravel(x).at[jnp.where(mask, at, x.size)], operation)
        flat = update(value, mode="drop")
    return jnp.reshape(found, shape), jnp.reshape(flat, x.shape)


@final
class AtomicCAS(_Access):
    """Replaces elements that equal `compared` by `value`, each atomically; gives the old
    elements."""

    __slots__ = ()
    name = "atomic_cas"

    def types(
        self, ref: Any, compared: Any, value: Any, *places: Any, views: Sequence[Value]
    ) -> Any:
        part = _part_aval(self.check(ref).inner, views, places)
        self.check_value(part, value, ref)
        return (part,)

    def on_cell(self, ref: Cell, compared: Any, value: Any, *places: Any, views: Any) -> Any:
        old = _references.read_part(ref.read(), *places, views=views)
        ref.write(
            _references.set_part(
                ref.read(), _where(old == compared, value, old), *places, views=views
            )
        )
        return (old,)


masked_load_p, masked_swap_p = MaskedLoad(), MaskedSwap()
atomic_rmw_p, atomic_cas_p = AtomicRMW(), AtomicCAS()
