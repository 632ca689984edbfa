"""The cost of a function, counted on its jaxpr: for `pallas_call(cost_estimate=...)`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from teucer import lax
from teucer._core import structure
from teucer._core.jaxpr import ClosedJaxpr, Eqn
from teucer._core.stage import stage_flat
from teucer._core.trace import typeof
from teucer._core.types import ShapedArray, is_valid_type
from teucer._pallas.specs import CostEstimate
from teucer._pallas.steps import axes_of
from teucer._trees import pytrees
from teucer.lax._families import Elementwise

if TYPE_CHECKING:
    from teucer._core.typing import Value
    from teucer._pallas.records import Kernel


_TRANSCENDENTAL = frozenset(
    {
        lax.exp_p,
        lax.exp2_p,
        lax.expm1_p,
        lax.log_p,
        lax.log1p_p,
        lax.tanh_p,
        lax.logistic_p,
        lax.sin_p,
        lax.cos_p,
        lax.tan_p,
        lax.pow_p,
        lax.sqrt_p,
        lax.rsqrt_p,
        lax.cbrt_p,
        lax.erf_p,
        lax.erfc_p,
        lax.erf_inv_p,
        lax.asin_p,
        lax.acos_p,
        lax.atan_p,
        lax.sinh_p,
        lax.cosh_p,
        lax.asinh_p,
        lax.acosh_p,
        lax.atanh_p,
        lax.atan2_p,
        lax.lgamma_p,
        lax.digamma_p,
    }
)


def estimate_cost(fun: Callable[..., object], *args: object, **kwargs: object) -> CostEstimate:
    """How many operations a function does on its arguments, and how many bytes it reads and writes.

    args, kwargs: arrays, or things with shape and dtype. An operation on elements counts one for
    each element of the result; a product of matrices two for each term. Loops of known length count
    as often as they run, conditions as their largest branch.

    >>> import teucer as jax, teucer.numpy as jnp
    >>> estimate_cost(lambda x, y: jnp.exp(x @ y), jnp.ones((4, 8)), jnp.ones((8, 2)))
    CostEstimate(flops=128, transcendentals=8, bytes_accessed=224, remote_bytes_transferred=0)
    """
    leaves, tree = pytrees.tree_flatten((args, kwargs))
    avals = [
        typeof(x) if is_valid_type(x) else ShapedArray(tuple(x.shape), np.dtype(x.dtype))
        for x in leaves
    ]

    def flat(*xs: Value) -> list[Any]:
        given, named = pytrees.tree_unflatten(tree, xs)
        return list(pytrees.tree_leaves(fun(*given, **named)))

    jaxpr, consts = stage_flat(flat, avals)
    flops, transcendentals = _count(ClosedJaxpr(jaxpr, consts))
    moved = sum(a.size * a.dtype.itemsize for a in (*avals, *(v.aval for v in jaxpr.outvars)))
    return CostEstimate(flops, transcendentals, moved)


def kernel_cost(kernel: Kernel) -> CostEstimate | None:
    """What the steps of a kernel cost, and the bytes of blocks that they move; None if the grid is
    not known."""
    if None in kernel.grid:
        return None
    sizes = [int(n or 1) for n in kernel.grid]
    steps = math.prod(sizes)
    flops, transcendentals = _count(kernel.jaxpr)
    moved = 0
    for b in (*kernel.ins, *kernel.outs):
        last = max(axes_of(b, len(sizes)), default=-1)
        times = math.prod(sizes[: last + 1])  # a block that stays is not copied again
        moved += times * b.inner.size * b.inner.dtype.itemsize
    return CostEstimate(flops * steps, transcendentals * steps, moved)


def _count(closed: ClosedJaxpr) -> tuple[int, int]:
    flops = transcendentals = 0
    for eqn in closed.jaxpr.eqns:
        a, b = _of_equation(eqn)
        flops, transcendentals = flops + a, transcendentals + b
    return flops, transcendentals


def _of_equation(eqn: Eqn) -> tuple[int, int]:
    view = structure.of(eqn)
    if view is not None:
        inner = [_count(body) for body, _ in view.bodies]
        if isinstance(view, structure.Branch):
            return max(inner)
        times = structure.times(eqn)
        return sum(a for a, _ in inner) * times, sum(b for _, b in inner) * times
    if eqn.primitive is lax.dot_general_p:
        (contracted, _), _ = eqn.params["dimension_numbers"]
        terms = math.prod(eqn.invars[0].aval.shape[i] for i in contracted)
        return 2 * terms * eqn.outvars[0].aval.size, 0
    if eqn.primitive in _TRANSCENDENTAL:
        return 0, eqn.outvars[0].aval.size
    return (eqn.outvars[0].aval.size, 0) if isinstance(eqn.primitive, Elementwise) else (0, 0)
