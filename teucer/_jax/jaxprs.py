"""Transformations of jaxprs for libraries that interpret them, with JAX's arguments and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from teucer._core.jaxpr import ClosedJaxpr, Jaxpr
from teucer._core.stage import stage_jaxpr
from teucer._optimize import dce
from teucer._transform.jvp import jvp_jaxpr as own_jvp_jaxpr
from teucer._transform.partial import split_jaxpr
from teucer._transform.transpose import backward_pass as own_backward_pass

if TYPE_CHECKING:
    from teucer._core.typing import Value


def close_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> ClosedJaxpr:
    """A jaxpr without constants as one that carries them: none. One that carries some is left.

    Raises ValueError if the jaxpr has constants without values.

    >>> import teucer as jax
    >>> close_jaxpr(jax.make_jaxpr(lambda x: 2 * x)(1.).jaxpr).consts
    []
    """
    if isinstance(jaxpr, ClosedJaxpr):
        return jaxpr
    if jaxpr.constvars:
        raise ValueError(
            f"close_jaxpr: the jaxpr has constants.\n    constvars: {jaxpr.constvars}\n"
            "  Give their values: jax.extend.core.ClosedJaxpr(jaxpr, consts)."
        )
    return ClosedJaxpr(jaxpr, ())


def convert_constvars_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> Jaxpr:
    """The jaxpr whose first inputs are its constants.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> x = jnp.arange(2.)
    >>> convert_constvars_jaxpr(jax.make_jaxpr(lambda y: x * y)(x).jaxpr)
    { lambda ; a:f32[2] b:f32[2]. let c:f32[2] = mul a b in (c,) }
    """
    own = jaxpr.jaxpr
    return own.replace(constvars=[], invars=[*own.constvars, *own.invars])


def move_binders_to_back(closed_jaxpr: ClosedJaxpr, to_move: Sequence[bool]) -> ClosedJaxpr:
    """The jaxpr whose inputs that are marked come behind the others.

    >>> import teucer as jax
    >>> move_binders_to_back(jax.make_jaxpr(lambda x, y: x - y)(1., 2.), [True, False])
    { lambda ; a:f32[] b:f32[]. let c:f32[] = sub b a in (c,) }
    """
    invars = closed_jaxpr.jaxpr.invars
    moved = dce.filtered(invars, to_move)
    kept = dce.filtered(invars, [not m for m in to_move])
    return closed_jaxpr.map_jaxpr(lambda jaxpr: jaxpr.replace(invars=[*kept, *moved]))


def prune_closed_jaxpr_outputs(jaxpr: ClosedJaxpr, used_outputs: Sequence[bool]) -> ClosedJaxpr:
    """The jaxpr that gives the outputs marked alone. Its equations are the same.

    >>> import teucer as jax
    >>> jaxpr = jax.make_jaxpr(lambda x: (2 * x, 3 * x))(1.)
    >>> len(prune_closed_jaxpr_outputs(jaxpr, [True, False]).out_avals)
    1
    """
    return jaxpr.map_jaxpr(lambda own: own.replace(outvars=dce.filtered(own.outvars, used_outputs)))


def partial_eval_jaxpr_nounits(
    jaxpr: Jaxpr | ClosedJaxpr, unknowns: Sequence[bool], instantiate: bool | Sequence[bool]
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[Any]]:
    """A jaxpr cut into the part that depends on its known inputs alone, and the rest.

    unknowns: which inputs are unknown. instantiate: which results shall be counted as unknown even
    if they are known.
    Returns (known, unknown, which results are unknown, types of residuals). The first takes the
    known inputs and gives the known results, then the residuals. The second takes the residuals,
    then the unknown inputs, and gives the unknown results.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> jaxpr = jax.make_jaxpr(lambda x, y: (jnp.sin(x) * y, x + 1))(1., 2.)
    >>> known, unknown, *rest = partial_eval_jaxpr_nounits(jaxpr, [False, True], False)
    >>> rest
    [[True, False], [ShapedArray(float32[], weak_type=True)]]
    >>> after, residual = known(1.)
    >>> unknown(residual, 2.) == [jnp.sin(1.) * 2.]
    True
    """
    split = split_jaxpr(close_jaxpr(jaxpr), unknowns, instantiate)

    def known(*args: Value) -> list[Any]:
        outs = split.known(*args)
        count = len(outs) - sum(place is None for place in split.forwarded)
        made = iter(outs[count:])
        return [
            *outs[:count],
            *(next(made) if place is None else args[place] for place in split.forwarded),
        ]

    whole = stage_jaxpr(known, split.known.in_avals, jaxpr.jaxpr.debug_info)
    residuals = split.staged.in_avals[: len(split.forwarded)]
    return whole, split.staged, list(split.unknown_outs), residuals


def jvp_jaxpr(
    jaxpr: Jaxpr | ClosedJaxpr, nonzeros: Sequence[bool], instantiate: bool | Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    """The jaxpr (inputs, tangents of marked inputs) -> (results, nonzero tangents of results).

    instantiate: results that get a tangent even if it is zero. Also returns which results have a
    tangent.

    >>> import teucer as jax
    >>> jaxpr = jax.make_jaxpr(lambda x, y: (x * y, y))(1., 2.)
    >>> jvp, moving = jvp_jaxpr(jaxpr, [True, False], False)
    >>> list(map(float, jvp(1., 2., 3.))), moving
    ([2.0, 2.0, 6.0], [True, False])
    """
    found, moving = own_jvp_jaxpr(close_jaxpr(jaxpr), nonzeros, instantiate)
    return found, list(moving)


def backward_pass(
    jaxpr: Jaxpr | ClosedJaxpr,
    transform_stack: bool,
    consts: Sequence[Value],
    primals_in: Sequence[Value],
    cts_in: Sequence[Value],
    *,
    return_logs: bool = False,
) -> list[Any]:
    """Cotangents of the inputs of a jaxpr that is linear in them, from cotangents of its results.

    primals_in: UndefinedPrimal for the inputs to differentiate, values of the others, whose
    cotangents are None. transform_stack: accepted for programs written for JAX.
    Raises NotImplementedError for return_logs.

    >>> import teucer as jax
    >>> from teucer.interpreters.ad import UndefinedPrimal
    >>> jaxpr = jax.make_jaxpr(lambda x, y: x * y)(1., 2.)
    >>> backward_pass(jaxpr.jaxpr, False, [], [UndefinedPrimal(jaxpr.in_avals[0]), 2.], [3.])
    [Array(6., dtype=float32, weak_type=True), None]
    """
    if return_logs:
        raise NotImplementedError(
            "backward_pass: there are no logs of backward passes.\n  custom_vjp functions with "
            "defvjp_with_logs give theirs to jax.grad."
        )
    return own_backward_pass(jaxpr.jaxpr, consts, primals_in, cts_in)
