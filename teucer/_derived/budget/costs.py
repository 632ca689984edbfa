"""How long equations take, as the cost model of their target says."""

from __future__ import annotations

from teucer._core import structure
from teucer._core.cost import Work
from teucer._core.jaxpr import Eqn, Jaxpr, jaxprs_in_params
from teucer._optimize.operations import is_product, operations
from teucer._targets.outlining.bytes import bytes_of
from teucer._targets.outlining.constants import Speeds


def seconds_of(jaxpr: Jaxpr, speeds: Speeds) -> float:
    """The seconds that a program takes."""
    return sum(seconds(eqn, speeds) for eqn in jaxpr.eqns)


def seconds(eqn: Eqn, speeds: Speeds) -> float:
    """The seconds that an equation takes by itself: the longer of computing, and of reading and
    writing. Fused equations read and write less."""
    if eqn.primitive.higher_order and not eqn.primitive.cost.reduces:
        inner = [seconds_of(jaxpr, speeds) for jaxpr in jaxprs_in_params(eqn.params)]
        if structure.kind_of(eqn.primitive) is structure.Branch:
            return max(inner, default=0.0)
        return structure.times(eqn) * sum(inner)
    cost = eqn.primitive.cost
    written = sum(bytes_of(v.aval) for v in eqn.outvars)
    read = sum(bytes_of(v.aval) for v in eqn.invars)
    if is_product(eqn):
        return max(operations(eqn) / speeds.products, (read + written) / speeds.memory)
    costly = cost.expensive or cost.work is Work.FUNCTION or bool(cost.series)
    computed = operations(eqn) * speeds.element if costly else 0.0
    moved = written if cost.fuses else read + written
    return max(computed, moved / speeds.memory)


def offloaded(size: float, speeds: Speeds) -> float:
    """The seconds that it takes to move bytes to the host and back."""
    return 2 * size / speeds.host
