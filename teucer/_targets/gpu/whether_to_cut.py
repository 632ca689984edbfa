"""Pieces of programs for GPUs: whether a program is cut, by two predictions.

XLA compiles each layer of a whole program. As pieces, equal layers compile once. The host starts
each piece, which must take it less time than the GPU works on one (docs/outlining.md, "On GPUs").
"""

from __future__ import annotations

import math
from typing import NamedTuple, final

from teucer._core import structure
from teucer._core.jaxpr import Eqn, Jaxpr, jaxprs_in_params
from teucer._optimize.operations import is_product, operations
from teucer._targets.extent import has_more, has_symbolic_sizes
from teucer._targets.gpu import constants
from teucer._targets.outlined_call import outlined_call_p
from teucer._targets.outlining.bytes import bytes_of
from teucer._targets.outlining.cut_into_pieces import CutProgram, cut
from teucer._targets.outlining.outline import outlined


def may_pay(jaxpr: Jaxpr) -> bool:
    """Whether a program is long enough to be searched for pieces, and can have some."""
    return (
        not jaxpr.effects
        and has_more(jaxpr, constants.COPIED)
        and not has_symbolic_sizes(jaxpr)
        and busy(jaxpr) >= constants.PIECE_RUNS * constants.HIDDEN * constants.DISPATCH
    )


def in_pieces(jaxpr: Jaxpr) -> CutProgram | None:
    """The pieces of a program; None where it compiles about as soon, or runs faster, as a whole."""
    functions = outlined(jaxpr, constants.COSTS)
    found = None if functions is jaxpr else cut(functions, Launches(constants.GROUPED))
    if found is None:
        return None
    parts = [piece.jaxpr for piece in found.pieces]
    if sum(map(busy, parts)) < constants.HIDDEN * constants.DISPATCH * len(parts):
        return None
    whole, apart = compiles_in(jaxpr, found)
    return found if apart < (1 - constants.MARGIN) * whole else None


@final
class Launches(NamedTuple):
    """When programs are cut for GPUs (`Cutting`): few pieces, each so large that the GPU works
    longer than the host takes to start it.

    grouped: calls of a piece, at most.
    """

    grouped: int

    @property
    def copied(self) -> int:
        """The least number of equations that XLA would compile again."""
        return constants.COPIED

    @property
    def groups(self) -> int:
        """The least number of pieces that a run is cut into, if some of its calls are left over."""
        return constants.GROUPS

    @property
    def runs(self) -> int:
        """The least number of times that a piece runs, on the average."""
        return constants.PIECE_RUNS

    def large(self, function: Jaxpr) -> bool:
        """Whether enough calls of a function make a piece that runs longer than the host takes to
        start it."""
        return busy(function) * self.grouped >= constants.HIDDEN * constants.DISPATCH

    def most(self, function: Jaxpr) -> int:
        """The fewest calls whose piece runs longer than its start, rounded up to a power of two."""
        calls = math.ceil(constants.HIDDEN * constants.DISPATCH / busy(function))
        return min(self.grouped, 1 << (calls - 1).bit_length())

    def singly(self) -> Launches:
        """The same, with a piece for each call."""
        return Launches(1)


def busy(jaxpr: Jaxpr) -> float:
    """A lower bound on the seconds that a GPU works at a program: its products at the speed of the
    data sheet, and the bytes that they read and write.

    Everything else may be fused into them. A loop of unknown length counts once.
    """
    found: float | None = jaxpr.cache.get(busy)
    if found is None:
        found = jaxpr.cache[busy] = math.fsum(map(_busy, jaxpr.eqns))
    return found


def compiles_in(jaxpr: Jaxpr, found: CutProgram) -> tuple[float, float]:
    """Predicted seconds to compile a program as a whole, and in pieces."""
    parts = list({id(piece.jaxpr): piece.jaxpr for piece in found.pieces}.values())
    known: set[int] = set()
    new = sum(_distinct(part, known) for part in parts)
    apart = sum(
        constants.EXECUTABLE
        + constants.NEW * _distinct(part, set())
        + constants.EQUATION * _length(part)
        for part in parts
    )
    return constants.EXECUTABLE + constants.NEW * new + constants.EQUATION * _length(jaxpr), apart


def _busy(eqn: Eqn) -> float:
    if is_product(eqn):
        products = constants.PRODUCTS[
            min(eqn.invars[0].aval.dtype.itemsize, max(constants.PRODUCTS))
        ]
        moved = sum(bytes_of(v.aval) for v in (*eqn.invars, *eqn.outvars))
        return max(operations(eqn) / products, moved / constants.BANDWIDTH)
    if not eqn.primitive.higher_order:
        return 0.0
    inner = [busy(jaxpr) for jaxpr in jaxprs_in_params(eqn.params)]
    return max(inner, default=0.0) * structure.times(eqn)


def _length(jaxpr: Jaxpr) -> int:
    """Equations, those within others included."""
    return len(jaxpr.eqns) + sum(
        _length(inner)
        for eqn in jaxpr.eqns
        if eqn.primitive.higher_order
        for inner in jaxprs_in_params(eqn.params)
    )


def _distinct(jaxpr: Jaxpr, known: set[int]) -> int:
    """The number of equations, each outlined function counted once. Functions in `known` are not
    counted; those that are counted are added to `known`."""
    count = 0
    for eqn in jaxpr.eqns:
        if eqn.primitive.higher_order:
            for inner in jaxprs_in_params(eqn.params):
                if eqn.primitive is outlined_call_p and id(inner) in known:
                    continue
                known.add(id(inner))
                count += _distinct(inner, known)
        count += 1
    return count
