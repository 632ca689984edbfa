"""Quotients by one broadcast are products with its reciprocal.

XLA makes `x * broadcast(1 / y)` of `x / broadcast(y)`, which divides once for each element of y,
only where nothing else reads the broadcast. The pass that merges equations makes one of equal
broadcasts, so normalised values and their gradients would be divided element by element.

Quotients by a number stay. JAX's programs mostly divide there too, which is right for a divisor so
large that its reciprocal underflows.
"""

from __future__ import annotations

from collections import Counter
from typing import final

import numpy as np

from teucer._core.jaxpr import Eqn, Jaxpr, Var, new_eqn
from teucer._core.provided import provided
from teucer._optimize.passes import changed_once, map_jaxprs
from teucer._targets.cpu.constants import DIVIDED_LEAST


def by_reciprocals(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with products for quotients by broadcasts that several equations read; inner ones
    too. Results differ in rounding, as they do where XLA does so."""
    return changed_once(jaxpr, by_reciprocals, _changed)


def _changed(jaxpr: Jaxpr) -> Jaxpr:
    eqns = [
        map_jaxprs(eqn, by_reciprocals) if eqn.primitive.higher_order else eqn for eqn in jaxpr.eqns
    ]
    divisors = {y for eqn in eqns if (y := _divisor(eqn)) is not None}
    if divisors:
        reads = Counter(v for eqn in eqns for v in eqn.invars)
        reads.update(jaxpr.outvars)
        shared = {y for y in divisors if reads[y] > 1}
        makers = {v: eqn for eqn in eqns for v in eqn.outvars if v in shared}
        inverses = Inverses({v: eqn for v, eqn in makers.items() if _repeats(eqn)})
        eqns = [new for eqn in eqns for new in inverses.replaced(eqn)]
    return jaxpr if eqns == jaxpr.eqns else jaxpr.replace(eqns=eqns)


def _divisor(eqn: Eqn) -> Var | None:
    """The divisor of a quotient, if it has some size, and a type in which a reciprocal is rounded
    once."""
    if eqn.primitive is not provided.quotients.divide:
        return None
    divisor, y = eqn.invars[1], eqn.outvars[0].aval
    gains = not y.symbolic and y.size >= DIVIDED_LEAST and y.dtype in (np.float32, np.float64)
    return divisor if gains and isinstance(divisor, Var) else None


def _repeats(eqn: Eqn) -> bool:
    """Whether it repeats the elements of an array."""
    if not eqn.primitive.rearranges or type(eqn.invars[0]) is not Var:
        return False
    return bool(eqn.outvars[0].aval.size >= 2 * eqn.invars[0].aval.size)


@final
class Inverses:
    """The reciprocals of divisors, each made with the first quotient by it.

    divisors: broadcasts with their equations.
    """

    def __init__(self, divisors: dict[Var, Eqn]) -> None:
        self.divisors = divisors
        self.made: dict[Var, Var] = {}

    def replaced(self, eqn: Eqn) -> list[Eqn]:
        """The equation, or equations for a product in its place."""
        y = _divisor(eqn)
        if y is None or y not in self.divisors:
            return [eqn]
        eqns = [] if y in self.made else self._make(y)
        product = provided.quotients.multiply
        return [*eqns, new_eqn(product, [eqn.invars[0], self.made[y]], eqn.outvars, {}, eqn.source)]

    def _make(self, y: Var) -> list[Eqn]:
        broadcast = self.divisors[y]
        of = broadcast.invars[0]
        power, inverse = provided.quotients.power, Var(of.aval)
        eqn = new_eqn(power, [of], [inverse], {"y": -1}, None)
        self.made[y] = Var(y.aval)
        return [eqn, broadcast.replace(invars=[inverse], outvars=[self.made[y]])]
