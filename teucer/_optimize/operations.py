"""How many operations on numbers an equation does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from teucer._base import dtypes
from teucer._core import structure
from teucer._core.cost import Work, of_operand
from teucer._core.jaxpr import Eqn, Jaxpr, jaxprs_in_params

if TYPE_CHECKING:
    pass


def is_product(eqn: Eqn) -> bool:
    """Whether an equation is a matrix product or a convolution."""
    return eqn.primitive.cost.work in (Work.PRODUCT, Work.CONVOLUTION)


def total_operations(jaxpr: Jaxpr) -> float:
    """Operations of a whole program."""
    return sum(map(operations, jaxpr.eqns))


def operations(eqn: Eqn) -> float:
    """Operations on numbers: two for each product of a matrix product, one for each element of
    others."""
    if not eqn.outvars or any(
        getattr(v.aval, "symbolic", False) for v in (*eqn.invars, *eqn.outvars)
    ):
        return 0.0
    cost, out = eqn.primitive.cost, eqn.outvars[0].aval
    if eqn.primitive.higher_order:
        return _inside(eqn)
    avals = [v.aval for v in eqn.invars]
    if isinstance(getattr(out, "dtype", None), dtypes.ExtendedDType):
        return 0.0
    if cost.operations is not None:
        return cost.operations(avals, out, eqn.params)
    return of_operand(avals, out, eqn.params) if cost.reduces else float(getattr(out, "size", 0))


def _inside(eqn: Eqn) -> float:
    inner = [sum(map(operations, jaxpr.eqns)) for jaxpr in jaxprs_in_params(eqn.params)]
    if not inner:
        return 0.0
    if structure.kind_of(eqn.primitive) is structure.Branch:
        return max(inner)
    return float(structure.times(eqn)) * sum(inner)
