"""Dead code.

Equations whose results nothing uses and that do nothing else, and such results of calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from teucer._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal

if TYPE_CHECKING:
    from teucer._core.typing import Value


def dce_jaxpr(jaxpr: Jaxpr, used_outputs: Sequence[bool]) -> tuple[Jaxpr, list[bool]]:
    """The jaxpr that computes only the outputs marked, and which of its inputs are left in use.

    The result takes only the inputs that are used.
    """
    outvars = jaxpr.outvars if all(used_outputs) else filtered(jaxpr.outvars, used_outputs)
    live: set[Any] = {v for v in outvars if type(v) is not Literal}
    eqns = []
    # Plain loops: this runs for every equation that is lowered (benchmarks/).
    for eqn in reversed(jaxpr.eqns):
        if not eqn.effects:
            for out in eqn.outvars:
                if out in live:
                    break
            else:
                continue
        if eqn.primitive.dce is not None:
            eqn = eqn.primitive.dce(eqn, [v in live for v in eqn.outvars])
        eqns.append(eqn)
        for u in eqn.invars:
            if type(u) is not Literal:
                live.add(u)
    used = [v in live for v in jaxpr.invars]
    invars = jaxpr.invars if all(used) else filtered(jaxpr.invars, used)
    return Jaxpr(jaxpr.constvars, invars, outvars, eqns[::-1], debug_info=jaxpr.debug_info), used


def remove_dead(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr without dead code; it takes all of its inputs."""
    return dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[0].replace(invars=jaxpr.invars)


def dce_closed(
    closed: ClosedJaxpr, used_outputs: Sequence[bool], keep: Sequence[bool] = ()
) -> tuple[ClosedJaxpr, list[bool]]:
    """As `dce_jaxpr`, for a jaxpr that an equation carries. Kept on it; itself if nothing in it is
    dead.

    keep: inputs that the result takes even if it does not use them.
    """

    def make() -> tuple[ClosedJaxpr, list[bool]] | list[bool]:
        live, used = dce_jaxpr(closed.jaxpr, used_outputs)
        taken = [u or k for u, k in zip(used, keep, strict=True)] if keep else used
        if all(taken) and all(used_outputs) and live.eqns == closed.eqns:
            return taken
        return closed.replace(
            jaxpr=live.replace(invars=filtered(closed.jaxpr.invars, taken))
        ), taken

    found = closed.kept(("dce", tuple(used_outputs), tuple(keep)), make)
    # A jaxpr that its own cache refers to would live until the next collection.
    return found if isinstance(found, tuple) else (closed, found)


def narrowed(eqn: Eqn, used: Sequence[bool], taken: Sequence[bool], **params: object) -> Eqn:
    """The equation with only the results that are used and the operands that are taken; itself if
    all are."""
    if (
        all(used)
        and all(taken)
        and all(
            eqn.params[name] is value or eqn.params[name] == value for name, value in params.items()
        )
    ):
        return eqn
    return eqn.replace(
        invars=filtered(eqn.invars, taken),
        outvars=filtered(eqn.outvars, used),
        params={**eqn.params, **params},
    )


def filtered(xs: Sequence[Value], keep: Sequence[bool]) -> list[Any]:
    """The elements marked."""
    return [x for x, k in zip(xs, keep, strict=True) if k]
