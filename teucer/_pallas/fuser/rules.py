"""How parts of operands follow from parts of results, and the other way.

`RULES` has a row for each primitive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import lax
from teucer._core.jaxpr import Eqn
from teucer._core.primitive import Primitive
from teucer._pallas.fuser.parts import (
    Given,
    Part,
    Parts,
    Quotient,
    Remainder,
    Scaled,
    begin_at,
    whole,
)
from teucer.lax._families import Elementwise

if TYPE_CHECKING:
    from teucer._core.typing import Value


# The part of each operand, None for operands that are not needed in the kernel; or None, where no
# blocks do.
Pulled = Sequence[Parts | None] | None


class Rule(NamedTuple):
    """The row of a primitive.

    pull: (equation, part of the result) -> parts of the operands. push: (equation, parts of the
    operands, None where nothing is said) -> part of the result; None where blocks do not follow.
    evaluate: (equation, part of the result, numbers of blocks, operands' blocks) -> the result's.
    """

    pull: Callable[[Eqn, Parts], Pulled]
    push: Callable[[Eqn, Sequence[Parts | None]], Parts | None]
    evaluate: Callable[[Eqn, Parts, Any, Sequence[Any]], Any]


def rule_of(primitive: Primitive) -> Rule | None:
    """The rule of a primitive; None if there is none."""
    return _ELEMENTWISE if isinstance(primitive, Elementwise) else RULES.get(primitive)


def seen_shape(parts: Parts) -> tuple[int, ...]:
    """The shape of a block in the kernel."""
    return tuple([p.size for p in parts if p.seen])


def _shape(eqn: Eqn, i: int = 0) -> tuple[int, ...]:
    return tuple(eqn.invars[i].aval.shape)


def _is_whole(parts: Parts, shape: Sequence[int]) -> bool:
    return parts == whole(shape)


# --- Elementwise ----------------------------------------------------------------------------------


def _same(eqn: Eqn, parts: Parts) -> Pulled:
    return [parts if v.aval.shape else () for v in eqn.invars]


def _push_same(eqn: Eqn, parts: Sequence[Parts | None]) -> Parts | None:
    said = [p for p, v in zip(parts, eqn.invars, strict=True) if p is not None and v.aval.shape]
    return said[0] if said and all(p == said[0] for p in said) else None


def _call(eqn: Eqn, parts: Parts, numbers: object, values: Sequence[Value]) -> Any:
    return eqn.primitive.call(*values, **eqn.params)[0]


_ELEMENTWISE = Rule(_same, _push_same, _call)


# --- Shapes ---------------------------------------------------------------------------------------


def _pull_broadcast(eqn: Eqn, parts: Parts) -> Pulled:
    own = _shape(eqn)
    return [
        tuple(
            [
                parts[axis] if own[i] == eqn.params["shape"][axis] else Part(1, 0, parts[axis].seen)
                for i, axis in enumerate(eqn.params["broadcast_dimensions"])
            ]
        )
    ]


def _push_broadcast(eqn: Eqn, parts: Sequence[Parts | None]) -> Parts | None:
    own, shape = _shape(eqn), eqn.params["shape"]
    if parts[0] is None:
        return None
    found = list(whole(shape))
    for i, axis in enumerate(eqn.params["broadcast_dimensions"]):
        if own[i] == shape[axis]:
            found[axis] = parts[0][i]
    return tuple(found)


def _broadcast(eqn: Eqn, parts: Parts, numbers: object, values: Sequence[Any]) -> Any:
    places = np.cumsum([p.seen for p in parts]) - 1
    axes = [int(places[a]) for a in eqn.params["broadcast_dimensions"] if parts[a].seen]
    return lax.broadcast_in_dim(values[0], seen_shape(parts), axes)


def _pull_transpose(eqn: Eqn, parts: Parts) -> Pulled:
    order = eqn.params["permutation"]
    return [tuple([parts[order.index(axis)] for axis in range(len(order))])]


def _push_transpose(eqn: Eqn, parts: Sequence[Parts | None]) -> Parts | None:
    return (
        None if parts[0] is None else tuple([parts[0][axis] for axis in eqn.params["permutation"]])
    )


def _transpose(eqn: Eqn, parts: Parts, numbers: Any, values: Sequence[Any]) -> Any:
    kept = [axis for axis, p in zip(eqn.params["permutation"], parts, strict=True) if p.seen]
    return lax.transpose(values[0], [sorted(kept).index(axis) for axis in kept])


def _pull_squeeze(eqn: Eqn, parts: Parts) -> Pulled:
    rest, dropped = iter(parts), set(eqn.params["dimensions"])
    return [
        tuple([Part(1, 0, False) if i in dropped else next(rest) for i in range(len(_shape(eqn)))])
    ]


def _push_squeeze(eqn: Eqn, parts: Sequence[Parts | None]) -> Parts | None:
    dropped = set(eqn.params["dimensions"])
    return (
        None if parts[0] is None else tuple([p for i, p in enumerate(parts[0]) if i not in dropped])
    )


def _to_seen(eqn: Eqn, parts: Parts, numbers: Any, values: Sequence[Any]) -> Any:
    return lax.reshape(values[0], seen_shape(parts))


def _groups(one: Sequence[int], other: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Groups of axes of two shapes that hold the same elements, as small as possible; axes of size
    1 left out."""
    a, b = [[i for i, n in enumerate(shape) if n != 1] for shape in (one, other)]
    found, i, j = [], 0, 0
    while i < len(a) or j < len(b):
        left, right = a[i : i + 1], b[j : j + 1]
        i, j = i + 1, j + 1
        while (m := math.prod(one[k] for k in left)) != (n := math.prod(other[k] for k in right)):
            if m < n:
                left, i = [*left, a[i]], i + 1
            else:
                right, j = [*right, b[j]], j + 1
        found.append((left, right))
    return found


def _reshaped(given: Sequence[int], parts: Parts, wanted: Sequence[int]) -> Parts | None:
    """The part of an array of shape `wanted` that has the elements of a part of one of shape
    `given`."""
    if 0 in (*given, *wanted):
        return whole(wanted) if _is_whole(parts, given) else None
    found = [Part(1, 0, False)] * len(wanted)
    for left, right in _groups(given, wanted):
        own = [parts[i] for i in left]
        if len(left) == len(right) == 1:
            found[right[0]] = own[0]
        elif all(p == Part(given[i], 0) for p, i in zip(own, left, strict=True)):
            for k in right:
                found[k] = Part(wanted[k], 0)
        elif len(left) == 1 and len(right) == 2:
            size, minor = own[0].size, wanted[right[1]]
            if size % minor == 0:
                found[right[0]], found[right[1]] = (
                    own[0]._replace(size=size // minor),
                    Part(minor, 0),
                )
            elif minor % size == 0:
                found[right[0]] = Part(1, Quotient(own[0].start, minor // size), False)
                found[right[1]] = own[0]._replace(start=Remainder(own[0].start, minor // size))
            else:
                return None
        elif len(left) == 2 and len(right) == 1:
            major, minor = own
            n = given[left[1]]
            if minor == Part(n, 0):
                found[right[0]] = major._replace(size=major.size * n, seen=True)
            elif major.size == 1 and n % minor.size == 0:
                found[right[0]] = minor._replace(
                    start=Scaled(major.start, n // minor.size, minor.start)
                )
            else:
                return None
        else:
            return None
    return tuple(found)


def _pull_reshape(eqn: Eqn, parts: Parts) -> Pulled:
    found = _reshaped(eqn.params["new_sizes"], parts, _shape(eqn))
    return None if found is None else [found]


def _push_reshape(eqn: Eqn, parts: Sequence[Parts | None]) -> Parts | None:
    if parts[0] is None:
        return None
    found = _reshaped(_shape(eqn), parts[0], eqn.params["new_sizes"])
    return (
        None
        if found is None
        else tuple(
            [
                p if n != 1 else p._replace(seen=True)
                for p, n in zip(found, eqn.params["new_sizes"], strict=True)
            ]
        )
    )


def _pull_slice(eqn: Eqn, parts: Parts) -> Pulled:
    strides = eqn.params["strides"] or (1,) * len(parts)
    found = [
        p
        if p == Part(n, 0) and (lo, stride) == (0, 1)
        else None
        if stride != 1
        else begin_at(p, lo)
        for p, n, lo, stride in zip(
            parts, _shape(eqn), eqn.params["start_indices"], strides, strict=True
        )
    ]
    return None if None in found else [tuple(p for p in found if p is not None)]


def _pull_dynamic_slice(eqn: Eqn, parts: Parts) -> Pulled:
    found = []
    for p, n, size, start in zip(
        parts, _shape(eqn), eqn.params["slice_sizes"], eqn.invars[1:], strict=True
    ):
        if size != n and size != 1:
            return None
        found.append(p if size == n else Part(1, Given(start, n - 1), p.seen))
    return [tuple(found), *[None] * len(parts)]


def _first(eqn: Eqn, parts: Parts, numbers: object, values: Sequence[Value]) -> Any:
    return values[0]


def _nowhere(eqn: Eqn, parts: Sequence[Parts | None]) -> Parts | None:
    return None


# --- Others ---------------------------------------------------------------------------------------


def _iota(eqn: Eqn, parts: Parts, numbers: Any, values: Sequence[Value]) -> Any:
    axis, dtype = eqn.params["dimension"], eqn.params["dtype"]
    part = parts[axis]
    first = lax.convert_element_type(numbers.of(part.start) * part.size, dtype)
    if not part.seen:
        return lax.broadcast(first, seen_shape(parts))
    return lax.broadcasted_iota(dtype, seen_shape(parts), sum(p.seen for p in parts[:axis])) + first


def _pull_reduce(eqn: Eqn, parts: Parts) -> Pulled:
    rest, axes, shape = iter(parts), set(eqn.params["axes"]), _shape(eqn)
    return [tuple([Part(n, 0) if i in axes else next(rest) for i, n in enumerate(shape)])]


def _push_reduce(eqn: Eqn, parts: Sequence[Parts | None]) -> Parts | None:
    axes, shape = set(eqn.params["axes"]), _shape(eqn)
    if parts[0] is None or any(parts[0][i] != Part(shape[i], 0) for i in axes):
        return None
    return tuple([p for i, p in enumerate(parts[0]) if i not in axes])


def _reduce(eqn: Eqn, parts: Parts, numbers: object, values: Sequence[Value]) -> Any:
    (own,) = _pull_reduce(eqn, parts) or ()
    assert own is not None
    places = np.cumsum([p.seen for p in own]) - 1
    axes = tuple(int(places[axis]) for axis in eqn.params["axes"])
    return eqn.primitive.call(*values, **{**eqn.params, "axes": axes})[0]


_REDUCE = Rule(_pull_reduce, _push_reduce, _reduce)
RULES: dict[Primitive, Rule] = {
    **dict.fromkeys(
        (
            lax.convert_element_type_p,
            lax.select_n_p,
            lax.stop_gradient_p,
            lax.copy_p,
            lax.reduce_precision_p,
        ),
        _ELEMENTWISE,
    ),
    **dict.fromkeys(
        (
            lax.reduce_sum_p,
            lax.reduce_max_p,
            lax.reduce_min_p,
            lax.reduce_prod_p,
            lax.reduce_and_p,
            lax.reduce_or_p,
        ),
        _REDUCE,
    ),
    lax.broadcast_in_dim_p: Rule(_pull_broadcast, _push_broadcast, _broadcast),
    lax.transpose_p: Rule(_pull_transpose, _push_transpose, _transpose),
    lax.squeeze_p: Rule(_pull_squeeze, _push_squeeze, _to_seen),
    lax.reshape_p: Rule(_pull_reshape, _push_reshape, _to_seen),
    lax.slice_p: Rule(_pull_slice, _nowhere, _first),
    lax.dynamic_slice_p: Rule(_pull_dynamic_slice, _nowhere, _first),
    lax.iota_p: Rule(lambda eqn, parts: [], _nowhere, _iota),
}
