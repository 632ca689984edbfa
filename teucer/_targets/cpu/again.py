"""What a backward pass computes again is a call, so that XLA does not merge it with the first time.

XLA's CPU compiler removes barriers before it merges common subexpressions, and its order of
operations does not wait for cotangents. A call that it does not inline has them as operands. So it
runs when they are there, and its temporaries are gone when it ends.
"""

from __future__ import annotations

from teucer._core.jaxpr import Eqn, Jaxpr
from teucer._core.structure import is_loop
from teucer._derived.remat import remat_p
from teucer._optimize.passes import changed_once, map_jaxprs
from teucer._targets.cpu.constants import AGAIN_LEAST
from teucer._targets.outlined_call import outlined_call_p
from teucer._targets.outlining.bytes import bytes_of


def keep_again(jaxpr: Jaxpr, in_loop: bool = False) -> Jaxpr:
    """The jaxpr with calls in the place of differentiated checkpoints, inner ones too.

    in_loop: whether it is the body of a loop. The first time is in another loop then: a call is
    needed only where a body has several checkpoints.
    """
    return changed_once(jaxpr, (keep_again, in_loop), lambda j: _kept(j, in_loop))


def _kept(jaxpr: Jaxpr, in_loop: bool) -> Jaxpr:
    if not any(eqn.primitive.higher_order for eqn in jaxpr.eqns):
        return jaxpr
    eqns = [
        map_jaxprs(eqn, lambda j, loop=is_loop(eqn.primitive): keep_again(j, loop))
        if eqn.primitive.higher_order
        else eqn
        for eqn in jaxpr.eqns
    ]
    found = [i for i, eqn in enumerate(eqns) if _runs_again(eqn)]
    if len(found) > in_loop:
        for i in found:
            eqn = eqns[i]
            params = {"jaxpr": eqn.params["jaxpr"]}
            eqns[i] = eqn.replace(primitive=outlined_call_p, params=params)
    return jaxpr if eqns == jaxpr.eqns else jaxpr.replace(eqns=eqns)


def _runs_again(eqn: Eqn) -> bool:
    """Whether it is a differentiated checkpoint that may not be merged, and large."""
    if eqn.primitive is not remat_p or eqn.effects:
        return False
    if not (eqn.params["differentiated"] and eqn.params["prevent_cse"]):
        return False
    inner = eqn.params["jaxpr"].jaxpr
    return sum(bytes_of(v.aval) for e in inner.eqns for v in e.outvars) >= AGAIN_LEAST
