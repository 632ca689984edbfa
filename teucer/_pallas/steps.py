"""Which steps of a grid may run at the same time, as far as a kernel's jaxpr says.

Steps that write the same block of a result must run one after another, unless they only add to it
by atomic operations, or write parts of it. Targets that run steps at the same time ask here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from teucer._core import structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn, Var
from teucer._pallas import accesses as _accesses
from teucer._pallas.records import Block, Kernel
from teucer.lax import _references
from teucer.numpy._references import Index

_ACCESSES = (
    _references.get_p,
    _references.swap_p,
    _references.addupdate_p,
    _accesses.masked_load_p,
    _accesses.masked_swap_p,
    _accesses.atomic_rmw_p,
    _accesses.atomic_cas_p,
)
_ATOMIC = (_accesses.atomic_rmw_p, _accesses.atomic_cas_p)


class Access(NamedTuple):
    """An equation that reads or writes a reference, an input of a jaxpr, by its number."""

    ref: int
    eqn: Eqn

    @property
    def whole(self) -> bool:
        """Whether it touches the whole block, and not by atomic operations."""
        views = self.eqn.params["views"]
        if self.eqn.primitive in _ATOMIC:
            return False
        return all(
            type(v) is Index and all(item[0] in ("full", "new") for item in v.key.items)
            for v in views
        )


class Order(NamedTuple):
    """in_order: axes of the grid whose steps run one after another. held: results that stay the
    same block meanwhile."""

    in_order: tuple[int, ...]
    held: tuple[int, ...]


def accesses(closed: ClosedJaxpr) -> list[Access]:
    """The accesses of a jaxpr to the references among its inputs."""
    return list(_accesses_in(closed, {v: i for i, v in enumerate(closed.jaxpr.invars)}))


def _accesses_in(closed: ClosedJaxpr, numbers: dict[Any, int]) -> Iterator[Access]:
    for eqn in closed.jaxpr.eqns:
        if eqn.primitive in _ACCESSES and eqn.invars[0] in numbers:
            yield Access(numbers[eqn.invars[0]], eqn)
        view = structure.of(eqn)
        for inner, operands in view.bodies if view is not None else ():
            within = {
                v: numbers[x]
                for v, x in zip(inner.jaxpr.invars, operands, strict=False)
                if isinstance(x, Var) and x in numbers
            }
            if within:
                yield from _accesses_in(inner, within)


def axes_of(block: Block, rank: int) -> frozenset[int]:
    """The axes of a grid along which a block changes, as far as its index map depends on them."""
    if block.index is None:
        return frozenset()
    jaxpr = block.index.jaxpr
    place = jaxpr.invars[block.n_consts : block.n_consts + rank]
    known: dict[Any, frozenset[int]] = {v: frozenset((i,)) for i, v in enumerate(place)}
    nothing: frozenset[int] = frozenset()
    for eqn in jaxpr.eqns:
        found = nothing.union(*(known.get(x, nothing) for x in eqn.invars if isinstance(x, Var)))
        known.update(dict.fromkeys(eqn.outvars, found))
    return nothing.union(*(known.get(x, nothing) for x in jaxpr.outvars if isinstance(x, Var)))


def order_of(kernel: Kernel) -> Order:
    """The parts that must run one after another. Scratch memory is handed from step to step along
    axes that no result depends on."""
    rank = len(kernel.grid)
    long = frozenset(i for i, n in enumerate(kernel.grid) if n != 1)
    first = len(kernel.jaxpr.in_avals) - len(kernel.scratch) - len(kernel.outs)
    whole = {
        a.ref - first
        for a in accesses(kernel.jaxpr)
        if a.whole and 0 <= a.ref - first < len(kernel.outs)
    }
    moves = [axes_of(b, rank) for b in kernel.outs]
    in_order: frozenset[int] = frozenset()
    for o in whole:
        in_order |= long - moves[o]
    if kernel.scratch:
        in_order |= long.difference(*moves)
    return Order(tuple(sorted(in_order)), tuple(sorted(o for o in whole if in_order - moves[o])))
