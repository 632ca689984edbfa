"""Minimization, as scipy.optimize has it; gradients are derived."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from teucer import lax
from teucer import numpy as jnp
from teucer._base.lazy import listing
from teucer._core.typing import Array
from teucer._transform.reverse import value_and_grad
from teucer.scipy._operands import product

if TYPE_CHECKING:
    from teucer._core.typing import ArrayLike

__all__ = ["OptimizeResults", "minimize"]
__dir__ = listing(__name__, __all__)

# The conditions of Wolfe: what share of the slope the function must fall by, and what share of it
# may be left.
_FALL, _LEFT = 1e-4, 0.9


class OptimizeResults(NamedTuple):
    """The result of `minimize`.

    x: the place. success: whether it was reached. fun, jac: value and gradient there. hess_inv:
    estimate of the inverse Hessian.
    status: 0 success, 1 the greatest number of iterations, 3 no step makes the function smaller.
    nfev, njev, nit: how many values, gradients and iterations were computed.
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


def minimize(
    fun: Callable[..., object],
    x0: ArrayLike,
    args: tuple[object, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A place where a function is smallest nearby.

    fun: (x, *args) -> real number. x0: T[...], where to start. method: "BFGS".
    tol: as the option gtol. options: `gtol` (1e-5): the norm of the gradient to be reached; `norm`
    (inf): which norm;
    `maxiter`: by default 200 times the number of elements; `line_search_maxiter` (10).
    Works under `jit` and `vmap`; it is not differentiable in reverse.
    Raises TypeError if args is no tuple, ValueError for other methods or options.

    >>> round(float(minimize(lambda x: jnp.sum((x - 2.0) ** 4), jnp.zeros(2), method="BFGS").x[0]),
    ...     1)
    2.0

    Method: J. Nocedal and S. J. Wright, "Numerical Optimization", Springer, 2006, algorithm 6.1;
    steps by bracketing.
    """
    if not isinstance(args, tuple):
        raise TypeError(
            f"args argument to jax.scipy.optimize.minimize must be a tuple, got {args!r}"
        )
    if method.lower() != "bfgs":
        raise ValueError(f"minimize: Method {method} not recognized\n  allowed: 'BFGS'")
    options = dict(options or {})
    if tol is not None:
        options.setdefault("gtol", tol)
    unknown = set(options) - {"gtol", "norm", "maxiter", "line_search_maxiter"}
    if unknown:
        raise ValueError(
            f"minimize: unknown options {sorted(unknown)}\n"
            "  allowed: gtol, line_search_maxiter, maxiter, norm"
        )
    x0 = jnp.asarray(x0)
    x0 = x0 if jnp.issubdtype(x0.dtype, np.inexact) else x0.astype(float)

    def flat(x: Array) -> Any:
        return fun(x.reshape(x0.shape), *args)

    result = _bfgs(flat, x0.reshape(-1), **options)
    return result._replace(x=result.x.reshape(x0.shape), jac=result.jac.reshape(x0.shape))


class _State(NamedTuple):
    """A step of the iteration. failed: that no step was found."""

    x: Any
    f: Any
    g: Any
    inverse: Any
    nit: Any
    nfev: Any
    failed: Any


def _bfgs(
    fun: Callable[[Any], Any],
    x0: Array,
    gtol: float = 1e-5,
    norm: object = np.inf,
    maxiter: int | None = None,
    line_search_maxiter: int = 10,
) -> OptimizeResults:
    of = value_and_grad(fun)
    n = x0.shape[0]
    maxiter = 200 * n if maxiter is None else maxiter
    f0, g0 = of(x0)
    start = _State(
        x0, f0, g0, jnp.eye(n, dtype=x0.dtype), jnp.int32(0), jnp.int32(1), jnp.array(False)
    )

    def has_converged(state: _State) -> Any:
        return jnp.linalg.norm(state.g, norm) < gtol

    def unfinished(state: _State) -> Any:
        return ~has_converged(state) & ~state.failed & (state.nit < maxiter)

    def step(state: _State) -> _State:
        direction = -product(state.inverse, state.g)
        # The first direction is the gradient, of which the length means nothing.
        first = jnp.where(
            state.nit == 0, jnp.minimum(1.0, 1 / jnp.maximum(jnp.sum(jnp.abs(state.g)), 1e-30)), 1.0
        )
        found = _line_search(of, state, direction, first.astype(x0.dtype), line_search_maxiter)
        s, y = found.t * direction, found.g - state.g
        inverse = _updated(state.inverse, s, y, state.nit == 0)
        failed = ~(found.f < state.f) & ~(jnp.linalg.norm(found.g, norm) < gtol)
        nfev = state.nfev + found.count
        moved = _State(state.x + s, found.f, found.g, inverse, state.nit + 1, nfev, failed)
        return _State(
            *(jnp.where(failed, old, new) for old, new in zip(state, moved, strict=True))
        )._replace(nit=moved.nit, nfev=nfev, failed=failed)

    end = lax.while_loop(unfinished, step, start)
    success = has_converged(end)
    status = jnp.where(success, 0, jnp.where(end.failed, 3, 1))
    return OptimizeResults(
        end.x, success, status, end.f, end.g, end.inverse, end.nfev, end.nfev, end.nit
    )


def _updated(inverse: object, s: Array, y: Array, is_first: object) -> Any:
    """The estimate of the inverse Hessian that takes y, the change of the gradient, to s; unchanged
    where the curvature is none."""
    curvature = jnp.vdot(y, s)
    usable = curvature > 0
    rho = jnp.where(usable, 1 / jnp.where(usable, curvature, 1.0), 0.0)
    eye = jnp.eye(s.shape[0], dtype=s.dtype)
    # The first estimate gets the scale of the curvature that was found.
    scale = jnp.where(usable & is_first, curvature / jnp.where(usable, jnp.vdot(y, y), 1.0), 1.0)
    left = eye - rho * jnp.outer(s, y)
    return jnp.where(
        usable, product(product(left, scale * inverse), left.T) + rho * jnp.outer(s, s), inverse
    )


class _Search(NamedTuple):
    """A line search: step lengths known to be too short and too long (infinite: none is), and the
    one tried."""

    low: Any
    low_f: Any
    low_slope: Any
    high: Any
    t: Any
    f: Any
    g: Any
    count: Any
    done: Any
    best_t: Any
    best_f: Any
    best_g: Any


class _Found(NamedTuple):
    """The step length, what the function is there, and how often it was evaluated."""

    t: Any
    f: Any
    g: Any
    count: Any


def _line_search(
    of: Callable[[Any], Any], state: _State, direction: Any, first: Any, maxiter: int
) -> _Found:
    """A step length that meets the conditions of Wolfe; the best that was seen where there is none
    in so many evaluations."""
    slope = jnp.vdot(state.g, direction)

    def at(t: Array) -> Any:
        return of(state.x + t * direction)

    def narrow(search: _Search) -> _Search:
        f, g = at(search.t)
        here = jnp.vdot(g, direction)
        is_long = ~(f <= state.f + _FALL * search.t * slope)
        is_short = ~is_long & (here < _LEFT * slope)
        low, low_f, low_slope = (
            jnp.where(is_short, new, old)
            for new, old in ((search.t, search.low), (f, search.low_f), (here, search.low_slope))
        )
        high = jnp.where(is_long, search.t, search.high)
        width = high - low
        # The minimum of the parabola through what is known, kept off the ends.
        bend = 2 * (f - low_f - low_slope * width)
        share = jnp.where(
            is_long & (bend > 0), -low_slope * width / jnp.where(bend > 0, bend, 1.0), 0.5
        )
        inner = low + jnp.clip(jnp.where(jnp.isfinite(share), share, 0.5), 0.1, 0.9) * width
        t = jnp.where(jnp.isfinite(high), inner, 4 * low)
        done = ~is_long & ~is_short
        is_best = done | (f < search.best_f)
        return _Search(
            low,
            low_f,
            low_slope,
            high,
            jnp.where(done, search.t, t),
            f,
            g,
            search.count + 1,
            done,
            jnp.where(is_best, search.t, search.best_t),
            jnp.where(is_best, f, search.best_f),
            jnp.where(is_best, g, search.best_g),
        )

    zero = jnp.zeros_like(first)
    start = _Search(
        zero,
        state.f,
        slope,
        zero + jnp.inf,
        first,
        state.f,
        state.g,
        jnp.int32(0),
        jnp.array(False),
        zero,
        state.f,
        state.g,
    )
    end = lax.while_loop(lambda s: ~s.done & (s.count < maxiter), narrow, start)
    return _Found(end.best_t, end.best_f, end.best_g, end.count)
